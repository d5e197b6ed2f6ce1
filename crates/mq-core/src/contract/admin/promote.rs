//! Promote: a delayed job need not wait any longer.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_illegal, expect_not_found, expect_refused};
use crate::contract::make::{Make, job, retry_in};
use crate::id::JobId;
use crate::record::{JobRecord, JobState};

cases! { __contract_admin_promote, admin::promote:
    a_promoted_job_waits_from_now,
    a_promoted_job_keeps_its_place,
    a_delayed_retry_can_be_promoted,
    only_a_delayed_job_can_be_promoted,
    a_job_that_is_due_but_was_not_claimed_can_be_promoted,
    an_unknown_job_is_not_found,
    a_broken_id_is_refused,
}

/// Its run time becomes now; nothing else changes.
async fn a_promoted_job_waits_from_now(fx: Fixture) {
    let id = fx.enqueue(job().delay(1_000)).await;
    let delayed = fx.job(&id).await;
    fx.advance(5);
    fx.store.promote(&id).await.must();
    let expected = JobRecord {
        state: JobState::Waiting,
        run_at: fx.now(),
        ..delayed
    };
    assert_eq!(fx.job(&id).await, expected);
    assert_eq!(fx.ledger(&id).await, []);
}

/// It came before those that wait, and runs before them.
async fn a_promoted_job_keeps_its_place(fx: Fixture) {
    let delayed = fx.enqueue(job().delay(1_000)).await;
    let waiting = fx.enqueue(job()).await;
    fx.store.promote(&delayed).await.must();
    assert_eq!(fx.claim_ids(2).await, [delayed, waiting]);
}

/// A retry that backs off is delayed like any other job.
async fn a_delayed_retry_can_be_promoted(fx: Fixture) {
    let id = fx.finish(job(), retry_in(1_000)).await;
    fx.store.promote(&id).await.must();
    assert_eq!(fx.claim_ids(1).await, [id.clone()]);
    assert_eq!(fx.job(&id).await.attempts_made, 1);
}

/// In any other state it is an error that says which, also when repeated.
async fn only_a_delayed_job_can_be_promoted(fx: Fixture) {
    for state in JobState::ALL {
        if state == JobState::Delayed {
            continue;
        }
        let id = fx.job_in(state).await;
        let before = fx.job(&id).await;
        expect_illegal(fx.store.promote(&id).await, &id, state);
        assert_eq!(fx.job(&id).await, before);
        fx.store.cancel(&id).await.ok();
    }
    let id = fx.job_in(JobState::Delayed).await;
    fx.store.promote(&id).await.must();
    expect_illegal(fx.store.promote(&id).await, &id, JobState::Waiting);
}

/// Until a claim promotes it, it is delayed.
async fn a_job_that_is_due_but_was_not_claimed_can_be_promoted(fx: Fixture) {
    let id = fx.enqueue(job().delay(5)).await;
    fx.advance(10);
    assert_eq!(fx.state(&id).await, JobState::Delayed);
    fx.store.promote(&id).await.must();
    let record = fx.job(&id).await;
    assert_eq!((record.state, record.run_at), (JobState::Waiting, fx.now()));
}

/// There is nothing to promote.
async fn an_unknown_job_is_not_found(fx: Fixture) {
    let unknown = JobId::from("unknown");
    expect_not_found(fx.store.promote(&unknown).await, &unknown);
}

/// Ids that no job can have are an error.
async fn a_broken_id_is_refused(fx: Fixture) {
    for id in ["", "a\0b"].map(JobId::from) {
        expect_refused(fx.store.promote(&id).await, "job id");
    }
}
