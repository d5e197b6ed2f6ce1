//! The layer that logs what is enqueued.

use std::sync::Arc;

use mq_core::layer::StoreLayer;
use mq_core::{
    Clock, EnqueueOps, Enqueued, JobId, ManualClock, MemoryStore, NewJob, Result, ScheduleOps,
    Tick, async_trait,
};
use parking_lot::Mutex;

use super::log::LoggedJob;

/// The in-memory store, which logs what is enqueued.
pub(super) struct Logging {
    inner: MemoryStore,
    clock: ManualClock,
    log: Arc<Mutex<Vec<LoggedJob>>>,
}

impl Logging {
    pub(super) fn new(
        inner: MemoryStore,
        clock: ManualClock,
        log: Arc<Mutex<Vec<LoggedJob>>>,
    ) -> Self {
        Self { inner, clock, log }
    }

    fn note(&self, id: JobId, is_duplicate: bool, job: NewJob) {
        let now = self.clock.now();
        self.log.lock().push(LoggedJob {
            id,
            is_duplicate,
            enqueued_at: now,
            run_at: job.when.resolve(now),
            dedupe: job.dedupe,
            parent: job.parent,
            spec: job.spec,
        });
    }
}

#[async_trait]
impl StoreLayer for Logging {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        let answers = self.inner.enqueue_many(jobs.clone()).await?;
        for (job, answer) in jobs.into_iter().zip(&answers) {
            self.note(answer.id.clone(), answer.duplicate, job);
        }
        Ok(answers)
    }

    async fn tick_schedule(&self, tick: Tick) -> Result<bool> {
        let job = tick.job.clone();
        let inserted = self.inner.tick_schedule(tick).await?;
        if let Some(job) = job.filter(|_| inserted)
            && let Some(id) = job.id.clone()
        {
            self.note(id, false, job);
        }
        Ok(inserted)
    }
}
