//! Claiming: due jobs are promoted, the best waiting ones locked.

use super::State;
use super::arena::Ix;
use super::job::{Held, Slot};
use super::merge::Merge;
use super::state::{Group, Queue};
use super::tokens::FORGOTTEN_PER_CLAIM;
use crate::record::JobState;
use crate::store::{Claim, ClaimRequest, WakeCursor};
use crate::time::Timestamp;
use crate::validate::MAX_BATCH;

/// How many jobs a queue's settings let a claim take.
struct Room {
    jobs: usize,
    /// From when on there is more, if it is the rate that holds work back.
    more_from: Option<Timestamp>,
}

impl State {
    pub(super) fn claim(&mut self, request: &ClaimRequest, limit: u32, now: Timestamp) -> Claim {
        let jobs = &self.jobs;
        self.tokens.forget(now, FORGOTTEN_PER_CLAIM, |token, slot| {
            jobs.get(slot).is_some_and(|job| job.is_held_by(token))
        });
        if let Some(slots) = self.tokens.get(&request.token) {
            let slots = slots.to_vec();
            return self.claim_again(request, &slots, now);
        }
        let Some(queue) = self.find_queue(&request.queue) else {
            return self.give(request, Vec::new(), None, now);
        };
        let groups = self.asked_groups(queue, request);
        let promoted = self.promote_due(&groups, now);
        let room = self.room(queue, limit as usize, now);
        let best = Merge::new(groups.iter().map(|group| {
            let waiting = self.groups[*group].waiting.iter();
            waiting.map(|(key, slot)| (*key, *slot))
        }));
        let slots: Vec<Slot> = best.take(room.jobs).collect();
        for slot in &slots {
            self.lock(*slot, request, now);
        }
        if let Some(limiter) = &mut self.queues[queue].limiter {
            limiter.count(now, slots.len());
        }
        let left_waiting = groups
            .iter()
            .any(|group| !self.groups[*group].waiting.is_empty());
        if promoted && left_waiting {
            self.wake(queue);
        }
        // Jobs that are due but were not promoted make this the past: now.
        let next_delayed = self.next_delayed(&groups).map(|at| at.max(now));
        let held_back = room.more_from.filter(|_| left_waiting);
        let next_run_at = next_delayed.into_iter().chain(held_back).min();
        self.give(request, slots, next_run_at, now)
    }

    /// Answers a repeated claim with what is still locked under its token.
    fn claim_again(&mut self, request: &ClaimRequest, slots: &[Slot], now: Timestamp) -> Claim {
        let is_held = |slot: &Slot| {
            let job = self.jobs.get(*slot);
            job.is_some_and(|job| job.is_held_by(&request.token))
        };
        let slots: Vec<Slot> = slots.iter().copied().filter(is_held).collect();
        for slot in &slots {
            self.rearm(*slot, now.saturating_add(request.lock_for));
        }
        let groups = match self.find_queue(&request.queue) {
            Some(queue) => self.asked_groups(queue, request),
            None => Vec::new(),
        };
        let left_waiting = groups
            .iter()
            .any(|group| !self.groups[*group].waiting.is_empty());
        Claim {
            jobs: slots.iter().map(|slot| self.record(*slot)).collect(),
            next_run_at: self.next_delayed(&groups).map(|at| at.max(now)),
            now,
            // What was woken between the two calls must not be lost: if there
            // is work, the next wait returns at once.
            wake: WakeCursor(if left_waiting { 0 } else { self.last_wake() }),
        }
    }

    fn give(
        &mut self,
        request: &ClaimRequest,
        slots: Vec<Slot>,
        next_run_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Claim {
        let jobs = slots.iter().map(|slot| self.record(*slot)).collect();
        self.tokens.remember(request.token.clone(), slots, now);
        Claim {
            jobs,
            next_run_at,
            now,
            wake: WakeCursor(self.last_wake()),
        }
    }

    /// The groups of the asked names, each once.
    fn asked_groups(&self, queue: Ix<Queue>, request: &ClaimRequest) -> Vec<Ix<Group>> {
        let of_queue = &self.queues[queue].groups;
        let mut groups: Vec<_> = request
            .names
            .iter()
            .filter_map(|name| of_queue.get(&self.find_name(name)?).copied())
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Moves due jobs to the waiting ones, a page at the most; true if any was.
    fn promote_due(&mut self, groups: &[Ix<Group>], now: Timestamp) -> bool {
        let due: Vec<Slot> = Merge::new(groups.iter().map(|group| {
            let delayed = self.groups[*group].delayed.iter();
            delayed
                .take_while(|(key, _)| key.at <= now)
                .map(|(key, slot)| (*key, *slot))
        }))
        .take(MAX_BATCH as usize)
        .collect();
        for slot in &due {
            self.update(*slot, |job| job.state = JobState::Waiting);
        }
        !due.is_empty()
    }

    fn next_delayed(&self, groups: &[Ix<Group>]) -> Option<Timestamp> {
        let first = |group: &Ix<Group>| Some(self.groups[*group].delayed.first_key_value()?.0.at);
        groups.iter().filter_map(first).min()
    }

    fn room(&self, queue: Ix<Queue>, limit: usize, now: Timestamp) -> Room {
        let queue = &self.queues[queue];
        if queue.paused {
            return Room {
                jobs: 0,
                more_from: None,
            };
        }
        let free = queue.max_active.map_or(limit, |most| {
            let free = u64::from(most).saturating_sub(queue.counts.active);
            limit.min(usize::try_from(free).unwrap_or(limit))
        });
        let Some(limiter) = &queue.limiter else {
            return Room {
                jobs: free,
                more_from: None,
            };
        };
        let allowed = limiter.allowed(now, free);
        let mut after = *limiter;
        after.count(now, allowed);
        Room {
            jobs: allowed,
            more_from: (allowed < free).then(|| after.next_start()),
        }
    }

    fn lock(&mut self, slot: Slot, request: &ClaimRequest, now: Timestamp) {
        let held = Held {
            token: request.token.clone(),
            expires_at: now.saturating_add(request.lock_for),
        };
        self.update(slot, |job| {
            job.state = JobState::Active;
            job.lock = Some(held);
            job.processed_at = Some(now);
        });
    }

    /// Moves the end of a lock.
    pub(super) fn rearm(&mut self, slot: Slot, expires_at: Timestamp) {
        self.update(slot, |job| {
            if let Some(held) = &mut job.lock {
                held.expires_at = expires_at;
            }
        });
    }
}
