//! What has been given out so far, and what an operation means by it.

use std::sync::Arc;
use std::time::Duration;

use mq_core::{Ack, ClaimRequest, JobId, JobState, Lock, LockToken, Tick, Timestamp};

use super::answer::Answer;
use super::call::Call;
use super::naive::Naive;
use super::op::{Back, LockPick, Op};

/// Added to a version to make one that no store ever gives.
pub(super) const STALE: u64 = 1 << 32;

#[derive(Default)]
pub(super) struct Known {
    pub(super) ids: Vec<JobId>,
    locks: Vec<Lock>,
    calls: Vec<Call>,
    tokens: usize,
}

impl Known {
    /// Learns from a call and its answer.
    pub(super) fn learn(&mut self, call: Call, answer: &Answer) {
        match (&call, answer) {
            (_, Answer::Enqueued(enqueued)) => {
                self.learn_ids(enqueued.iter().map(|enqueued| &enqueued.id));
            }
            (Call::Tick(tick), _) => {
                self.learn_ids(tick.job.iter().filter_map(|job| job.id.as_ref()));
            }
            (Call::Claim(request), Answer::Claimed(claimed)) => {
                self.locks.extend(claimed.jobs.iter().map(|job| Lock {
                    id: job.id.clone(),
                    token: request.token.clone(),
                }));
            }
            _ => {}
        }
        self.calls.push(call);
    }

    fn learn_ids<'a>(&mut self, ids: impl IntoIterator<Item = &'a JobId>) {
        for id in ids {
            if !self.ids.contains(id) {
                self.ids.push(id.clone());
            }
        }
    }

    fn id(&self, back: Back) -> JobId {
        latest(&self.ids, back)
            .cloned()
            .unwrap_or_else(|| "nobody".into())
    }

    fn ids(&self, backs: Vec<Back>) -> Vec<JobId> {
        backs.into_iter().map(|back| self.id(back)).collect()
    }

    /// One of the jobs in a state, or any if none is.
    fn id_in(&self, state: JobState, back: Back, naive: &Naive) -> JobId {
        let in_state = |id: &&JobId| naive.job(id).is_some_and(|job| job.state == state);
        let fitting: Vec<_> = self.ids.iter().filter(in_state).cloned().collect();
        latest(&fitting, back)
            .cloned()
            .unwrap_or_else(|| self.id(back))
    }

    fn lock(&self, pick: LockPick) -> Lock {
        let nobody = || Lock {
            id: "nobody".into(),
            token: "nothing".into(),
        };
        let mut lock = latest(&self.locks, pick.of).cloned().unwrap_or_else(nobody);
        if let Some(other) = pick.token_of.and_then(|back| latest(&self.locks, back)) {
            lock.token = other.token.clone();
        }
        lock
    }

    fn locks(&self, picks: Vec<LockPick>) -> Vec<Lock> {
        picks.into_iter().map(|pick| self.lock(pick)).collect()
    }

    /// The call that an operation means; `None` if there is nothing to call.
    pub(super) fn resolve(&mut self, op: Op, naive: &Naive) -> Option<Call> {
        Some(match op {
            Op::Enqueue(jobs) => Call::Enqueue(jobs),
            Op::Claim {
                queue,
                names,
                lock_for,
                limit,
            } => {
                self.tokens += 1;
                let names: Arc<[_]> = names.into_iter().map(Into::into).collect();
                Call::Claim(ClaimRequest {
                    queue: queue.into(),
                    names,
                    token: LockToken::from(format!("token{}", self.tokens)),
                    lock_for,
                    limit,
                })
            }
            Op::Repeat(back) => match latest(&self.calls, back)? {
                Call::Claim(request) if !naive.remembers(request) => return None,
                call => call.clone(),
            },
            Op::Ack(acks) => {
                let ack = |(pick, outcome)| Ack {
                    lock: self.lock(pick),
                    outcome,
                };
                Call::Ack(acks.into_iter().map(ack).collect())
            }
            Op::Release(picks) => Call::Release(self.locks(picks)),
            Op::Extend(picks, by) => Call::Extend(self.locks(picks), by),
            Op::Progress(pick, value) => Call::Progress(self.lock(pick), value),
            Op::Recover { most_stalls, limit } => Call::Recover { most_stalls, limit },
            Op::Watch(backs) => Call::Watch(self.ids(backs)),
            Op::Cancel(backs) => Call::Cancel(self.ids(backs)),
            Op::CancelByDedupe(name, key) => Call::CancelByDedupe(name.into(), key.into()),
            Op::Retry(back) => Call::Retry(self.id_in(JobState::Failed, back, naive)),
            Op::Promote(back) => Call::Promote(self.id_in(JobState::Delayed, back, naive)),
            Op::Remove(back) => Call::Remove(self.id(back)),
            Op::SetQueue(queue, settings) => Call::SetQueue(queue.into(), settings),
            Op::Sweep(limit) => Call::Sweep(limit),
            Op::Upsert(new) => Call::Upsert(new),
            Op::Tick {
                key,
                stale_version,
                stale_slot,
                ahead,
                job,
            } => {
                let there = naive.schedules().iter().find(|there| there.key == key);
                let (version, slot) = there.map_or((0, Timestamp::MIN), |there| {
                    (there.version, there.next_run_at)
                });
                Call::Tick(Tick {
                    key: key.into(),
                    version: version + if stale_version { STALE } else { 0 },
                    expected: slot.saturating_add(Duration::from_millis(stale_slot.into())),
                    next: slot.saturating_add(ahead),
                    job,
                })
            }
            Op::Unschedule(key) => Call::Unschedule(key.into()),
            Op::Due(limit) => Call::Due(limit),
            Op::Walk(filter) => Call::Walk(filter),
            Op::Advance(_) => return None,
        })
    }
}

pub(super) fn latest<T>(list: &[T], back: Back) -> Option<&T> {
    list.iter().rev().nth(back % list.len().max(1))
}
