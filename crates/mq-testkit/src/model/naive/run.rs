//! Claims, locks, acks, stalls and watches.

use std::cmp::Reverse;
use std::time::Duration;

use mq_core::{
    Ack, AckOutcome, Acked, AttemptOutcome, ClaimRequest, Extended, JobId, JobState, Lock, RawJson,
    StallOutcome, Stalled, Timestamp,
};

use super::{Call, End, MINUTE, Naive, Queue};
use crate::model::answer::{Claimed, Refused};

impl Naive {
    /// Whether a claim of this token may be repeated: for how long a store
    /// remembers one that holds nothing is its own affair.
    pub(in crate::model) fn remembers(&self, request: &ClaimRequest) -> bool {
        self.calls.iter().any(|call| {
            let held = |job: &super::Job| job.holds(&call.token);
            let recent = self.now < call.at.saturating_add(MINUTE);
            call.token == request.token && (recent || self.jobs.iter().any(held))
        })
    }

    pub(in crate::model) fn claim(&mut self, request: &ClaimRequest) -> Claimed {
        let now = self.now;
        self.stirs.push(request.queue.clone());
        if self.calls.iter().any(|call| call.token == request.token) {
            return self.claim_again(request);
        }
        for place in self.asked(request, JobState::Delayed) {
            if self.jobs[place].record.run_at <= now {
                self.jobs[place].record.state = JobState::Waiting;
            }
        }
        let mut waiting = self.asked(request, JobState::Waiting);
        waiting.sort_by_key(|place| {
            let job = &self.jobs[*place];
            (Reverse(job.record.spec.priority), job.arrival)
        });
        let active = self.count(&request.queue, JobState::Active);
        let queue = self.queue(&request.queue);
        let free = queue
            .max_active
            .map_or(u64::MAX, |most| u64::from(most).saturating_sub(active));
        let most = if queue.paused {
            0
        } else {
            free.min(u64::from(request.limit))
        };
        let mut held_back = None;
        let mut taken = Vec::new();
        for place in waiting {
            if taken.len() as u64 == most {
                break;
            }
            if let Err(from) = queue.start(now) {
                held_back = Some(from);
                break;
            }
            taken.push(place);
        }
        for place in &taken {
            let job = &mut self.jobs[*place];
            job.record.state = JobState::Active;
            job.record.processed_at = Some(now);
            job.lock = Some((request.token.clone(), now.saturating_add(request.lock_for)));
        }
        self.calls.push(Call {
            token: request.token.clone(),
            births: taken.iter().map(|place| self.jobs[*place].birth).collect(),
            at: now,
        });
        Claimed {
            jobs: taken
                .iter()
                .map(|place| self.jobs[*place].record.clone())
                .collect(),
            next_run_at: self
                .next_delayed(request)
                .into_iter()
                .chain(held_back)
                .min(),
            now,
        }
    }

    /// Whether a new claim like this would surely yield a job.
    pub(in crate::model) fn has_claimable(&self, request: &ClaimRequest) -> bool {
        let is_free = |queue: &Queue| !queue.paused && queue.max_active.is_none();
        let queue = self.queues.iter().find(|queue| queue.name == request.queue);
        queue.is_none_or(|queue| is_free(queue) && queue.rate.is_none())
            && !self.asked(request, JobState::Waiting).is_empty()
    }

    fn claim_again(&mut self, request: &ClaimRequest) -> Claimed {
        let call = self.calls.iter().find(|call| call.token == request.token);
        let births = call.map(|call| call.births.clone()).unwrap_or_default();
        let mut jobs = Vec::new();
        for birth in births {
            let Some(place) = self.born(birth) else {
                continue;
            };
            if self.jobs[place].holds(&request.token) {
                let end = self.now.saturating_add(request.lock_for);
                self.jobs[place].lock = Some((request.token.clone(), end));
                jobs.push(self.jobs[place].record.clone());
            }
        }
        Claimed {
            jobs,
            next_run_at: self.next_delayed(request),
            now: self.now,
        }
    }

    /// The jobs that a claim asks for and that are in a state.
    fn asked(&self, request: &ClaimRequest, state: JobState) -> Vec<usize> {
        let asked = |place: &usize| {
            let record = &self.jobs[*place].record;
            record.spec.queue == request.queue
                && request.names.contains(&record.spec.name)
                && record.state == state
        };
        (0..self.jobs.len()).filter(asked).collect()
    }

    fn next_delayed(&self, request: &ClaimRequest) -> Option<Timestamp> {
        let delayed = self.asked(request, JobState::Delayed);
        let run_at = delayed.iter().map(|place| self.jobs[*place].record.run_at);
        run_at.min().map(|at| at.max(self.now))
    }

    fn held(&self, lock: &Lock) -> Result<usize, Refused> {
        let Some(place) = self.find(&lock.id) else {
            return Err(Refused::NotFound(lock.id.clone()));
        };
        if self.jobs[place].holds(&lock.token) {
            return Ok(place);
        }
        Err(Refused::LockLost(lock.id.clone()))
    }

    pub(in crate::model) fn ack_many(&mut self, acks: &[Ack]) -> Vec<Result<Acked, Refused>> {
        let is_repeated = |place: usize| {
            let id = &acks[place].lock.id;
            acks[..place].iter().any(|earlier| earlier.lock.id == *id)
        };
        (0..acks.len())
            .map(|place| match is_repeated(place) {
                true => Err(Refused::LockLost(acks[place].lock.id.clone())),
                false => self.ack(&acks[place]),
            })
            .collect()
    }

    fn ack(&mut self, Ack { lock, outcome }: &Ack) -> Result<Acked, Refused> {
        let place = match self.held(lock) {
            Ok(place) => place,
            Err(refused) => {
                let job = self.find(&lock.id).map(|place| &self.jobs[place]);
                return match job.and_then(|job| job.last_acked.as_ref()) {
                    Some(last) if *last == lock.token => Ok(Acked { applied: false }),
                    _ => Err(refused),
                };
            }
        };
        let now = self.now;
        let cancelled = self.jobs[place].record.cancel_requested;
        self.jobs[place].last_acked = Some(lock.token.clone());
        if !matches!(
            outcome,
            AckOutcome::Snooze { .. } | AckOutcome::FanOut { .. }
        ) {
            self.jobs[place].record.attempts_made += 1;
        }
        match outcome.clone() {
            AckOutcome::Complete { exit } => self.finish(place, End::completed(exit)),
            AckOutcome::Fail { exit } => self.finish(place, End::failed(exit)),
            AckOutcome::Cancelled => self.finish(place, End::cancelled()),
            AckOutcome::Retry { exit, .. } if cancelled => {
                let end = End {
                    ledger_exit: exit,
                    ..End::cancelled()
                };
                self.finish(place, end);
            }
            AckOutcome::Snooze { .. } if cancelled => self.finish(place, End::cancelled()),
            AckOutcome::Retry { delay, exit } => {
                self.jobs[place].note(AttemptOutcome::Retried, exit, now);
                self.run_again(place, delay);
            }
            AckOutcome::Snooze { delay } => {
                self.jobs[place].note(AttemptOutcome::Snoozed, None, now);
                self.run_again(place, delay);
            }
            AckOutcome::FanOut {
                fail_fast,
                children,
            } => self.fan_out(place, fail_fast, &children),
        }
        Ok(Acked { applied: true })
    }

    fn run_again(&mut self, place: usize, delay: Duration) {
        let (now, arrival) = (self.now, self.arrive());
        let job = &mut self.jobs[place];
        job.lock = None;
        job.arrival = arrival;
        job.put_at(now.saturating_add(delay), now);
        let queue = job.record.spec.queue.clone();
        self.wake(&queue);
    }

    /// Lets an active job wait in its old place.
    fn put_back(&mut self, place: usize) {
        let job = &mut self.jobs[place];
        job.lock = None;
        job.record.state = JobState::Waiting;
        let queue = job.record.spec.queue.clone();
        self.wake(&queue);
    }

    pub(in crate::model) fn release(&mut self, lock: &Lock) -> Result<(), Refused> {
        let place = self.held(lock)?;
        match self.jobs[place].record.cancel_requested {
            true => self.finish(place, End::cancelled()),
            false => self.put_back(place),
        }
        Ok(())
    }

    pub(in crate::model) fn extend(&mut self, locks: &[Lock], by: Duration) -> Extended {
        let mut extended = Extended::default();
        for lock in locks {
            match self.held(lock) {
                Err(_) => extended.lost.push(lock.id.clone()),
                Ok(place) if self.jobs[place].record.cancel_requested => {
                    extended.cancel_requested.push(lock.id.clone());
                }
                Ok(place) => {
                    let end = self.now.saturating_add(by);
                    self.jobs[place].lock = Some((lock.token.clone(), end));
                }
            }
        }
        extended
    }

    pub(in crate::model) fn progress(
        &mut self,
        lock: &Lock,
        value: &RawJson,
    ) -> Result<(), Refused> {
        let place = self.held(lock)?;
        self.jobs[place].record.progress = Some(value.clone());
        Ok(())
    }

    /// The expired locks' jobs, by expiry.
    fn expired(&self) -> Vec<u64> {
        let mut expired: Vec<_> = self
            .jobs
            .iter()
            .filter_map(|job| {
                let (_, end) = job.lock.as_ref()?;
                (*end <= self.now).then(|| (*end, job.record.id.clone(), job.birth))
            })
            .collect();
        expired.sort();
        expired.into_iter().map(|(_, _, birth)| birth).collect()
    }

    pub(in crate::model) fn recover(&mut self, most_stalls: u32) -> Vec<Stalled> {
        let mut recovered = Vec::new();
        for birth in self.expired() {
            let now = self.now;
            let Some(place) = self.born(birth) else {
                continue;
            };
            let record = &mut self.jobs[place].record;
            if record.cancel_requested {
                self.finish(place, End::cancelled());
                continue;
            }
            record.stalled_count += 1;
            let fails = record.stalled_count > most_stalls;
            recovered.push(Stalled {
                id: record.id.clone(),
                name: record.spec.name.clone(),
                queue: record.spec.queue.clone(),
                outcome: match fails {
                    true => StallOutcome::Failed,
                    false => StallOutcome::Requeued,
                },
            });
            if fails {
                let end = End {
                    // The words are the store's own: any will do.
                    reason: Some("stalled too often".to_owned()),
                    ..End::bare(JobState::Failed, AttemptOutcome::Stalled)
                };
                self.finish(place, end);
            } else {
                self.jobs[place].note(AttemptOutcome::Stalled, None, now);
                self.put_back(place);
            }
        }
        recovered.sort_by(|one: &Stalled, other| one.id.cmp(&other.id));
        recovered
    }

    /// Marks jobs as watched; answers those that have ended.
    pub(in crate::model) fn watch(&mut self, ids: &[JobId]) -> Vec<JobId> {
        let mut finished = Vec::new();
        for id in ids {
            let Some(place) = self.find(id) else {
                finished.push(id.clone());
                continue;
            };
            let now = self.now;
            let job = &mut self.jobs[place];
            if job.state().is_terminal() {
                finished.push(id.clone());
                job.keep_is_due |= !job.watched && !job.is_older_than(MINUTE, now);
            }
            job.watched = true;
        }
        finished
    }
}

impl Queue {
    /// Counts a start, or says from when on one is allowed.
    fn start(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let Some(rate) = self.rate else { return Ok(()) };
        let count = u128::from(rate.count);
        let burst = count.div_ceil(10);
        let per = rate.per.as_micros();
        let interval = per.div_ceil(count - burst + 1);
        let now = u128::from(now.as_millis()) * 1_000;
        let lead = (burst - 1) * interval;
        if self.tat > now + lead {
            let from = (self.tat - lead).div_ceil(1_000);
            let from = u64::try_from(from).unwrap_or(u64::MAX);
            return Err(Timestamp::saturating_from_millis(from));
        }
        self.tat = self.tat.max(now) + interval;
        Ok(())
    }
}
