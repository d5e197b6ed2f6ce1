//! Operations with all that they need to be called.

use std::time::Duration;

use mq_core::{
    Ack, ChildKey, ClaimRequest, DedupeKey, JobId, JobName, ListFilter, Lock, LockToken, NewJob,
    NewSchedule, QueueName, QueueSettings, RawJson, Report, ScheduleKey, StoreKey, Tick,
};

#[derive(Clone, Debug)]
pub(super) enum Call {
    Enqueue(Vec<NewJob>),
    Claim(ClaimRequest),
    Ack(Vec<Ack>),
    Release(Vec<Lock>),
    Extend(Vec<Lock>, Duration),
    Progress(Lock, RawJson),
    /// Recoveries of this limit until one says that there is no more.
    Recover {
        most_stalls: u32,
        limit: u32,
    },
    Watch(Vec<JobId>),
    Cancel(Vec<JobId>),
    CancelByDedupe(JobName, DedupeKey),
    Retry(JobId),
    Promote(JobId),
    Remove(JobId),
    SetQueue(QueueName, QueueSettings),
    Sweep(u32),
    Upsert(NewSchedule),
    /// With the model's version of the schedule, which each store translates.
    Tick(Tick),
    Unschedule(ScheduleKey),
    Due(u32),
    Walk(ListFilter),
    Report(Vec<Report>),
    /// A flow's children, in pages of this limit.
    Children(JobId, u32),
    Pending(FlowKeys),
    Mark(FlowKeys),
    Undelivered(StoreKey, FlowKeys),
    /// Sweeps of this limit until one says that there is no more.
    FlowSweep {
        age: Duration,
        limit: u32,
    },
    /// The whole outbox, in pages of this limit.
    Outbox(u32),
    /// Deletes entries by their places, counted from the oldest.
    DeleteOutbox(Vec<usize>),
}

/// Children of a flow.
#[derive(Clone, Debug)]
pub(super) struct FlowKeys {
    pub(super) flow: JobId,
    pub(super) manifest: LockToken,
    pub(super) keys: Vec<ChildKey>,
}
