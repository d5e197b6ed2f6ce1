//! Many jobs through a store that fails every fifth call and loses wake-ups:
//! every job ends, none runs twice under a live lock, and no stall is counted
//! that was not one.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mq_core::{
    AttemptOutcome, EnqueueOps, HandlerError, InspectOps, JobId, JobState, MemoryStore, NewJob,
};
use mq_worker::{JobContext, Worker};
use support::*;

/// Who runs what, so that a second run beside a first is seen.
#[derive(Default)]
struct Watch {
    running: HashMap<JobId, u32>,
    runs: HashMap<JobId, u32>,
    twice: Vec<JobId>,
}

impl Watch {
    fn begin(&mut self, id: &JobId) {
        *self.runs.entry(id.clone()).or_default() += 1;
        let running = self.running.entry(id.clone()).or_default();
        *running += 1;
        if *running > 1 {
            self.twice.push(id.clone());
        }
    }

    fn end(&mut self, id: &JobId) {
        *self.running.get_mut(id).unwrap() -= 1;
    }
}

/// Ends the run in the watch, however it ends.
struct Running {
    id: JobId,
    watch: Arc<Mutex<Watch>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watch.lock().unwrap().end(&self.id);
    }
}

/// What becomes of a job, by its number: most succeed at once, some later,
/// some never, some put themselves off, and some panic.
fn expected(number: u32) -> (JobState, &'static [AttemptOutcome]) {
    use AttemptOutcome::{Completed, Failed, Retried, Snoozed};
    match number % 10 {
        0 => (JobState::Completed, &[Retried, Completed]),
        1 => (JobState::Completed, &[Snoozed, Completed]),
        2 => (JobState::Failed, &[Retried, Retried, Failed]),
        3 => (JobState::Failed, &[Failed]),
        _ => (JobState::Completed, &[Completed]),
    }
}

async fn work(job: Work, ctx: JobContext) -> Result<u32, HandlerError<mq_core::Failure>> {
    // Some take a moment, some nearly none, a few longer than a lock.
    let moment = match job.number % 100 {
        99 => secs(45),
        _ => millis(u64::from(job.number % 37) * 20),
    };
    tokio::time::sleep(moment).await;
    let failure = mq_core::Failure::new("as expected");
    match (job.number % 10, ctx.run()) {
        (0, 1) => panic!("as expected"),
        (1, 1) => Err(HandlerError::Snooze(secs(3))),
        (2, _) => Err(HandlerError::RetryAfter(secs(1), failure)),
        (3, _) => Err(HandlerError::Unrecoverable(failure)),
        _ => Ok(job.number),
    }
}

async fn enqueue(fixture: &Fixture, jobs: u32) -> Vec<JobId> {
    let ids: Vec<_> = (0..jobs)
        .map(|number| JobId::from(format!("job/{number}")))
        .collect();
    let batch: Vec<_> = (0..jobs)
        .zip(&ids)
        .map(|(number, id)| {
            let mut spec = spec(&Work { number });
            spec.attempts_max = 3;
            NewJob {
                id: Some(id.clone()),
                ..NewJob::new(spec)
            }
        })
        .collect();
    for chunk in batch.chunks(250) {
        while fixture
            .handle
            .store()
            .enqueue_many(chunk.to_vec())
            .await
            .is_err()
        {}
    }
    ids
}

fn worker(fixture: &Fixture, watch: &Arc<Mutex<Watch>>) -> mq_worker::WorkerBuilder {
    let watch = Arc::clone(watch);
    fixture
        .worker()
        .default_concurrency(100)
        .stalled_interval(secs(1))
        .poll_interval(millis(500))
        .register(move |job: Work, ctx: JobContext| {
            watch.lock().unwrap().begin(ctx.id());
            let running = Running {
                id: ctx.id().clone(),
                watch: Arc::clone(&watch),
            };
            async move {
                let _running = running;
                work(job, ctx).await
            }
        })
}

/// Waits for all jobs to end, and says what became of them.
async fn settle_all(fixture: &Fixture, jobs: usize, pause: Duration) {
    loop {
        let counts = fixture.plain().counts(None).await.unwrap();
        if counts.completed + counts.failed == jobs as u64 {
            return;
        }
        assert_eq!(counts.total(), jobs as u64, "nothing is lost");
        tokio::time::sleep(pause).await;
    }
}

async fn check(fixture: &Fixture, ids: &[JobId], watch: &Arc<Mutex<Watch>>, workers: Vec<Worker>) {
    for worker in workers {
        let stats = worker.stats();
        assert_eq!(
            (stats.locks_lost, stats.stalls_requeued, stats.refused),
            (0, 0, 0)
        );
        let report = worker.shutdown().await;
        assert!(report.untold.is_empty(), "{report:?}");
    }
    for (number, id) in (0..).zip(ids) {
        let job = fixture.job(id).await;
        let (state, outcomes) = expected(number);
        assert_eq!((job.state, job.stalled_count), (state, 0), "job {number}");
        assert_eq!(fixture.outcomes(id).await, outcomes, "job {number}");
        let runs = watch.lock().unwrap().runs[id];
        assert_eq!(runs as usize, outcomes.len(), "job {number}");
    }
    assert!(watch.lock().unwrap().twice.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_jobs_end_as_they_should_through_a_failing_store() {
    let faults = Faults::seeded(1)
        .fail_before(0.1)
        .fail_after(0.1)
        .lose_wakes(0.1);
    let plain = MemoryStore::builder().time(TokioClock::source()).build();
    let fixture = fixture_with(plain, faults).await;
    let watch = Arc::default();
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(worker(&fixture, &watch).start().await.unwrap());
    }
    let ids = enqueue(&fixture, 10_000).await;
    settle_all(&fixture, ids.len(), secs(1)).await;
    check(&fixture, &ids, &watch, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_end_as_they_should_on_several_threads_in_real_time() {
    let faults = Faults::seeded(3)
        .fail_before(0.1)
        .fail_after(0.1)
        .lose_wakes(0.1);
    let fixture = fixture_with(MemoryStore::new(), faults).await;
    let watch: Arc<Mutex<Watch>> = Arc::default();
    let mut workers = Vec::new();
    for _ in 0..3 {
        let watch = Arc::clone(&watch);
        let builder = fixture
            .worker()
            .default_concurrency(50)
            .stalled_interval(millis(100))
            .poll_interval(millis(100))
            .register(move |job: Work, ctx: JobContext| {
                watch.lock().unwrap().begin(ctx.id());
                let running = Running {
                    id: ctx.id().clone(),
                    watch: Arc::clone(&watch),
                };
                async move {
                    let _running = running;
                    tokio::task::yield_now().await;
                    let failure = mq_core::Failure::new("as expected");
                    match (job.number % 10, ctx.run()) {
                        (0, 1) => Err(failure.into()),
                        (1, 1) => Err(HandlerError::Snooze(millis(30))),
                        (2, _) => Err(HandlerError::RetryAfter(millis(10), failure)),
                        (3, _) => Err(HandlerError::Unrecoverable(failure)),
                        _ => Ok(job.number),
                    }
                }
            });
        workers.push(builder.start().await.unwrap());
    }
    let ids = enqueue(&fixture, 5_000).await;
    settle_all(&fixture, ids.len(), millis(20)).await;
    check(&fixture, &ids, &watch, workers).await;
}
