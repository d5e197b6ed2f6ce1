//! Handlers that complete their jobs themselves, as they do inside a database
//! transaction of their own: the worker finds their runs settled.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use mq_core::{Ack, AckOutcome, AttemptOutcome, JobState, MemoryStore, RawJson, RunOps};
use mq_worker::{FailedRun, JobContext, SettledRun, Worker};
use support::logs::Logs;
use support::*;
use tokio::sync::{Notify, mpsc};

/// What a handler's transaction does when it commits.
async fn complete(store: &MemoryStore, ctx: &JobContext, value: &str) {
    let ack = Ack {
        lock: ctx.lock().clone(),
        outcome: AckOutcome::Complete {
            exit: Some(RawJson::parse(value).unwrap()),
        },
    };
    assert!(store.ack(ack).await.unwrap().applied);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_its_handler_has_settled_counts_once_and_is_no_failure() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let store = fixture.plain().clone();
    let (hooked, mut landed) = mpsc::unbounded_channel();
    let (told, mut failures) = mpsc::unbounded_channel::<FailedRun>();
    let worker = Worker::builder(fixture.handle.clone())
        .after_ack(move |settled: &SettledRun<'_>| {
            let completes = matches!(settled.outcome, AckOutcome::Complete { .. });
            hooked.send((completes, settled.acked.applied)).unwrap();
        })
        .on_failure(move |failed| {
            told.send(failed).unwrap();
            async {}
        })
        .register(move |job: Fragile, ctx: JobContext| {
            let store = store.clone();
            async move {
                complete(&store, &ctx, r#"{"ok":7}"#).await;
                match job.number {
                    0 => Ok(7),
                    // The answer to its commit was lost, say.
                    1 => Err(Broken::Mendable(1).into()),
                    _ => panic!("after the commit"),
                }
            }
        })
        .start()
        .await
        .unwrap();
    for number in 0..3 {
        let id = fixture.enqueue(&Fragile { number }).await;
        assert_eq!(landed.recv().await, Some((true, false)), "{number}");
        let job = fixture.job(&id).await;
        assert_eq!(
            (job.state, exit(&job)),
            (JobState::Completed, r#"{"ok":7}"#)
        );
        assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    }
    let stats = worker.stats();
    assert_eq!((stats.completed, stats.ends()), (3, 3));
    assert_eq!((stats.locks_lost, stats.refused), (0, 0));
    assert_eq!(failures.try_recv().ok(), None);
    let warned = [logs.with("WARN"), logs.with("ERROR")].concat();
    assert_eq!(warned, [""; 0]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_after_it_was_settled_has_lost_no_lock() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let store = fixture.plain().clone();
    let (settled, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, may_end) = (Arc::clone(&settled), Arc::clone(&goes_on));
    let worker = fixture
        .worker()
        .register(move |job: Work, ctx: JobContext| {
            let (store, told) = (store.clone(), Arc::clone(&told));
            let may_end = Arc::clone(&may_end);
            async move {
                complete(&store, &ctx, r#"{"ok":1}"#).await;
                told.notify_one();
                may_end.notified().await;
                assert_eq!(ctx.stop_reason(), None);
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 1 }).await;
    settled.notified().await;
    let beats = fixture.faults.calls(Operation::ExtendLocks);
    fixture
        .faults
        .called(Operation::ExtendLocks, beats + 1)
        .await;
    settle().await;
    // What is settled is not extended again.
    tokio::time::sleep(secs(60)).await;
    assert_eq!(fixture.faults.calls(Operation::ExtendLocks), beats + 1);
    goes_on.notify_one();
    let report = worker.shutdown().await;
    assert_eq!((report.ended, worker_lost(&logs)), (1, 0));
}

fn worker_lost(logs: &Logs) -> usize {
    logs.with("the lock is lost").len()
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_job_completed_under_another_lock_has_lost_its_own() {
    let fixture = fixture().await;
    let store = fixture.plain().clone();
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .default_concurrency(1)
        .register(move |_: Work, ctx: JobContext| {
            told.send(ctx.clone()).unwrap();
            async move {
                ctx.cancelled().await;
                Ok(0)
            }
        })
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 1 }).await;
    let ctx = heard.recv().await.unwrap();
    // Another worker takes the job over, and completes it.
    tokio::time::sleep(millis(5)).await;
    store.release(ctx.lock().clone()).await.unwrap();
    let claim = mq_core::ClaimRequest {
        queue: "default".into(),
        names: ["work".into()].into(),
        token: mq_core::LockToken::random(),
        lock_for: secs(30),
        limit: 1,
    };
    let token = claim.token.clone();
    assert_eq!(store.claim(claim).await.unwrap().jobs.len(), 1);
    let ack = Ack {
        lock: mq_core::Lock {
            id: ctx.id().clone(),
            token,
        },
        outcome: AckOutcome::Complete { exit: None },
    };
    store.ack(ack).await.unwrap();
    ctx.cancelled().await;
    assert_eq!(worker.stats().locks_lost, 1);
    worker.shutdown().await;
}
