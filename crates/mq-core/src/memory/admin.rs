//! Admin: what operators and producers do to jobs and queues afterwards.

use std::time::Duration;

use async_trait::async_trait;

use super::dedupe::ScopedKey;
use super::job::Slot;
use super::limits::Limiter;
use super::terminal::{End, Removals};
use super::{MemoryStore, State};
use crate::error::StoreError;
use crate::id::{DedupeKey, JobId, JobName, QueueName, StoreKey};
use crate::record::{JobState, WorkerRecord};
use crate::store::{AdminOps, Cancelled, Change, QueueSettings, Result, Swept};
use crate::time::Timestamp;
use crate::validate;

/// How long a worker is remembered after its last report.
const WORKER_REMEMBERED_FOR: Duration = Duration::from_secs(60);

#[async_trait]
impl AdminOps for MemoryStore {
    async fn retry(&self, id: &JobId) -> Result<()> {
        validate::job_id(id)?;
        let now = self.read_clock();
        self.step(|state| state.retry(id, now))
    }

    async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>> {
        validate::job_ids(ids)?;
        Ok(self.in_pages(ids, |state, page, now| {
            let mut removals = Removals::of_one_page();
            page.map(|id| {
                let slot = state.require(id)?;
                state.cancel(slot, now, &mut removals)
            })
            .collect()
        }))
    }

    async fn cancel_by_dedupe(&self, name: &JobName, key: &DedupeKey) -> Result<bool> {
        validate::cancel_by_dedupe(name, key)?;
        let now = self.read_clock();
        let key = ScopedKey {
            name: name.clone(),
            key: key.clone(),
        };
        Ok(self.step(|state| {
            let mut removals = Removals::of_one_page();
            // Refused only if it has ended.
            let keyed = state.keyed_job(&key);
            keyed.is_some_and(|slot| state.cancel(slot, now, &mut removals).is_ok())
        }))
    }

    async fn promote(&self, id: &JobId) -> Result<()> {
        validate::job_id(id)?;
        let now = self.read_clock();
        self.step(|state| {
            let slot = state.require(id)?;
            if state.jobs[slot].state != JobState::Delayed {
                return Err(state.illegal("promote", slot, "delayed"));
            }
            state.update(slot, |job| {
                job.state = JobState::Waiting;
                job.run_at = now;
            });
            state.wake(state.queue_of(&state.jobs[slot]));
            Ok(())
        })
    }

    async fn remove(&self, id: &JobId) -> Result<bool> {
        validate::job_id(id)?;
        let now = self.read_clock();
        self.step(|state| {
            let Some(slot) = state.slot_of(id) else {
                return Ok(false);
            };
            if let JobState::Active | JobState::WaitingChildren = state.jobs[slot].state {
                let required = "waiting, delayed or terminal (cancel it first)";
                return Err(state.illegal("remove", slot, required));
            }
            state.remove(slot, now);
            Ok(true)
        })
    }

    async fn set_queue(&self, queue: &QueueName, settings: QueueSettings) -> Result<()> {
        validate::set_queue(queue, &settings)?;
        self.step(|state| state.set_queue(queue, settings));
        Ok(())
    }

    async fn sweep_history(&self, limit: u32) -> Result<Swept> {
        let limit = validate::batch_limit(limit)? as usize;
        let now = self.read_clock();
        Ok(self.step(|state| {
            let (deleted, more) = state.sweep(now, limit);
            let more_entries = state.dedupes.sweep(now, limit);
            let jobs = &state.jobs;
            state.tokens.forget(now, limit, |token, slot| {
                jobs.get(slot).is_some_and(|job| job.is_held_by(token))
            });
            Swept {
                deleted: deleted as u64,
                more: more || more_entries,
            }
        }))
    }

    async fn report_worker(&self, mut record: WorkerRecord) -> Result<()> {
        validate::worker(&record)?;
        record.last_seen_at = self.read_clock();
        self.step(|state| {
            state.forget_workers(record.last_seen_at);
            state.workers.insert(record.id.clone(), record);
        });
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        let now = self.read_clock();
        Ok(self.step(|state| {
            state.forget_workers(now);
            state.workers.values().cloned().collect()
        }))
    }

    async fn bind_name(&self, name: &StoreKey) -> Result<()> {
        validate::store_key(name)?;
        self.step(|state| {
            let bound = state.store_name.get_or_insert_with(|| name.clone());
            if bound == name {
                return Ok(());
            }
            Err(StoreError::NameMismatch {
                bound: bound.clone(),
                asked: name.clone(),
            })
        })
    }
}

impl State {
    fn illegal(&self, operation: &'static str, slot: Slot, required: &'static str) -> StoreError {
        let job = &self.jobs[slot];
        StoreError::IllegalState {
            operation,
            id: job.id.clone(),
            state: job.state,
            required,
        }
    }

    fn retry(&mut self, id: &JobId, now: Timestamp) -> Result<()> {
        let slot = self.require(id)?;
        if self.jobs[slot].state != JobState::Failed {
            return Err(self.illegal("retry", slot, "failed"));
        }
        let seq = self.next_seq();
        self.update(slot, |job| {
            job.state = JobState::Waiting;
            job.seq = seq;
            job.run_at = now;
            job.attempts_made = 0;
            job.stalled_count = 0;
            job.cancel_requested = false;
            job.exit = None;
            job.processed_at = None;
            job.finished_at = None;
            job.sweep_at = None;
            job.spared = false;
            if let Some(extra) = &mut job.extra {
                extra.failed_reason = None;
            }
        });
        self.wake(self.queue_of(&self.jobs[slot]));
        Ok(())
    }

    fn cancel(&mut self, slot: Slot, now: Timestamp, removals: &mut Removals) -> Result<Cancelled> {
        match self.jobs[slot].state {
            JobState::Active => {
                self.jobs[slot].cancel_requested = true;
                Ok(Cancelled::Requested)
            }
            JobState::Waiting | JobState::Delayed | JobState::WaitingChildren => {
                self.finish(slot, End::cancelled(), now, removals);
                Ok(Cancelled::Ended)
            }
            JobState::Completed | JobState::Failed | JobState::Cancelled => {
                let required = "waiting, delayed, active or waiting-children";
                Err(self.illegal("cancel", slot, required))
            }
        }
    }

    fn set_queue(&mut self, name: &QueueName, settings: QueueSettings) {
        let ix = self.queue(name);
        let queue = &mut self.queues[ix];
        let (was_paused, was_most) = (queue.paused, queue.max_active);
        let was_rate = queue.limiter.map(|limiter| limiter.rate);
        match settings.paused {
            Change::Keep => {}
            Change::Clear => queue.paused = false,
            Change::Set(paused) => queue.paused = paused,
        }
        match settings.max_active {
            Change::Keep => {}
            Change::Clear => queue.max_active = None,
            Change::Set(most) => queue.max_active = Some(most),
        }
        match settings.rate {
            Change::Keep => {}
            Change::Clear => queue.limiter = None,
            Change::Set(rate) => {
                let rate = rate.whole();
                // The rate it has is no new one: it does not start afresh.
                if was_rate != Some(rate) {
                    queue.limiter = Some(Limiter::new(rate));
                }
            }
        }
        let raised = was_most.is_some_and(|was| queue.max_active.is_none_or(|most| most > was));
        let rate = queue.limiter.map(|limiter| limiter.rate);
        let resumed = was_paused && !queue.paused;
        if resumed || raised || (was_rate.is_some() && was_rate != rate) {
            self.wake(ix);
        }
        self.drop_queue_if_unused(ix);
    }

    fn forget_workers(&mut self, now: Timestamp) {
        self.workers
            .retain(|_, worker| now < worker.last_seen_at.saturating_add(WORKER_REMEMBERED_FOR));
    }
}
