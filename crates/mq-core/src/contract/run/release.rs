//! Release: jobs that are given back unfinished.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_lock_lost, expect_not_found, expect_refused};
use crate::contract::make::{Make, NO_JOBS, complete, job, jobs, lock, request, retry_in};
use crate::record::{AttemptOutcome, JobRecord, JobState};

cases! { __contract_run_release, run::release:
    a_released_job_is_as_if_it_had_not_been_claimed,
    a_released_job_takes_its_old_place,
    a_released_job_that_was_delayed_waits_by_its_old_run_time,
    a_release_with_a_pending_cancel_ends_cancelled,
    a_repeated_release_is_refused,
    a_release_of_an_unknown_job_finds_nothing,
    a_release_without_the_lock_is_refused_in_every_state,
    releases_are_answered_in_their_places_and_independently,
    more_releases_than_a_page_all_apply,
    a_job_can_be_released_for_ever,
    a_broken_release_is_refused,
}

/// Nothing is consumed or recorded; only the time of the claim is known.
async fn a_released_job_is_as_if_it_had_not_been_claimed(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let waiting = fx.job(&id).await;
    fx.advance(5);
    let held = fx.claim_one().await;
    let claimed_at = fx.now();
    fx.advance(5);
    fx.store.release(held).await.must();
    let expected = JobRecord {
        processed_at: Some(claimed_at),
        ..waiting
    };
    assert_eq!(fx.job(&id).await, expected);
    assert_eq!(fx.ledger(&id).await, []);
}

/// It runs before all that came after it.
async fn a_released_job_takes_its_old_place(fx: Fixture) {
    let came = fx.enqueue_all(jobs(4)).await;
    let locks = fx.claim_locks(request(3)).await;
    fx.store
        .release_many(vec![locks[2].clone(), locks[0].clone()])
        .await
        .must();
    assert_eq!(
        fx.claim_ids(4).await,
        [came[0].clone(), came[2].clone(), came[3].clone()]
    );
}

/// Its run time is not touched, and it is runnable at once.
async fn a_released_job_that_was_delayed_waits_by_its_old_run_time(fx: Fixture) {
    let id = fx.enqueue(job().delay(5)).await;
    let run_at = fx.later(5);
    fx.advance(8);
    let held = fx.claim_one().await;
    fx.advance(1);
    fx.store.release(held).await.must();
    let record = fx.job(&id).await;
    assert_eq!((record.state, record.run_at), (JobState::Waiting, run_at));
}

/// A cancel that waited for the handler is honoured now.
async fn a_release_with_a_pending_cancel_ends_cancelled(fx: Fixture) {
    let held = fx.start(job()).await;
    let started_at = Some(fx.now());
    let active = fx.job(&held.id).await;
    fx.request_cancel(&held.id).await;
    fx.advance(3);
    fx.store.release(held.clone()).await.must();
    let expected = JobRecord {
        state: JobState::Cancelled,
        attempts_recorded: 1,
        finished_at: Some(fx.now()),
        ..active
    };
    assert_eq!(fx.job(&held.id).await, expected);
    let entry = fx.ledger(&held.id).await.remove(0);
    assert_eq!(
        (entry.outcome, entry.started_at),
        (AttemptOutcome::Cancelled, started_at)
    );
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
}

/// The lock went with the first release.
async fn a_repeated_release_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.release(held.clone()).await.must();
    expect_lock_lost(fx.store.release(held.clone()).await, &held.id);
    fx.claim_one().await;
    expect_lock_lost(fx.store.release(held.clone()).await, &held.id);
    assert_eq!(fx.state(&held.id).await, JobState::Active);
}

/// There is nothing to give back.
async fn a_release_of_an_unknown_job_finds_nothing(fx: Fixture) {
    let unknown = lock("unknown", "token");
    expect_not_found(fx.store.release(unknown.clone()).await, &unknown.id);
}

/// Only what one holds can one give back.
async fn a_release_without_the_lock_is_refused_in_every_state(fx: Fixture) {
    for state in JobState::ALL {
        let id = fx.job_in(state).await;
        let before = fx.job(&id).await;
        expect_lock_lost(fx.store.release(lock(&id, "foreign")).await, &id);
        assert_eq!(fx.job(&id).await, before, "a job that is {state}");
        fx.store.cancel(&id).await.ok();
    }
    let held = fx.start(job()).await;
    fx.ack(&held, retry_in(5)).await;
    expect_lock_lost(fx.store.release(held.clone()).await, &held.id);
}

/// One refused release does not touch the others, not even of the same job.
async fn releases_are_answered_in_their_places_and_independently(fx: Fixture) {
    fx.enqueue_all(jobs(3)).await;
    let locks = fx.claim_locks(request(3)).await;
    let unknown = lock("unknown", "token");
    let batch = vec![
        locks[0].clone(),
        unknown.clone(),
        locks[1].clone(),
        locks[0].clone(),
    ];
    let mut answers = fx.store.release_many(batch).await.must();
    assert_eq!(answers.len(), 4);
    expect_lock_lost(answers.remove(3), &locks[0].id);
    answers.remove(2).must();
    expect_not_found(answers.remove(1), &unknown.id);
    answers.remove(0).must();
    let ids: Vec<_> = locks.iter().map(|lock| lock.id.clone()).collect();
    use JobState::{Active, Waiting};
    assert_eq!(fx.states(&ids).await, [Waiting, Waiting, Active].map(Some));
}

/// A worker that shuts down may hold any number of jobs.
async fn more_releases_than_a_page_all_apply(fx: Fixture) {
    let came = fx.enqueue_all(jobs(260)).await;
    let mut locks = fx.claim_locks(request(250)).await;
    locks.extend(fx.claim_locks(request(250)).await);
    for answer in fx.store.release_many(locks).await.must() {
        answer.must();
    }
    fx.expect_count(JobState::Waiting, 260).await;
    assert_eq!(fx.claim_ids(250).await, came[..250]);
}

/// No counter runs out.
async fn a_job_can_be_released_for_ever(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    for _ in 0..20 {
        let held = fx.claim_one().await;
        fx.store.release(held).await.must();
    }
    let record = fx.job(&id).await;
    assert_eq!((record.attempts_made, record.stalled_count), (0, 0));
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
}

/// Each broken rule is named.
async fn a_broken_release_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    expect_refused(fx.store.release(lock("", "token")).await, "job id");
    expect_refused(fx.store.release(lock(&held.id, "")).await, "lock token");
    expect_refused(fx.store.release(lock(&held.id, "a\0")).await, "lock token");
    fx.store.release(held).await.must();
}
