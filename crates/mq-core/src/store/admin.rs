//! Admin: what operators and producers do to jobs and queues afterwards.

use async_trait::async_trait;

use super::{Result, only};
use crate::id::{DedupeKey, JobId, JobName, QueueName, StoreKey};
use crate::record::{Rate, WorkerRecord};

/// What operators and producers do to jobs and queues afterwards.
#[async_trait]
pub trait AdminOps: Send + Sync {
    /// Gives a failed job a fresh budget of attempts and lets it wait from
    /// now; its ledger, flow state and progress stay.
    ///
    /// # Errors
    /// `NotFound`; `IllegalState` unless it is failed.
    async fn retry(&self, id: &JobId) -> Result<()>;

    /// Calls jobs off, each answered in its place: what waits ends at once,
    /// what runs is told by its worker's next heartbeat.
    ///
    /// # Errors
    /// Per id: `NotFound`; `IllegalState` if it is terminal.
    async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>>;

    /// Calls one job off: [`cancel_many`](Self::cancel_many) for a batch of one.
    async fn cancel(&self, id: &JobId) -> Result<Cancelled> {
        only(self.cancel_many(std::slice::from_ref(id)).await?)?
    }

    /// Calls off the job that holds a dedupe key; true if there was one and it
    /// had not ended.
    async fn cancel_by_dedupe(&self, name: &JobName, key: &DedupeKey) -> Result<bool>;

    /// Lets a delayed job wait from now, in the place it arrived at.
    ///
    /// # Errors
    /// `NotFound`; `IllegalState` unless it is delayed.
    async fn promote(&self, id: &JobId) -> Result<()>;

    /// Deletes a job with its ledger and its children's rows; false if it is
    /// unknown. No report goes to a parent.
    ///
    /// # Errors
    /// `IllegalState` if it is active or parked.
    async fn remove(&self, id: &JobId) -> Result<bool>;

    /// Changes a queue's settings, for all workers, from their next claim on.
    async fn set_queue(&self, queue: &QueueName, settings: QueueSettings) -> Result<()>;

    /// Deletes finished jobs older than their own `keep` or the store's
    /// ceiling allow, and dead dedupe entries; `limit` (clamped to 250) at the
    /// most of each. A job that was spared because it is watched, and has a
    /// `keep` by count, lets that act now, as it would have at its end.
    async fn sweep_history(&self, limit: u32) -> Result<Swept>;

    /// Stores what a worker says of itself; forgotten after 60 s without word.
    async fn report_worker(&self, record: WorkerRecord) -> Result<()>;

    /// The workers heard of in the last 60 s, by id.
    async fn workers(&self) -> Result<Vec<WorkerRecord>>;

    /// Gives the store its name, once and for all; the same name again is fine.
    ///
    /// # Errors
    /// `NameMismatch` if it has another.
    async fn bind_name(&self, name: &StoreKey) -> Result<()>;
}

/// What a cancel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The job has ended.
    Ended,
    /// The job is running; its worker will be told.
    Requested,
}

/// What to change about a queue; what is left at its default stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whether it yields jobs.
    pub paused: Change<bool>,
    /// How many of its jobs may be active at once, over all workers; at least 1.
    pub max_active: Change<u32>,
    /// How many of its jobs may start in a span of time. A new rate starts
    /// afresh; the one it has already goes on.
    pub rate: Change<Rate>,
}

/// A change to one setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// Leave it as it is.
    #[default]
    Keep,
    /// Back to what a queue begins with.
    Clear,
    /// To this.
    Set(T),
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many jobs it deleted; dedupe entries are not counted.
    pub deleted: u64,
    /// Whether there are more jobs to sweep.
    pub more: bool,
}
