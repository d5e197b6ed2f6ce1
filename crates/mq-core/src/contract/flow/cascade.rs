//! The sweep, cascade: cancels that are owed to children's stores.

use std::time::Duration;

use super::steps::{
    AGE, Completed, DROPPED, Failed, Parent, child_keys, counts, fan_out, keys, many, owed_for,
    to_cancel,
};
use crate::contract::expect::Must;
use crate::contract::make::{Make, job, ms};
use crate::contract::{Fixture, StoreOptions};
use crate::id::LockToken;
use crate::record::{HistoryCeiling, JobState};
use crate::store::{CascadeRow, FlowSweepWork};

cases! { __contract_flow_cascade, flow::cascade:
    an_owed_cancel_is_due_at_once,
    a_row_says_what_to_cancel_and_since_when,
    an_owed_cancel_rests_for_an_age_between_sweeps,
    a_row_swept_just_before_the_close_is_due_at_once_too,
    a_reported_child_owes_no_cancel,
    a_marked_row_does_not_come_again,
    a_row_marked_before_it_was_swept_does_not_come,
    the_other_rows_come_as_before,
    marks_are_counted_once with no_history,
    marks_of_a_whole_batch_are_counted_once with no_history,
    a_mark_on_a_pending_row_does_nothing,
    a_mark_on_a_reported_row_does_nothing with no_history,
    a_mark_of_another_manifest_does_nothing,
    a_mark_on_an_unknown_child_does_nothing with no_history,
    a_mark_on_an_unknown_flow_does_nothing,
    a_mark_of_a_former_manifest_does_nothing_to_the_new_one,
    no_marks_do_nothing,
    cancels_are_owed_in_any_state_of_the_parent,
    a_page_holds_no_more_than_its_limit,
    a_sweep_in_pages_of_any_size_finds_every_cancel_once,
    a_closed_giant_does_not_starve_another_closed_flow,
    a_closed_giant_does_not_starve_pending_children,
    a_dead_store_does_not_starve_another_in_the_flow,
    the_cancels_of_a_flow_come_in_the_order_of_their_keys,
    a_nested_flow_is_cancelled_level_by_level,
}

/// Finished jobs are gone with the next sweep of history, unless they are
/// spared.
fn no_history(options: StoreOptions) -> StoreOptions {
    let ceiling = HistoryCeiling::new(
        Some(Duration::ZERO),
        Some(Duration::ZERO),
        Some(Duration::ZERO),
    );
    options.history_ceiling(ceiling.expect("it names states"))
}

/// Whether a sweep of history spares a parent, which it does as long as it
/// owes cancels.
async fn owes(fx: &Fixture, parent: &Parent) -> bool {
    while fx.store.sweep_history(250).await.must().more {}
    fx.find(&parent.id).await.is_some()
}

/// Whatever the age.
async fn an_owed_cancel_is_due_at_once(fx: Fixture) {
    fx.closed(&["a", "b"]).await;
    let work = fx.sweep().await;
    assert_eq!(
        (to_cancel(&work.cascade), work.reconcile),
        (vec!["a".into(), "b".into()], vec![])
    );
}

/// From the moment of the close.
async fn a_row_says_what_to_cancel_and_since_when(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.advance(7);
    fx.store.cancel(&parent.id).await.must();
    fx.advance(12_345);
    let expected = CascadeRow {
        flow_id: parent.id.clone(),
        manifest: parent.lock().token,
        child_key: "a".into(),
        store: "children".into(),
        job_id: "child a".into(),
        owed_for: ms(12_345),
    };
    assert_eq!(fx.sweep().await.cascade, [expected]);
}

/// After the first time it is armed like the others.
async fn an_owed_cancel_rests_for_an_age_between_sweeps(fx: Fixture) {
    fx.closed(&["a"]).await;
    assert_eq!(owed_for(&fx.sweep().await.cascade), [Duration::ZERO]);
    for round in 1..=3 {
        fx.advance(AGE - 1);
        assert_eq!(fx.sweep().await, FlowSweepWork::default());
        fx.advance(1);
        assert_eq!(owed_for(&fx.sweep().await.cascade), [ms(round * AGE)]);
        assert_eq!(fx.sweep().await, FlowSweepWork::default());
    }
}

/// To look for a child is not to cancel it.
async fn a_row_swept_just_before_the_close_is_due_at_once_too(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.advance(AGE);
    assert_eq!(fx.sweep().await.reconcile.len(), 2);
    fx.store.cancel(&parent.id).await.must();
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["a", "b"]);
}

/// It has ended.
async fn a_reported_child_owes_no_cancel(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c", "d"]).await;
    fx.record(vec![
        parent.report("a", Completed),
        parent.report("c", Failed),
        parent.report("d", super::steps::Cancelled),
    ])
    .await;
    fx.store.cancel(&parent.id).await.must();
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
}

/// The debt is paid.
async fn a_marked_row_does_not_come_again(fx: Fixture) {
    let parent = fx.closed(&["a", "b"]).await;
    assert_eq!(fx.sweep().await.cascade.len(), 2);
    fx.mark(&parent, &["a"]).await;
    fx.advance(AGE);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    fx.mark(&parent, &["b"]).await;
    fx.advance(AGE);
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
}

/// Whoever cancels a child may know better than the sweep.
async fn a_row_marked_before_it_was_swept_does_not_come(fx: Fixture) {
    let parent = fx.closed(&["a", "b"]).await;
    fx.mark(&parent, &["a"]).await;
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
}

/// A mark does not touch when they are due.
async fn the_other_rows_come_as_before(fx: Fixture) {
    let parent = fx.closed(&["a", "b", "c"]).await;
    fx.sweep().await;
    fx.advance(AGE - 1);
    fx.mark(&parent, &["b"]).await;
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
    fx.advance(1);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["a", "c"]);
}

/// A repeated mark pays no second debt.
async fn marks_are_counted_once(fx: Fixture) {
    let parent = fx.closed(&["a", "b"]).await;
    for _ in 0..3 {
        fx.mark(&parent, &["a"]).await;
        fx.mark(&parent, &["a", "a"]).await;
        assert!(owes(&fx, &parent).await, "b is owed a cancel");
    }
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    fx.mark(&parent, &["a", "b"]).await;
    assert!(!owes(&fx, &parent).await, "nothing is owed");
}

/// However many pages they make.
async fn marks_of_a_whole_batch_are_counted_once(fx: Fixture) {
    let parent = fx.park_many(600).await;
    fx.store.cancel(&parent.id).await.must();
    let all = keys(600);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    fx.mark(&parent, &all[..599]).await;
    fx.mark(&parent, &all[..599]).await;
    assert!(owes(&fx, &parent).await, "the last is owed a cancel");
    fx.mark(&parent, &all).await;
    assert!(!owes(&fx, &parent).await, "nothing is owed");
}

/// It owes nothing yet, and will when the flow closes.
async fn a_mark_on_a_pending_row_does_nothing(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.mark(&parent, &["a", "b"]).await;
    assert_eq!(
        fx.pending(&parent, &["a", "b"]).await,
        child_keys(&["a", "b"])
    );
    fx.record_one(parent.report("a", Completed)).await;
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 1, 0, 0));
    fx.store.cancel(&parent.id).await.must();
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
}

/// Its debt was never one.
async fn a_mark_on_a_reported_row_does_nothing(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.record_one(parent.report("a", Completed)).await;
    fx.store.cancel(&parent.id).await.must();
    let before = (fx.flow(&parent).await, fx.results(&parent).await);
    fx.mark(&parent, &["a"]).await;
    assert_eq!((fx.flow(&parent).await, fx.results(&parent).await), before);
    assert!(owes(&fx, &parent).await, "b is owed a cancel");
}

/// It is about other rows.
async fn a_mark_of_another_manifest_does_nothing(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    let other = LockToken::from("another");
    fx.store
        .mark_children_cascaded(&parent.id, &other, &child_keys(&["a"]))
        .await
        .must();
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["a"]);
}

/// It pays for nobody else.
async fn a_mark_on_an_unknown_child_does_nothing(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    fx.mark(&parent, &["b", "A", "a "]).await;
    assert!(owes(&fx, &parent).await, "a is owed a cancel");
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["a"]);
}

/// Its parent may have been removed.
async fn a_mark_on_an_unknown_flow_does_nothing(fx: Fixture) {
    let held = fx.start(job()).await;
    for id in [held.id.clone(), "nobody".into()] {
        fx.store
            .mark_children_cascaded(&id, &held.token, &child_keys(&["a"]))
            .await
            .must();
    }
    assert_eq!(fx.state(&held.id).await, JobState::Active);
    assert_eq!(fx.find(&"nobody".into()).await, None);
}

/// A parent enqueued again under its old id has debts of its own.
async fn a_mark_of_a_former_manifest_does_nothing_to_the_new_one(fx: Fixture) {
    let former = fx.park_as(job().id("p"), fan_out(many(2))).await;
    fx.store.cancel(&former.id).await.must();
    assert!(fx.store.remove(&former.id).await.must());
    let parent = fx.park_as(job().id("p"), fan_out(many(2))).await;
    fx.store.cancel(&parent.id).await.must();
    fx.mark(&former, &["00000", "00001"]).await;
    let work = fx.sweep().await;
    assert_eq!(to_cancel(&work.cascade), keys(2));
    let manifest = parent.lock().token;
    assert!(work.cascade.iter().all(|row| row.manifest == manifest));
}

/// An empty batch is legal.
async fn no_marks_do_nothing(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    fx.mark(&parent, &[]).await;
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["a"]);
}

/// Failed, waiting again, active and completed.
async fn cancels_are_owed_in_any_state_of_the_parent(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    fx.record_one(parent.report("a", Failed)).await;
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    fx.store.retry(&parent.id).await.must();
    fx.advance(AGE);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    let held = fx.claim_one().await;
    fx.advance(AGE);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    fx.ack(&held, crate::contract::make::complete()).await;
    fx.advance(AGE);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    assert_eq!(fx.record_one(parent.report("b", Completed)).await, DROPPED);
}

/// 250 at the most, and says whether more remain.
async fn a_page_holds_no_more_than_its_limit(fx: Fixture) {
    let parent = fx.park_many(300).await;
    fx.store.cancel(&parent.id).await.must();
    let one = fx.sweep_page(AGE, 7).await;
    assert!(
        one.cascade.len() <= 7 && one.more,
        "{} rows",
        one.cascade.len()
    );
    let most = fx.sweep_page(AGE, 1_000).await;
    assert!(
        most.cascade.len() <= 250 && most.more,
        "{} rows",
        most.cascade.len()
    );
    let rest = fx.sweep().await;
    let count = one.cascade.len() + most.cascade.len() + rest.cascade.len();
    assert_eq!(count, 300);
}

/// No row twice, none left out; at first and when all have been swept before.
async fn a_sweep_in_pages_of_any_size_finds_every_cancel_once(fx: Fixture) {
    let parent = fx.park_many(11).await;
    fx.store.cancel(&parent.id).await.must();
    for limit in 1..=12 {
        let found = fx.sweep_in_pages_of(limit).await.cascade;
        assert_eq!(to_cancel(&found), keys(11), "in pages of {limit}");
        fx.advance(AGE);
    }
}

/// It is served long before the giant is through.
async fn a_closed_giant_does_not_starve_another_closed_flow(fx: Fixture) {
    let giant = fx.park_many(1_000).await;
    fx.store.cancel(&giant.id).await.must();
    fx.advance(1);
    let small = fx.closed(&["small"]).await;
    for _ in 0..10 {
        let work = fx.sweep_page(AGE, 20).await;
        if work.cascade.iter().any(|row| row.flow_id == small.id) {
            return;
        }
    }
    panic!("200 of the giant's 1,000 cancels came, and not the small flow's");
}

/// They are looked after meanwhile.
async fn a_closed_giant_does_not_starve_pending_children(fx: Fixture) {
    let giant = fx.park_many(1_000).await;
    let open = fx.park(&["open"]).await;
    fx.store.cancel(&giant.id).await.must();
    fx.advance(AGE);
    for _ in 0..10 {
        let work = fx.sweep_page(AGE, 20).await;
        if work.reconcile.iter().any(|row| row.flow_id == open.id) {
            return;
        }
    }
    panic!("200 of the giant's 1,000 cancels came, and no pending child");
}

/// Rows that nobody can mark rest, and the others get their turn.
async fn a_dead_store_does_not_starve_another_in_the_flow(fx: Fixture) {
    let mut children = many(40);
    for child in &mut children[..30] {
        child.store = "dead".into();
    }
    let parent = fx.park_as(job(), fan_out(children)).await;
    fx.store.cancel(&parent.id).await.must();
    let mut left = 10;
    for _ in 0..8 {
        let work = fx.sweep_page(AGE, 10).await;
        let alive: Vec<_> = work
            .cascade
            .iter()
            .filter(|row| row.store != "dead")
            .map(|row| row.child_key.to_string())
            .collect();
        let alive: Vec<&str> = alive.iter().map(String::as_str).collect();
        fx.mark(&parent, &alive).await;
        left -= alive.len();
    }
    assert_eq!(left, 0, "cancels to the store that is up");
}

/// In each page, and flow by flow.
async fn the_cancels_of_a_flow_come_in_the_order_of_their_keys(fx: Fixture) {
    fx.closed(&["b", "a", "\u{e9}", "Z", "aa"]).await;
    fx.closed(&["2", "10", "1"]).await;
    let rows = fx.sweep_page(AGE, 250).await.cascade;
    let groups: Vec<_> = rows
        .chunk_by(|one, next| one.flow_id == next.flow_id)
        .collect();
    assert_eq!(groups.len(), 2, "the rows of a flow come together");
    for group in groups {
        assert!(
            group.is_sorted_by_key(|row| row.child_key.as_str()),
            "{group:?}"
        );
    }
}

/// The cancel of a child that is a flow itself calls off that flow's children.
async fn a_nested_flow_is_cancelled_level_by_level(fx: Fixture) {
    let inner = job().id("inner").name("child");
    let outer = crate::record::FlowChild {
        key: "inner".into(),
        store: "self".into(),
        job: inner.clone(),
    };
    let outer = fx.park_as(job(), fan_out(vec![outer])).await;
    let inner = fx.park_as(inner, fan_out(many(2))).await;
    fx.store.cancel(&outer.id).await.must();
    let owed = fx.sweep().await.cascade;
    assert_eq!(to_cancel(&owed), ["inner"]);
    fx.store.cancel(&owed[0].job_id).await.must();
    fx.mark(&outer, &["inner"]).await;
    assert_eq!(fx.state(&inner.id).await, JobState::Cancelled);
    let owed = fx.sweep().await.cascade;
    assert_eq!(to_cancel(&owed), keys(2));
    assert!(owed.iter().all(|row| row.flow_id == inner.id));
}
