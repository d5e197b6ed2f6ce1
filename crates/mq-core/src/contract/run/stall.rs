//! Stalls: what becomes of jobs whose worker died.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{
    LOCK, Make, NO_JOBS, complete, fail, job, jobs, ms, request, request_for, retry_in,
};
use crate::record::{AttemptOutcome, AttemptRecord, JobRecord, JobState};
use crate::store::{ClaimRequest, Recovered, StallOutcome, Stalled};

cases! { __contract_run_stall, run::stall:
    a_stalled_job_waits_again_in_its_old_place,
    a_stalled_run_has_its_entry,
    one_stall_too_many_fails_the_job,
    with_no_stalls_allowed_the_first_one_fails_the_job,
    stalls_are_counted_over_runs_and_forgotten_by_retry,
    a_pending_cancel_is_honoured_instead,
    a_recovery_tells_what_it_did,
    a_recovery_takes_the_oldest_expiry_first_and_says_whether_more_remain,
    a_recovery_takes_at_most_250,
    a_repeated_recovery_finds_nothing_more,
    a_recovered_job_can_be_claimed_at_once,
    locks_that_have_not_expired_are_left_alone,
    a_job_that_kills_its_process_fails_and_its_neighbours_do_not,
    a_recovery_of_nothing_is_refused,
}

/// It counts a stall; place, run time and attempts are what they were.
async fn a_stalled_job_waits_again_in_its_old_place(fx: Fixture) {
    let held = fx.start(job()).await;
    let active = fx.job(&held.id).await;
    let other = fx.enqueue(job()).await;
    fx.advance(LOCK);
    let recovered = fx.store.recover_stalled(1, 10).await.must();
    assert_eq!(recovered.stalled.len(), 1);
    let expected = JobRecord {
        state: JobState::Waiting,
        stalled_count: 1,
        attempts_recorded: 1,
        ..active
    };
    assert_eq!(fx.job(&held.id).await, expected);
    assert_eq!(fx.claim_ids(2).await, [held.id, other]);
}

/// The ledger says that it stalled, without an exit.
async fn a_stalled_run_has_its_entry(fx: Fixture) {
    let held = fx.start(job()).await;
    let started_at = Some(fx.now());
    fx.stall(1).await;
    let entry = AttemptRecord {
        attempt: 1,
        started_at,
        finished_at: fx.now(),
        outcome: AttemptOutcome::Stalled,
        exit: None,
    };
    assert_eq!(fx.ledger(&held.id).await, [entry]);
}

/// More stalls than allowed end the job, for a reason in words; the one entry
/// that this writes is `stalled`.
async fn one_stall_too_many_fails_the_job(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.stall(1).await;
    fx.claim_one().await;
    let active = fx.job(&held.id).await;
    fx.stall(1).await;
    let failed = fx.job(&held.id).await;
    assert_eq!(failed.state, JobState::Failed);
    let reason = failed.failed_reason.clone().unwrap_or_default();
    assert!(
        reason.contains("stall"),
        "expected a reason, got {reason:?}"
    );
    let expected = JobRecord {
        state: JobState::Failed,
        stalled_count: 2,
        attempts_recorded: 2,
        finished_at: Some(fx.now()),
        exit: None,
        failed_reason: failed.failed_reason.clone(),
        ..active
    };
    assert_eq!(failed, expected);
    use AttemptOutcome::Stalled;
    assert_eq!(fx.outcomes(&held.id).await, [Stalled, Stalled]);
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
}

/// Zero is a legal maximum.
async fn with_no_stalls_allowed_the_first_one_fails_the_job(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.stall(0).await;
    let record = fx.job(&held.id).await;
    assert_eq!((record.state, record.stalled_count), (JobState::Failed, 1));
}

/// An attempt in between does not forgive a stall; a fresh budget does.
async fn stalls_are_counted_over_runs_and_forgotten_by_retry(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.stall(2).await;
    let next = fx.claim_one().await;
    fx.ack(&next, retry_in(0)).await;
    fx.claim_one().await;
    fx.stall(2).await;
    assert_eq!(fx.job(&held.id).await.stalled_count, 2);
    let next = fx.claim_one().await;
    fx.ack(&next, fail()).await;
    fx.store.retry(&held.id).await.must();
    assert_eq!(fx.job(&held.id).await.stalled_count, 0);
    fx.claim_one().await;
    fx.stall(1).await;
    assert_eq!(fx.state(&held.id).await, JobState::Waiting);
}

/// A job to be cancelled ends so, counts no stall and is not reported.
async fn a_pending_cancel_is_honoured_instead(fx: Fixture) {
    let held = fx.start(job()).await;
    let active = fx.job(&held.id).await;
    fx.request_cancel(&held.id).await;
    fx.advance(LOCK);
    let recovered = fx.store.recover_stalled(0, 10).await.must();
    assert_eq!(recovered, Recovered::default());
    let expected = JobRecord {
        state: JobState::Cancelled,
        attempts_recorded: 1,
        finished_at: Some(fx.now()),
        ..active
    };
    assert_eq!(fx.job(&held.id).await, expected);
    assert_eq!(fx.outcomes(&held.id).await, [AttemptOutcome::Cancelled]);
}

/// Each job with its name, its queue and what became of it.
async fn a_recovery_tells_what_it_did(fx: Fixture) {
    let failing = fx.start(job().name("a").queue("x")).await;
    fx.stall(3).await;
    let mut again = request_for(&["a"], 1);
    again.queue = "x".into();
    fx.claim_with(again).await;
    fx.advance(1);
    let waiting = fx.start(job().name("b").queue("y")).await;
    fx.advance(LOCK);
    let recovered = fx.store.recover_stalled(1, 10).await.must();
    let stalled = vec![
        Stalled {
            id: failing.id,
            name: "a".into(),
            queue: "x".into(),
            outcome: StallOutcome::Failed,
        },
        Stalled {
            id: waiting.id,
            name: "b".into(),
            queue: "y".into(),
            outcome: StallOutcome::Requeued,
        },
    ];
    assert_eq!(
        recovered,
        Recovered {
            stalled,
            more: false
        }
    );
}

/// A page is taken in order of expiry.
async fn a_recovery_takes_the_oldest_expiry_first_and_says_whether_more_remain(fx: Fixture) {
    fx.enqueue_all(jobs(5)).await;
    let mut by_expiry = Vec::new();
    for number in 0..5 {
        let request = ClaimRequest {
            lock_for: ms(100 - number * 10),
            ..request(1)
        };
        by_expiry.push(fx.claim_locks(request).await.remove(0).id);
    }
    by_expiry.reverse();
    fx.advance(100);
    let mut recovered = Vec::new();
    for more in [true, true, false] {
        let page = fx.store.recover_stalled(3, 2).await.must();
        assert_eq!(
            page.more,
            more,
            "after {} of 5",
            recovered.len() + page.stalled.len()
        );
        recovered.extend(page.stalled.into_iter().map(|stalled| stalled.id));
    }
    assert_eq!(recovered, by_expiry);
}

/// A larger limit is clamped.
async fn a_recovery_takes_at_most_250(fx: Fixture) {
    fx.enqueue_all(jobs(251)).await;
    fx.claim(250).await;
    fx.claim(250).await;
    fx.advance(LOCK);
    let page = fx.store.recover_stalled(3, u32::MAX).await.must();
    assert_eq!((page.stalled.len(), page.more), (250, true));
    let page = fx.store.recover_stalled(3, u32::MAX).await.must();
    assert_eq!((page.stalled.len(), page.more), (1, false));
}

/// A recovery whose answer was lost counts no stall twice.
async fn a_repeated_recovery_finds_nothing_more(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK);
    fx.store.recover_stalled(3, 10).await.must();
    let again = fx.store.recover_stalled(3, 10).await.must();
    assert_eq!(again, Recovered::default());
    assert_eq!(fx.job(&held.id).await.stalled_count, 1);
}

/// The next run begins under a lock of its own.
async fn a_recovered_job_can_be_claimed_at_once(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.stall(3).await;
    let next = fx.claim_one().await;
    assert_eq!(next.id, held.id);
    assert_eq!(fx.job(&held.id).await.processed_at, Some(fx.now()));
    fx.advance(LOCK - 1);
    assert_eq!(
        fx.store.recover_stalled(3, 10).await.must(),
        Recovered::default()
    );
    fx.ack(&next, complete()).await;
}

/// Live workers lose nothing.
async fn locks_that_have_not_expired_are_left_alone(fx: Fixture) {
    let old = fx.start(job()).await;
    fx.advance(LOCK - 1);
    let new = fx.start(job()).await;
    fx.advance(1);
    let recovered = fx.store.recover_stalled(3, 10).await.must().stalled;
    let recovered: Vec<_> = recovered.into_iter().map(|stalled| stalled.id).collect();
    assert_eq!(recovered, [old.id]);
    fx.ack(&new, complete()).await;
}

/// Each run of a poison job stalls until it has failed; those claimed along
/// with it are done.
async fn a_job_that_kills_its_process_fails_and_its_neighbours_do_not(fx: Fixture) {
    let poison = fx.enqueue(job().id("poison")).await;
    let neighbours = fx.enqueue_all(jobs(3)).await;
    let mut runs = 0;
    loop {
        let locks = fx.claim_locks(request(10)).await;
        if locks.is_empty() {
            break;
        }
        let poisoned = locks.iter().any(|lock| lock.id == poison);
        runs += u32::from(poisoned);
        // The neighbours of a first crash were locked by the same process.
        if !poisoned || runs > 1 {
            for lock in locks.iter().filter(|lock| lock.id != poison) {
                fx.ack(lock, complete()).await;
            }
        }
        fx.stall(3).await;
    }
    assert_eq!(runs, 4, "one run more than stalls allowed");
    assert_eq!(fx.state(&poison).await, JobState::Failed);
    assert_eq!(fx.outcomes(&poison).await, [AttemptOutcome::Stalled; 4]);
    for id in neighbours {
        let record = fx.job(&id).await;
        assert_eq!(
            (record.state, record.stalled_count),
            (JobState::Completed, 1)
        );
    }
}

/// A limit of zero is refused and recovers nothing.
async fn a_recovery_of_nothing_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK);
    expect_refused(fx.store.recover_stalled(3, 0).await, "limit");
    assert_eq!(fx.state(&held.id).await, JobState::Active);
}
