//! Progress: what a handler reports while it runs.

use crate::contract::expect::{Must, expect_lock_lost, expect_not_found, expect_refused};
use crate::contract::make::{LOCK, complete, fail, job, json, lock, retry_in};
use crate::contract::{Fixture, StoreOptions};
use crate::record::{JobRecord, JobState};

cases! { __contract_run_progress, run::progress:
    the_last_report_is_kept_and_nothing_else_changes,
    progress_is_there_for_the_next_run,
    progress_survives_a_stall_a_release_and_a_retry,
    progress_stays_on_a_finished_job,
    a_report_on_an_unknown_job_finds_nothing,
    a_report_without_the_lock_is_refused,
    an_expired_lock_still_reports,
    a_report_does_not_extend_the_lock,
    a_repeated_report_changes_nothing,
    a_report_too_large_is_refused with small_payloads,
}

/// A report replaces the one before.
async fn the_last_report_is_kept_and_nothing_else_changes(fx: Fixture) {
    let held = fx.start(job()).await;
    let active = fx.job(&held.id).await;
    assert_eq!(active.progress, None);
    for report in ["1", "[2]", "null"] {
        fx.store
            .set_progress(held.clone(), json(report))
            .await
            .must();
        let expected = JobRecord {
            progress: Some(json(report)),
            ..active.clone()
        };
        assert_eq!(fx.job(&held.id).await, expected);
    }
    assert_eq!(fx.ledger(&held.id).await, []);
}

/// The claim of the next run brings it, so that the handler can go on from it.
async fn progress_is_there_for_the_next_run(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.set_progress(held.clone(), json("7")).await.must();
    fx.ack(&held, retry_in(0)).await;
    let claim = fx.claim(1).await;
    assert_eq!(claim.jobs[0].progress, Some(json("7")));
}

/// However the run ended, its progress is there.
async fn progress_survives_a_stall_a_release_and_a_retry(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.set_progress(held.clone(), json("7")).await.must();
    fx.store.release(held.clone()).await.must();
    assert_eq!(fx.job(&held.id).await.progress, Some(json("7")));
    fx.claim_one().await;
    fx.stall(3).await;
    assert_eq!(fx.job(&held.id).await.progress, Some(json("7")));
    let last = fx.claim_one().await;
    fx.ack(&last, fail()).await;
    fx.store.retry(&held.id).await.must();
    assert_eq!(fx.job(&held.id).await.progress, Some(json("7")));
}

/// What was reported last can be read after the end.
async fn progress_stays_on_a_finished_job(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.set_progress(held.clone(), json("7")).await.must();
    fx.ack(&held, complete()).await;
    assert_eq!(fx.job(&held.id).await.progress, Some(json("7")));
}

/// There is no job to report on.
async fn a_report_on_an_unknown_job_finds_nothing(fx: Fixture) {
    let unknown = lock("unknown", "token");
    let answer = fx.store.set_progress(unknown.clone(), json("1")).await;
    expect_not_found(answer, &unknown.id);
}

/// Only the run that holds the job reports on it, and only while it does.
async fn a_report_without_the_lock_is_refused(fx: Fixture) {
    for state in JobState::ALL {
        let id = fx.job_in(state).await;
        let answer = fx.store.set_progress(lock(&id, "foreign"), json("1")).await;
        expect_lock_lost(answer, &id);
        assert_eq!(fx.job(&id).await.progress, None, "a job that is {state}");
        fx.store.cancel(&id).await.ok();
    }
    let held = fx.start(job()).await;
    fx.ack(&held, complete()).await;
    let answer = fx.store.set_progress(held.clone(), json("1")).await;
    expect_lock_lost(answer, &held.id);
}

/// Its reply was lost.
async fn a_repeated_report_changes_nothing(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.set_progress(held.clone(), json("1")).await.must();
    let before = fx.job(&held.id).await;
    fx.store.set_progress(held.clone(), json("1")).await.must();
    assert_eq!(fx.job(&held.id).await, before);
}

/// As long as nobody took the job back.
async fn an_expired_lock_still_reports(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK + 1);
    fx.store.set_progress(held.clone(), json("1")).await.must();
    assert_eq!(fx.job(&held.id).await.progress, Some(json("1")));
}

/// Only the heartbeat keeps a lock alive.
async fn a_report_does_not_extend_the_lock(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK - 1);
    fx.store.set_progress(held.clone(), json("1")).await.must();
    fx.advance(1);
    assert_eq!(
        fx.store.recover_stalled(3, 10).await.must().stalled.len(),
        1
    );
}

fn small_payloads(options: StoreOptions) -> StoreOptions {
    options.max_payload(4)
}

/// A report may be as large as a payload; a refused one leaves the last.
async fn a_report_too_large_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store
        .set_progress(held.clone(), json("1234"))
        .await
        .must();
    let answer = fx.store.set_progress(held.clone(), json("12345")).await;
    expect_refused(answer, "progress");
    assert_eq!(fx.job(&held.id).await.progress, Some(json("1234")));
}
