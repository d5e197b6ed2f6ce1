//! Enqueue: where jobs come in.

use async_trait::async_trait;

use super::{Result, only};
use crate::id::{JobId, JobName};
use crate::record::NewJob;

/// Where jobs come in.
#[async_trait]
pub trait EnqueueOps: Send + Sync {
    /// Inserts jobs, and answers for each in its place.
    ///
    /// The whole batch is validated first: if one item breaks a rule, nothing
    /// is written. After that each item stands alone, as if enqueued in turn;
    /// the batch is not one transaction. Per item:
    ///
    /// 1. An explicit id that exists, in any state: nothing changes, a duplicate.
    /// 2. Else the dedupe entry of the job's name and key decides: it replaces
    ///    a job that is still delayed, or stands for one that is not over, or
    ///    for an open window (all duplicates), or it is dead and the new job
    ///    takes the key over.
    /// 3. Without an id the store draws one. A drawn id that turns out to be
    ///    taken is drawn again, five times at the most.
    /// 4. The job becomes `delayed` if its time is in the future, else `waiting`.
    ///
    /// Whatever becomes `waiting` or `delayed` wakes its queue.
    ///
    /// # Errors
    /// `InvalidInput`, naming the item; `IdsTaken`; `Unavailable`, after which
    /// items with an explicit id may be repeated without a second job. Items
    /// without one may then exist twice.
    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>>;

    /// Inserts one job: [`enqueue_many`](Self::enqueue_many) for a batch of one.
    async fn enqueue(&self, job: NewJob) -> Result<Enqueued> {
        only(self.enqueue_many(vec![job]).await?)
    }
}

/// What became of a request to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The id of the new job, or of the one that stands for it.
    pub id: JobId,
    /// The name of that job; another than the one asked for if an explicit id
    /// belongs to another kind of job.
    pub name: JobName,
    /// Whether an earlier job stands for this one.
    pub duplicate: bool,
}
