//! Decides the slots of schedules: one job each, whoever comes first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mq_core::occurrence::Occurrences;
use mq_core::{
    InvalidInput, JobId, NewJob, SCHEDULED_FOR, ScheduleKey, ScheduleRecord, StoreError, Tick,
    Timestamp, validate::MAX_BATCH,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, error};

use crate::extension::MaintenanceTask;
use crate::runtime::Shared;

/// The shortest wait for a slot: stores tell time in milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// How many decisions may fail in one round before it is given up.
const MOST_FAILURES: usize = 5;

/// Ticks schedules.
pub(crate) struct Schedules {
    shared: Arc<Shared>,
    /// The cadences of schedules that have fallen due, parsed, by the version
    /// they had.
    parsed: Mutex<HashMap<ScheduleKey, (u64, Cadence)>>,
}

/// A cadence, or why there is none; said once.
#[derive(Clone)]
enum Cadence {
    Sound(Arc<Occurrences>),
    Broken,
}

impl Schedules {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            parsed: Mutex::default(),
        }
    }
}

#[async_trait]
impl MaintenanceTask for Schedules {
    fn name(&self) -> &str {
        "schedules"
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        let link = &self.shared.link;
        let interval = self.shared.options.schedule_interval;
        let call = link.store.due_schedules(MAX_BATCH);
        let answer = link.call("due_schedules", call).await?;
        let received = Instant::now();
        let is_full = answer.due.len() == MAX_BATCH as usize;
        let mut next_due = answer.next_due;
        let mut decided = 0;
        let mut failures = Vec::new();
        for schedule in answer.due {
            match self.decide(schedule, answer.now).await {
                Ok(Some(next)) => {
                    decided += 1;
                    next_due = Some(next_due.map_or(next, |due| due.min(next)));
                }
                Ok(None) => {}
                // One schedule never stops the others; a store that is out of
                // reach stops them all.
                Err(error) => failures.push(error),
            }
            if failures.len() >= MOST_FAILURES {
                break;
            }
        }
        if let Some(error) = failures.pop() {
            return Err(error);
        }
        if is_full && decided == 0 {
            // Whatever is due behind a page of broken ones is out of reach.
            return Ok(interval);
        }
        let until_next = next_due.map_or(interval, |next| next.since(answer.now));
        let wait = until_next.min(interval).saturating_sub(received.elapsed());
        Ok(wait.max(TICK))
    }
}

impl Schedules {
    /// Decides the slot of a schedule; answers the next one. A schedule that
    /// cannot be decided is left alone.
    async fn decide(
        &self,
        schedule: ScheduleRecord,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let Cadence::Sound(occurrences) = self.cadence(&schedule) else {
            return Ok(None);
        };
        let slot = schedule.next_run_at;
        // A cadence without another slot stays, and is never due again.
        let next = occurrences.next(slot, now).unwrap_or(Timestamp::MAX);
        let tick = Tick {
            key: schedule.key.clone(),
            version: schedule.version,
            expected: slot,
            next,
            job: Some(job_of(&schedule, slot)),
        };
        let link = &self.shared.link;
        match link
            .call("tick_schedule", link.store.tick_schedule(tick))
            .await
        {
            Ok(inserted) => {
                debug!(schedule = %schedule.key, %slot, inserted, "a slot is decided");
                if inserted {
                    self.shared.counters.slots_decided.one();
                }
                Ok(Some(next))
            }
            Err(StoreError::InvalidInput(error)) => {
                self.give_up(&schedule, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The parsed cadence of a schedule.
    fn cadence(&self, schedule: &ScheduleRecord) -> Cadence {
        if let Some((version, cadence)) = self.parsed.lock().get(&schedule.key)
            && *version == schedule.version
        {
            return cadence.clone();
        }
        match Occurrences::parse(&schedule.cadence) {
            Ok(occurrences) => {
                let cadence = Cadence::Sound(Arc::new(occurrences));
                self.remember(schedule, cadence.clone());
                cadence
            }
            Err(error) => {
                self.give_up(schedule, &error);
                Cadence::Broken
            }
        }
    }

    fn give_up(&self, schedule: &ScheduleRecord, error: &InvalidInput) {
        error!(schedule = %schedule.key, %error, "the schedule is broken and skipped, until it is changed");
        self.remember(schedule, Cadence::Broken);
    }

    fn remember(&self, schedule: &ScheduleRecord, cadence: Cadence) {
        /// Schedules come and go; this many are no burden.
        const MOST: usize = 10_000;
        let mut parsed = self.parsed.lock();
        if parsed.len() >= MOST {
            parsed.clear();
        }
        parsed.insert(schedule.key.clone(), (schedule.version, cadence));
    }
}

/// The job of a slot. Its id is the slot's, so that it is inserted once.
fn job_of(schedule: &ScheduleRecord, slot: Timestamp) -> NewJob {
    let millis = slot.as_millis();
    let mut spec = schedule.spec.clone();
    spec.metadata
        .insert(SCHEDULED_FOR.to_owned(), millis.to_string());
    NewJob {
        id: Some(JobId::from(format!("sched/{}/{millis}", schedule.key))),
        ..NewJob::new(spec)
    }
}
