//! Schedules.

use mq_core::{Cadence, DueSchedules, NewSchedule, ScheduleKey, ScheduleRecord, Tick, Timestamp};

use super::enqueue::stored;
use super::{Naive, whole};

impl Naive {
    /// Stores a schedule under the version that the store gave it.
    pub(crate) fn upsert(&mut self, new: &NewSchedule, version: u64) -> ScheduleRecord {
        let cadence = match &new.cadence {
            Cadence::Every(every) => Cadence::Every(whole(*every)),
            cron => cron.clone(),
        };
        let was = self.schedules.iter().find(|there| there.key == new.key);
        let next_run_at = match was {
            Some(was) if was.cadence == cadence => was.next_run_at,
            _ => new.next_run_at,
        };
        if let Some(was) = was {
            assert!(was.version < version, "an upsert raises the version");
        }
        let record = ScheduleRecord {
            key: new.key.clone(),
            cadence,
            spec: stored(&new.spec),
            group: new.group.clone(),
            next_run_at,
            version,
        };
        self.unschedule(&new.key);
        self.schedules.push(record.clone());
        self.schedules.sort_by(|one, other| one.key.cmp(&other.key));
        record
    }

    pub(crate) fn unschedule(&mut self, key: &ScheduleKey) -> bool {
        let before = self.schedules.len();
        self.schedules.retain(|there| there.key != *key);
        self.schedules.len() < before
    }

    /// All schedules, by key.
    pub(crate) fn schedules(&self) -> &[ScheduleRecord] {
        &self.schedules
    }

    pub(crate) fn due(&self, limit: u32) -> DueSchedules {
        let mut by_slot: Vec<_> = self.schedules.iter().collect();
        by_slot.sort_by_key(|schedule| (schedule.next_run_at, &schedule.key));
        let is_due = |schedule: &&&ScheduleRecord| schedule.next_run_at <= self.now;
        let due: Vec<_> = by_slot
            .iter()
            .take_while(is_due)
            .take(limit as usize)
            .collect();
        let next: Option<Timestamp> = by_slot.get(due.len()).map(|next| next.next_run_at);
        DueSchedules {
            due: due
                .into_iter()
                .map(|schedule| (*schedule).clone())
                .collect(),
            next_due: next,
            now: self.now,
        }
    }

    pub(crate) fn tick(&mut self, tick: &Tick) -> bool {
        let is_current = |there: &&mut ScheduleRecord| {
            there.key == tick.key
                && there.version == tick.version
                && there.next_run_at == tick.expected
        };
        let Some(schedule) = self.schedules.iter_mut().find(is_current) else {
            return false;
        };
        schedule.next_run_at = tick.next;
        let Some(job) = &tick.job else { return true };
        let id = job.id.as_ref().expect("ticks without an id are refused");
        if self.find(id).is_some() {
            return false;
        }
        let mut job = job.clone();
        job.dedupe = None;
        self.insert(id, &job);
        true
    }
}
