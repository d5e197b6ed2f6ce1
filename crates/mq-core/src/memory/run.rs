//! Run: claim jobs under a lock, keep the lock, and say how the run ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hashbrown::HashSet;
use tokio::sync::Notify;

use super::job::Slot;
use super::terminal::{End, Removals};
use super::{MemoryStore, State, flow};
use crate::error::StoreError;
use crate::id::{JobId, LockToken, QueueName};
use crate::json::RawJson;
use crate::record::{AttemptOutcome, JobState};
use crate::store::{
    Ack, AckOutcome, Acked, Claim, ClaimRequest, Extended, Lock, Recovered, Result, RunOps,
    WakeCursor, Watch, WatchCursor,
};
use crate::time::Timestamp;
use crate::validate::{self, MAX_BATCH};

#[async_trait]
impl RunOps for MemoryStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let limit = validate::claim(&request)?;
        let now = self.read_clock();
        Ok(self.step(|state| state.claim(&request, limit, now)))
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        let refused = self.refused_acks(&acks);
        let acks = acks.into_iter().zip(refused);
        Ok(self.in_pages(acks, |state, page, now| {
            let mut removals = Removals::of_one_page();
            page.map(|(ack, refused)| match refused {
                Some(error) => Err(error),
                None => state.ack(ack, now, &mut removals),
            })
            .collect()
        }))
    }

    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        Ok(self.in_pages(locks, |state, page, now| {
            let mut removals = Removals::of_one_page();
            page.map(|lock| {
                validate::lock(&lock)?;
                state.release(&lock, now, &mut removals)
            })
            .collect()
        }))
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        validate::extend_locks(&locks, lock_for)?;
        let mut extended = Extended::default();
        self.in_pages(locks, |state, page, now| {
            let expires_at = now.saturating_add(lock_for);
            page.for_each(|lock| match state.held(&lock) {
                Err(_) => extended.lost.push(lock.id),
                Ok(slot) if state.jobs[slot].cancel_requested => {
                    extended.cancel_requested.push(lock.id);
                }
                Ok(slot) => state.rearm(slot, expires_at),
            });
            Vec::<()>::new()
        });
        Ok(extended)
    }

    async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()> {
        validate::set_progress(&lock, &progress, self.limits())?;
        self.step(|state| {
            let slot = state.held(&lock)?;
            state.jobs[slot].extra_mut().progress = Some(progress);
            Ok(())
        })
    }

    async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered> {
        let limit = validate::batch_limit(limit)?;
        let now = self.read_clock();
        Ok(self.step(|state| state.recover_stalled(max_stalled_count, limit, now)))
    }

    async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()> {
        validate::queues(queues)?;
        let waiter = Arc::new(Notify::new());
        if self.step(|state| state.wait_for(queues, wake.0, &waiter)) {
            let _stop = OnDrop(|| self.step(|state| state.stop_waiting(queues, &waiter)));
            waiter.notified().await;
        }
        Ok(())
    }

    async fn watch(&self, ids: &[JobId]) -> Result<Watch> {
        validate::job_ids(ids)?;
        // The place before the first page, so that no end in between is missed.
        let cursor = self.step(|state| WatchCursor(state.wakes.last_end()));
        let finished = self.in_pages(ids, |state, page, now| {
            page.filter(|id| state.watch(id, cursor.0, now))
                .cloned()
                .collect()
        });
        Ok(Watch { finished, cursor })
    }

    async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()> {
        validate::job_ids(ids)?;
        let watcher = Arc::new(Notify::new());
        // Without the clock, which may be the one that panics.
        let _stop = OnDrop(|| {
            for page in ids.chunks(MAX_BATCH as usize) {
                self.step(|state| {
                    page.iter().for_each(|id| state.wakes.unwatch(id, &watcher));
                });
            }
        });
        let ended = self.in_pages(ids, |state, page, now| {
            page.filter(|id| state.await_end(id, cursor.0, now, &watcher))
                .collect()
        });
        if ended.is_empty() {
            watcher.notified().await;
        }
        Ok(())
    }
}

/// What follows a run.
enum Next {
    End(End),
    Again(AttemptOutcome, Option<RawJson>, Duration),
}

/// Does something when it goes out of scope, however a future ends.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl MemoryStore {
    /// What is wrong with each ack that is refused whatever the state.
    fn refused_acks(&self, acks: &[Ack]) -> Vec<Option<StoreError>> {
        let mut seen = HashSet::with_capacity(acks.len());
        acks.iter()
            .map(|ack| {
                let first = acks.len() == 1 || seen.insert(&ack.lock.id);
                if let Err(error) = validate::ack(ack, self.limits()) {
                    return Some(error.into());
                }
                (!first).then(|| StoreError::LockLost {
                    id: ack.lock.id.clone(),
                })
            })
            .collect()
    }
}

impl State {
    /// The job that a lock holds.
    fn held(&self, lock: &Lock) -> Result<Slot> {
        let slot = self.require(&lock.id)?;
        if self.jobs[slot].is_held_by(&lock.token) {
            Ok(slot)
        } else {
            Err(StoreError::LockLost {
                id: lock.id.clone(),
            })
        }
    }

    fn ack(&mut self, ack: Ack, now: Timestamp, removals: &mut Removals) -> Result<Acked> {
        let Ack { lock, outcome } = ack;
        let slot = match self.held(&lock) {
            Err(StoreError::LockLost { id }) => return self.ack_again(id, &lock.token),
            held => held?,
        };
        let job = &mut self.jobs[slot];
        let cancel = job.cancel_requested;
        let consumes = !matches!(outcome, AckOutcome::Snooze { .. });
        let next = match outcome {
            AckOutcome::Complete { exit } => Next::End(End::completed(exit)),
            AckOutcome::Fail { exit } => Next::End(End::failed(exit)),
            AckOutcome::Cancelled => Next::End(End::cancelled()),
            AckOutcome::Retry { exit, .. } if cancel => {
                Next::End(End::cancelled_instead_of_retried(exit))
            }
            AckOutcome::Snooze { .. } if cancel => Next::End(End::cancelled()),
            AckOutcome::Retry { delay, exit } => Next::Again(AttemptOutcome::Retried, exit, delay),
            AckOutcome::Snooze { delay } => Next::Again(AttemptOutcome::Snoozed, None, delay),
            AckOutcome::FanOut { .. } => return Err(flow::unsupported("acks that fan out")),
        };
        job.last_acked = Some(lock.token);
        job.attempts_made = job.attempts_made.saturating_add(u32::from(consumes));
        match next {
            Next::End(end) => self.finish(slot, end, now, removals),
            Next::Again(outcome, exit, delay) => self.put_off(slot, outcome, exit, delay, now),
        }
        Ok(Acked { applied: true })
    }

    /// Answers an ack whose token does not hold the job: it may be a repeated one.
    fn ack_again(&self, id: JobId, token: &LockToken) -> Result<Acked> {
        match &self.jobs[self.require(&id)?].last_acked {
            Some(last) if last == token => Ok(Acked { applied: false }),
            _ => Err(StoreError::LockLost { id }),
        }
    }

    /// Ends a run but not the job: it runs again after `delay`.
    fn put_off(
        &mut self,
        slot: Slot,
        outcome: AttemptOutcome,
        exit: Option<RawJson>,
        delay: Duration,
        now: Timestamp,
    ) {
        let seq = self.next_seq();
        self.update(slot, |job| {
            job.record_attempt(outcome, exit, now);
            job.lock = None;
            job.seq = seq;
            job.run_at = now.saturating_add(delay);
            job.state = if job.run_at > now {
                JobState::Delayed
            } else {
                JobState::Waiting
            };
        });
        self.wake(self.queue_of(&self.jobs[slot]));
    }

    fn release(&mut self, lock: &Lock, now: Timestamp, removals: &mut Removals) -> Result<()> {
        let slot = self.held(lock)?;
        if self.jobs[slot].cancel_requested {
            self.finish(slot, End::cancelled(), now, removals);
        } else {
            self.put_back(slot);
        }
        Ok(())
    }

    /// Lets an active job wait again in its old place.
    pub(super) fn put_back(&mut self, slot: Slot) {
        self.update(slot, |job| {
            job.lock = None;
            job.state = JobState::Waiting;
        });
        self.wake(self.queue_of(&self.jobs[slot]));
    }
}
