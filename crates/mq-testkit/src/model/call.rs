//! Operations with all that they need to be called.

use std::time::Duration;

use mq_core::{
    Ack, ClaimRequest, DedupeKey, JobId, JobName, ListFilter, Lock, NewJob, NewSchedule, QueueName,
    QueueSettings, RawJson, ScheduleKey, Tick,
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
}
