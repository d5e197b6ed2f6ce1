//! Cancel: by id, in batches, and by dedupe key.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_illegal, expect_not_found, expect_refused};
use crate::contract::make::{Make, complete, fail, job, jobs, ms};
use crate::id::{DedupeKey, JobId, JobName};
use crate::record::{AttemptOutcome, Dedupe, JobRecord, JobState};
use crate::store::Cancelled;

cases! { __contract_admin_cancel, admin::cancel:
    a_job_that_waits_ends_at_once,
    a_delayed_job_ends_at_once,
    an_active_job_is_flagged,
    a_flagged_job_can_be_cancelled_again,
    a_finished_job_cannot_be_cancelled,
    a_repeated_cancel_finds_the_job_cancelled,
    an_unknown_job_is_not_found,
    cancels_are_answered_in_their_places_and_independently,
    more_cancels_than_a_page_all_apply,
    a_cancelled_job_is_never_claimed,
    a_key_cancels_the_job_that_holds_it,
    a_key_flags_a_job_that_runs,
    a_key_whose_job_has_ended_cancels_nothing,
    a_key_that_nobody_holds_cancels_nothing,
    a_key_cancels_only_the_newest_holder,
    a_key_cancels_only_within_its_name,
    a_broken_cancel_is_refused,
}

/// Everything about it, field by field; no attempt was made.
async fn a_job_that_waits_ends_at_once(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let waiting = fx.job(&id).await;
    fx.advance(5);
    assert_eq!(fx.store.cancel(&id).await.must(), Cancelled::Ended);
    let expected = JobRecord {
        state: JobState::Cancelled,
        attempts_recorded: 1,
        finished_at: Some(fx.now()),
        ..waiting
    };
    assert_eq!(fx.job(&id).await, expected);
    assert_eq!(fx.outcomes(&id).await, [AttemptOutcome::Cancelled]);
}

/// Without waiting for its time; it is not in any claim's future either.
async fn a_delayed_job_ends_at_once(fx: Fixture) {
    let id = fx.job_in(JobState::Delayed).await;
    assert_eq!(fx.store.cancel(&id).await.must(), Cancelled::Ended);
    assert_eq!(fx.state(&id).await, JobState::Cancelled);
    assert_eq!(fx.claim(1).await.next_run_at, None);
}

/// It runs on until its worker hears of it.
async fn an_active_job_is_flagged(fx: Fixture) {
    let held = fx.start(job()).await;
    let active = fx.job(&held.id).await;
    assert_eq!(fx.store.cancel(&held.id).await.must(), Cancelled::Requested);
    let expected = JobRecord {
        cancel_requested: true,
        ..active
    };
    assert_eq!(fx.job(&held.id).await, expected);
    assert_eq!(fx.ledger(&held.id).await, []);
}

/// A cancel whose answer was lost may be repeated.
async fn a_flagged_job_can_be_cancelled_again(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    let flagged = fx.job(&held.id).await;
    fx.request_cancel(&held.id).await;
    assert_eq!(fx.job(&held.id).await, flagged);
}

/// It is an error that says how it ended.
async fn a_finished_job_cannot_be_cancelled(fx: Fixture) {
    for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
        let id = fx.job_in(state).await;
        let before = fx.job(&id).await;
        expect_illegal(fx.store.cancel(&id).await, &id, state);
        assert_eq!(fx.job(&id).await, before);
    }
}

/// After a lost answer a repetition finds what the first did.
async fn a_repeated_cancel_finds_the_job_cancelled(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    fx.store.cancel(&id).await.must();
    expect_illegal(fx.store.cancel(&id).await, &id, JobState::Cancelled);
    assert_eq!(fx.ledger(&id).await.len(), 1);
}

/// There is nothing to cancel.
async fn an_unknown_job_is_not_found(fx: Fixture) {
    let unknown = JobId::from("unknown");
    expect_not_found(fx.store.cancel(&unknown).await, &unknown);
}

/// One refused cancel does not touch the others, not even of the same job.
async fn cancels_are_answered_in_their_places_and_independently(fx: Fixture) {
    let completed = fx.finish(job(), complete()).await;
    let active = fx.start(job()).await.id;
    let waiting = fx.enqueue(job()).await;
    let unknown = JobId::from("unknown");
    let batch = [
        waiting.clone(),
        unknown.clone(),
        completed.clone(),
        active,
        waiting.clone(),
    ];
    let mut answers = fx.store.cancel_many(&batch).await.must();
    assert_eq!(answers.len(), 5);
    expect_illegal(answers.remove(4), &waiting, JobState::Cancelled);
    assert_eq!(answers.remove(3).must(), Cancelled::Requested);
    expect_illegal(answers.remove(2), &completed, JobState::Completed);
    expect_not_found(answers.remove(1), &unknown);
    assert_eq!(answers.remove(0).must(), Cancelled::Ended);
    assert!(fx.store.cancel_many(&[]).await.must().is_empty());
}

/// A call may hold any number of ids.
async fn more_cancels_than_a_page_all_apply(fx: Fixture) {
    let ids = fx.enqueue_all(jobs(600)).await;
    let answers = fx.store.cancel_many(&ids).await.must();
    assert_eq!(answers.len(), 600);
    assert!(
        answers
            .into_iter()
            .all(|answer| answer.must() == Cancelled::Ended)
    );
    fx.expect_count(JobState::Cancelled, 600).await;
}

/// Not even by a claim that promotes it.
async fn a_cancelled_job_is_never_claimed(fx: Fixture) {
    let ids = fx.enqueue_all(vec![job(), job().delay(5), job()]).await;
    for id in &ids[..2] {
        fx.store.cancel(id).await.must();
    }
    fx.advance(5);
    assert_eq!(fx.claim_ids(5).await, ids[2..]);
}

fn named() -> (JobName, DedupeKey) {
    ("job".into(), "key".into())
}

async fn cancel_by_key(fx: &Fixture) -> bool {
    let (name, key) = named();
    fx.store.cancel_by_dedupe(&name, &key).await.must()
}

/// Waiting or delayed.
async fn a_key_cancels_the_job_that_holds_it(fx: Fixture) {
    for keyed in [job().key("key"), job().key("key").delay(5)] {
        let id = fx.enqueue(keyed).await;
        assert!(cancel_by_key(&fx).await, "there was a job to cancel");
        assert_eq!(fx.state(&id).await, JobState::Cancelled);
        assert!(!cancel_by_key(&fx).await, "there is none any more");
    }
}

/// As a cancel by its id would; until it has ended, again and again.
async fn a_key_flags_a_job_that_runs(fx: Fixture) {
    let held = fx.start(job().key("key")).await;
    assert!(cancel_by_key(&fx).await);
    assert!(cancel_by_key(&fx).await);
    let record = fx.job(&held.id).await;
    assert_eq!(
        (record.state, record.cancel_requested),
        (JobState::Active, true)
    );
}

/// Nor does a window that is still open make it one to cancel.
async fn a_key_whose_job_has_ended_cancels_nothing(fx: Fixture) {
    let windowed = job().dedupe(Dedupe::key("key").ttl(ms(100)));
    let id = fx.finish(windowed, fail()).await;
    let before = fx.job(&id).await;
    assert!(!cancel_by_key(&fx).await);
    assert_eq!(fx.job(&id).await, before);
    assert!(fx.store.remove(&id).await.must());
    assert!(!cancel_by_key(&fx).await);
}

/// It says so without an error.
async fn a_key_that_nobody_holds_cancels_nothing(fx: Fixture) {
    fx.enqueue(job()).await;
    assert!(!cancel_by_key(&fx).await);
    fx.expect_count(JobState::Waiting, 1).await;
}

/// A job whose key another took over is out of its reach.
async fn a_key_cancels_only_the_newest_holder(fx: Fixture) {
    let windowed = || job().dedupe(Dedupe::key("key").ttl(ms(5)));
    let old = fx.enqueue(windowed()).await;
    fx.advance(5);
    let new = fx.enqueue(windowed()).await;
    assert!(cancel_by_key(&fx).await);
    let states = fx.states(&[old, new]).await;
    assert_eq!(states, [Some(JobState::Waiting), Some(JobState::Cancelled)]);
}

/// The same key under another name is another's.
async fn a_key_cancels_only_within_its_name(fx: Fixture) {
    let other = fx.enqueue(job().name("other").key("key")).await;
    assert!(!cancel_by_key(&fx).await);
    assert_eq!(fx.state(&other).await, JobState::Waiting);
}

/// Names, keys and ids that nothing can have are an error.
async fn a_broken_cancel_is_refused(fx: Fixture) {
    let (name, key) = named();
    expect_refused(
        fx.store.cancel_by_dedupe(&"".into(), &key).await,
        "job name",
    );
    expect_refused(
        fx.store.cancel_by_dedupe(&"a/b".into(), &key).await,
        "job name",
    );
    expect_refused(
        fx.store.cancel_by_dedupe(&name, &"".into()).await,
        "dedupe key",
    );
    expect_refused(
        fx.store.cancel_by_dedupe(&name, &"a\0".into()).await,
        "dedupe key",
    );
    for id in ["", "a\0b"].map(JobId::from) {
        expect_refused(fx.store.cancel(&id).await, "job id");
    }
}
