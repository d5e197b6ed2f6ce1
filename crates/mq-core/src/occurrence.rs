//! When schedules fall due.

use crate::error::{InvalidInput, Rule};
use crate::record::Cadence;
use crate::time::Timestamp;

/// A cadence, parsed: it computes slots.
#[derive(Debug)]
pub struct Occurrences {
    every: u64,
}

impl Occurrences {
    /// Parses a cadence.
    ///
    /// # Errors
    /// An interval of zero or out of range, a cron expression that does not
    /// parse or never matches, an unknown time zone.
    pub fn parse(cadence: &Cadence) -> Result<Self, InvalidInput> {
        match cadence {
            Cadence::Every(every) => Ok(Self {
                every: crate::time::ceil_millis(*every),
            }),
            Cadence::Cron { expression, .. } => Err(InvalidInput::new(
                "cron expression",
                expression,
                Rule::Other("placeholder".into()),
            )),
        }
    }

    /// The first slot of a schedule made at `now`.
    pub fn first(&self, now: Timestamp) -> Option<Timestamp> {
        self.next(now, now)
    }

    /// The slot after `slot`, decided at `now`: the first one after both.
    pub fn next(&self, slot: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let missed = now.as_millis().saturating_sub(slot.as_millis()) / self.every;
        Timestamp::from_millis(slot.as_millis() + (missed + 1) * self.every)
    }
}
