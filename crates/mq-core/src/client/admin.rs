//! What producers and operators do to jobs and queues afterwards.

use super::{Client, ClientResult};
use crate::id::{DedupeKey, JobId, JobName, QueueName};
use crate::job::{Job, SameStoreAs};
use crate::record::JobRecord;
use crate::store::{Cancelled, Change, QueueSettings, StoreName};

impl<S: StoreName> Client<S> {
    /// Calls off the job that holds a dedupe key; true if there was one and it
    /// had not ended.
    ///
    /// # Errors
    /// `Store`.
    pub async fn cancel_by_key<J: Job>(&self, key: impl Into<DedupeKey>) -> ClientResult<bool>
    where
        S: SameStoreAs<J::Store>,
    {
        let (name, key) = (JobName::from(J::NAME), key.into());
        Ok(self.core.store.cancel_by_dedupe(&name, &key).await?)
    }

    /// Calls a job off: one that waits ends at once, one that runs is told by
    /// its worker.
    ///
    /// # Errors
    /// `Store`: `NotFound`; `IllegalState` if it has ended.
    pub async fn cancel(&self, id: &JobId) -> ClientResult<Cancelled> {
        Ok(self.core.store.cancel(id).await?)
    }

    /// Gives a failed job a fresh budget of attempts, from now.
    ///
    /// # Errors
    /// `Store`: `NotFound`; `IllegalState` unless it has failed.
    pub async fn retry(&self, id: &JobId) -> ClientResult<()> {
        Ok(self.core.store.retry(id).await?)
    }

    /// Lets a delayed job run now.
    ///
    /// # Errors
    /// `Store`: `NotFound`; `IllegalState` unless it is delayed.
    pub async fn promote(&self, id: &JobId) -> ClientResult<()> {
        Ok(self.core.store.promote(id).await?)
    }

    /// Deletes a job and its ledger; false if it is unknown.
    ///
    /// # Errors
    /// `Store`: `IllegalState` if it is active or parked: cancel it first.
    pub async fn remove(&self, id: &JobId) -> ClientResult<bool> {
        Ok(self.core.store.remove(id).await?)
    }

    /// A job as the store holds it; `None` if it is unknown.
    ///
    /// # Errors
    /// `Store`.
    pub async fn job(&self, id: &JobId) -> ClientResult<Option<JobRecord>> {
        Ok(self.core.read(id).await?)
    }

    /// Lets a queue yield no more jobs, to any worker, until it is
    /// [resumed](Self::resume). What runs goes on.
    ///
    /// # Errors
    /// `Store`.
    pub async fn pause(&self, queue: impl Into<QueueName>) -> ClientResult<()> {
        self.set_paused(queue.into(), Change::Set(true)).await
    }

    /// Lets a paused queue yield jobs again.
    ///
    /// # Errors
    /// `Store`.
    pub async fn resume(&self, queue: impl Into<QueueName>) -> ClientResult<()> {
        self.set_paused(queue.into(), Change::Clear).await
    }

    async fn set_paused(&self, queue: QueueName, paused: Change<bool>) -> ClientResult<()> {
        let settings = QueueSettings {
            paused,
            ..QueueSettings::default()
        };
        Ok(self.core.store.set_queue(&queue, settings).await?)
    }
}
