//! Schedules: jobs that come again.

use async_trait::async_trait;

use super::{MemoryStore, State};
use crate::id::ScheduleKey;
use crate::record::{NewSchedule, ScheduleRecord};
use crate::store::{DueSchedules, Result, ScheduleFilter, ScheduleOps, Tick};
use crate::time::Timestamp;
use crate::validate;

#[async_trait]
impl ScheduleOps for MemoryStore {
    async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord> {
        validate::upsert_schedule(&schedule, self.limits())?;
        Ok(self.step(|state| state.upsert_schedule(schedule)))
    }

    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool> {
        validate::schedule_key(key)?;
        Ok(self.step(|state| {
            let removed = state.schedules.remove(key);
            if let Some(schedule) = &removed {
                let slot = (schedule.next_run_at, schedule.key.clone());
                state.slots_due.remove(&slot);
            }
            removed.is_some()
        }))
    }

    async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        validate::list_schedules(&filter)?;
        let matches = |schedule: &&ScheduleRecord| {
            let spec = &schedule.spec;
            filter
                .job_name
                .as_ref()
                .is_none_or(|name| *name == spec.name)
                && filter
                    .queue
                    .as_ref()
                    .is_none_or(|queue| *queue == spec.queue)
                && (filter.group.is_none() || filter.group == schedule.group)
        };
        Ok(self.step(|state| state.schedules.values().filter(matches).cloned().collect()))
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let limit = validate::batch_limit(limit)? as usize;
        let now = self.read_clock();
        Ok(self.step(|state| state.due_schedules(limit, now)))
    }

    async fn tick_schedule(&self, tick: Tick) -> Result<bool> {
        validate::tick_schedule(&tick, self.limits())?;
        let now = self.read_clock();
        Ok(self.step(|state| state.tick(tick, now)))
    }
}

impl State {
    fn upsert_schedule(&mut self, schedule: NewSchedule) -> ScheduleRecord {
        let cadence = schedule.cadence.whole();
        let stored = self.schedules.get(&schedule.key);
        let next_run_at = match stored {
            Some(stored) if stored.cadence == cadence => stored.next_run_at,
            _ => schedule.next_run_at,
        };
        if let Some(stored) = stored {
            self.slots_due
                .remove(&(stored.next_run_at, schedule.key.clone()));
        }
        // Drawn store-wide, so that a tick decided before a schedule was
        // removed and made again is void too.
        self.schedule_version += 1;
        let record = ScheduleRecord {
            key: schedule.key,
            cadence,
            spec: schedule.spec.whole(),
            group: schedule.group,
            next_run_at,
            version: self.schedule_version,
        };
        self.slots_due.insert((next_run_at, record.key.clone()));
        self.schedules.insert(record.key.clone(), record.clone());
        record
    }

    fn due_schedules(&self, limit: usize, now: Timestamp) -> DueSchedules {
        let mut slots = self.slots_due.iter().peekable();
        let mut due = Vec::new();
        while due.len() < limit
            && let Some((_, key)) = slots.next_if(|(at, _)| *at <= now)
        {
            due.extend(self.schedules.get(key).cloned());
        }
        DueSchedules {
            due,
            next_due: slots.next().map(|(at, _)| *at),
            now,
        }
    }

    fn tick(&mut self, tick: Tick, now: Timestamp) -> bool {
        let is_current = |schedule: &&mut ScheduleRecord| {
            schedule.version == tick.version && schedule.next_run_at == tick.expected
        };
        let Some(schedule) = self.schedules.get_mut(&tick.key).filter(is_current) else {
            return false;
        };
        schedule.next_run_at = tick.next;
        self.slots_due.remove(&(tick.expected, tick.key.clone()));
        self.slots_due.insert((tick.next, tick.key));
        let Some(mut job) = tick.job else {
            return true;
        };
        let Some(id) = job.id.take().filter(|id| self.slot_of(id).is_none()) else {
            return false;
        };
        job.dedupe = None;
        self.insert_new(id, job, now);
        true
    }
}
