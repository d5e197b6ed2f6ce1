//! Schedules: jobs that come again.

use async_trait::async_trait;

use super::Result;
use crate::id::{JobName, QueueName, ScheduleKey};
use crate::record::{NewJob, NewSchedule, ScheduleRecord};
use crate::time::Timestamp;

/// Jobs that come again. The store keeps schedules and decides slots; workers
/// compute when they fall.
#[async_trait]
pub trait ScheduleOps: Send + Sync {
    /// Stores a schedule under its key. An unchanged cadence keeps the stored
    /// next slot, a changed one takes the caller's. Answers what is stored now.
    async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord>;

    /// Deletes a schedule; false if it is unknown. Jobs it enqueued stay.
    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool>;

    /// The schedules that match, by key.
    async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>>;

    /// The schedules whose slot has come, by slot, `limit` (clamped to 250) at
    /// the most.
    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules>;

    /// Decides a slot: if the schedule still has this version and this next
    /// slot, inserts the job, if any, and advances it, in one step.
    ///
    /// True if the job was inserted, or there was none to insert and the
    /// schedule advanced. False, and nothing inserted, if the caller is stale
    /// or the schedule unknown; false, but advanced, if the slot's job exists.
    /// A job's dedupe is ignored.
    ///
    /// # Errors
    /// `InvalidInput` if the job has no id.
    async fn tick_schedule(&self, tick: Tick) -> Result<bool>;
}

/// Which schedules. All filters must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleFilter {
    /// Of jobs of this name.
    pub job_name: Option<JobName>,
    /// Into this queue.
    pub queue: Option<QueueName>,
    /// Of this group.
    pub group: Option<String>,
}

/// Schedules whose slot has come.
#[derive(Clone, Debug, PartialEq)]
pub struct DueSchedules {
    /// Those due, by slot.
    pub due: Vec<ScheduleRecord>,
    /// The earliest slot of the others.
    pub next_due: Option<Timestamp>,
    /// The store's time.
    pub now: Timestamp,
}

/// A decision about a slot.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The schedule.
    pub key: ScheduleKey,
    /// The version it was read at.
    pub version: u64,
    /// The slot it was read with.
    pub expected: Timestamp,
    /// The slot after that.
    pub next: Timestamp,
    /// The slot's job, under an explicit id; none to skip the slot.
    pub job: Option<NewJob>,
}
