//! Schedules: which job to enqueue, and when.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::JobSpec;
use crate::id::ScheduleKey;
use crate::time::{Timestamp, millis};

/// When a schedule's slots fall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cadence {
    /// At the wall-clock times that a cron expression names.
    Cron {
        /// Five fields, or six with seconds first.
        expression: String,
        /// An IANA time zone, kept as given; UTC if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tz: Option<String>,
    },
    /// At fixed intervals, on the grid of the first slot.
    Every(#[serde(with = "millis")] Duration),
}

/// A schedule to store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewSchedule {
    /// The key, unique in the store.
    pub key: ScheduleKey,
    /// When its slots fall.
    pub cadence: Cadence,
    /// The job each slot enqueues.
    pub spec: JobSpec,
    /// The set of schedules it is declared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The first slot; an unchanged cadence keeps the stored one instead.
    pub next_run_at: Timestamp,
}

/// A schedule as a store holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// The key, unique in the store.
    pub key: ScheduleKey,
    /// When its slots fall.
    pub cadence: Cadence,
    /// The job each slot enqueues.
    pub spec: JobSpec,
    /// The set of schedules it is declared with.
    pub group: Option<String>,
    /// The next slot.
    pub next_run_at: Timestamp,
    /// Raised by each upsert, so that a tick decided on an older version is void.
    pub version: u64,
}
