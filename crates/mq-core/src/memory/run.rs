//! Run: claim jobs under a lock, keep the lock, and say how the run ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hashbrown::HashSet;
use tokio::sync::Notify;

use super::flow::Flow;
use super::job::Slot;
use super::terminal::{End, Removals};
use super::{MemoryStore, State};
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
        let fan_outs = acks.iter().any(|ack| is_fan_out(&ack.outcome));
        let runs = acks
            .into_iter()
            .zip(refused)
            .map(|(ack, refused)| refused.map_or_else(|| Ok(self.ended(ack)), Err));
        Ok(if fan_outs {
            // Without the lock: a flow's rows may be many.
            let runs: Vec<_> = runs.collect();
            self.in_pages(runs, |state, page, now| state.end_runs(page, now))
        } else {
            self.in_pages(runs, |state, page, now| state.end_runs(page, now))
        })
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

/// A run that is to end.
struct Ended {
    lock: Lock,
    how: Ending,
}

/// How a run is to end.
enum Ending {
    End(End),
    Retry(Duration, Option<RawJson>),
    Snooze(Duration),
    FanOut(Box<Flow>),
}

fn is_fan_out(outcome: &AckOutcome) -> bool {
    matches!(outcome, AckOutcome::FanOut { .. })
}

/// Does something when it goes out of scope, however a future ends.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl MemoryStore {
    fn ended(&self, Ack { lock, outcome }: Ack) -> Ended {
        let how = match outcome {
            AckOutcome::Complete { exit } => Ending::End(End::completed(exit)),
            AckOutcome::Fail { exit } => Ending::End(End::failed(exit)),
            AckOutcome::Cancelled => Ending::End(End::cancelled()),
            AckOutcome::Retry { delay, exit } => Ending::Retry(delay, exit),
            AckOutcome::Snooze { delay } => Ending::Snooze(delay),
            AckOutcome::FanOut {
                fail_fast,
                children,
            } => {
                let (manifest, now) = (lock.token.clone(), self.read_clock());
                Ending::FanOut(Box::new(Flow::new(manifest, fail_fast, children, now)))
            }
        };
        Ended { lock, how }
    }

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

    /// Ends a page of runs, those last that fan out.
    fn end_runs(
        &mut self,
        page: &mut dyn Iterator<Item = Result<Ended>>,
        now: Timestamp,
    ) -> Vec<Result<Acked>> {
        let mut removals = Removals::of_one_page();
        let mut fan_outs = Vec::new();
        let mut answers = Vec::with_capacity(page.size_hint().0);
        for (place, run) in page.enumerate() {
            answers.push(match run {
                Ok(run) if matches!(run.how, Ending::FanOut(_)) => {
                    fan_outs.push((place, run));
                    // Until its turn comes.
                    Ok(Acked { applied: false })
                }
                Ok(run) => self.end_run(run, now, &mut removals),
                Err(error) => Err(error),
            });
        }
        for (place, run) in fan_outs {
            answers[place] = self.end_run(run, now, &mut removals);
        }
        answers
    }

    fn end_run(
        &mut self,
        Ended { lock, how }: Ended,
        now: Timestamp,
        removals: &mut Removals,
    ) -> Result<Acked> {
        let slot = match self.held(&lock) {
            Err(StoreError::LockLost { id }) => return self.ack_again(id, &lock.token),
            held => held?,
        };
        let job = &mut self.jobs[slot];
        let cancel = job.cancel_requested;
        let consumes = !matches!(how, Ending::Snooze(_) | Ending::FanOut(_));
        job.attempts_made = job.attempts_made.saturating_add(u32::from(consumes));
        job.last_acked = Some(lock.token);
        match how {
            Ending::End(end) => self.finish(slot, end, now, removals),
            Ending::Retry(_, exit) if cancel => {
                let end = End::cancelled_instead_of_retried(exit);
                self.finish(slot, end, now, removals);
            }
            Ending::Snooze(_) if cancel => self.finish(slot, End::cancelled(), now, removals),
            Ending::Retry(delay, exit) => {
                self.put_off(slot, AttemptOutcome::Retried, exit, delay, now);
            }
            Ending::Snooze(delay) => {
                self.put_off(slot, AttemptOutcome::Snoozed, None, delay, now);
            }
            Ending::FanOut(flow) => self.fan_out(slot, flow, now, removals),
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
