//! What a store answers, in a form that compares.

use mq_core::{
    Acked, Cancelled, ChildKey, ChildResult, DueSchedules, Enqueued, Extended, FlowSweepWork,
    JobId, JobRecord, JobState, OutboxEntry, ReportApplied, ScheduleRecord, Stalled, StoreError,
    Timestamp,
};

use super::flow::hide;

/// An answer, but for cursors, words and numbers that are each store's own.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Enqueued(Vec<Enqueued>),
    Claimed(Claimed),
    Acked(Vec<Result<Acked, Refused>>),
    Extended(Extended),
    /// In order of ids.
    Recovered(Vec<Stalled>),
    Finished(Vec<JobId>),
    Cancelled(Vec<Result<Cancelled, Refused>>),
    Done(Vec<Result<(), Refused>>),
    Decided(Result<bool, Refused>),
    Deleted(u64),
    Scheduled(Box<ScheduleRecord>),
    Due(DueSchedules),
    Listed(Vec<JobRecord>),
    Reported(Vec<ReportApplied>),
    Children(Vec<ChildResult>),
    Keys(Vec<ChildKey>),
    /// In order of flows and keys.
    FlowWork(FlowSweepWork),
    /// Under no ids.
    Outbox(Vec<OutboxEntry>),
    /// A query that the contract does not ask for.
    Unsupported,
}

#[derive(Debug, PartialEq)]
pub(super) struct Claimed {
    pub(super) jobs: Vec<JobRecord>,
    pub(super) next_run_at: Option<Timestamp>,
    pub(super) now: Timestamp,
}

#[derive(Debug, PartialEq)]
pub(super) enum Refused {
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
pub(super) fn each<T>(answers: Vec<Result<T, StoreError>>) -> Vec<Result<T, Refused>> {
    answers
        .into_iter()
        .map(|answer| answer.map_err(Refused::from))
        .collect()
}

/// The records with the store's own words left out.
pub(super) fn without_words(mut records: Vec<JobRecord>) -> Vec<JobRecord> {
    for record in &mut records {
        hide(&mut record.failed_reason);
    }
    records
}
