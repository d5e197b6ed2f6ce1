//! Inspect: what is there.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Result, only};
use crate::id::{JobId, JobName, QueueName};
use crate::record::{AttemptRecord, JobRecord, JobState, Metadata, Rate};
use crate::time::Timestamp;

/// What is there.
#[async_trait]
pub trait InspectOps: Send + Sync {
    /// Reads jobs, each answered in its place: `None` if unknown.
    ///
    /// # Errors
    /// Per id: `Corrupt`.
    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>>;

    /// Reads one job: [`get_jobs`](Self::get_jobs) for a batch of one.
    async fn get_job(&self, id: &JobId) -> Result<Option<JobRecord>> {
        only(self.get_jobs(std::slice::from_ref(id)).await?)?
    }

    /// Reads a job's ledger, oldest entry first; empty if the job is unknown.
    async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>>;

    /// Reads a page of jobs.
    ///
    /// Pages never skip or repeat a job that stands still, ties included.
    ///
    /// # Errors
    /// `InvalidInput`: a malformed cursor, a limit of zero. `Unsupported`: an
    /// order the store cannot serve with these filters.
    async fn list(&self, filter: ListFilter) -> Result<ListPage>;

    /// Counts jobs by state, in one queue or in all.
    async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts>;

    /// Describes each queue that has a job record or a setting, by name.
    async fn queues(&self) -> Result<Vec<QueueInfo>>;

    /// The store's time.
    async fn now(&self) -> Result<Timestamp>;
}

/// Which jobs, in which order. All filters must match.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// In this queue.
    pub queue: Option<QueueName>,
    /// Of this name.
    pub name: Option<JobName>,
    /// In one of these states; an empty set matches nothing.
    pub states: Option<Vec<JobState>>,
    /// With all of these labels.
    pub metadata: Metadata,
    /// Only jobs that have fanned out: parents of a flow.
    pub flow_parents: bool,
    /// By which instant.
    pub order_by: OrderBy,
    /// Newest or oldest first.
    pub direction: Direction,
    /// Where the page before this one ended.
    pub cursor: Option<ListCursor>,
    /// How many at the most: 50 if absent, clamped to 1,000. A page also ends
    /// at 8 MiB of raw JSON.
    pub limit: Option<u32>,
}

/// By which instant jobs are listed. Ties go by id for `EnqueuedAt` and
/// `LockExpiresAt`, by arrival for the others, in the same direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderBy {
    /// When they were inserted. Served with any filter.
    #[default]
    EnqueuedAt,
    /// When they run. Served for delayed jobs of a queue.
    RunAt,
    /// When their lock expires. Served for active jobs.
    LockExpiresAt,
    /// When they ended. Served for terminal states, with or without name or queue.
    FinishedAt,
}

/// Which end comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// Where a page ended, as opaque text that can be handed to a browser and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ListCursor(pub String);

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A page of jobs.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// The jobs, in order.
    pub items: Vec<JobRecord>,
    /// Jobs in this page's range that cannot be decoded.
    pub corrupt: Vec<JobId>,
    /// Where the next page begins; absent on the last.
    pub cursor: Option<ListCursor>,
}

/// How many jobs are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCounts {
    /// Runnable.
    pub waiting: u64,
    /// Not yet due.
    pub delayed: u64,
    /// Locked by a worker.
    pub active: u64,
    /// Parked flow parents.
    pub waiting_children: u64,
    /// Ended well.
    pub completed: u64,
    /// Ended badly.
    pub failed: u64,
    /// Called off.
    pub cancelled: u64,
}

impl StateCounts {
    /// The number for one state.
    pub fn of(&self, state: JobState) -> u64 {
        match state {
            JobState::Waiting => self.waiting,
            JobState::Delayed => self.delayed,
            JobState::Active => self.active,
            JobState::WaitingChildren => self.waiting_children,
            JobState::Completed => self.completed,
            JobState::Failed => self.failed,
            JobState::Cancelled => self.cancelled,
        }
    }

    /// The number for one state, to change.
    pub fn of_mut(&mut self, state: JobState) -> &mut u64 {
        match state {
            JobState::Waiting => &mut self.waiting,
            JobState::Delayed => &mut self.delayed,
            JobState::Active => &mut self.active,
            JobState::WaitingChildren => &mut self.waiting_children,
            JobState::Completed => &mut self.completed,
            JobState::Failed => &mut self.failed,
            JobState::Cancelled => &mut self.cancelled,
        }
    }

    /// The number of jobs in any state.
    pub fn total(&self) -> u64 {
        JobState::ALL.into_iter().map(|state| self.of(state)).sum()
    }
}

/// A queue at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueInfo {
    /// Its name.
    pub queue: QueueName,
    /// Its jobs by state.
    pub counts: StateCounts,
    /// Whether it yields nothing for now.
    pub paused: bool,
    /// How many of its jobs may be active at once, over all workers.
    pub max_active: Option<u32>,
    /// How many of its jobs may start in a span of time, over all workers.
    pub rate: Option<Rate>,
}
