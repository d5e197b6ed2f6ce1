//! The server is killed and comes back: what was answered stays true, and
//! handles find the server again by themselves.

use std::future::Future;
use std::time::Duration;

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{LOCK, Make, complete, fail, job, jobs, ms, request, retry_in};
use crate::contract::steps::ids;
use crate::id::QueueName;
use crate::record::{Dedupe, JobState};
use crate::store::{Change, QueueSettings, Result};

cases! { __contract_run_restart, run::restart:
    jobs_in_every_state_survive_a_restart needs Restart,
    a_lock_survives_a_restart needs Restart,
    a_claim_is_repeated_after_a_restart needs Restart,
    an_ack_is_repeated_after_a_restart needs Restart,
    settings_and_dedupe_keys_survive_a_restart needs Restart,
    a_wait_for_work_ends_with_a_restart needs Restart,
    a_wait_for_an_end_ends_with_a_restart needs Restart,
}

/// Calls until the server is found again; only an outage is a reason to.
async fn again<T, F>(fx: &Fixture, call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T>>,
{
    let answered = async {
        loop {
            match call().await {
                Err(error) if error.is_transient() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return answer.must(),
            }
        }
    };
    fx.within("an answer after the restart", answered).await
}

/// Record and ledger are the same, whatever the state.
async fn jobs_in_every_state_survive_a_restart(fx: Fixture) {
    let retried = fx.finish(job().name("retried"), retry_in(5_000)).await;
    let mut jobs = vec![
        retried,
        fx.finish(job(), complete()).await,
        fx.finish(job(), fail()).await,
        fx.job_in(JobState::Cancelled).await,
        fx.job_in(JobState::Active).await,
        fx.enqueue(job().payload(r#"{"n": 12345678901234567890}"#))
            .await,
        fx.enqueue(job().delay(1_000).label("a", "b")).await,
    ];
    jobs.sort();
    let before = fx.store.get_jobs(&jobs).await.must();
    let counts = fx.counts().await;
    fx.restart().await;
    let after = again(&fx, || fx.store.get_jobs(&jobs)).await;
    for (before, after) in before.into_iter().zip(after) {
        let (before, after) = (before.must(), after.must());
        assert!(before.is_some());
        assert_eq!(after, before);
    }
    assert_eq!(fx.counts().await, counts);
    assert_eq!(
        fx.ledger(&jobs[0]).await.len(),
        fx.job(&jobs[0]).await.attempts_recorded as usize
    );
}

/// The holder's ack lands; nobody else gets the job before the lock expires.
async fn a_lock_survives_a_restart(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.restart().await;
    assert_eq!(again(&fx, || fx.store.claim(request(1))).await.jobs, []);
    fx.advance(LOCK - 1);
    assert_eq!(fx.store.recover_stalled(3, 10).await.must().stalled, []);
    fx.ack(&lock, complete()).await;
    assert_eq!(fx.state(&lock.id).await, JobState::Completed);
}

/// The token still names what the claim locked.
async fn a_claim_is_repeated_after_a_restart(fx: Fixture) {
    fx.enqueue_all(jobs(3)).await;
    let request = request(2);
    let first = fx.claim_with(request.clone()).await.jobs;
    fx.restart().await;
    let repeated = again(&fx, || fx.store.claim(request.clone())).await.jobs;
    assert_eq!(ids(&repeated), ids(&first));
    fx.expect_count(JobState::Waiting, 1).await;
}

/// A worker that does not know whether its ack landed asks again.
async fn an_ack_is_repeated_after_a_restart(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.ack(&lock, complete()).await;
    fx.restart().await;
    let acked = again(&fx, || {
        fx.store.ack(crate::contract::make::ack(&lock, complete()))
    })
    .await;
    assert!(!acked.applied, "the first ack had landed");
    assert_eq!(fx.ledger(&lock.id).await.len(), 1);
}

/// A paused queue stays paused, and a key held.
async fn settings_and_dedupe_keys_survive_a_restart(fx: Fixture) {
    fx.set_queue(QueueSettings {
        paused: Change::Set(true),
        ..QueueSettings::default()
    })
    .await;
    let throttled = job().dedupe(Dedupe::key("key").ttl(ms(60_000)));
    let standing = fx.enqueue(throttled.clone()).await;
    fx.restart().await;
    let answer = again(&fx, || fx.store.enqueue(throttled.clone())).await;
    assert_eq!((answer.duplicate, answer.id), (true, standing));
    assert_eq!(fx.claim_ids(1).await.len(), 0, "the queue is paused");
}

/// Wake-ups may have been missed, so the worker is sent to look.
async fn a_wait_for_work_ends_with_a_restart(fx: Fixture) {
    let wake = fx.wake_cursor().await;
    let waiter = fx.clone();
    let waiting = tokio::spawn(async move {
        let queues = [QueueName::from("queue")];
        waiter.store.await_wake(&queues, wake).await
    });
    fx.restart().await;
    let woken = fx.within("the wait to end", waiting).await;
    if let Ok(Err(error)) = woken {
        assert!(error.is_transient(), "got {error}");
    }
    let wake = again(&fx, || fx.store.claim(request(1))).await.wake;
    fx.enqueue(job()).await;
    let queues = [QueueName::from("queue")];
    fx.within(
        "a wake-up after the restart",
        fx.store.await_wake(&queues, wake),
    )
    .await
    .must();
}

/// Whoever waits for a job's end is sent to look too.
async fn a_wait_for_an_end_ends_with_a_restart(fx: Fixture) {
    let watched = fx.enqueue_all(jobs(1)).await;
    let watch = fx.store.watch(&watched).await.must();
    let (waiter, ids) = (fx.clone(), watched.clone());
    let waiting =
        tokio::spawn(async move { waiter.store.await_finished(&ids, watch.cursor).await });
    fx.restart().await;
    let ended = fx.within("the wait to end", waiting).await;
    if let Ok(Err(error)) = ended {
        assert!(error.is_transient(), "got {error}");
    }
    let watch = again(&fx, || fx.store.watch(&watched)).await;
    assert!(watch.finished.is_empty(), "got {:?}", watch.finished);
    let lock = fx.claim_one().await;
    fx.ack(&lock, complete()).await;
    fx.within(
        "the end of the job",
        fx.store.await_finished(&watched, watch.cursor),
    )
    .await
    .must();
}
