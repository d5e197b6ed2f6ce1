//! Claim: what a repetition with the same token answers.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{LOCK, Make, complete, job, jobs, lock, ms, request, retry_in};
use crate::contract::steps::ids;
use crate::record::{JobState, Rate};
use crate::store::{Change, QueueSettings};

cases! { __contract_run_repeat, run::repeat:
    a_repeated_claim_answers_the_same_jobs_and_locks_nothing_more,
    a_repeated_claim_locks_nothing_more_even_with_room,
    a_repeated_claim_works_through_another_handle,
    a_repeated_claim_arms_the_locks_anew,
    a_repeated_claim_answers_only_what_is_still_locked,
    a_repeated_claim_goes_before_a_pause,
    a_repeated_claim_goes_before_limits_and_counts_no_start,
    a_repeated_claim_of_an_expired_lock_takes_it_up_again,
    the_jobs_of_a_late_copy_cost_one_stall,
}

/// The same records in the same order, while others still wait.
async fn a_repeated_claim_answers_the_same_jobs_and_locks_nothing_more(fx: Fixture) {
    fx.enqueue_all(vec![job(), job().priority(1), job().priority(2), job()])
        .await;
    let request = request(3);
    let first = fx.claim_with(request.clone()).await.jobs;
    assert_eq!(first.len(), 3);
    let again = fx.claim_with(request.clone()).await.jobs;
    assert_eq!(again, first);
    fx.expect_count(JobState::Waiting, 1).await;
}

/// A claim that got less than it asked for stays as it was.
async fn a_repeated_claim_locks_nothing_more_even_with_room(fx: Fixture) {
    let mut request = request(5);
    let first = fx.enqueue_all(jobs(2)).await;
    assert_eq!(ids(&fx.claim_with(request.clone()).await.jobs), first);
    fx.enqueue_all(jobs(2)).await;
    request.limit = 250;
    assert_eq!(ids(&fx.claim_with(request).await.jobs), first);
    fx.expect_count(JobState::Waiting, 2).await;
}

/// The memory of the token is the store's.
async fn a_repeated_claim_works_through_another_handle(fx: Fixture) {
    let first = fx.enqueue_all(jobs(2)).await;
    let request = request(2);
    fx.claim_with(request.clone()).await;
    let second = fx.second().await;
    assert_eq!(ids(&second.claim_with(request).await.jobs), first);
}

/// A repetition extends the locks to `lock_for` from now.
async fn a_repeated_claim_arms_the_locks_anew(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let request = request(1);
    let first = fx.claim_with(request.clone()).await.jobs;
    fx.advance(LOCK - 1);
    let again = fx.claim_with(request).await.jobs;
    assert_eq!(
        again[0].processed_at, first[0].processed_at,
        "the run goes on"
    );
    fx.advance(LOCK - 1);
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    assert_eq!(fx.state(&id).await, JobState::Active);
    fx.advance(1);
    assert_eq!(
        fx.store.recover_stalled(3, 10).await.must().stalled.len(),
        1
    );
}

/// What was acked or released in between is not part of the answer.
async fn a_repeated_claim_answers_only_what_is_still_locked(fx: Fixture) {
    let came = fx.enqueue_all(jobs(4)).await;
    let request = request(4);
    let locks = fx.claim_locks(request.clone()).await;
    fx.ack(&locks[0], complete()).await;
    fx.ack(&locks[1], retry_in(0)).await;
    fx.store.release(locks[2].clone()).await.must();
    assert_eq!(ids(&fx.claim_with(request).await.jobs), came[3..]);
}

/// A pause in between does not hide what the call has locked.
async fn a_repeated_claim_goes_before_a_pause(fx: Fixture) {
    let came = fx.enqueue_all(jobs(2)).await;
    let request = request(2);
    fx.claim_with(request.clone()).await;
    fx.set_queue(QueueSettings {
        paused: Change::Set(true),
        ..QueueSettings::default()
    })
    .await;
    assert_eq!(ids(&fx.claim_with(request).await.jobs), came);
}

/// Limits neither hide it, nor are used up by it.
async fn a_repeated_claim_goes_before_limits_and_counts_no_start(fx: Fixture) {
    let came = fx.enqueue_all(jobs(40)).await;
    let rate = Rate {
        count: 20,
        per: ms(60_000),
    };
    fx.set_queue(QueueSettings {
        max_active: Change::Set(2),
        rate: Change::Set(rate),
        ..QueueSettings::default()
    })
    .await;
    let request = request(10);
    assert_eq!(ids(&fx.claim_with(request.clone()).await.jobs), came[..2]);
    for _ in 0..20 {
        assert_eq!(ids(&fx.claim_with(request.clone()).await.jobs), came[..2]);
    }
    for id in &came[..2] {
        fx.ack(&lock(id, request.token.clone()), complete()).await;
    }
    fx.advance(60_000);
    assert_eq!(fx.claim_ids(10).await, came[2..4]);
}

/// A lock that nobody recovered holds, and can be taken up by a repetition.
async fn a_repeated_claim_of_an_expired_lock_takes_it_up_again(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let request = request(1);
    fx.claim_with(request.clone()).await;
    fx.advance(LOCK * 2);
    assert_eq!(
        ids(&fx.claim_with(request.clone()).await.jobs),
        [id.clone()]
    );
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    fx.ack(&lock(&id, request.token), complete()).await;
}

/// A copy of the call that arrives after all its jobs were settled locks jobs
/// that no worker knows of; they come back with one stall each.
async fn the_jobs_of_a_late_copy_cost_one_stall(fx: Fixture) {
    fx.enqueue(job()).await;
    let request = request(1);
    let locks = fx.claim_locks(request.clone()).await;
    fx.ack(&locks[0], complete()).await;
    let next = fx.enqueue(job()).await;
    let stray = ids(&fx.claim_with(request).await.jobs);
    fx.stall(3).await;
    let record = fx.job(&next).await;
    let stalls = u32::try_from(stray.len()).expect("few");
    assert_eq!(
        (record.state, record.stalled_count),
        (JobState::Waiting, stalls)
    );
    assert!(stalls <= 1, "got {stray:?}");
}
