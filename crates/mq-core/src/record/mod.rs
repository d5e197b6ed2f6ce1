//! What stores hold: plain data, the same for every driver.

mod attempt;
mod flow;
mod job;
mod policy;
mod schedule;
pub(crate) mod whole;
mod worker;

pub use attempt::{AttemptOutcome, AttemptRecord, MAX_ATTEMPT_RECORDS};
pub use flow::{
    ChildResult, ChildStatus, FlowChild, FlowCounts, FlowState, OutboxEntry, ParentEnvelope,
    Report, ReportOutcome,
};
pub use job::{JobRecord, JobSpec, JobState, Metadata, NewJob, SCHEDULED_FOR, TraceContext, When};
pub use policy::{Backoff, Dedupe, HistoryCeiling, Keep, Rate, Retention};
pub use schedule::{Cadence, NewSchedule, ScheduleRecord};
pub use worker::WorkerRecord;
