//! Cases of the room schedule.

mod due;
mod stored;
mod tick;

use super::Case;

pub(super) const CASES: &[&[Case]] = &[stored::CASES, due::CASES, tick::CASES];

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_schedule {
    () => {
        mod schedule {
            pub(super) const CASES: &[&[&str]] = &[stored::CASES, due::CASES, tick::CASES];
            $crate::__contract_schedule_stored!();
            $crate::__contract_schedule_due!();
            $crate::__contract_schedule_tick!();
        }
    };
}

use super::make::{job, ms};
use crate::record::{Cadence, NewSchedule};
use crate::time::Timestamp;

/// A schedule of the usual job, once a minute.
fn minutely(key: &str, next_run_at: Timestamp) -> NewSchedule {
    NewSchedule {
        key: key.into(),
        cadence: Cadence::Every(ms(60_000)),
        spec: job().spec,
        group: None,
        next_run_at,
    }
}
