//! What a store answers, in a form that compares.

use mq_core::{
    Acked, Cancelled, DueSchedules, Enqueued, Extended, JobId, JobRecord, JobState, Recovered,
    ScheduleRecord, StoreError, Timestamp,
};

/// An answer, but for cursors and words, which are each store's own.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Enqueued(Vec<Enqueued>),
    Claimed(Claimed),
    Acked(Vec<Result<Acked, Refused>>),
    Extended(Extended),
    Recovered(Recovered),
    Finished(Vec<JobId>),
    Cancelled(Vec<Result<Cancelled, Refused>>),
    Done(Vec<Result<(), Refused>>),
    Decided(Result<bool, Refused>),
    Deleted(u64),
    Scheduled(Box<ScheduleRecord>),
    Due(DueSchedules),
    Listed(Vec<JobRecord>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Claimed {
    pub(crate) jobs: Vec<JobRecord>,
    pub(crate) next_run_at: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    NotFound(JobId),
    LockLost(JobId),
    IllegalState(&'static str, JobId, JobState),
    /// Anything else is not expected.
    Otherwise(String),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { id } => Self::NotFound(id),
            StoreError::LockLost { id } => Self::LockLost(id),
            StoreError::IllegalState {
                operation,
                id,
                state,
                ..
            } => Self::IllegalState(operation, id, state),
            other => Self::Otherwise(other.to_string()),
        }
    }
}

/// Answers with each refusal in its comparable form.
pub(crate) fn each<T>(answers: Vec<Result<T, StoreError>>) -> Vec<Result<T, Refused>> {
    answers
        .into_iter()
        .map(|answer| answer.map_err(Refused::from))
        .collect()
}

/// The records with the store's words left out.
pub(crate) fn without_words(mut records: Vec<JobRecord>) -> Vec<JobRecord> {
    for record in &mut records {
        if let Some(reason) = &mut record.failed_reason {
            assert!(!reason.is_empty(), "the store says why it ended a job");
            reason.clear();
        }
    }
    records
}
