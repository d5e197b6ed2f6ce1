//! Sweep: retention of jobs after which no other ends.

use std::time::Duration;

use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, ack, complete, fail, job, ms, request, retry_in};
use crate::contract::{Fixture, StoreOptions};
use crate::id::JobId;
use crate::record::{Dedupe, HistoryCeiling, JobState, Keep, NewJob, Retention};
use crate::store::{AckOutcome, Swept};

cases! { __contract_admin_sweep, admin::sweep:
    a_sweep_of_nothing_does_nothing,
    an_age_is_over_at_its_millisecond,
    without_an_age_or_a_ceiling_jobs_stay,
    each_state_goes_by_its_own_age,
    the_ceiling_goes_for_jobs_without_a_policy with a_second,
    the_ceiling_cuts_a_longer_age with a_second,
    the_ceiling_leaves_a_shorter_age with a_second,
    the_ceiling_of_each_state_is_its_own with only_failed,
    a_ceiling_of_zero_keeps_nothing with nothing,
    a_sweep_takes_the_ledger_along,
    a_sweep_takes_no_more_than_its_limit_and_says_whether_more_remain,
    a_sweep_takes_at_most_250,
    a_repeated_sweep_finds_nothing_more,
    a_job_watched_after_its_end_is_spared_too with nothing,
    a_job_watched_long_after_its_end_is_not_spared with nothing,
    unfinished_jobs_are_not_swept with nothing,
    a_retried_job_is_not_swept_for_its_former_end,
    a_job_enqueued_again_under_its_old_id_is_not_swept,
    a_live_window_is_not_swept,
    a_dead_entry_may_be_swept_and_a_newer_jobs_is_not,
    a_sweep_that_races_a_new_job_of_the_same_id_never_takes_it,
    sweeps_that_race_delete_each_job_once,
    a_sweep_of_no_jobs_is_refused,
}

fn young(millis: u64) -> NewJob {
    job().keep(Keep::all(Retention::age(ms(millis))))
}

async fn sweep(fx: &Fixture) -> Swept {
    fx.store.sweep_history(250).await.must()
}

/// Sweeps until nothing more is to be swept, and answers how many jobs went.
async fn sweep_all(fx: &Fixture) -> u64 {
    let mut deleted = 0;
    loop {
        let swept = sweep(fx).await;
        deleted += swept.deleted;
        if !swept.more {
            return deleted;
        }
    }
}

/// An empty store is swept.
async fn a_sweep_of_nothing_does_nothing(fx: Fixture) {
    assert_eq!(
        sweep(&fx).await,
        Swept {
            deleted: 0,
            more: false
        }
    );
}

/// Counted from the end of the job.
async fn an_age_is_over_at_its_millisecond(fx: Fixture) {
    let held = fx.start(young(10)).await;
    fx.advance(100);
    fx.ack(&held, complete()).await;
    fx.advance(9);
    assert_eq!(sweep_all(&fx).await, 0);
    assert_eq!(fx.state(&held.id).await, JobState::Completed);
    fx.advance(1);
    assert_eq!(sweep_all(&fx).await, 1);
    assert_eq!(fx.find(&held.id).await, None);
}

/// For ever.
async fn without_an_age_or_a_ceiling_jobs_stay(fx: Fixture) {
    let counted = job().keep(Keep::all(Retention::count(5)));
    for new in [job(), counted] {
        fx.finish(new, complete()).await;
    }
    fx.advance(1_000_000_000_000);
    assert_eq!(sweep_all(&fx).await, 0);
    fx.expect_count(JobState::Completed, 2).await;
}

/// The one for the state it ended in.
async fn each_state_goes_by_its_own_age(fx: Fixture) {
    let policy = Keep {
        completed: Some(Retention::age(ms(10))),
        failed: Some(Retention::age(ms(20))),
        cancelled: None,
    };
    let mut ids = Vec::new();
    for outcome in [complete(), fail(), AckOutcome::Cancelled] {
        ids.push(fx.finish(job().keep(policy), outcome).await);
    }
    for (passes, left) in [(10, [false, true, true]), (10, [false, false, true])] {
        fx.advance(passes);
        assert_eq!(sweep_all(&fx).await, 1);
        let there: Vec<_> = fx.states(&ids).await.iter().map(Option::is_some).collect();
        assert_eq!(there, left);
    }
}

fn a_second(options: StoreOptions) -> StoreOptions {
    options.history_ceiling(HistoryCeiling::all(ms(1_000)))
}

/// What names no age of its own goes by the store's.
async fn the_ceiling_goes_for_jobs_without_a_policy(fx: Fixture) {
    let counted = job().name("counted").keep(Keep::all(Retention::count(5)));
    let ids = [
        fx.finish(job(), complete()).await,
        fx.finish(job(), fail()).await,
        fx.job_in(JobState::Cancelled).await,
        fx.finish(counted, complete()).await,
    ];
    fx.advance(999);
    assert_eq!(sweep_all(&fx).await, 0);
    fx.advance(1);
    assert_eq!(sweep_all(&fx).await, 4);
    assert_eq!(fx.states(&ids).await, [None; 4]);
}

/// No job is kept longer than the store says.
async fn the_ceiling_cuts_a_longer_age(fx: Fixture) {
    fx.finish(young(1_000_000), complete()).await;
    fx.advance(999);
    assert_eq!(sweep_all(&fx).await, 0);
    fx.advance(1);
    assert_eq!(sweep_all(&fx).await, 1);
}

/// The ceiling is no floor.
async fn the_ceiling_leaves_a_shorter_age(fx: Fixture) {
    fx.finish(young(10), complete()).await;
    fx.advance(10);
    assert_eq!(sweep_all(&fx).await, 1);
}

fn only_failed(options: StoreOptions) -> StoreOptions {
    let ceiling = HistoryCeiling::new(None, Some(ms(10)), None).expect("it names a state");
    options.history_ceiling(ceiling)
}

/// States that it does not name have none.
async fn the_ceiling_of_each_state_is_its_own(fx: Fixture) {
    let completed = fx.finish(job(), complete()).await;
    let failed = fx.finish(job(), fail()).await;
    let cancelled = fx.job_in(JobState::Cancelled).await;
    fx.advance(1_000_000);
    assert_eq!(sweep_all(&fx).await, 1);
    use JobState::{Cancelled, Completed};
    let expected = [Some(Completed), None, Some(Cancelled)];
    assert_eq!(fx.states(&[completed, failed, cancelled]).await, expected);
}

fn nothing(options: StoreOptions) -> StoreOptions {
    options.history_ceiling(HistoryCeiling::all(Duration::ZERO))
}

/// Zero is an age that is reached at once; by the next sweep.
async fn a_ceiling_of_zero_keeps_nothing(fx: Fixture) {
    let id = fx.finish(job(), complete()).await;
    assert_eq!(sweep_all(&fx).await, 1);
    assert_eq!(fx.find(&id).await, None);
}

/// Nothing of a swept job stays behind.
async fn a_sweep_takes_the_ledger_along(fx: Fixture) {
    let id = fx.finish(young(1).id("a"), retry_in(0)).await;
    let held = fx.claim_one().await;
    fx.ack(&held, fail()).await;
    assert_eq!(fx.ledger(&id).await.len(), 2);
    fx.advance(1);
    sweep_all(&fx).await;
    assert_eq!(fx.ledger(&id).await, []);
    assert_eq!(fx.store.queues().await.must(), []);
    fx.finish(job().id("a"), complete()).await;
    assert_eq!(fx.ledger(&id).await[0].attempt, 1);
}

/// So many jobs that a second of age is over for.
async fn overdue(fx: &Fixture, count: usize) -> Vec<JobId> {
    let ids = fx.enqueue_all(vec![young(1_000); count]).await;
    let mut locks = Vec::new();
    while locks.len() < count {
        locks.extend(fx.claim_locks(request(250)).await);
    }
    let batch = locks.iter().map(|lock| ack(lock, complete())).collect();
    fx.store.ack_many(batch).await.must();
    fx.advance(1_000);
    ids
}

/// Pages of the size that was asked for, until none is left.
async fn a_sweep_takes_no_more_than_its_limit_and_says_whether_more_remain(fx: Fixture) {
    overdue(&fx, 5).await;
    for expected in [
        Swept {
            deleted: 2,
            more: true,
        },
        Swept {
            deleted: 2,
            more: true,
        },
        Swept {
            deleted: 1,
            more: false,
        },
    ] {
        assert_eq!(fx.store.sweep_history(2).await.must(), expected);
    }
}

/// A larger limit is clamped.
async fn a_sweep_takes_at_most_250(fx: Fixture) {
    overdue(&fx, 251).await;
    let swept = fx.store.sweep_history(u32::MAX).await.must();
    assert_eq!(
        swept,
        Swept {
            deleted: 250,
            more: true
        }
    );
    assert_eq!(sweep_all(&fx).await, 1);
}

/// A sweep whose answer was lost is followed by one that finds the rest.
async fn a_repeated_sweep_finds_nothing_more(fx: Fixture) {
    overdue(&fx, 3).await;
    sweep_all(&fx).await;
    assert_eq!(sweep(&fx).await, Swept::default());
}

/// No age is counted before the end.
async fn unfinished_jobs_are_not_swept(fx: Fixture) {
    let ids = [
        fx.start(young(0)).await.id,
        fx.enqueue(young(0)).await,
        fx.enqueue(young(0).delay(10)).await,
    ];
    fx.advance(1_000);
    assert_eq!(sweep_all(&fx).await, 0);
    use JobState::{Active, Delayed, Waiting};
    assert_eq!(fx.states(&ids).await, [Active, Waiting, Delayed].map(Some));
}

/// A retry takes the old age away; the new end begins another.
async fn a_retried_job_is_not_swept_for_its_former_end(fx: Fixture) {
    let id = fx.finish(young(10), fail()).await;
    fx.advance(5);
    fx.store.retry(&id).await.must();
    fx.advance(5);
    assert_eq!(sweep_all(&fx).await, 0);
    assert_eq!(fx.state(&id).await, JobState::Waiting);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    fx.advance(9);
    assert_eq!(sweep_all(&fx).await, 0);
    fx.advance(1);
    assert_eq!(sweep_all(&fx).await, 1);
}

/// Nothing that is left of a removed job applies to its successor.
async fn a_job_enqueued_again_under_its_old_id_is_not_swept(fx: Fixture) {
    let id = fx.finish(young(10).id("a"), complete()).await;
    assert!(fx.store.remove(&id).await.must());
    fx.finish(job().id("a"), complete()).await;
    fx.advance(10);
    assert_eq!(sweep_all(&fx).await, 0);
    assert_eq!(fx.state(&id).await, JobState::Completed);
}

/// A window that is open holds, though its job was swept.
async fn a_live_window_is_not_swept(fx: Fixture) {
    let windowed = || young(1).dedupe(Dedupe::key("key").ttl(ms(100)));
    let id = fx.finish(windowed(), complete()).await;
    fx.advance(99);
    assert_eq!(sweep_all(&fx).await, 1);
    fx.duplicate_of(&id, windowed()).await;
    fx.advance(1);
    sweep_all(&fx).await;
    fx.enqueue(windowed()).await;
}

/// Whether dead entries were swept or not, the next job gets the key, and one
/// that holds it keeps it.
async fn a_dead_entry_may_be_swept_and_a_newer_jobs_is_not(fx: Fixture) {
    let old = fx.finish(young(10).key("key"), complete()).await;
    let new = fx.enqueue(job().key("key")).await;
    fx.advance(10);
    assert_eq!(sweep_all(&fx).await, 1);
    assert_eq!(fx.find(&old).await, None);
    fx.duplicate_of(&new, job().key("key")).await;
    fx.store.cancel(&new).await.must();
    sweep_all(&fx).await;
    fx.enqueue(job().key("key")).await;
}

/// An id that the sweep frees is taken by a job that stays.
async fn a_sweep_that_races_a_new_job_of_the_same_id_never_takes_it(fx: Fixture) {
    for round in 0..10 {
        let id = JobId::from(format!("id-{round}"));
        fx.finish(young(10).id(&id), complete()).await;
        fx.advance(10);
        let again = job().id(&id).delay(1_000_000);
        fx.race(2, |fx, number| {
            let again = again.clone();
            async move {
                if number == 0 {
                    sweep_all(&fx).await;
                    return;
                }
                while fx.store.enqueue(again.clone()).await.must().duplicate {
                    tokio::task::yield_now().await;
                }
            }
        })
        .await;
        sweep_all(&fx).await;
        assert_eq!(fx.state(&id).await, JobState::Delayed);
    }
}

/// Several workers sweep, and the numbers add up.
async fn sweeps_that_race_delete_each_job_once(fx: Fixture) {
    overdue(&fx, 200).await;
    let second = fx.second().await;
    let deleted = fx
        .race(4, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move {
                let mut deleted = 0;
                loop {
                    let swept = handle.store.sweep_history(20).await.must();
                    deleted += swept.deleted;
                    if !swept.more {
                        return deleted;
                    }
                }
            }
        })
        .await;
    assert_eq!(deleted.iter().sum::<u64>(), 200, "deleted {deleted:?}");
    assert_eq!(fx.counts().await.total(), 0);
}

/// A limit of zero is refused and sweeps nothing.
async fn a_sweep_of_no_jobs_is_refused(fx: Fixture) {
    overdue(&fx, 1).await;
    expect_refused(fx.store.sweep_history(0).await, "limit");
    fx.expect_count(JobState::Completed, 1).await;
}

/// For what is left of the minute from its end.
async fn a_job_watched_after_its_end_is_spared_too(fx: Fixture) {
    let ids = [fx.finish(job(), complete()).await];
    fx.advance(59_999);
    assert_eq!(fx.store.watch(&ids).await.must().finished, ids);
    fx.store.sweep_history(250).await.must();
    assert_eq!(fx.states(&ids).await, [Some(JobState::Completed)]);
    fx.advance(1);
    fx.store.sweep_history(250).await.must();
    assert_eq!(fx.states(&ids).await, [None]);
}

/// The minute is over.
async fn a_job_watched_long_after_its_end_is_not_spared(fx: Fixture) {
    let ids = [fx.finish(job(), complete()).await];
    fx.advance(60_001);
    assert_eq!(fx.store.watch(&ids).await.must().finished, ids);
    fx.store.sweep_history(250).await.must();
    assert_eq!(fx.states(&ids).await, [None]);
}
