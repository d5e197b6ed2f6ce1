//! The store's name.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::error::StoreError;
use crate::id::StoreKey;
use crate::store::Result;

cases! { __contract_admin_name, admin::name:
    a_new_store_takes_a_name,
    another_name_is_refused,
    the_name_is_remembered_at_every_handle,
    of_two_first_names_one_is_taken,
    a_broken_name_is_refused_and_not_taken,
}

#[track_caller]
fn expect_mismatch(answer: Result<()>, bound: &str, asked: &str) {
    match answer {
        Err(StoreError::NameMismatch {
            bound: has,
            asked: wanted,
        }) => {
            assert_eq!(
                (has.as_str(), wanted.as_str()),
                (bound, asked),
                "(bound, asked)"
            );
        }
        other => panic!("expected NameMismatch of {bound:?} and {asked:?}, got {other:?}"),
    }
}

/// And the same name again, any number of times.
async fn a_new_store_takes_a_name(fx: Fixture) {
    for _ in 0..3 {
        fx.store.bind_name(&"durable".into()).await.must();
    }
}

/// The error says both; the first name stays.
async fn another_name_is_refused(fx: Fixture) {
    fx.store.bind_name(&"durable".into()).await.must();
    for other in ["ephemeral", "Durable", "durable "] {
        expect_mismatch(fx.store.bind_name(&other.into()).await, "durable", other);
    }
    fx.store.bind_name(&"durable".into()).await.must();
}

/// By the store, not by the handle.
async fn the_name_is_remembered_at_every_handle(fx: Fixture) {
    let second = fx.second().await;
    fx.store.bind_name(&"durable".into()).await.must();
    expect_mismatch(
        second.store.bind_name(&"other".into()).await,
        "durable",
        "other",
    );
    second.store.bind_name(&"durable".into()).await.must();
}

/// Whoever comes second learns the name of the first.
async fn of_two_first_names_one_is_taken(fx: Fixture) {
    let second = fx.second().await;
    let names = ["a", "b"];
    let mut answers = fx
        .race(2, |fx, number| {
            let handle = if number == 0 { fx } else { second.clone() };
            async move { handle.store.bind_name(&names[number].into()).await }
        })
        .await;
    let (to_b, to_a) = (answers.remove(1), answers.remove(0));
    match (to_a, to_b) {
        (Ok(()), refused) => expect_mismatch(refused, "a", "b"),
        (refused, Ok(())) => expect_mismatch(refused, "b", "a"),
        both => panic!("expected one name to be taken, got {both:?}"),
    }
}

/// Each broken rule is named.
async fn a_broken_name_is_refused_and_not_taken(fx: Fixture) {
    for name in [StoreKey::from(""), "a\0b".into(), "x".repeat(257).into()] {
        expect_refused(fx.store.bind_name(&name).await, "store name");
    }
    fx.store.bind_name(&"good".into()).await.must();
}
