//! How jobs end, in the terms of their kind.

use std::fmt;

use serde_json::Error as JsonError;

use crate::exit::{Defect, DefectKind, Exit};
use crate::job::Job;
use crate::json::RawJson;
use crate::record::{ChildResult, ChildStatus, JobRecord, JobState};

/// How a job ended.
#[non_exhaustive]
pub enum Outcome<J: Job> {
    /// Its handler returned a value.
    Completed(J::Output),
    /// Its handler returned an error, and no attempt was left or worth it.
    Failed(J::Error),
    /// Its handler panicked, in the last of its attempts.
    Panicked {
        /// What it panicked with.
        message: String,
    },
    /// Its last run took longer than its time-out.
    TimedOut,
    /// It was called off.
    Cancelled,
    /// The store ended it, where no handler did: its workers died too often,
    /// its record could not be read, or a child of its flow failed.
    Stalled {
        /// What the store says.
        reason: String,
    },
    /// Its last run ended in another way that no handler chose.
    Defect(Defect),
    /// There is no such job: it was removed, or kept no longer than it took to
    /// ask. [`Job::defaults`]' `keep` says how long it is.
    Gone,
    /// It ended, but what its handler returned does not decode into this
    /// program's types: those of the worker may be older or newer.
    Undecodable {
        /// What is stored.
        raw: RawJson,
        /// What serde says.
        error: JsonError,
    },
}

impl<J: Job> Outcome<J> {
    /// What a job that has ended came to; `None` stands for an unknown one.
    /// Answers `None` if it has not ended.
    pub(super) fn of(record: Option<JobRecord>) -> Option<Self> {
        let Some(record) = record else {
            return Some(Self::Gone);
        };
        match record.state {
            JobState::Cancelled => Some(Self::Cancelled),
            JobState::Completed => Some(Self::of_completed(record.exit)),
            JobState::Failed => Some(Self::of_failed(record.exit, record.failed_reason)),
            JobState::Waiting
            | JobState::Delayed
            | JobState::Active
            | JobState::WaitingChildren => None,
        }
    }

    /// What a child came to, as its parent's store knows it; `None` if that is
    /// not known yet.
    pub fn of_child(child: ChildResult) -> Option<Self> {
        match child.status {
            ChildStatus::Pending => None,
            ChildStatus::Cancelled => Some(Self::Cancelled),
            ChildStatus::Completed => Some(Self::of_completed(child.exit)),
            ChildStatus::Failed => Some(Self::of_failed(child.exit, child.failed_reason)),
        }
    }

    fn of_completed(exit: Option<RawJson>) -> Self {
        // A handler that returns nothing may store nothing.
        Self::from_exit(exit.unwrap_or_else(nothing))
    }

    fn of_failed(exit: Option<RawJson>, reason: Option<String>) -> Self {
        match exit {
            Some(exit) => Self::from_exit(exit),
            None => Self::Stalled {
                reason: reason.unwrap_or_default(),
            },
        }
    }

    fn from_exit(raw: RawJson) -> Self {
        match raw.decode::<Exit<J::Output, J::Error>>() {
            Ok(Exit::Ok(output)) => Self::Completed(output),
            Ok(Exit::Err(error)) => Self::Failed(error),
            Ok(Exit::Defect(defect)) => match defect.kind {
                DefectKind::Panic => Self::Panicked {
                    message: defect.message,
                },
                DefectKind::Timeout => Self::TimedOut,
                _ => Self::Defect(defect),
            },
            Err(error) => Self::Undecodable { raw, error },
        }
    }

    /// The output of a job that completed; what else happened, otherwise.
    ///
    /// # Errors
    /// The outcome itself, if it is not [`Completed`](Self::Completed).
    pub fn completed(self) -> Result<J::Output, Self> {
        match self {
            Self::Completed(output) => Ok(output),
            other => Err(other),
        }
    }
}

/// The exit of a handler that returned nothing and stored nothing.
fn nothing() -> RawJson {
    RawJson::encode(&Exit::<(), ()>::Ok(())).unwrap_or_default()
}

impl<J: Job> fmt::Debug for Outcome<J>
where
    J::Output: fmt::Debug,
    J::Error: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(output) => f.debug_tuple("Completed").field(output).finish(),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::Panicked { message } => f
                .debug_struct("Panicked")
                .field("message", message)
                .finish(),
            Self::TimedOut => f.write_str("TimedOut"),
            Self::Cancelled => f.write_str("Cancelled"),
            Self::Stalled { reason } => f.debug_struct("Stalled").field("reason", reason).finish(),
            Self::Defect(defect) => f.debug_tuple("Defect").field(defect).finish(),
            Self::Gone => f.write_str("Gone"),
            Self::Undecodable { raw, error } => f
                .debug_struct("Undecodable")
                .field("raw", raw)
                .field("error", error)
                .finish(),
        }
    }
}
