//! A job that was enqueued, to ask after and to act on.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::core::Core;
use super::{ClientError, ClientResult, Outcome};
use crate::id::JobId;
use crate::job::Job;
use crate::record::{AttemptRecord, JobRecord};
use crate::store::Cancelled;

/// A job that was enqueued: ask after it, wait for it, call it off.
///
/// It is no more than the id and the client's connection: dropping it changes
/// nothing. [`Client::handle`](super::Client::handle) makes another one from
/// the id alone.
pub struct JobHandle<J: Job> {
    core: Arc<Core>,
    id: JobId,
    duplicate: bool,
    kind: PhantomData<fn() -> J>,
}

impl<J: Job> JobHandle<J> {
    pub(super) fn enqueued(core: Arc<Core>, id: JobId, duplicate: bool) -> Self {
        Self {
            core,
            id,
            duplicate,
            kind: PhantomData,
        }
    }

    pub(super) fn existing(core: Arc<Core>, id: JobId) -> Self {
        Self::enqueued(core, id, true)
    }

    /// The job's id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Whether the job was there before: an earlier one stands for the one that
    /// was to be enqueued, by id or by dedupe key.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }

    /// Waits until the job has ended, and reads how. Any number of handles may
    /// wait: they share their calls to the store.
    ///
    /// It may be dropped and called again. A job that is retried by hand while
    /// this looks at it is waited for again.
    ///
    /// # Errors
    /// `Store`: an error ends the wait at once, and says nothing about the job;
    /// call it again when [`is_transient`](ClientError::is_transient).
    /// `IdTaken` if the id belongs to another kind of job.
    pub async fn result(&self) -> ClientResult<Outcome<J>> {
        loop {
            let ended = self.core.await_end(&self.id).await?;
            if let Some(outcome) = Outcome::of(self.checked(ended)?) {
                return Ok(outcome);
            }
        }
    }

    /// How the job ended, if it has; [`Outcome::Gone`] if it is unknown.
    ///
    /// # Errors
    /// `Store`; `IdTaken` if the id belongs to another kind of job.
    pub async fn poll(&self) -> ClientResult<Option<Outcome<J>>> {
        Ok(Outcome::of(self.record().await?))
    }

    /// The job as its store holds it: state, progress, times; `None` if it is
    /// unknown.
    ///
    /// # Errors
    /// `Store`; `IdTaken` if the id belongs to another kind of job.
    pub async fn record(&self) -> ClientResult<Option<JobRecord>> {
        let record = self.core.read(&self.id).await?;
        self.checked(record)
    }

    /// The job's ledger: one entry per run, oldest first.
    ///
    /// # Errors
    /// `Store`.
    pub async fn attempts(&self) -> ClientResult<Vec<AttemptRecord>> {
        Ok(self.core.store.get_attempts(&self.id).await?)
    }

    /// Calls the job off: one that waits ends at once, one that runs is told by
    /// its worker.
    ///
    /// # Errors
    /// `Store`: `NotFound`; `IllegalState` if it has ended.
    pub async fn cancel(&self) -> ClientResult<Cancelled> {
        Ok(self.core.store.cancel(&self.id).await?)
    }

    /// Gives a failed job a fresh budget of attempts.
    ///
    /// # Errors
    /// `Store`: `NotFound`; `IllegalState` unless it has failed.
    pub async fn retry(&self) -> ClientResult<()> {
        Ok(self.core.store.retry(&self.id).await?)
    }

    /// Lets a delayed job run now.
    ///
    /// # Errors
    /// `Store`: `NotFound`; `IllegalState` unless it is delayed.
    pub async fn promote(&self) -> ClientResult<()> {
        Ok(self.core.store.promote(&self.id).await?)
    }

    fn checked(&self, record: Option<JobRecord>) -> ClientResult<Option<JobRecord>> {
        match record {
            Some(record) if record.spec.name.as_str() != J::NAME => Err(ClientError::IdTaken {
                id: record.id,
                name: record.spec.name,
            }),
            record => Ok(record),
        }
    }
}

impl<J: Job> Clone for JobHandle<J> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            id: self.id.clone(),
            duplicate: self.duplicate,
            kind: PhantomData,
        }
    }
}

impl<J: Job> fmt::Debug for JobHandle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("name", &J::NAME)
            .field("id", &self.id)
            .field("duplicate", &self.duplicate)
            .finish_non_exhaustive()
    }
}
