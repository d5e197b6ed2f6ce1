//! Handlers on the blocking pool when their worker stops.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use mq_core::{JobState, MemoryStore};
use mq_worker::{JobContext, Worker, WorkerBuilder};
use support::*;
use tokio::sync::mpsc;

/// A handler that blocks its thread until it may return, or until it is told
/// to stop.
#[derive(Clone, Default)]
struct Blocker {
    begun: Arc<AtomicU32>,
    may_return: Arc<AtomicBool>,
    heeds_signals: bool,
}

impl Blocker {
    fn register(&self, worker: WorkerBuilder, ended: mpsc::UnboundedSender<bool>) -> WorkerBuilder {
        let this = self.clone();
        worker.register_blocking(move |job: Work, ctx: JobContext| {
            this.begun.fetch_add(1, Ordering::SeqCst);
            let told = || this.heeds_signals && ctx.is_cancelled();
            while !this.may_return.load(Ordering::SeqCst) && !told() {
                std::thread::sleep(millis(1));
            }
            let _ = ended.send(ctx.is_cancelled());
            Ok(job.number)
        })
    }

    /// Waits until a thread has begun the handler, and the others are queued.
    async fn holds(&self, worker: &Worker, in_flight: usize) {
        while self.begun.load(Ordering::SeqCst) == 0 || worker.in_flight() < in_flight {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Blocker {
    /// A failed test must not wait for the thread for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.may_return.store(true, Ordering::SeqCst);
        }
    }
}

/// Runs a test on a runtime with one thread that may block.
fn with_one_blocking_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}

#[tokio::test]
async fn a_blocking_handler_is_told_when_its_worker_is_dropped() {
    let fixture = fixture_on(MemoryStore::new()).await;
    let mut blocker = Blocker::default();
    blocker.heeds_signals = true;
    let (ended, mut ends) = mpsc::unbounded_channel();
    let worker = blocker.register(fixture.worker(), ended);
    let worker = worker.start().await.unwrap();
    fixture.enqueue(&Work { number: 1 }).await;
    blocker.holds(&worker, 1).await;
    drop(worker);
    let told = tokio::time::timeout(secs(10), ends.recv()).await;
    blocker.may_return.store(true, Ordering::SeqCst);
    assert_eq!(told, Ok(Some(true)));
}

#[test]
fn blocking_handlers_that_no_thread_has_begun_are_released_at_shutdown() {
    with_one_blocking_thread(async {
        let fixture = fixture_on(MemoryStore::new()).await;
        let blocker = Blocker::default();
        let (ended, mut ends) = mpsc::unbounded_channel();
        let worker = fixture.worker().shutdown_grace(millis(1));
        let worker = blocker.register(worker, ended).start().await.unwrap();
        let mut ids = Vec::new();
        for number in 0..3 {
            ids.push(fixture.enqueue(&Work { number }).await);
        }
        blocker.holds(&worker, 3).await;
        let report = worker.shutdown().await;
        assert_eq!(report.still_running, ids[..1]);
        assert_eq!((report.released, report.untold.len()), (2, 0));
        assert_eq!(fixture.job(&ids[1]).await.state, JobState::Waiting);
        assert_eq!(fixture.job(&ids[2]).await.state, JobState::Waiting);
        blocker.may_return.store(true, Ordering::SeqCst);
        while ends.recv().await.is_some() {}
        assert_eq!(blocker.begun.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn blocking_handlers_that_no_thread_has_begun_never_run_once_the_worker_is_dropped() {
    with_one_blocking_thread(async {
        let fixture = fixture_on(MemoryStore::new()).await;
        let blocker = Blocker::default();
        let (ended, mut ends) = mpsc::unbounded_channel();
        let worker = blocker.register(fixture.worker(), ended);
        let worker = worker.start().await.unwrap();
        for number in 0..3 {
            fixture.enqueue(&Work { number }).await;
        }
        blocker.holds(&worker, 3).await;
        settle().await;
        drop(worker);
        settle().await;
        blocker.may_return.store(true, Ordering::SeqCst);
        while ends.recv().await.is_some() {}
        assert_eq!(blocker.begun.load(Ordering::SeqCst), 1);
    });
}
