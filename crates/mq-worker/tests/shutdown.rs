//! How a worker ends.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::Mutex;

use mq_core::{AttemptOutcome, Failure, HandlerError, JobState};
use mq_worker::{FailedRun, JobContext, StopReason, Worker};
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn handlers_may_end_within_the_grace_and_are_acknowledged() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .shutdown_grace(secs(20))
        .register(|job: Work, ctx: JobContext| async move {
            tokio::time::sleep(secs(15)).await;
            assert_eq!(ctx.stop_reason(), None);
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 4 }).await;
    fixture.in_state(&id, JobState::Active).await;
    let begun = Instant::now();
    let report = worker.shutdown().await;
    assert_eq!((report.ended, report.released), (1, 0));
    assert_eq!(exit(&fixture.job(&id).await), r#"{"ok":4}"#);
    assert!(begun.elapsed() <= secs(15));
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_stops_at_once() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 4 }).await;
    fixture.finished(&id).await;
    let begun = Instant::now();
    let report = worker.shutdown().await;
    assert_eq!(begun.elapsed(), secs(0));
    assert_eq!((report.ended, report.released), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stopping_worker_takes_no_more_jobs_and_starts_none() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .default_concurrency(1)
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(10)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let running = fixture.enqueue(&Work { number: 0 }).await;
    let waiting = fixture.enqueue(&Work { number: 1 }).await;
    fixture.in_state(&running, JobState::Active).await;
    worker.shutdown().await;
    assert_eq!(fixture.job(&running).await.state, JobState::Completed);
    let job = fixture.job(&waiting).await;
    assert_eq!((job.state, job.processed_at), (JobState::Waiting, None));
}

#[tokio::test(start_paused = true)]
async fn jobs_claimed_but_not_started_are_released() {
    let fixture = fixture().await;
    let ids = [
        fixture.enqueue(&Work { number: 0 }).await,
        fixture.enqueue(&Work { number: 1 }).await,
    ];
    let faults = [Fault::After, Fault::LateAnswer(secs(3))];
    fixture.faults.script(Operation::Claim, faults);
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { panic!("it is too late to start") })
        .start()
        .await
        .unwrap();
    fixture.in_state(&ids[0], JobState::Active).await;
    let report = worker.shutdown().await;
    assert_eq!((report.ended, report.released), (0, 2));
    for id in &ids {
        let job = fixture.job(id).await;
        assert_eq!((job.state, job.attempts_made), (JobState::Waiting, 0));
        assert!(fixture.attempts(id).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_its_task_but_has_not_begun_is_released_too() {
    let fixture = fixture().await;
    let ids = [
        fixture.enqueue(&Work { number: 0 }).await,
        fixture.enqueue(&Work { number: 1 }).await,
    ];
    let slot: Arc<Mutex<Option<Worker>>> = Arc::default();
    let (stopping, mut stopped) = mpsc::unbounded_channel();
    let taken = Arc::clone(&slot);
    let worker = fixture
        .worker()
        .register(move |job: Work, _ctx: JobContext| {
            // The first of two that were claimed together begins the shutdown.
            let worker = taken.lock().unwrap().take().unwrap();
            let mut shutdown = Box::pin(worker.shutdown());
            let waker = std::task::Waker::noop();
            let mut context = std::task::Context::from_waker(waker);
            assert!(shutdown.as_mut().poll(&mut context).is_pending());
            stopping.send(shutdown).unwrap();
            async move { Ok(job.number) }
        })
        .start()
        .await
        .unwrap();
    *slot.lock().unwrap() = Some(worker);
    let report = stopped.recv().await.unwrap().await;
    assert_eq!((report.ended, report.released), (1, 1));
    assert_eq!(fixture.job(&ids[0]).await.state, JobState::Completed);
    assert_eq!(fixture.job(&ids[1]).await.state, JobState::Waiting);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_outlast_the_grace_are_signalled_dropped_and_their_jobs_released() {
    let fixture = fixture().await;
    let (signals, mut signalled) = mpsc::unbounded_channel();
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .shutdown_grace(secs(20))
        .cancel_grace(secs(3))
        .register(move |_job: Work, ctx: JobContext| {
            let (signals, guard) = (signals.clone(), Dropped(drops.clone()));
            async move {
                let _guard = guard;
                let reason = ctx.cancelled().await;
                signals.send((reason, Instant::now())).unwrap();
                std::future::pending().await
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    let begun = Instant::now();
    let report = worker.shutdown().await;
    let (reason, signal) = signalled.recv().await.unwrap();
    assert_eq!((reason, signal - begun), (StopReason::Shutdown, secs(20)));
    let grace = dropped.recv().await.unwrap() - signal;
    assert!((3_000..=3_001).contains(&grace.as_millis()), "{grace:?}");
    assert_eq!((report.ended, report.released), (0, 1));
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Waiting, 0));
    assert_eq!(job.stalled_count, 0);
    assert!(fixture.attempts(&id).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_after_the_signal_counts_only_if_it_is_done() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .shutdown_grace(secs(1))
        .register(|job: Work, ctx: JobContext| async move {
            ctx.cancelled().await;
            match job.number {
                0 => Ok(7),
                1 => Err(HandlerError::Unrecoverable(Failure::new("hopeless"))),
                2 => Err(HandlerError::Snooze(secs(60))),
                _ => Err(HandlerError::Error(Failure::new("interrupted"))),
            }
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    fixture.in_state(&ids[3], JobState::Active).await;
    let report = worker.shutdown().await;
    assert_eq!((report.ended, report.released), (3, 1));
    let expected = [
        (JobState::Completed, 1),
        (JobState::Failed, 1),
        (JobState::Delayed, 0),
        (JobState::Waiting, 0),
    ];
    for (id, expected) in ids.iter().zip(expected) {
        let job = fixture.job(id).await;
        assert_eq!((job.state, job.attempts_made), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_that_is_released_ends_cancelled() {
    use mq_core::AdminOps;
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .heartbeat_interval(secs(29))
        .shutdown_grace(secs(1))
        .cancel_grace(secs(0))
        .register(|_job: Work, _ctx: JobContext| std::future::pending())
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    fixture.plain().cancel(&id).await.unwrap();
    worker.shutdown().await;
    assert_eq!(fixture.job(&id).await.state, JobState::Cancelled);
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_go_on_while_handlers_have_their_grace() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .shutdown_grace(secs(600))
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(300)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    let other = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|_job: Timed, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    worker.shutdown().await;
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    other.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_that_does_not_stop_is_reported_and_not_released() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = Mutex::new(finished);
    let worker = fixture
        .worker()
        .shutdown_grace(secs(1))
        .cancel_grace(secs(1))
        .register_blocking(move |job: Work, ctx: JobContext| {
            told.send(ctx).unwrap();
            finished.lock().unwrap().recv().unwrap();
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let ctx = heard.recv().await.unwrap();
    let shutdown = tokio::spawn(worker.shutdown());
    pass(secs(3)).await;
    assert!(shutdown.is_finished());
    let report = shutdown.await.unwrap();
    assert_eq!(ctx.stop_reason(), Some(StopReason::Shutdown));
    assert_eq!(report.still_running, std::slice::from_ref(&id));
    assert!(report.untold.is_empty());
    assert_eq!(fixture.job(&id).await.state, JobState::Active);
    finish.send(()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_before_the_shutdown_returns() {
    let fixture = fixture().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let worker = fixture
        .worker()
        .on_failure(move |failed: FailedRun| {
            let told = Arc::clone(&tell);
            async move {
                tokio::time::sleep(secs(2)).await;
                told.lock().unwrap().push(failed.id);
            }
        })
        .register(|_job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(1)).await;
            Err(Failure::new("no").into())
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    worker.shutdown().await;
    assert_eq!(*told.lock().unwrap(), [id]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_worker_leaves_nothing_running() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |_job: Work, _ctx: JobContext| {
            told.send(()).unwrap();
            let guard = Dropped(drops.clone());
            async move {
                let _guard = guard;
                std::future::pending().await
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    heard.recv().await.unwrap();
    drop(worker);
    // Its sender is gone with the last handler and the worker itself.
    assert!(dropped.recv().await.is_some());
    assert!(heard.recv().await.is_none());
    let alive = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert_eq!(alive, 0);
    assert_eq!(Arc::strong_count(&fixture.store), 2, "the fixture's own");
    let job = fixture.job(&id).await;
    assert_eq!(job.state, JobState::Active, "until its lock expires");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_given_up_leaves_nothing_running_either() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel::<()>();
    let worker = fixture
        .worker()
        .register(move |_job: Work, _ctx: JobContext| {
            told.send(()).unwrap();
            std::future::pending()
        })
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 0 }).await;
    heard.recv().await.unwrap();
    let given_up = tokio::time::timeout(secs(1), worker.shutdown()).await;
    assert!(given_up.is_err());
    assert!(heard.recv().await.is_none());
    let alive = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert_eq!(alive, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maintenance_task_that_blocks_its_thread_does_not_hold_up_the_end() {
    struct Blocks(
        std::sync::mpsc::Sender<()>,
        Mutex<std::sync::mpsc::Receiver<()>>,
    );
    #[mq_core::async_trait]
    impl mq_worker::MaintenanceTask for Blocks {
        fn name(&self) -> &str {
            "blocks"
        }
        async fn round(&self) -> Result<std::time::Duration, mq_core::StoreError> {
            self.0.send(()).unwrap();
            let _ = self.1.lock().unwrap().recv();
            Ok(secs(1))
        }
    }
    let fixture = fixture_on(mq_core::MemoryStore::new()).await;
    let (begin, begun) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    let worker = fixture.worker();
    let worker = worker.maintenance(Blocks(begin, Mutex::new(released)));
    let worker = worker.start().await.unwrap();
    begun.recv().unwrap();
    let stopped = tokio::time::timeout(secs(20), worker.shutdown()).await;
    release.send(()).unwrap();
    assert!(stopped.is_ok());
}
