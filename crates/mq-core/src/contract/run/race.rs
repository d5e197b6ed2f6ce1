//! What happens when many act at once; with real tasks, on several handles.

use std::collections::HashSet;

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_lock_lost};
use crate::contract::make::{
    LOCK, ack, complete, fail, job, jobs, ms, request, retry_in, snooze_for,
};
use crate::contract::steps::ids as ids_of;
use crate::error::StoreError;
use crate::id::JobId;
use crate::record::{AttemptOutcome, JobState};
use crate::store::{AckOutcome, Cancelled, Result, StateCounts};

cases! { __contract_run_race, run::race:
    of_64_claimers_no_two_get_the_same_job,
    a_completion_that_races_a_cancel_completes,
    a_retry_that_races_a_cancel_ends_cancelled,
    an_ack_that_races_a_recovery_is_decided_once,
    a_heartbeat_that_races_a_recovery_is_decided_once,
    recoveries_that_race_count_each_stall_once,
    copies_of_an_ack_that_race_apply_once,
    copies_of_a_claim_that_race_answer_the_same_jobs,
    a_storm_of_everything_leaves_exact_counts,
}

/// A thousand jobs, each handed out once.
async fn of_64_claimers_no_two_get_the_same_job(fx: Fixture) {
    fx.enqueue_all(jobs(1_000)).await;
    let second = fx.second().await;
    let claimed = fx
        .race(64, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move {
                let mut mine = Vec::new();
                loop {
                    let page = handle.claim_ids(1 + number as u32 % 16).await;
                    if page.is_empty() {
                        return mine;
                    }
                    mine.extend(page);
                }
            }
        })
        .await;
    let all: Vec<_> = claimed.into_iter().flatten().collect();
    let distinct: HashSet<_> = all.iter().collect();
    assert_eq!(
        (all.len(), distinct.len()),
        (1_000, 1_000),
        "(claims, jobs)"
    );
    fx.expect_count(JobState::Active, 1_000).await;
}

/// Runs an ack against a cancel, and answers what the cancel said.
async fn ack_against_cancel(
    fx: &Fixture,
    outcome: AckOutcome,
    first: usize,
) -> (JobId, Result<Cancelled>) {
    let held = fx.start(job()).await;
    let end = ack(&held, outcome);
    let id = held.id.clone();
    let mut answers = fx
        .race(2, |fx, number| {
            let (id, end) = (id.clone(), end.clone());
            async move {
                if number == first {
                    assert!(fx.store.ack(end).await.must().applied);
                    return None;
                }
                Some(fx.store.cancel(&id).await)
            }
        })
        .await;
    let said = answers.remove(1 - first);
    (held.id, said.expect("the canceller's answer"))
}

/// Whichever came first, the job is completed, and the cancel was told so or
/// had been noted.
async fn a_completion_that_races_a_cancel_completes(fx: Fixture) {
    for round in 0..20 {
        let (id, said) = ack_against_cancel(&fx, complete(), round % 2).await;
        match said {
            Ok(Cancelled::Requested) => {}
            Err(StoreError::IllegalState {
                state: JobState::Completed,
                ..
            }) => {}
            other => panic!("expected Requested or IllegalState, got {other:?}"),
        }
        let record = fx.job(&id).await;
        assert_eq!(
            (record.state, record.cancel_requested),
            (JobState::Completed, false)
        );
        assert_eq!(fx.outcomes(&id).await, [AttemptOutcome::Completed]);
    }
}

/// Whichever came first, the job does not run again.
async fn a_retry_that_races_a_cancel_ends_cancelled(fx: Fixture) {
    for round in 0..20 {
        let (id, said) = ack_against_cancel(&fx, retry_in(0), round % 2).await;
        let expected: &[AttemptOutcome] = match said.must() {
            Cancelled::Requested => &[AttemptOutcome::Cancelled],
            Cancelled::Ended => &[AttemptOutcome::Retried, AttemptOutcome::Cancelled],
        };
        assert_eq!(fx.state(&id).await, JobState::Cancelled);
        assert_eq!(fx.outcomes(&id).await, expected);
    }
}

/// The run ends, or it stalls; not both, not neither.
async fn an_ack_that_races_a_recovery_is_decided_once(fx: Fixture) {
    for _ in 0..20 {
        let held = fx.start(job()).await;
        fx.advance(LOCK);
        let end = ack(&held, complete());
        let decided = fx
            .race(2, |fx, number| {
                let end = end.clone();
                async move {
                    match number {
                        0 => fx.store.ack(end).await.is_ok(),
                        _ => !fx
                            .store
                            .recover_stalled(3, 10)
                            .await
                            .must()
                            .stalled
                            .is_empty(),
                    }
                }
            })
            .await;
        let expected = if decided[0] {
            (JobState::Completed, AttemptOutcome::Completed)
        } else {
            (JobState::Waiting, AttemptOutcome::Stalled)
        };
        assert_ne!(decided[0], decided[1], "(acked, stalled)");
        assert_eq!(fx.state(&held.id).await, expected.0);
        assert_eq!(fx.outcomes(&held.id).await, [expected.1]);
        if !decided[0] {
            expect_lock_lost(fx.store.ack(ack(&held, complete())).await, &held.id);
            fx.store.cancel(&held.id).await.must();
        }
    }
}

/// The lock lives on, or it is lost.
async fn a_heartbeat_that_races_a_recovery_is_decided_once(fx: Fixture) {
    for _ in 0..20 {
        let held = fx.start(job()).await;
        fx.advance(LOCK);
        let beat = held.clone();
        let kept = fx
            .race(2, |fx, number| {
                let beat = beat.clone();
                async move {
                    match number {
                        0 => fx
                            .store
                            .extend_locks(vec![beat], ms(LOCK))
                            .await
                            .must()
                            .lost
                            .is_empty(),
                        _ => fx
                            .store
                            .recover_stalled(3, 10)
                            .await
                            .must()
                            .stalled
                            .is_empty(),
                    }
                }
            })
            .await;
        let state = fx.state(&held.id).await;
        assert_eq!(
            state == JobState::Active,
            kept[1],
            "kept by the recovery, {state} afterwards"
        );
        if kept[1] {
            assert!(kept[0], "the heartbeat said lost, though the job is active");
            fx.ack(&held, complete()).await;
        } else {
            expect_lock_lost(fx.store.ack(ack(&held, complete())).await, &held.id);
            fx.store.cancel(&held.id).await.must();
        }
    }
}

/// Several workers sweep, and no job pays twice.
async fn recoveries_that_race_count_each_stall_once(fx: Fixture) {
    let ids = fx.enqueue_all(jobs(100)).await;
    fx.claim(100).await;
    fx.advance(LOCK);
    let second = fx.second().await;
    let reported = fx
        .race(4, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move {
                let mut reported = Vec::new();
                loop {
                    let page = handle.store.recover_stalled(3, 20).await.must();
                    reported.extend(page.stalled);
                    if !page.more {
                        return reported;
                    }
                }
            }
        })
        .await;
    assert_eq!(
        reported.iter().map(Vec::len).sum::<usize>(),
        100,
        "reported stalls"
    );
    fx.expect_count(JobState::Waiting, 100).await;
    for answer in fx.store.get_jobs(&ids).await.must() {
        let record = answer.must().expect("it exists");
        assert_eq!((record.stalled_count, record.attempts_recorded), (1, 1));
    }
}

/// Copies of one ack, sent at once, end the run once.
async fn copies_of_an_ack_that_race_apply_once(fx: Fixture) {
    for outcome in [complete(), fail(), retry_in(0), snooze_for(0)] {
        let held = fx.start(job()).await;
        let end = ack(&held, outcome);
        let applied = fx
            .race(8, |fx, _| {
                let end = end.clone();
                async move { fx.store.ack(end).await.must().applied }
            })
            .await;
        assert_eq!(
            applied.iter().filter(|applied| **applied).count(),
            1,
            "of {applied:?}"
        );
        assert_eq!(fx.ledger(&held.id).await.len(), 1);
        fx.store.cancel(&held.id).await.ok();
    }
}

/// Copies of one claim, sent at once, lock no more than one would. Which of the
/// equals they lock may depend on what another copy holds for a moment.
async fn copies_of_a_claim_that_race_answer_the_same_jobs(fx: Fixture) {
    for _ in 0..5 {
        let came = fx.enqueue_all(jobs(6)).await;
        let request = request(3);
        let claimed = fx
            .race(4, |fx, _| {
                let request = request.clone();
                async move { ids_of(&fx.claim_with(request).await.jobs) }
            })
            .await;
        let first = &claimed[0];
        assert_eq!(first.len(), 3);
        assert!(first.iter().all(|id| came.contains(id)), "got {first:?}");
        for ids in &claimed {
            assert_eq!(ids, first);
        }
        fx.expect_count(JobState::Active, 3).await;
        for id in came {
            fx.store.cancel(&id).await.must();
        }
        fx.stall(3).await;
    }
}

/// Claims, acks of every kind, releases, cancels and recoveries at once, until
/// every job has ended; then every number adds up.
async fn a_storm_of_everything_leaves_exact_counts(fx: Fixture) {
    const JOBS: usize = 300;
    let ids = fx.enqueue_all(jobs(JOBS)).await;
    let second = fx.second().await;
    let victims = ids.clone();
    fx.race(12, |fx, number| {
        let handle = if number % 2 == 0 { fx } else { second.clone() };
        let victims = victims.clone();
        async move {
            if number == 0 {
                for id in victims.iter().step_by(9) {
                    handle.store.cancel(id).await.ok();
                }
            }
            for round in 0_usize.. {
                let locks = handle.claim_locks(request(7)).await;
                if locks.is_empty() && round > 20 {
                    return;
                }
                for (place, lock) in locks.iter().enumerate() {
                    match (round + place + number) % 7 {
                        0 => settled(handle.store.release(lock.clone()).await),
                        1 => settled(handle.store.ack(ack(lock, retry_in(0))).await),
                        2 => settled(handle.store.ack(ack(lock, snooze_for(0))).await),
                        3 => settled(handle.store.ack(ack(lock, fail())).await),
                        4 => handle.advance(LOCK / 50),
                        _ => settled(handle.store.ack(ack(lock, complete())).await),
                    }
                }
                handle.store.recover_stalled(1_000, 50).await.must();
            }
        }
    })
    .await;
    loop {
        fx.stall(1_000).await;
        let locks = fx.claim_locks(request(250)).await;
        if locks.is_empty() {
            break;
        }
        for lock in locks {
            fx.ack(&lock, complete()).await;
        }
    }
    let counts = fx.counts().await;
    let ended = counts.completed + counts.failed + counts.cancelled;
    assert_eq!(
        (counts.total(), ended),
        (JOBS as u64, JOBS as u64),
        "{counts:?}"
    );
    let mut found = StateCounts::default();
    for answer in fx.store.get_jobs(&ids).await.must() {
        let record = answer.must().expect("it exists");
        *found.of_mut(record.state) += 1;
        let ledger = fx.ledger(&record.id).await;
        let numbers: Vec<_> = ledger.iter().map(|entry| entry.attempt).collect();
        let expected: Vec<_> = (1..=record.attempts_recorded).collect();
        assert_eq!(numbers, expected, "the ledger of {:?}", record.id);
        let stalls = ledger
            .iter()
            .filter(|it| it.outcome == AttemptOutcome::Stalled)
            .count();
        assert_eq!(
            record.stalled_count as usize, stalls,
            "stalls of {:?}",
            record.id
        );
    }
    assert_eq!(found, counts);
}

/// An answer that a worker may get when others act on the same job.
#[track_caller]
fn settled<T>(answer: Result<T>) {
    match answer {
        Ok(_) | Err(StoreError::LockLost { .. }) => {}
        Err(error) => panic!("expected success or a lost lock, got {error}"),
    }
}
