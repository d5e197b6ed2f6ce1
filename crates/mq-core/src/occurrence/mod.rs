//! When schedules fall due.
//!
//! Stores keep the next slot and decide it; whoever ticks a schedule computes
//! the one after it here, from the store's own time.

#[cfg(feature = "cron")]
mod cron;

use crate::error::{InvalidInput, Rule};
use crate::record::Cadence;
use crate::time::{LONGEST, Timestamp, ceil_millis};

/// A cadence, parsed, that computes slots.
///
/// ```
/// use std::time::Duration;
/// use mq_core::{Cadence, Timestamp};
/// use mq_core::occurrence::Occurrences;
///
/// let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000).unwrap();
/// let every_ten = Occurrences::parse(&Cadence::Every(Duration::from_secs(10))).unwrap();
///
/// assert_eq!(every_ten.first(at(3)), Some(at(13)));
/// // Nothing ran for a while: one catch-up run, then the next slot on the grid.
/// assert_eq!(every_ten.next(at(13), at(47)), Some(at(53)));
/// ```
#[derive(Debug)]
pub struct Occurrences(Kind);

#[derive(Debug)]
enum Kind {
    /// Milliseconds from one slot to the next; at least 1.
    Every(u64),
    #[cfg(feature = "cron")]
    Cron(Box<cron::ZonedCron>),
}

impl Occurrences {
    /// Parses a cadence.
    ///
    /// # Errors
    /// An interval of zero or out of range; a cron expression that does not
    /// parse or never matches, an unknown time zone, or any cron expression
    /// without feature `cron`.
    pub fn parse(cadence: &Cadence) -> Result<Self, InvalidInput> {
        match cadence {
            Cadence::Every(every) if every.is_zero() => Err(InvalidInput::new(
                "schedule interval",
                every,
                Rule::Zero { least: "1 ms" },
            )),
            Cadence::Every(every) if *every > LONGEST => Err(InvalidInput::new(
                "schedule interval",
                every,
                Rule::OutOfRange {
                    range: "at most the span from 1970 to 9999",
                },
            )),
            Cadence::Every(every) => Ok(Self(Kind::Every(ceil_millis(*every)))),
            #[cfg(feature = "cron")]
            Cadence::Cron { expression, tz } => cron::ZonedCron::parse(expression, tz.as_deref())
                .map(|cron| Self(Kind::Cron(Box::new(cron)))),
            #[cfg(not(feature = "cron"))]
            Cadence::Cron { expression, .. } => Err(InvalidInput::new(
                "cron expression",
                expression,
                Rule::Other("needs the feature `cron`, which is off in this build".into()),
            )),
        }
    }

    /// The first slot of a schedule made at `now`: one interval later, or the
    /// first match of the cron expression after it. `None` if there is none
    /// before the end of time.
    pub fn first(&self, now: Timestamp) -> Option<Timestamp> {
        self.next(now, now)
    }

    /// The slot to go on with once `slot` has been decided at `now`: the first
    /// one after both, so that slots missed in between collapse into the one
    /// just decided. `None` if there is none before the end of time.
    pub fn next(&self, slot: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            Kind::Every(every) => {
                let missed = now.as_millis().saturating_sub(slot.as_millis()) / every;
                let ahead = every.checked_mul(missed + 1)?;
                Timestamp::from_millis(slot.as_millis().checked_add(ahead)?)
            }
            #[cfg(feature = "cron")]
            Kind::Cron(cron) => cron.after(slot.max(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn every(millis: u64) -> Occurrences {
        Occurrences::parse(&Cadence::Every(Duration::from_millis(millis))).unwrap()
    }

    #[test]
    fn an_interval_stays_on_the_grid_of_its_first_slot() {
        let tens = every(10);
        assert_eq!(tens.first(at(3)), Some(at(13)));
        assert_eq!(tens.next(at(13), at(13)), Some(at(23)));
        assert_eq!(tens.next(at(13), at(22)), Some(at(23)));
        assert_eq!(tens.next(at(13), at(23)), Some(at(33)));
        assert_eq!(tens.next(at(13), at(1_000_004)), Some(at(1_000_013)));
    }

    #[test]
    fn a_slot_decided_early_is_followed_by_the_one_after_it() {
        assert_eq!(every(10).next(at(13), at(5)), Some(at(23)));
    }

    #[test]
    fn there_is_no_slot_after_the_end_of_time() {
        assert_eq!(every(10).first(Timestamp::MAX), None);
        assert_eq!(every(LONGEST.as_millis() as u64).next(at(1), at(1)), None);
    }

    #[test]
    fn an_interval_of_zero_or_beyond_all_instants_is_refused() {
        for interval in [Duration::ZERO, Duration::MAX] {
            assert!(Occurrences::parse(&Cadence::Every(interval)).is_err());
        }
        assert_eq!(
            every(1).first(at(0)),
            Some(at(1)),
            "the shortest interval is one millisecond"
        );
    }
}
