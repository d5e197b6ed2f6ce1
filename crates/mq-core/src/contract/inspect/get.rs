//! Reads by id, and the store's time.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, job, jobs};
use crate::id::JobId;
use crate::record::JobState;

cases! { __contract_inspect_get, inspect::get:
    an_unknown_job_is_none_and_has_no_ledger,
    reads_are_answered_in_their_places,
    a_job_asked_for_twice_is_answered_twice,
    a_read_of_nothing_answers_nothing,
    a_read_may_hold_any_number_of_ids,
    ids_are_compared_byte_for_byte,
    now_is_the_stores_time,
    a_broken_id_is_refused,
}

/// No such job is an answer, not an error.
async fn an_unknown_job_is_none_and_has_no_ledger(fx: Fixture) {
    let unknown = JobId::from("unknown");
    assert_eq!(fx.store.get_job(&unknown).await.must(), None);
    assert_eq!(fx.store.get_attempts(&unknown).await.must(), []);
}

/// Each id has its answer, in the order asked.
async fn reads_are_answered_in_their_places(fx: Fixture) {
    fx.enqueue_all(vec![job().id("b"), job().id("a")]).await;
    fx.store.cancel(&"a".into()).await.must();
    let states = fx.states(&["a", "unknown", "b"].map(JobId::from)).await;
    assert_eq!(
        states,
        [Some(JobState::Cancelled), None, Some(JobState::Waiting)]
    );
}

/// A repetition does not shorten the answer.
async fn a_job_asked_for_twice_is_answered_twice(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let states = fx.states(&[id.clone(), id]).await;
    assert_eq!(states, [Some(JobState::Waiting); 2]);
}

/// No ids, no answers.
async fn a_read_of_nothing_answers_nothing(fx: Fixture) {
    assert!(fx.store.get_jobs(&[]).await.must().is_empty());
}

/// Longer reads are not cut short.
async fn a_read_may_hold_any_number_of_ids(fx: Fixture) {
    let mut ids = fx.enqueue_all(jobs(1_200)).await;
    ids.reverse();
    let found = fx.store.get_jobs(&ids).await.must().into_iter();
    let found: Vec<_> = found
        .map(|answer| answer.must().expect("it exists").id)
        .collect();
    assert_eq!(found, ids);
}

/// Case, composition and white space make other ids.
async fn ids_are_compared_byte_for_byte(fx: Fixture) {
    let ids = ["a", "A", "a ", " a", "é", "e\u{301}", "ａ"];
    for id in ids {
        fx.enqueue(job().id(id).label("id", id)).await;
    }
    for id in ids {
        let record = fx.job(&id.into()).await;
        assert_eq!(
            (record.id.as_str(), record.spec.metadata["id"].as_str()),
            (id, id)
        );
    }
}

/// What the clock says, when it is asked.
async fn now_is_the_stores_time(fx: Fixture) {
    assert_eq!(fx.store.now().await.must(), fx.now());
    fx.advance(12_345);
    assert_eq!(fx.store.now().await.must(), fx.now());
    assert_eq!(fx.second().await.store.now().await.must(), fx.now());
}

/// Ids that no job can have are an error.
async fn a_broken_id_is_refused(fx: Fixture) {
    for id in ["", "a\0b"].map(JobId::from) {
        expect_refused(fx.store.get_job(&id).await, "job id");
        expect_refused(fx.store.get_attempts(&id).await, "job id");
    }
}
