//! Heartbeats: how locks are kept alive.

use std::time::Duration;

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{LOCK, complete, job, jobs, lock, ms, request, retry_in};
use crate::record::JobState;
use crate::store::{AckOutcome, ClaimRequest, Extended};
use crate::time::LONGEST;

cases! { __contract_run_lock, run::lock:
    a_lock_holds_until_the_millisecond_it_expires,
    a_lock_rounds_up_to_milliseconds,
    a_heartbeat_extends_from_now,
    a_heartbeat_changes_nothing_else,
    a_repeated_heartbeat_says_the_same,
    a_lost_lock_is_named_and_the_others_are_extended,
    a_lock_lost_in_any_way_is_named,
    a_pending_cancel_is_named_and_not_extended,
    a_pending_cancel_is_named_at_each_heartbeat,
    a_heartbeat_revives_an_expired_lock,
    a_heartbeat_may_hold_any_number_of_locks,
    an_empty_heartbeat_answers_empty,
    the_longest_lock_ends_with_time_itself,
    a_broken_heartbeat_is_refused_and_extends_nothing,
}

/// Its time is over at the millisecond it names, not before.
async fn a_lock_holds_until_the_millisecond_it_expires(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK - 1);
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    fx.advance(1);
    let recovered = fx.store.recover_stalled(3, 10).await.must();
    assert_eq!(recovered.stalled.len(), 1);
    assert_eq!(recovered.stalled[0].id, held.id);
}

/// Nothing expires early because of a fraction.
async fn a_lock_rounds_up_to_milliseconds(fx: Fixture) {
    fx.enqueue(job()).await;
    let request = ClaimRequest {
        lock_for: Duration::from_micros(1_001),
        ..request(1)
    };
    fx.claim_with(request).await;
    fx.advance(1);
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    fx.advance(1);
    assert_eq!(
        fx.store.recover_stalled(3, 10).await.must().stalled.len(),
        1
    );
}

/// The new end is `lock_for` after the heartbeat.
async fn a_heartbeat_extends_from_now(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK - 1);
    let extended = fx
        .store
        .extend_locks(vec![held.clone()], ms(50))
        .await
        .must();
    assert_eq!(extended, Extended::default());
    fx.advance(49);
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    fx.advance(1);
    assert_eq!(
        fx.store.recover_stalled(3, 10).await.must().stalled.len(),
        1
    );
}

/// The record is the same before and after.
async fn a_heartbeat_changes_nothing_else(fx: Fixture) {
    let held = fx.start(job()).await;
    let active = fx.job(&held.id).await;
    fx.advance(10);
    fx.store
        .extend_locks(vec![held.clone()], ms(LOCK))
        .await
        .must();
    assert_eq!(fx.job(&held.id).await, active);
}

/// One whose answer was lost is sent again.
async fn a_repeated_heartbeat_says_the_same(fx: Fixture) {
    fx.enqueue_all(jobs(3)).await;
    let locks = fx.claim_locks(request(3)).await;
    fx.ack(&locks[0], complete()).await;
    fx.request_cancel(&locks[1].id).await;
    let first = fx.store.extend_locks(locks.clone(), ms(LOCK)).await.must();
    let again = fx.store.extend_locks(locks.clone(), ms(LOCK)).await.must();
    assert_eq!(again, first);
    fx.ack(&locks[2], complete()).await;
}

/// Unknown ids and foreign tokens are lost; what is held goes on.
async fn a_lost_lock_is_named_and_the_others_are_extended(fx: Fixture) {
    fx.enqueue_all(jobs(2)).await;
    let locks = fx.claim_locks(request(2)).await;
    fx.advance(LOCK - 1);
    let foreign = lock(&locks[1].id, "foreign");
    let beat = vec![lock("unknown", "token"), locks[0].clone(), foreign.clone()];
    let mut extended = fx.store.extend_locks(beat, ms(LOCK)).await.must();
    extended.lost.sort();
    let mut lost = vec!["unknown".into(), foreign.id.clone()];
    lost.sort();
    assert_eq!(
        extended,
        Extended {
            lost,
            cancel_requested: Vec::new()
        }
    );
    fx.advance(1);
    let recovered = fx.store.recover_stalled(3, 10).await.must().stalled;
    let recovered: Vec<_> = recovered.into_iter().map(|stalled| stalled.id).collect();
    assert_eq!(
        recovered,
        [foreign.id],
        "only the one that was not extended"
    );
}

/// By its end, by a release, by a recovery.
async fn a_lock_lost_in_any_way_is_named(fx: Fixture) {
    fx.enqueue_all(jobs(4)).await;
    let locks = fx.claim_locks(request(3)).await;
    fx.ack(&locks[0], complete()).await;
    fx.ack(&locks[1], retry_in(1_000)).await;
    fx.store.release(locks[2].clone()).await.must();
    let recovered = fx.claim_one().await;
    fx.stall(3).await;
    let beat: Vec<_> = locks.into_iter().chain([recovered]).collect();
    let mut expected: Vec<_> = beat.iter().map(|lock| lock.id.clone()).collect();
    expected.sort();
    expected.dedup();
    let mut lost = fx.store.extend_locks(beat, ms(LOCK)).await.must().lost;
    lost.sort();
    lost.dedup();
    assert_eq!(lost, expected);
}

/// A worker learns of a cancel by its heartbeat; the lock runs out, so that a
/// worker which does not heed it does not hold the job for ever.
async fn a_pending_cancel_is_named_and_not_extended(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    fx.advance(LOCK - 1);
    let extended = fx
        .store
        .extend_locks(vec![held.clone()], ms(LOCK))
        .await
        .must();
    let expected = Extended {
        lost: Vec::new(),
        cancel_requested: vec![held.id.clone()],
    };
    assert_eq!(extended, expected);
    fx.advance(1);
    fx.store.recover_stalled(3, 10).await.must();
    assert_eq!(fx.state(&held.id).await, JobState::Cancelled);
}

/// A heartbeat whose answer was lost is followed by one that says the same.
async fn a_pending_cancel_is_named_at_each_heartbeat(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    for _ in 0..2 {
        let extended = fx
            .store
            .extend_locks(vec![held.clone()], ms(LOCK))
            .await
            .must();
        assert_eq!(extended.cancel_requested, [held.id.clone()]);
    }
    fx.ack(&held, AckOutcome::Cancelled).await;
    let extended = fx
        .store
        .extend_locks(vec![held.clone()], ms(LOCK))
        .await
        .must();
    assert_eq!(
        (extended.lost, extended.cancel_requested),
        (vec![held.id], Vec::new())
    );
}

/// A late heartbeat is in time as long as nobody took the job back.
async fn a_heartbeat_revives_an_expired_lock(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK * 2);
    let extended = fx
        .store
        .extend_locks(vec![held.clone()], ms(LOCK))
        .await
        .must();
    assert_eq!(extended, Extended::default());
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
}

/// All of a worker's locks go into one call.
async fn a_heartbeat_may_hold_any_number_of_locks(fx: Fixture) {
    fx.enqueue_all(jobs(300)).await;
    let mut locks = fx.claim_locks(request(250)).await;
    locks.extend(fx.claim_locks(request(250)).await);
    fx.advance(LOCK - 1);
    let extended = fx.store.extend_locks(locks, ms(LOCK)).await.must();
    assert_eq!(extended, Extended::default());
    fx.advance(LOCK - 1);
    assert_eq!(fx.store.recover_stalled(3, 250).await.must().stalled, []);
}

/// Nothing held, nothing to say.
async fn an_empty_heartbeat_answers_empty(fx: Fixture) {
    let extended = fx.store.extend_locks(Vec::new(), ms(LOCK)).await.must();
    assert_eq!(extended, Extended::default());
}

/// An expiry past the last instant is that instant.
async fn the_longest_lock_ends_with_time_itself(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store
        .extend_locks(vec![held.clone()], LONGEST)
        .await
        .must();
    fx.advance(1_000_000_000_000);
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    fx.ack(&held, complete()).await;
}

/// A refused call extends no lock at all.
async fn a_broken_heartbeat_is_refused_and_extends_nothing(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK - 1);
    let beat = |locks, lock_for| fx.store.extend_locks(locks, lock_for);
    expect_refused(beat(vec![held.clone()], ms(0)).await, "lock_for");
    expect_refused(beat(vec![held.clone()], LONGEST + ms(1)).await, "lock_for");
    expect_refused(
        beat(vec![held.clone(), lock("", "t")], ms(LOCK)).await,
        "job id",
    );
    expect_refused(
        beat(vec![held.clone(), lock("a", "\0")], ms(LOCK)).await,
        "lock token",
    );
    fx.advance(1);
    assert_eq!(
        fx.store.recover_stalled(3, 10).await.must().stalled.len(),
        1
    );
}
