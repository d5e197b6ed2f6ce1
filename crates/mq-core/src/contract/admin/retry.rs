//! Retry: a failed job gets another chance.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_illegal, expect_not_found, expect_refused};
use crate::contract::make::{Make, complete, job, json, retry_in};
use crate::id::JobId;
use crate::record::{AttemptOutcome, JobRecord, JobState};
use crate::store::AckOutcome;

cases! { __contract_admin_retry, admin::retry:
    a_retried_job_waits_with_a_fresh_budget,
    a_job_that_stalled_too_often_can_be_retried,
    a_retried_job_arrives_anew,
    only_a_failed_job_can_be_retried,
    a_repeated_retry_is_refused,
    an_unknown_job_is_not_found,
    of_two_retries_one_succeeds,
    a_broken_id_is_refused,
}

/// Everything about it, field by field: ledger and progress stay.
async fn a_retried_job_waits_with_a_fresh_budget(fx: Fixture) {
    let mut new = job().delay(5).label("a", "b");
    new.spec.attempts_max = 2;
    let id = fx.enqueue(new).await;
    let delayed = fx.job(&id).await;
    fx.advance(5);
    let held = fx.claim_one().await;
    fx.ack(&held, retry_in(0)).await;
    let held = fx.claim_one().await;
    fx.store.set_progress(held.clone(), json("7")).await.must();
    fx.ack(
        &held,
        AckOutcome::Fail {
            exit: Some(json("1")),
        },
    )
    .await;
    fx.advance(5);
    fx.store.retry(&id).await.must();
    let expected = JobRecord {
        state: JobState::Waiting,
        attempts_recorded: 2,
        run_at: fx.now(),
        progress: Some(json("7")),
        ..delayed
    };
    assert_eq!(fx.job(&id).await, expected);
    use AttemptOutcome::{Failed, Retried};
    assert_eq!(fx.outcomes(&id).await, [Retried, Failed]);
}

/// Its reason and its stalls are forgotten.
async fn a_job_that_stalled_too_often_can_be_retried(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.stall(0).await;
    fx.store.retry(&held.id).await.must();
    let record = fx.job(&held.id).await;
    assert_eq!((record.state, record.stalled_count), (JobState::Waiting, 0));
    assert_eq!((record.failed_reason, record.finished_at), (None, None));
    let again = fx.claim_one().await;
    fx.ack(&again, complete()).await;
}

/// Jobs that wait already go first.
async fn a_retried_job_arrives_anew(fx: Fixture) {
    let failed = fx.job_in(JobState::Failed).await;
    let waiting = fx.enqueue(job()).await;
    fx.store.retry(&failed).await.must();
    let later = fx.enqueue(job()).await;
    assert_eq!(fx.claim_ids(3).await, [waiting, failed, later]);
}

/// In any other state it is an error that says which, and nothing changes.
async fn only_a_failed_job_can_be_retried(fx: Fixture) {
    for state in JobState::ALL {
        if state == JobState::Failed {
            continue;
        }
        let id = fx.job_in(state).await;
        let before = fx.job(&id).await;
        expect_illegal(fx.store.retry(&id).await, &id, state);
        assert_eq!(fx.job(&id).await, before);
        fx.store.cancel(&id).await.ok();
    }
}

/// After a lost answer a repetition finds the job waiting, which says so.
async fn a_repeated_retry_is_refused(fx: Fixture) {
    let id = fx.job_in(JobState::Failed).await;
    fx.store.retry(&id).await.must();
    expect_illegal(fx.store.retry(&id).await, &id, JobState::Waiting);
    assert_eq!(fx.claim_ids(5).await, [id]);
}

/// There is nothing to retry.
async fn an_unknown_job_is_not_found(fx: Fixture) {
    let unknown = JobId::from("unknown");
    expect_not_found(fx.store.retry(&unknown).await, &unknown);
}

/// Two operators who press the same button run the job once.
async fn of_two_retries_one_succeeds(fx: Fixture) {
    let id = fx.job_in(JobState::Failed).await;
    let second = fx.second().await;
    let succeeded = fx
        .race(2, |fx, number| {
            let handle = if number == 0 { fx } else { second.clone() };
            let id = id.clone();
            async move { handle.store.retry(&id).await.is_ok() }
        })
        .await;
    assert_ne!(succeeded[0], succeeded[1]);
    assert_eq!(fx.claim_ids(5).await, [id]);
}

/// Ids that no job can have are an error.
async fn a_broken_id_is_refused(fx: Fixture) {
    for id in ["", "a\0b"].map(JobId::from) {
        expect_refused(fx.store.retry(&id).await, "job id");
    }
}
