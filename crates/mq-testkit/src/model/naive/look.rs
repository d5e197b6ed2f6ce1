//! What is there.

use mq_core::{
    AttemptRecord, Direction, JobId, JobRecord, JobState, ListFilter, OrderBy, QueueInfo,
    QueueName, StateCounts, Timestamp,
};

use super::{Job, Naive};

impl Naive {
    pub(in crate::model) fn job(&self, id: &JobId) -> Option<&JobRecord> {
        self.find(id).map(|place| &self.jobs[place].record)
    }

    pub(in crate::model) fn attempts(&self, id: &JobId) -> Vec<AttemptRecord> {
        self.find(id)
            .map(|place| self.jobs[place].ledger.clone())
            .unwrap_or_default()
    }

    pub(super) fn count(&self, queue: &QueueName, state: JobState) -> u64 {
        let counts = |job: &&Job| job.record.spec.queue == *queue && job.state() == state;
        self.jobs.iter().filter(counts).count() as u64
    }

    pub(in crate::model) fn counts(&self, queue: &QueueName) -> StateCounts {
        let mut counts = StateCounts::default();
        for state in JobState::ALL {
            *counts.of_mut(state) = self.count(queue, state);
        }
        counts
    }

    /// The queues that have a job or a setting, by name.
    pub(in crate::model) fn queues(&self) -> Vec<QueueInfo> {
        let mut queues: Vec<QueueInfo> = Vec::new();
        let with_jobs = self.jobs.iter().map(|job| &job.record.spec.queue);
        for name in with_jobs.chain(self.queues.iter().map(|queue| &queue.name)) {
            if queues.iter().any(|there| there.queue == *name) {
                continue;
            }
            let set = self.queues.iter().find(|queue| queue.name == *name);
            let info = QueueInfo {
                queue: name.clone(),
                counts: self.counts(name),
                paused: set.is_some_and(|set| set.paused),
                max_active: set.and_then(|set| set.max_active),
                rate: set.and_then(|set| set.rate),
            };
            let is_set = info.paused || info.max_active.is_some() || info.rate.is_some();
            if is_set || info.counts.total() > 0 {
                queues.push(info);
            }
        }
        queues.sort_by(|one, other| one.queue.cmp(&other.queue));
        queues
    }

    /// All jobs that match, in order.
    pub(in crate::model) fn list(&self, filter: &ListFilter) -> Vec<JobRecord> {
        let mut found: Vec<&Job> = self
            .jobs
            .iter()
            .filter(|job| matches(filter, &job.record))
            .collect();
        found.sort_by_key(|job| place(filter.order_by, job));
        if filter.direction == Direction::Descending {
            found.reverse();
        }
        found.into_iter().map(|job| job.record.clone()).collect()
    }
}

fn matches(filter: &ListFilter, record: &JobRecord) -> bool {
    let spec = &record.spec;
    filter
        .queue
        .as_ref()
        .is_none_or(|queue| *queue == spec.queue)
        && filter.name.as_ref().is_none_or(|name| *name == spec.name)
        && filter
            .states
            .as_ref()
            .is_none_or(|states| states.contains(&record.state))
        && (!filter.flow_parents || record.flow.is_some())
        && filter
            .metadata
            .iter()
            .all(|(key, label)| spec.metadata.get(key) == Some(label))
}

fn place(order: OrderBy, job: &Job) -> (Option<Timestamp>, u64, Option<JobId>) {
    let id = Some(job.record.id.clone());
    match order {
        OrderBy::EnqueuedAt => (Some(job.record.enqueued_at), 0, id),
        OrderBy::LockExpiresAt => (job.lock.as_ref().map(|(_, end)| *end), 0, id),
        OrderBy::RunAt => (Some(job.record.run_at), job.arrival, None),
        OrderBy::FinishedAt => (job.record.finished_at, job.arrival, None),
    }
}
