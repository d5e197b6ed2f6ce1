//! Schedules and their ticks.

use super::job::job_spec;
use super::text::name;
use super::{Limits, Validated, job_name, new_job, queue_name};
use crate::error::{InvalidInput, Rule};
use crate::id::ScheduleKey;
use crate::record::{Cadence, NewSchedule};
use crate::store::{ScheduleFilter, Tick};

/// `upsert_schedule`.
pub fn upsert_schedule(schedule: &NewSchedule, limits: &Limits) -> Validated {
    schedule_key(&schedule.key)?;
    cadence(&schedule.cadence)?;
    job_spec(&schedule.spec, limits)?;
    schedule.group.as_deref().map_or(Ok(()), group)
}

/// `list_schedules`.
pub fn list_schedules(filter: &ScheduleFilter) -> Validated {
    filter.job_name.as_ref().map_or(Ok(()), job_name)?;
    filter.queue.as_ref().map_or(Ok(()), queue_name)?;
    filter.group.as_deref().map_or(Ok(()), group)
}

/// `tick_schedule`.
pub fn tick_schedule(tick: &Tick, limits: &Limits) -> Validated {
    schedule_key(&tick.key)?;
    let Some(job) = &tick.job else {
        return Ok(());
    };
    if job.id.is_none() {
        return Err(InvalidInput::new(
            "tick of schedule",
            &*tick.key,
            Rule::Other("has a job without an id: give it the slot's, sched/<key>/<millis>".into()),
        ));
    }
    new_job(job, limits)
}

/// The key of a schedule.
pub fn schedule_key(key: &ScheduleKey) -> Validated {
    name("schedule key", key)
}

/// When a schedule's slots fall: a cadence that parses and has slots.
pub fn cadence(cadence: &Cadence) -> Validated {
    crate::occurrence::Occurrences::parse(cadence).map(drop)
}

fn group(group: &str) -> Validated {
    name("schedule group", group)
}
