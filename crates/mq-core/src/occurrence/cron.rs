//! Cron expressions in time zones.
//!
//! What happens when a zone's clock changes is the rule of the `croner` crate,
//! written down with examples in `docs/schedules.md` and pinned by the tests
//! below.

use chrono::{DateTime, Days, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};

use crate::error::{InvalidInput, Rule};
use crate::time::Timestamp;

/// A cron expression and the zone whose wall clock it reads.
#[derive(Debug)]
pub(super) struct ZonedCron {
    cron: Cron,
    zone: Tz,
}

impl ZonedCron {
    pub(super) fn parse(expression: &str, zone: Option<&str>) -> Result<Self, InvalidInput> {
        let refused = |error: CronError| {
            InvalidInput::new(
                "cron expression",
                expression,
                Rule::Other(format!("does not parse: {error}")),
            )
        };
        let cron = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build()
            .parse(expression)
            .map_err(refused)?;
        // Without a year field what matches once matches again within 400 years.
        if matches_on_wall_clock(&cron, NaiveDateTime::default()).is_none() {
            let rule = "never matches: no date has this day, month and weekday";
            return Err(InvalidInput::new(
                "cron expression",
                expression,
                Rule::Other(rule.into()),
            ));
        }
        let zone = match zone {
            None => Tz::UTC,
            Some(name) => name.parse().map_err(|_| {
                let rule = "is not a zone of the IANA time zone database, such as America/New_York";
                InvalidInput::new("time zone", name, Rule::Other(rule.into()))
            })?,
        };
        Ok(Self { cron, zone })
    }

    /// The first match after `instant`.
    pub(super) fn after(&self, instant: Timestamp) -> Option<Timestamp> {
        let millis = i64::try_from(instant.as_millis()).ok()?;
        let now = DateTime::from_timestamp_millis(millis)?.with_timezone(&self.zone);
        let mut found = self.cron.find_next_occurrence(&now, false);
        let mut wall_clock = now.naive_local();
        loop {
            match &found {
                Ok(run) if self.cron.is_time_matching(run).ok()? => return timestamp(run),
                _ => {}
            }
            // The wall clock jumps over the time that was asked for. The
            // library moves it to the end of the jump, or gives up if that is
            // more than two hours away. Where the whole day is jumped over it
            // has no run; the search goes on behind it, until the wall clock
            // itself has no further match.
            wall_clock = matches_on_wall_clock(&self.cron, wall_clock)?;
            let next_day = self.start_of_day_after(wall_clock)?;
            match &found {
                Ok(run) if self.has_day_before(&next_day, wall_clock) => return timestamp(run),
                _ => found = self.cron.find_next_occurrence(&next_day, true),
            }
        }
    }

    /// The first instant of the day after `wall_clock`'s.
    fn start_of_day_after(&self, wall_clock: NaiveDateTime) -> Option<DateTime<Tz>> {
        let mut start = wall_clock
            .date()
            .checked_add_days(Days::new(1))?
            .and_time(NaiveTime::MIN);
        // Where the change of a clock swallows midnight the day starts later.
        loop {
            if let Some(instant) = self.zone.from_local_datetime(&start).earliest() {
                return Some(instant);
            }
            start = start.checked_add_signed(TimeDelta::minutes(1))?;
        }
    }

    /// Whether the day of `wall_clock`, which would end at `next_day`, exists.
    fn has_day_before(&self, next_day: &DateTime<Tz>, wall_clock: NaiveDateTime) -> bool {
        next_day
            .checked_sub_signed(TimeDelta::seconds(1))
            .is_some_and(|last| last.naive_local().date() == wall_clock.date())
    }
}

/// The next match after `from` on a wall clock that never changes.
fn matches_on_wall_clock(cron: &Cron, from: NaiveDateTime) -> Option<NaiveDateTime> {
    cron.find_next_occurrence(&Utc.from_utc_datetime(&from), false)
        .ok()
        .map(|found| found.naive_utc())
}

fn timestamp(instant: &DateTime<Tz>) -> Option<Timestamp> {
    Timestamp::from_millis(u64::try_from(instant.timestamp_millis()).ok()?)
}

#[cfg(test)]
#[path = "cron_tests.rs"]
mod tests;
