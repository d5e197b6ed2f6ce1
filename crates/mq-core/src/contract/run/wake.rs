//! Wake-ups: what an idle worker is told of.

use std::future::Future;

use futures::future::poll_immediate;

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{
    LOCK, Make, QUEUE, complete, fail, job, jobs, ms, retry_in, snooze_for,
};
use crate::id::QueueName;
use crate::record::{Cadence, Dedupe, JobState, NewSchedule, Rate};
use crate::store::{AckOutcome, Change, QueueSettings, Tick, WakeCursor};

cases! { __contract_run_wake, run::wake:
    a_new_job_wakes,
    a_new_delayed_job_wakes,
    a_keyed_job_wakes,
    a_replacement_that_runs_sooner_wakes,
    a_batch_wakes_each_of_its_queues,
    a_retried_run_wakes,
    a_run_that_was_put_off_wakes,
    a_released_job_wakes,
    a_recovered_job_wakes,
    a_job_retried_by_hand_wakes,
    a_promoted_job_wakes,
    a_slots_job_wakes,
    a_resumed_queue_wakes,
    a_raised_or_cleared_limit_wakes,
    a_new_or_cleared_rate_wakes,
    a_slot_that_becomes_free_wakes,
}

pub(super) fn queue() -> [QueueName; 1] {
    [QUEUE.into()]
}

/// Waits for a wake-up of the usual queue.
pub(super) async fn woken(fx: &Fixture, wake: WakeCursor, what: &str) {
    let what = format!("a wake-up after {what}");
    fx.within(&what, fx.store.await_wake(&queue(), wake))
        .await
        .must();
}

/// Checks that an action wakes whoever waits for the usual queue, and whoever
/// begins to wait afterwards from a claim before it.
pub(in crate::contract) async fn wakes<T>(
    fx: &Fixture,
    what: &str,
    action: impl Future<Output = T>,
) -> T {
    let wake = fx.wake_cursor().await;
    let queues = queue();
    let mut waiting = fx.store.await_wake(&queues, wake);
    let parked = poll_immediate(&mut waiting).await.is_none();
    let answer = action.await;
    if parked {
        let event = format!("a wake-up by {what}");
        fx.within(&event, waiting).await.must();
    }
    woken(fx, wake, what).await;
    answer
}

/// The plainest reason.
async fn a_new_job_wakes(fx: Fixture) {
    wakes(&fx, "a new job", fx.enqueue(job())).await;
}

/// A worker must learn of a new earliest run time.
async fn a_new_delayed_job_wakes(fx: Fixture) {
    fx.enqueue(job().delay(1_000)).await;
    wakes(&fx, "a job that runs sooner", fx.enqueue(job().delay(10))).await;
}

/// A job with a dedupe key is a job like any other.
async fn a_keyed_job_wakes(fx: Fixture) {
    wakes(&fx, "a new keyed job", fx.enqueue(job().key("key"))).await;
}

/// Even if it is an old job's run time that became earlier.
async fn a_replacement_that_runs_sooner_wakes(fx: Fixture) {
    let latest = || job().dedupe(Dedupe::key("key").replace());
    let id = fx.enqueue(latest().delay(1_000)).await;
    let sooner = fx.duplicate_of(&id, latest().delay(10));
    wakes(&fx, "a replacement", sooner).await;
}

/// Each queue that got a job, not just that of the first.
async fn a_batch_wakes_each_of_its_queues(fx: Fixture) {
    let queues = ["a", "b", "c"];
    let wake = fx.wake_cursor().await;
    fx.enqueue_all(queues.map(|queue| job().queue(queue)).to_vec())
        .await;
    for queue in queues {
        let event = format!("a wake-up of queue {queue}");
        let waiting = [queue.into()];
        fx.within(&event, fx.store.await_wake(&waiting, wake))
            .await
            .must();
    }
}

/// A retry without delay can run at once, perhaps elsewhere.
async fn a_retried_run_wakes(fx: Fixture) {
    let held = fx.start(job()).await;
    wakes(&fx, "a retry", fx.ack(&held, retry_in(0))).await;
}

/// A delay that an ack asks for may be the earliest of all.
async fn a_run_that_was_put_off_wakes(fx: Fixture) {
    let held = fx.start(job().name("a")).await;
    wakes(&fx, "a delayed retry", fx.ack(&held, retry_in(10))).await;
    let held = fx.start(job().name("b")).await;
    wakes(&fx, "a snooze", fx.ack(&held, snooze_for(10))).await;
    let held = fx.start(job().name("c")).await;
    wakes(&fx, "a snooze of no length", fx.ack(&held, snooze_for(0))).await;
}

/// Another worker may take over at once.
async fn a_released_job_wakes(fx: Fixture) {
    let held = fx.start(job()).await;
    wakes(&fx, "a release", fx.store.release(held)).await.must();
}

/// So it may when the first has died.
async fn a_recovered_job_wakes(fx: Fixture) {
    fx.start(job()).await;
    fx.advance(LOCK);
    let recovered = wakes(&fx, "a recovery", fx.store.recover_stalled(3, 10))
        .await
        .must();
    assert_eq!(recovered.stalled.len(), 1);
}

/// An operator's retry runs at once.
async fn a_job_retried_by_hand_wakes(fx: Fixture) {
    let id = fx.job_in(JobState::Failed).await;
    wakes(&fx, "a retry by hand", fx.store.retry(&id))
        .await
        .must();
}

/// So does a promoted job.
async fn a_promoted_job_wakes(fx: Fixture) {
    let id = fx.job_in(JobState::Delayed).await;
    wakes(&fx, "a promotion", fx.store.promote(&id))
        .await
        .must();
}

/// What a schedule enqueues is no different.
async fn a_slots_job_wakes(fx: Fixture) {
    let schedule = NewSchedule {
        key: "key".into(),
        cadence: Cadence::Every(ms(60_000)),
        spec: job().spec,
        group: None,
        next_run_at: fx.now(),
    };
    let stored = fx.store.upsert_schedule(schedule).await.must();
    let tick = Tick {
        key: stored.key,
        version: stored.version,
        expected: stored.next_run_at,
        next: fx.later(60_000),
        job: Some(job().id("a slot's")),
    };
    let inserted = wakes(&fx, "a tick", fx.store.tick_schedule(tick))
        .await
        .must();
    assert!(inserted, "the slot's job is inserted");
}

fn paused(paused: Change<bool>) -> QueueSettings {
    QueueSettings {
        paused,
        ..QueueSettings::default()
    }
}

fn at_most(max_active: Change<u32>) -> QueueSettings {
    QueueSettings {
        max_active,
        ..QueueSettings::default()
    }
}

fn at_rate(rate: Change<Rate>) -> QueueSettings {
    QueueSettings {
        rate,
        ..QueueSettings::default()
    }
}

/// By either way of resuming.
async fn a_resumed_queue_wakes(fx: Fixture) {
    fx.enqueue(job()).await;
    for resumed in [Change::Set(false), Change::Clear] {
        fx.set_queue(paused(Change::Set(true))).await;
        wakes(&fx, "a resumption", fx.set_queue(paused(resumed))).await;
    }
}

/// More may run than before.
async fn a_raised_or_cleared_limit_wakes(fx: Fixture) {
    fx.enqueue_all(jobs(3)).await;
    fx.set_queue(at_most(Change::Set(1))).await;
    fx.claim_one().await;
    wakes(&fx, "a raised limit", fx.set_queue(at_most(Change::Set(2)))).await;
    fx.claim_one().await;
    wakes(&fx, "a cleared limit", fx.set_queue(at_most(Change::Clear))).await;
}

/// Sooner than before.
async fn a_new_or_cleared_rate_wakes(fx: Fixture) {
    let rate = |count| {
        Change::Set(Rate {
            count,
            per: ms(60_000),
        })
    };
    fx.enqueue_all(jobs(30)).await;
    fx.set_queue(at_rate(rate(1))).await;
    fx.claim(250).await;
    wakes(&fx, "a higher rate", fx.set_queue(at_rate(rate(100)))).await;
    fx.claim(250).await;
    wakes(&fx, "a cleared rate", fx.set_queue(at_rate(Change::Clear))).await;
}

/// With a limit on active jobs, whatever frees a slot wakes the queue.
async fn a_slot_that_becomes_free_wakes(fx: Fixture) {
    fx.set_queue(at_most(Change::Set(1))).await;
    for (what, outcome) in [
        ("a completion", complete()),
        ("a failure", fail()),
        ("a cancellation", AckOutcome::Cancelled),
    ] {
        let held = fx.start(job()).await;
        wakes(&fx, what, fx.ack(&held, outcome)).await;
    }
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    wakes(&fx, "a release that cancels", fx.store.release(held))
        .await
        .must();
    fx.start(job()).await;
    fx.advance(LOCK);
    wakes(&fx, "a stall that fails", fx.store.recover_stalled(0, 10))
        .await
        .must();
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    fx.advance(LOCK);
    wakes(&fx, "a stall that cancels", fx.store.recover_stalled(9, 10))
        .await
        .must();
}
