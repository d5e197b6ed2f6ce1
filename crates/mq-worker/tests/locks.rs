//! Locks: kept while a run is under way, and what happens when one is lost.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AdminOps, AttemptOutcome, Change, JobState, Lock, QueueSettings, RunOps};
use mq_worker::{JobContext, OnLockLost, StopReason};
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Takes a running job's lock away, as if the worker had been silent for too
/// long, and keeps the job from being claimed again.
async fn steal(fixture: &Fixture, lock: &Lock) {
    let paused = QueueSettings {
        paused: Change::Set(true),
        ..QueueSettings::default()
    };
    fixture
        .plain()
        .set_queue(&"default".into(), paused)
        .await
        .unwrap();
    fixture.plain().release(lock.clone()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_longer_than_its_lock_keeps_it_by_heartbeats() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(3_600)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    // Every 10 s, as a third of the lock.
    let beats = fixture.faults.calls(Operation::ExtendLocks);
    assert!((359..=361).contains(&beats), "{beats}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_call_extends_all_locks_of_all_queues() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .default_concurrency(50)
        .register(|job: Work, ctx: JobContext| async move {
            ctx.cancelled().await;
            Ok(job.number)
        })
        .register(|job: Fragile, ctx: JobContext| async move {
            ctx.cancelled().await;
            Ok(job.number)
        })
        .shutdown_grace(secs(0))
        .start()
        .await
        .unwrap();
    for number in 0..40 {
        fixture.enqueue(&Work { number }).await;
        fixture.enqueue(&Fragile { number }).await;
    }
    fixture.faults.called(Operation::ExtendLocks, 1).await;
    assert_eq!(fixture.store.extended()[0].len(), 80);
    let report = worker.shutdown().await;
    assert_eq!(report.ended, 80);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cancels_the_run_it_belonged_to_and_no_other() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .cancel_grace(secs(2))
        .register(move |job: Work, ctx: JobContext| {
            let (told, guard) = (told.clone(), Dropped(drops.clone()));
            async move {
                told.send(ctx.clone()).unwrap();
                let _guard = guard;
                if job.number == 1 {
                    tokio::time::sleep(secs(100)).await;
                    return Ok(1);
                }
                std::future::pending().await
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let neighbour = fixture.enqueue(&Work { number: 1 }).await;
    let ctx = heard.recv().await.unwrap();
    heard.recv().await.unwrap();
    assert_eq!(ctx.id(), &id);
    steal(&fixture, ctx.lock()).await;
    assert_eq!(ctx.cancelled().await, StopReason::LockLost);
    let signalled = Instant::now();
    let grace = dropped.recv().await.unwrap() - signalled;
    assert!((2_000..=2_001).contains(&grace.as_millis()), "{grace:?}");
    assert_eq!(exit(&fixture.finished(&neighbour).await), r#"{"ok":1}"#);
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Waiting, 0));
    assert_eq!(worker.stats().locks_lost, 1);
    assert_eq!(worker.in_flight(), 0);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn told_so_a_run_without_its_lock_finishes_and_has_its_ack_refused() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (done, mut finished) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .on_lock_lost(OnLockLost::Finish)
        .register(move |job: Work, ctx: JobContext| {
            let (told, done) = (told.clone(), done.clone());
            async move {
                told.send(ctx.clone()).unwrap();
                tokio::time::sleep(secs(60)).await;
                done.send(ctx.stop_reason()).unwrap();
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let ctx = heard.recv().await.unwrap();
    steal(&fixture, ctx.lock()).await;
    assert_eq!(finished.recv().await, Some(None));
    fixture.faults.called(Operation::AckMany, 1).await;
    settle().await;
    let stats = worker.stats();
    assert_eq!((stats.locks_lost, stats.completed), (1, 0));
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty());
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.exit), (JobState::Waiting, None));
}

#[tokio::test(start_paused = true)]
async fn a_lock_found_lost_only_by_the_ack_is_counted() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |job: Work, ctx: JobContext| {
            told.send(ctx).unwrap();
            async move {
                tokio::time::sleep(secs(1)).await;
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    steal(&fixture, heard.recv().await.unwrap().lock()).await;
    fixture.faults.called(Operation::AckMany, 1).await;
    settle().await;
    assert_eq!(worker.stats().locks_lost, 1);
    assert_eq!(worker.stats().completed, 0);
    assert_eq!(fixture.job(&id).await.state, JobState::Waiting);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_progress_is_refused_learns_that_its_lock_is_lost() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (go, mut gone) = mpsc::unbounded_channel::<()>();
    let (answer, mut answered) = mpsc::unbounded_channel();
    let gone = std::sync::Arc::new(tokio::sync::Mutex::new(async move || gone.recv().await));
    let worker = fixture
        .worker()
        .heartbeat_interval(secs(29))
        .register(move |_job: Work, ctx: JobContext| {
            told.send(ctx.clone()).unwrap();
            let (answer, gone) = (answer.clone(), std::sync::Arc::clone(&gone));
            async move {
                (gone.lock().await)().await;
                let error = ctx.set_progress(&1).await.unwrap_err();
                answer.send((error, ctx.stop_reason())).unwrap();
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 0 }).await;
    steal(&fixture, heard.recv().await.unwrap().lock()).await;
    go.send(()).unwrap();
    let (error, reason) = answered.recv().await.unwrap();
    assert!(error.to_string().contains("the lock on job"), "{error}");
    assert_eq!(reason, Some(StopReason::LockLost));
    settle().await;
    assert_eq!(fixture.faults.calls(Operation::AckMany), 0);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_run_without_its_lock_does_no_harm_to_the_jobs_next_run_on_the_same_worker() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .on_lock_lost(OnLockLost::Finish)
        .register(move |_job: Work, ctx: JobContext| {
            told.send(ctx.clone()).unwrap();
            async move {
                tokio::time::sleep(secs(100)).await;
                assert_eq!(ctx.stop_reason(), None);
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let first = heard.recv().await.unwrap();
    tokio::time::sleep(secs(5)).await;
    fixture.plain().release(first.lock().clone()).await.unwrap();
    let second = heard.recv().await.unwrap();
    assert_ne!(first.lock(), second.lock());
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Completed, 1));
    assert_eq!(worker.stats().locks_lost, 1);
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    for locks in fixture.store.extended() {
        assert_eq!(locks.len(), 1, "no call may hold two locks of one job");
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn locks_whose_acks_are_on_their_way_are_extended_too() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::AckMany, [(); 100].map(|()| Fault::Before));
    let worker = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    // The tries took more than a whole lock.
    let took = job.finished_at.unwrap().since(job.enqueued_at);
    assert!(took > secs(40), "{took:?}");
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_fails_is_repeated_long_before_the_lock_expires() {
    let fixture = fixture().await;
    fixture.faults.script(
        Operation::ExtendLocks,
        [Fault::Before, Fault::Hang, Fault::Panic],
    );
    let worker = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(100)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn frequent_heartbeats_over_a_slow_store_still_bring_cancels() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .lock_duration(secs(30))
        .heartbeat_interval(millis(50))
        .register(|_job: Work, ctx: JobContext| async move {
            ctx.cancelled().await;
            Err(mq_core::Failure::new("called off").into())
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 1 }).await;
    fixture.in_state(&id, JobState::Active).await;
    let slow = vec![Fault::LateAnswer(millis(200)); 100];
    fixture.faults.script(Operation::ExtendLocks, slow);
    fixture.plain().cancel(&id).await.unwrap();
    let job = tokio::time::timeout(secs(10), fixture.finished(&id)).await;
    assert_eq!(job.unwrap().state, JobState::Cancelled);
    worker.shutdown().await;
}
