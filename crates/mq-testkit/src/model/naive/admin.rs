//! What operators do.

use std::time::Duration;

use mq_core::{Cancelled, Change, JobId, JobState, QueueName, QueueSettings, Rate};

use super::{End, Naive, whole};
use crate::model::answer::Refused;

impl Naive {
    fn require(&self, id: &JobId) -> Result<usize, Refused> {
        self.find(id).ok_or_else(|| Refused::NotFound(id.clone()))
    }

    fn illegal(&self, operation: &'static str, place: usize) -> Refused {
        let record = &self.jobs[place].record;
        Refused::IllegalState(operation, record.id.clone(), record.state)
    }

    pub(in crate::model) fn cancel(&mut self, id: &JobId) -> Result<Cancelled, Refused> {
        let place = self.require(id)?;
        match self.jobs[place].state() {
            JobState::Active => {
                self.jobs[place].record.cancel_requested = true;
                Ok(Cancelled::Requested)
            }
            state if state.is_terminal() => Err(self.illegal("cancel", place)),
            _ => {
                let now = self.now;
                self.jobs[place].close(now);
                self.finish(place, End::cancelled());
                Ok(Cancelled::Ended)
            }
        }
    }

    pub(in crate::model) fn cancel_by_dedupe(&mut self, name: &str, key: &str) -> bool {
        let Some(place) = self.keyed(name, key) else {
            return false;
        };
        let id = self.jobs[place].record.id.clone();
        self.cancel(&id).is_ok()
    }

    pub(in crate::model) fn retry(&mut self, id: &JobId) -> Result<(), Refused> {
        let place = self.require(id)?;
        if self.jobs[place].state() != JobState::Failed {
            return Err(self.illegal("retry", place));
        }
        let (now, arrival) = (self.now, self.arrive());
        let job = &mut self.jobs[place];
        job.arrival = arrival;
        job.keep_is_due = false;
        job.put_at(now, now);
        let record = &mut job.record;
        record.attempts_made = 0;
        record.stalled_count = 0;
        record.exit = None;
        record.failed_reason = None;
        record.finished_at = None;
        record.processed_at = None;
        record.cancel_requested = false;
        let queue = record.spec.queue.clone();
        self.wake(&queue);
        Ok(())
    }

    pub(in crate::model) fn promote(&mut self, id: &JobId) -> Result<(), Refused> {
        let place = self.require(id)?;
        if self.jobs[place].state() != JobState::Delayed {
            return Err(self.illegal("promote", place));
        }
        let now = self.now;
        self.jobs[place].put_at(now, now);
        let queue = self.jobs[place].record.spec.queue.clone();
        self.wake(&queue);
        Ok(())
    }

    pub(in crate::model) fn remove(&mut self, id: &JobId) -> Result<bool, Refused> {
        let Some(place) = self.find(id) else {
            return Ok(false);
        };
        if matches!(
            self.jobs[place].state(),
            JobState::Active | JobState::WaitingChildren
        ) {
            return Err(self.illegal("remove", place));
        }
        self.delete(place);
        Ok(true)
    }

    pub(in crate::model) fn set_queue(&mut self, name: &QueueName, settings: &QueueSettings) {
        fn change<T: Copy>(to: Change<T>, was: Option<T>) -> Option<T> {
            match to {
                Change::Keep => was,
                Change::Clear => None,
                Change::Set(new) => Some(new),
            }
        }
        self.stirs.push(name.clone());
        let queue = self.queue(name);
        let (was_paused, was_most, was_rate) = (queue.paused, queue.max_active, queue.rate);
        queue.paused = change(settings.paused, Some(was_paused)).unwrap_or(false);
        queue.max_active = change(settings.max_active, was_most);
        let rate = change(settings.rate, was_rate);
        queue.rate = rate.map(|rate| Rate {
            per: whole(rate.per),
            ..rate
        });
        if queue.rate != was_rate {
            queue.tat = 0;
        }
        let resumed = was_paused && !queue.paused;
        let raised = was_most.is_some_and(|was| queue.max_active.is_none_or(|most| most > was));
        let eased = was_rate.is_some() && queue.rate != was_rate;
        if resumed || raised || eased {
            self.wake(name);
        }
    }

    /// Deletes what retention gives up now; answers how many jobs.
    pub(in crate::model) fn sweep(&mut self) -> u64 {
        let before = self.jobs.len();
        let births: Vec<u64> = self.jobs.iter().map(|job| job.birth).collect();
        for birth in births {
            let Some(place) = self.born(birth) else {
                continue;
            };
            let job = &mut self.jobs[place];
            if !job.keep_is_due || job.is_spared(self.now) {
                continue;
            }
            job.keep_is_due = false;
            let (state, spec) = (job.state(), job.record.spec.clone());
            let retention = spec.keep.and_then(|keep| keep.of(state));
            // An age acts below, on each job by its own.
            if let Some(retention) = retention.filter(|retention| retention.count.is_some()) {
                self.apply_keep(&spec.name, state, retention);
            }
        }
        let is_over = |job: &super::Job| {
            let own = job.record.spec.keep.and_then(|keep| keep.of(job.state()));
            let own: Option<Duration> = own.and_then(|retention| retention.age);
            let ceiling = self.ceiling.and_then(|ceiling| ceiling.of(job.state()));
            let age = own.into_iter().chain(ceiling).min();
            let old = age.is_some_and(|age| job.is_older_than(age, self.now));
            old && !job.is_spared(self.now)
        };
        let over: Vec<u64> = self
            .jobs
            .iter()
            .filter(|job| is_over(job))
            .map(|job| job.birth)
            .collect();
        for birth in over {
            if let Some(place) = self.born(birth) {
                self.delete(place);
            }
        }
        (before - self.jobs.len()) as u64
    }
}
