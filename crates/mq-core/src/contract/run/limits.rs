//! Claim: how many jobs of a queue may be active at once.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{
    LOCK, Make, NO_JOBS, complete, fail, job, jobs, request, request_for, retry_in, snooze_for,
};
use crate::contract::steps::ids;
use crate::record::JobState;
use crate::store::{AckOutcome, Change, ClaimRequest, Lock, QueueSettings};

cases! { __contract_run_limits, run::limits:
    max_active_holds_over_all_claims_and_handles,
    max_active_holds_under_concurrent_claims,
    max_active_takes_the_best_first,
    each_end_of_a_run_frees_its_slot,
    a_released_job_frees_its_slot,
    a_recovered_job_frees_its_slot,
    an_expired_lock_keeps_its_slot_until_it_is_recovered,
    a_lowered_limit_lets_running_jobs_finish,
    a_raised_or_cleared_limit_lets_more_in,
    a_limit_is_its_queues_alone,
    a_held_back_claim_still_promotes,
}

fn at_most(max_active: u32) -> QueueSettings {
    QueueSettings {
        max_active: Change::Set(max_active),
        ..QueueSettings::default()
    }
}

/// The limit counts active jobs, whoever claimed them and under what name.
async fn max_active_holds_over_all_claims_and_handles(fx: Fixture) {
    fx.set_queue(at_most(3)).await;
    fx.enqueue_all(vec![job(), job(), job(), job(), job().name("other")])
        .await;
    let second = fx.second().await;
    assert_eq!(fx.claim_ids(2).await.len(), 2);
    assert_eq!(second.claim_ids(10).await.len(), 1);
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
    let other = request_for(&["other"], 1);
    assert_eq!(second.claim_with(other).await.jobs, []);
    fx.expect_count(JobState::Active, 3).await;
}

/// Claims that meet do not each fill the same slots.
async fn max_active_holds_under_concurrent_claims(fx: Fixture) {
    fx.set_queue(at_most(5)).await;
    fx.enqueue_all(jobs(40)).await;
    let second = fx.second().await;
    let claimed = fx
        .race(8, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move { handle.claim_ids(3).await.len() }
        })
        .await;
    assert_eq!(claimed.iter().sum::<usize>(), 5, "claimed {claimed:?}");
    fx.expect_count(JobState::Active, 5).await;
}

/// What the limit lets in is what would have run first anyway.
async fn max_active_takes_the_best_first(fx: Fixture) {
    fx.set_queue(at_most(2)).await;
    let came = fx
        .enqueue_all(vec![job(), job().priority(1), job().priority(2)])
        .await;
    assert_eq!(fx.claim_ids(3).await, [came[2].clone(), came[1].clone()]);
}

/// A full queue of one slot, whose holder ends by `free`, yields one job more.
async fn frees(fx: &Fixture, what: &str, lock: Lock, end: AckOutcome) -> Lock {
    assert_eq!(fx.claim_ids(1).await, NO_JOBS, "while the slot is held");
    fx.ack(&lock, end).await;
    let mut next = fx.claim_locks(request(5)).await;
    assert_eq!(next.len(), 1, "slots free after {what}");
    next.remove(0)
}

/// Whatever the outcome, an acknowledged run holds no slot.
async fn each_end_of_a_run_frees_its_slot(fx: Fixture) {
    fx.set_queue(at_most(1)).await;
    fx.enqueue_all(jobs(10)).await;
    let mut lock = fx.claim_one().await;
    for (what, end) in [
        ("complete", complete()),
        ("fail", fail()),
        ("retry", retry_in(0)),
        ("a delayed retry", retry_in(1_000)),
        ("snooze", snooze_for(1_000)),
        ("cancel", AckOutcome::Cancelled),
    ] {
        lock = frees(&fx, what, lock, end).await;
    }
    fx.expect_count(JobState::Active, 1).await;
}

/// A released job holds no slot, whether it waits again or is cancelled.
async fn a_released_job_frees_its_slot(fx: Fixture) {
    fx.set_queue(at_most(1)).await;
    fx.enqueue_all(jobs(3)).await;
    let lock = fx.claim_one().await;
    fx.store.release(lock).await.must();
    let lock = fx.claim_one().await;
    fx.request_cancel(&lock.id).await;
    fx.store.release(lock).await.must();
    fx.claim_one().await;
}

/// Nor does one whose worker died, once that is noticed.
async fn a_recovered_job_frees_its_slot(fx: Fixture) {
    fx.set_queue(at_most(1)).await;
    fx.enqueue_all(jobs(3)).await;
    fx.claim_one().await;
    fx.stall(3).await;
    let lock = fx.claim_one().await;
    fx.stall(0).await;
    assert_eq!(fx.state(&lock.id).await, JobState::Failed);
    fx.claim_one().await;
}

/// A lock that nobody took back still holds, and with it the slot.
async fn an_expired_lock_keeps_its_slot_until_it_is_recovered(fx: Fixture) {
    fx.set_queue(at_most(1)).await;
    fx.enqueue_all(jobs(2)).await;
    fx.claim_one().await;
    fx.advance(LOCK + 1);
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
}

/// A lower limit ends no run; the next starts only once there is room.
async fn a_lowered_limit_lets_running_jobs_finish(fx: Fixture) {
    fx.enqueue_all(jobs(5)).await;
    let locks = fx.claim_locks(request(3)).await;
    fx.set_queue(at_most(2)).await;
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
    fx.ack(&locks[0], complete()).await;
    assert_eq!(fx.claim_ids(1).await, NO_JOBS, "while as many run as may");
    fx.ack(&locks[1], complete()).await;
    assert_eq!(fx.claim_ids(5).await.len(), 1);
}

/// A change of the limit holds from the next claim on.
async fn a_raised_or_cleared_limit_lets_more_in(fx: Fixture) {
    fx.enqueue_all(jobs(10)).await;
    fx.set_queue(at_most(1)).await;
    assert_eq!(fx.claim_ids(10).await.len(), 1);
    fx.set_queue(at_most(3)).await;
    assert_eq!(fx.claim_ids(10).await.len(), 2);
    fx.set_queue(QueueSettings {
        max_active: Change::Clear,
        ..QueueSettings::default()
    })
    .await;
    assert_eq!(fx.claim_ids(10).await.len(), 7);
}

/// Active jobs of another queue do not count.
async fn a_limit_is_its_queues_alone(fx: Fixture) {
    fx.set_queue(at_most(1)).await;
    fx.enqueue_all(vec![job(), job().queue("other"), job().queue("other")])
        .await;
    let other = ClaimRequest {
        queue: "other".into(),
        ..request(10)
    };
    assert_eq!(ids(&fx.claim_with(other).await.jobs).len(), 2);
    fx.claim_one().await;
}

/// Jobs that are due become waiting though none may start.
async fn a_held_back_claim_still_promotes(fx: Fixture) {
    fx.set_queue(at_most(1)).await;
    fx.start(job()).await;
    let id = fx.enqueue(job().delay(5)).await;
    fx.advance(5);
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
    assert_eq!(fx.state(&id).await, JobState::Waiting);
}
