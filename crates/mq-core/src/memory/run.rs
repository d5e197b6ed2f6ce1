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
use crate::id::{JobId, QueueName};
use crate::json::RawJson;
use crate::record::{AttemptOutcome, JobState};
use crate::store::{
    Ack, AckOutcome, Acked, Claim, ClaimRequest, Extended, Lock, Recovered, Result, RunOps,
    StallOutcome, Stalled, WakeCursor, Watch, WatchCursor,
};
use crate::time::Timestamp;
use crate::validate;

#[async_trait]
impl RunOps for MemoryStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let limit = validate::claim(&request)?;
        let now = self.now();
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
        let now = self.now();
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
            page.filter(|id| state.watch(id, now)).cloned().collect()
        });
        Ok(Watch { finished, cursor })
    }

    async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()> {
        validate::job_ids(ids)?;
        let watcher = Arc::new(Notify::new());
        let _stop = OnDrop(|| {
            self.in_pages(ids, |state, page, _| {
                page.for_each(|id| state.wakes.unwatch(id, &watcher));
                Vec::<()>::new()
            });
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
                if !first {
                    return Some(StoreError::LockLost {
                        id: ack.lock.id.clone(),
                    });
                }
                let fans_out = matches!(ack.outcome, AckOutcome::FanOut { .. });
                fans_out.then(|| flow::unsupported("acks that fan out"))
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
            Ok(slot) => slot,
            Err(StoreError::LockLost { id }) => {
                let job = &self.jobs[self.require(&id)?];
                return match &job.last_acked {
                    Some(token) if *token == lock.token => Ok(Acked { applied: false }),
                    _ => Err(StoreError::LockLost { id }),
                };
            }
            Err(error) => return Err(error),
        };
        let job = &mut self.jobs[slot];
        job.last_acked = Some(lock.token);
        if !matches!(
            outcome,
            AckOutcome::Snooze { .. } | AckOutcome::FanOut { .. }
        ) {
            job.attempts_made = job.attempts_made.saturating_add(1);
        }
        let cancel = job.cancel_requested;
        match outcome {
            AckOutcome::Complete { exit } => {
                self.finish(slot, End::completed(exit), now, removals);
            }
            AckOutcome::Fail { exit } => self.finish(slot, End::failed(exit), now, removals),
            AckOutcome::Cancelled => self.finish(slot, End::cancelled(), now, removals),
            AckOutcome::Retry { exit, .. } if cancel => {
                let end = End::cancelled_instead_of_retried(exit);
                self.finish(slot, end, now, removals);
            }
            AckOutcome::Snooze { .. } if cancel => {
                self.finish(slot, End::cancelled(), now, removals);
            }
            AckOutcome::Retry { delay, exit } => {
                self.put_off(slot, AttemptOutcome::Retried, exit, delay, now);
            }
            AckOutcome::Snooze { delay } => {
                self.put_off(slot, AttemptOutcome::Snoozed, None, delay, now);
            }
            AckOutcome::FanOut { .. } => return Err(flow::unsupported("acks that fan out")),
        }
        Ok(Acked { applied: true })
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
    fn put_back(&mut self, slot: Slot) {
        self.update(slot, |job| {
            job.lock = None;
            job.state = JobState::Waiting;
        });
        self.wake(self.queue_of(&self.jobs[slot]));
    }

    fn recover_stalled(&mut self, most_stalls: u32, limit: u32, now: Timestamp) -> Recovered {
        let mut recovered = Recovered::default();
        let mut removals = Removals::of_one_page();
        for _ in 0..limit {
            let Some(slot) = self.next_expired(now) else {
                return recovered;
            };
            recovered
                .stalled
                .extend(self.recover(slot, most_stalls, now, &mut removals));
        }
        recovered.more = self.next_expired(now).is_some();
        recovered
    }

    fn next_expired(&self, now: Timestamp) -> Option<Slot> {
        let (key, slot) = self.active.first_key_value()?;
        (key.at <= now).then_some(*slot)
    }

    fn recover(
        &mut self,
        slot: Slot,
        most_stalls: u32,
        now: Timestamp,
        removals: &mut Removals,
    ) -> Option<Stalled> {
        let job = &mut self.jobs[slot];
        if job.cancel_requested {
            self.finish(slot, End::cancelled(), now, removals);
            return None;
        }
        job.stalled_count = job.stalled_count.saturating_add(1);
        let stalls = job.stalled_count;
        let mut stalled = Stalled {
            id: job.id.clone(),
            name: self.name_of(&self.jobs[slot]).clone(),
            queue: self.queues[self.queue_of(&self.jobs[slot])].name.clone(),
            outcome: StallOutcome::Requeued,
        };
        if stalls > most_stalls {
            stalled.outcome = StallOutcome::Failed;
            let reason = format!(
                "stalled {stalls} times, at most {most_stalls} allowed: its worker died or lost touch with the store each time"
            );
            self.finish(slot, End::stalled(reason), now, removals);
        } else {
            self.jobs[slot].record_attempt(AttemptOutcome::Stalled, None, now);
            self.put_back(slot);
        }
        Some(stalled)
    }

    /// Marks a job as watched; true if it has ended or is unknown.
    fn watch(&mut self, id: &JobId, now: Timestamp) -> bool {
        let Some(slot) = self.slot_of(id) else {
            return true;
        };
        let job = &self.jobs[slot];
        if !job.watched {
            let (ceiling, last_end) = (self.ceiling, self.wakes.last_end());
            self.update(slot, |job| {
                job.watched = true;
                if job.state.is_terminal() {
                    job.spare(ceiling, now);
                    job.extra_mut().announced = last_end;
                }
            });
        }
        self.jobs[slot].state.is_terminal()
    }

    /// Whether a job may have ended since `cursor`; if not, its end will be
    /// told to `watcher`.
    fn await_end(
        &mut self,
        id: &JobId,
        cursor: u64,
        now: Timestamp,
        watcher: &Arc<Notify>,
    ) -> bool {
        let was_watched = self.slot_of(id).is_some_and(|slot| self.jobs[slot].watched);
        let over = self.watch(id, now);
        let seen = self.slot_of(id).is_some_and(|slot| {
            let extra = self.jobs[slot].extra.as_ref();
            was_watched && extra.is_some_and(|extra| extra.announced <= cursor)
        });
        if over && !seen {
            return true;
        }
        self.wakes.watch(id, watcher);
        false
    }
}
