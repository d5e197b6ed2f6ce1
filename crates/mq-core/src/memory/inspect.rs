//! Inspect: what is there.

use async_trait::async_trait;

use super::MemoryStore;
use super::state::Queue;
use crate::id::{JobId, QueueName};
use crate::record::{AttemptRecord, JobRecord, JobState};
use crate::store::{InspectOps, ListFilter, ListPage, QueueInfo, Result, StateCounts};
use crate::time::Timestamp;
use crate::validate;

#[async_trait]
impl InspectOps for MemoryStore {
    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>> {
        validate::job_ids(ids)?;
        Ok(self.in_pages(ids, |state, page, _| {
            page.map(|id| Ok(state.slot_of(id).map(|slot| state.record(slot))))
                .collect()
        }))
    }

    async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>> {
        validate::job_id(id)?;
        Ok(self.step(|state| match state.slot_of(id) {
            Some(slot) => state.jobs[slot].ledger.clone(),
            None => Vec::new(),
        }))
    }

    async fn list(&self, filter: ListFilter) -> Result<ListPage> {
        let limit = validate::list(&filter)?;
        self.step(|state| state.list(&filter, limit as usize))
    }

    async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts> {
        queue.map_or(Ok(()), validate::queue_name)?;
        Ok(self.step(|state| match queue {
            Some(queue) => state
                .find_queue(queue)
                .map_or_else(StateCounts::default, |queue| state.queues[queue].counts),
            None => sum(state.queues.iter().map(|(_, queue)| &queue.counts)),
        }))
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let mut queues: Vec<_> = self.step(|state| {
            let listed = state.queues.iter().filter(|(_, queue)| queue.is_listed());
            listed.map(|(_, queue)| info(queue)).collect()
        });
        queues.sort_unstable_by(|one, other| one.queue.cmp(&other.queue));
        Ok(queues)
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.read_clock())
    }
}

fn info(queue: &Queue) -> QueueInfo {
    QueueInfo {
        queue: queue.name.clone(),
        counts: queue.counts,
        paused: queue.paused,
        max_active: queue.max_active,
        rate: queue.limiter.map(|limiter| limiter.rate),
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a StateCounts>) -> StateCounts {
    let mut sum = StateCounts::default();
    for count in counts {
        for state in JobState::ALL {
            *sum.of_mut(state) += count.of(state);
        }
    }
    sum
}
