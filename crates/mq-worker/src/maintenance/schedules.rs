//! Decides the slots of schedules: one job each, whoever comes first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mq_core::occurrence::Occurrences;
use mq_core::{
    InvalidInput, JobId, NewJob, SCHEDULED_FOR, ScheduleFilter, ScheduleKey, ScheduleRecord,
    StoreError, Tick, Timestamp, validate::MAX_BATCH,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, error};

use crate::extension::MaintenanceTask;
use crate::runtime::Shared;

/// The shortest wait for a slot: stores tell time in milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// How many decisions may get no answer before the round is given up.
const MOST_FAILURES: usize = 5;

/// Ticks schedules.
pub(crate) struct Schedules {
    shared: Arc<Shared>,
    /// What is known of schedules that have fallen due.
    known: Mutex<HashMap<ScheduleKey, Known>>,
}

/// What is known of a schedule.
struct Known {
    /// The version it had.
    version: u64,
    cadence: Cadence,
    /// Whether the store was said to refuse it.
    refused: bool,
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
            known: Mutex::default(),
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
        let is_full = answer.due.len() >= MAX_BATCH as usize;
        let mut round = Round {
            now: answer.now,
            decided: 0,
            next: answer.next_due,
        };
        self.decide_all(&mut round, answer.due).await?;
        if is_full && round.decided == 0 {
            // Those that cannot be decided fill the page: the others are behind it.
            self.decide_behind(&mut round).await?;
        }
        let until_next = round.next.map_or(interval, |next| next.since(round.now));
        let wait = until_next.min(interval).saturating_sub(received.elapsed());
        Ok(wait.max(TICK))
    }
}

/// What one look at the schedules has come to.
struct Round {
    /// The store's time.
    now: Timestamp,
    /// How many slots were decided, by this worker or another.
    decided: usize,
    /// The earliest slot to come.
    next: Option<Timestamp>,
}

impl Round {
    fn comes(&mut self, slot: Timestamp) {
        self.next = Some(self.next.map_or(slot, |next| next.min(slot)));
    }
}

impl Schedules {
    /// Decides what is due. One schedule never stops the others; a store that
    /// is out of reach stops them all.
    async fn decide_all(
        &self,
        round: &mut Round,
        due: Vec<ScheduleRecord>,
    ) -> Result<(), StoreError> {
        let mut failure = None;
        let mut failures = 0;
        for schedule in due {
            match self.decide(&schedule, round.now).await {
                Ok(Some(next)) => {
                    round.decided += 1;
                    round.comes(next);
                }
                Ok(None) => {}
                Err(error) if error.is_transient() => {
                    failures += 1;
                    failure = Some(error);
                }
                Err(error) => self.complain(&schedule, &error),
            }
            if failures >= MOST_FAILURES {
                break;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Decides what is due among all schedules, however many come before it
    /// that cannot be decided.
    async fn decide_behind(&self, round: &mut Round) -> Result<(), StoreError> {
        let link = &self.shared.link;
        let call = link.store.list_schedules(ScheduleFilter::default());
        let all = link.call("list_schedules", call).await?;
        let (mut due, later): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|schedule| schedule.next_run_at <= round.now);
        due.sort_unstable_by_key(|schedule| schedule.next_run_at);
        round.next = later.iter().map(|schedule| schedule.next_run_at).min();
        self.decide_all(round, due).await
    }

    /// Decides the slot of a schedule; answers the next one. A schedule that
    /// cannot be decided is left alone.
    async fn decide(
        &self,
        schedule: &ScheduleRecord,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let Cadence::Sound(occurrences) = self.cadence(schedule) else {
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
            job: Some(job_of(schedule, slot)),
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
                self.give_up(schedule, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The parsed cadence of a schedule.
    fn cadence(&self, schedule: &ScheduleRecord) -> Cadence {
        if let Some(known) = self.known.lock().get(&schedule.key)
            && known.version == schedule.version
        {
            return known.cadence.clone();
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

    /// Says once that the store does not decide a schedule.
    fn complain(&self, schedule: &ScheduleRecord, error: &StoreError) {
        if let Some(known) = self.known.lock().get_mut(&schedule.key)
            && std::mem::replace(&mut known.refused, true)
        {
            return;
        }
        error!(schedule = %schedule.key, %error, "the store refuses to decide a slot; trying again until it does not");
    }

    fn remember(&self, schedule: &ScheduleRecord, cadence: Cadence) {
        /// Schedules come and go; this many are no burden.
        const MOST: usize = 10_000;
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        let version = schedule.version;
        known.insert(
            schedule.key.clone(),
            Known {
                version,
                cadence,
                refused: false,
            },
        );
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
