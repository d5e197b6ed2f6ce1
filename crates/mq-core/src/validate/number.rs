//! Numbers and durations.

use std::time::Duration;

use super::Validated;
use crate::error::{InvalidInput, Rule};
use crate::time::LONGEST;

pub(super) fn lock_for(duration: Duration) -> Validated {
    if duration.is_zero() {
        return Err(InvalidInput::new(
            "lock_for",
            duration,
            Rule::Zero { least: "1 ms" },
        ));
    }
    self::duration("lock_for", duration)
}

/// A duration that an instant can be moved by.
pub(super) fn duration(field: &str, duration: Duration) -> Validated {
    if duration > LONGEST {
        return Err(InvalidInput::new(
            field,
            duration,
            Rule::OutOfRange {
                range: "at most 253,402,300,799,999 ms, the span from 1970 to 9999",
            },
        ));
    }
    Ok(())
}

pub(super) fn nonzero(field: &str, number: u32, least: &'static str) -> Validated<u32> {
    match number {
        0 => Err(InvalidInput::new(field, number, Rule::Zero { least })),
        number => Ok(number),
    }
}
