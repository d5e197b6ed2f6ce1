//! What a handler knows of its run, and may do about it.

use std::fmt;
use std::sync::Arc;

use mq_core::{
    Defect, DefectKind, Job, JobId, JobName, JobRecord, Lock, Metadata, QueueName, RawJson,
    SCHEDULED_FOR, StoreError, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ProgressError;
use crate::handler::decode;
use crate::outcome::{Retry, RunEnd};
use crate::run::{Run, StopReason};
use crate::runtime::Shared;

/// What a handler knows of its run. Clones are of the same run, so a handler
/// may hand them to tasks of its own.
#[derive(Clone)]
pub struct JobContext {
    run: Arc<Run>,
    shared: Arc<Shared>,
}

impl JobContext {
    pub(crate) fn new(run: Arc<Run>, shared: Arc<Shared>) -> Self {
        Self { run, shared }
    }

    /// Notes that the handler begins on the blocking pool; false if it must not.
    pub(crate) fn begins_to_block(&self) -> bool {
        self.run.begins_to_block()
    }

    /// The job's id.
    pub fn id(&self) -> &JobId {
        &self.run.job.id
    }

    /// The job's name.
    pub fn name(&self) -> &JobName {
        &self.run.job.spec.name
    }

    /// The queue it was taken from.
    pub fn queue(&self) -> &QueueName {
        &self.run.job.spec.queue
    }

    /// Which attempt of the current budget this is, 1-based. A snooze uses no
    /// attempt, a `retry` of the job begins again at 1.
    pub fn attempt(&self) -> u32 {
        self.run.attempt()
    }

    /// The number this run's entry in the ledger will have, 1-based: it is
    /// never used again.
    pub fn run(&self) -> u32 {
        self.run.job.attempts_recorded.saturating_add(1)
    }

    /// How many attempts the job has in all.
    pub fn attempts_max(&self) -> u32 {
        self.run.job.spec.attempts_max
    }

    /// The job's labels.
    pub fn metadata(&self) -> &Metadata {
        &self.run.job.spec.metadata
    }

    /// The slot this job runs for, if a schedule enqueued it.
    pub fn scheduled_for(&self) -> Option<Timestamp> {
        let millis = self.metadata().get(SCHEDULED_FOR)?.parse().ok()?;
        Timestamp::from_millis(millis)
    }

    /// The job as it was claimed.
    pub fn record(&self) -> &JobRecord {
        &self.run.job
    }

    /// The job's data, as a phase runner reads it; a handler is given it.
    ///
    /// # Errors
    /// How the run is to end if the data do not decode: no attempt would mend it.
    pub fn payload<J: Job>(&self) -> Result<J, RunEnd> {
        decode(&self.record().spec.payload).map_err(|error| {
            let message = format!(
                "the payload does not decode into the type registered for {:?}: {error}",
                J::NAME
            );
            RunEnd::defect(&Defect::new(DefectKind::Decode, message), Retry::Never)
        })
    }

    /// The lock the run holds. Its token differs from that of every other run
    /// and ascends with time on one machine, so it can fence off writes of a
    /// run that lost its lock.
    pub fn lock(&self) -> &Lock {
        &self.run.lock
    }

    /// Returns once the handler is to stop: the job was called off, the run
    /// timed out, the lock is lost, or the worker shuts down. After the cancel
    /// grace the handler's future is dropped.
    pub async fn cancelled(&self) -> StopReason {
        self.run.stopped().await
    }

    /// Why the handler is to stop, if it is: [`cancelled`](Self::cancelled)
    /// for those who look now and then.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.run.stop_reason()
    }

    /// Whether the handler is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.stop_reason().is_some()
    }

    /// What this run, or an earlier one of the job, last reported; none if
    /// nothing was.
    ///
    /// # Errors
    /// `Decode` if the stored value is not a `T`.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>, ProgressError> {
        let stored = self.run.progress();
        stored
            .map(|progress| decode(&progress))
            .transpose()
            .map_err(|message| ProgressError::Decode { message })
    }

    /// Stores how far the run has come, in place of what was reported before.
    /// Another attempt finds it with [`progress`](Self::progress), also after a
    /// crash.
    ///
    /// # Errors
    /// `Encode` if the value is not JSON; `Store` as the store says: a value
    /// larger than its payloads may be, `LockLost` if the run is void, or that
    /// it is unavailable, which passes.
    pub async fn set_progress<T: Serialize + ?Sized>(
        &self,
        progress: &T,
    ) -> Result<(), ProgressError> {
        let progress = RawJson::encode(progress).map_err(|error| ProgressError::Encode {
            message: error.to_string(),
        })?;
        let link = &self.shared.link;
        let lock = self.run.lock.clone();
        let answer = link
            .call(
                "set_progress",
                link.store.set_progress(lock, progress.clone()),
            )
            .await;
        match answer {
            Ok(()) => {
                self.run.remember_progress(progress);
                Ok(())
            }
            Err(error) => {
                // A task of the handler may outlive the run.
                if let StoreError::LockLost { .. } = error
                    && !self.run.has_ended()
                {
                    self.shared.lock_lost(&self.run);
                }
                Err(error.into())
            }
        }
    }

    /// [`set_progress`](Self::set_progress) for handlers on the blocking pool.
    ///
    /// # Errors
    /// Those of `set_progress`.
    ///
    /// # Panics
    /// In an async handler, which it would block.
    pub fn set_progress_blocking<T: Serialize + ?Sized>(
        &self,
        progress: &T,
    ) -> Result<(), ProgressError> {
        tokio::runtime::Handle::current().block_on(self.set_progress(progress))
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("id", self.id())
            .field("name", self.name())
            .field("queue", self.queue())
            .field("attempt", &self.attempt())
            .field("run", &self.run())
            .field("stop_reason", &self.stop_reason())
            .finish_non_exhaustive()
    }
}
