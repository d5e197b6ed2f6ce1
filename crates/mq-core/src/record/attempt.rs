//! The ledger: what became of each run.

use serde::{Deserialize, Serialize};

use crate::json::RawJson;
use crate::time::Timestamp;

/// How many of a job's newest ledger entries are kept.
pub const MAX_ATTEMPT_RECORDS: usize = 200;

/// One entry in a job's ledger. A job's entries come oldest first; the newest
/// [200](MAX_ATTEMPT_RECORDS) are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The entry's number: 1-based, never used again, going on after `retry`.
    pub attempt: u32,
    /// When the run began; only on entries that close a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the entry was written.
    pub finished_at: Timestamp,
    /// What became of the run.
    pub outcome: AttemptOutcome,
    /// What the handler returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<RawJson>,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It ended well, and with it the job.
    Completed,
    /// It failed, and another attempt follows.
    Retried,
    /// It failed, and with it the job.
    Failed,
    /// Its worker was not heard of in time.
    Stalled,
    /// The job was called off.
    Cancelled,
    /// It named the children of a flow.
    FannedOut,
    /// It put itself off, without using an attempt.
    Snoozed,
}

impl AttemptOutcome {
    /// The outcome's name as it is stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Stalled => "stalled",
            Self::Cancelled => "cancelled",
            Self::FannedOut => "fanned-out",
            Self::Snoozed => "snoozed",
        }
    }
}

impl std::fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
