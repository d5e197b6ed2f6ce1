//! Schedules.

use mq_core::{Cadence, DueSchedules, NewSchedule, ScheduleKey, ScheduleRecord, Tick, Timestamp};

use super::enqueue::stored;
use super::{Naive, whole};

impl Naive {
    pub(in crate::model) fn upsert(&mut self, new: &NewSchedule) -> ScheduleRecord {
        let cadence = match &new.cadence {
            Cadence::Every(every) => Cadence::Every(whole(*every)),
            cron => cron.clone(),
        };
        let was = self.schedules.iter().find(|there| there.key == new.key);
        let next_run_at = match was {
            Some(was) if was.cadence == cadence => was.next_run_at,
            _ => new.next_run_at,
        };
        let record = ScheduleRecord {
            key: new.key.clone(),
            cadence,
            spec: stored(&new.spec),
            group: new.group.clone(),
            next_run_at,
            version: self.versions + 1,
        };
        self.versions += 1;
        self.unschedule(&new.key);
        self.schedules.push(record.clone());
        self.schedules.sort_by(|one, other| one.key.cmp(&other.key));
        record
    }

    pub(in crate::model) fn unschedule(&mut self, key: &ScheduleKey) -> bool {
        let before = self.schedules.len();
        self.schedules.retain(|there| there.key != *key);
        self.schedules.len() < before
    }

    /// All schedules, by key.
    pub(in crate::model) fn schedules(&self) -> &[ScheduleRecord] {
        &self.schedules
    }

    pub(in crate::model) fn due(&self, limit: u32) -> DueSchedules {
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

    pub(in crate::model) fn tick(&mut self, tick: &Tick) -> bool {
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
