//! Wake-ups: who waits for work in a queue, and who for the end of a job.
//!
//! Each wake-up of a queue and each announced end has a place in a stream. A
//! cursor is such a place, so what happens between a claim and the wait that
//! follows it is seen by comparing. Those who wait are told after the lock on
//! the state is gone.

use std::sync::Arc;

use hashbrown::HashMap;
use tokio::sync::Notify;

use super::State;
use super::arena::Ix;
use super::state::Queue;
use crate::id::{JobId, QueueName};
use crate::time::Timestamp;

/// What of the wake-ups is not a queue's or a job's own.
#[derive(Default)]
pub(super) struct Wakes {
    last_wake: u64,
    last_end: u64,
    /// Queues woken under the present lock.
    woken: Vec<Ix<Queue>>,
    /// Who waits for the end of which job.
    watchers: HashMap<JobId, Vec<Arc<Notify>>>,
    /// Whom to tell once the lock is gone.
    to_tell: Vec<Arc<Notify>>,
}

impl Wakes {
    /// The latest announced end, for cursors.
    pub(super) fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Draws the place of an end that is announced.
    pub(super) fn next_end(&mut self) -> u64 {
        self.last_end += 1;
        self.last_end
    }

    /// Tells those who wait for this job's end.
    pub(super) fn ended(&mut self, id: &JobId) {
        if let Some(watchers) = self.watchers.get(id) {
            self.to_tell.extend(watchers.iter().cloned());
        }
    }

    pub(super) fn watch(&mut self, id: &JobId, watcher: &Arc<Notify>) {
        let watchers = self.watchers.entry(id.clone()).or_default();
        watchers.push(Arc::clone(watcher));
    }

    pub(super) fn unwatch(&mut self, id: &JobId, watcher: &Arc<Notify>) {
        if let Some(watchers) = self.watchers.get_mut(id) {
            watchers.retain(|other| !Arc::ptr_eq(other, watcher));
            if watchers.is_empty() {
                self.watchers.remove(id);
            }
        }
    }

    pub(super) fn take_to_tell(&mut self) -> Vec<Arc<Notify>> {
        std::mem::take(&mut self.to_tell)
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.woken.is_empty() && self.watchers.is_empty() && self.to_tell.is_empty()
    }
}

impl State {
    /// Wakes a queue: something may be runnable there that was not, or an
    /// earlier run time is to be learnt.
    pub(super) fn wake(&mut self, queue: Ix<Queue>) {
        if self.wakes.woken.last() != Some(&queue) {
            self.wakes.woken.push(queue);
        }
    }

    /// Wakes a queue in which a job stopped being active, if that matters there.
    pub(super) fn slot_freed(&mut self, queue: Ix<Queue>) {
        if self.queues[queue].max_active.is_some() {
            self.wake(queue);
        }
    }

    /// Gives the wake-ups so far their place in the stream.
    pub(super) fn flush_wakes(&mut self) {
        while let Some(queue) = self.wakes.woken.pop() {
            if let Some(queue) = self.queues.get_mut(queue) {
                self.wakes.last_wake += 1;
                queue.last_wake = self.wakes.last_wake;
                self.wakes.to_tell.extend(queue.waiters.iter().cloned());
            }
        }
    }

    /// The latest wake-up, for cursors.
    pub(super) fn last_wake(&mut self) -> u64 {
        self.flush_wakes();
        self.wakes.last_wake
    }

    /// Lets a waiter be told of these queues' wake-ups, unless there was one
    /// since `cursor`.
    pub(super) fn wait_for(
        &mut self,
        queues: &[QueueName],
        cursor: u64,
        waiter: &Arc<Notify>,
    ) -> bool {
        let woken = |queue: &QueueName| {
            let queue = self.find_queue(queue);
            queue.is_some_and(|queue| self.queues[queue].last_wake > cursor)
        };
        if queues.iter().any(woken) {
            return false;
        }
        for queue in queues {
            let queue = self.queue(queue);
            self.queues[queue].waiters.push(Arc::clone(waiter));
        }
        true
    }

    pub(super) fn stop_waiting(&mut self, queues: &[QueueName], waiter: &Arc<Notify>) {
        for queue in queues {
            if let Some(queue) = self.find_queue(queue) {
                let waiters = &mut self.queues[queue].waiters;
                waiters.retain(|other| !Arc::ptr_eq(other, waiter));
                self.drop_queue_if_unused(queue);
            }
        }
    }

    /// Marks a job as watched from `place` in the stream of ends on; true if it
    /// has ended or is unknown.
    pub(super) fn watch(&mut self, id: &JobId, place: u64, now: Timestamp) -> bool {
        let Some(slot) = self.slot_of(id) else {
            return true;
        };
        let job = &mut self.jobs[slot];
        let over = job.state.is_terminal();
        if job.watched {
            return over;
        }
        job.watched = true;
        job.extra_mut().announced = place;
        if over {
            let ceiling = self.ceiling;
            self.update(slot, |job| job.spare(ceiling, now));
        }
        over
    }

    /// Whether a job may have ended since `cursor`, even if it was retried, or
    /// its id given to another, after that; if not, its end will be told to
    /// `watcher`.
    pub(super) fn await_end(
        &mut self,
        id: &JobId,
        cursor: u64,
        now: Timestamp,
        watcher: &Arc<Notify>,
    ) -> bool {
        let job = self.slot_of(id).map(|slot| &self.jobs[slot]);
        // Whoever waits has watched: a job that nobody watches is another one.
        let is_the_watched = job.is_some_and(|job| {
            let extra = job.extra.as_ref();
            job.watched && extra.is_some_and(|extra| extra.announced <= cursor)
        });
        if is_the_watched {
            self.wakes.watch(id, watcher);
        } else {
            self.watch(id, self.wakes.last_end(), now);
        }
        !is_the_watched
    }
}
