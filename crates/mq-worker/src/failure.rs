//! What `on_failure` is told of failed runs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mq_core::{AckOutcome, JobId, JobName, JobRecord, QueueName, RawJson, Stalled};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::error;

use crate::panic;

/// A run that failed, once the store has confirmed it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FailedRun {
    /// The job.
    pub id: JobId,
    /// Its name.
    pub name: JobName,
    /// Its queue.
    pub queue: QueueName,
    /// Why it failed.
    pub cause: FailureCause,
    /// What became of the job.
    pub outcome: FailureOutcome,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FailureCause {
    /// It ended like this.
    Exit {
        /// Which attempt of the current budget it was, 1-based.
        attempt: u32,
        /// `{"err": error}` or `{"defect": …}`.
        exit: RawJson,
    },
    /// Its worker was not heard of in time, once too often.
    Stalled,
}

/// What became of a job whose run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureOutcome {
    /// It is tried again, unless a cancel was pending.
    Retried {
        /// How long from the failure.
        delay: Duration,
    },
    /// It has failed.
    Failed,
}

impl FailedRun {
    /// What is to be told of an ended run; nothing unless it failed.
    pub(crate) fn of(job: &JobRecord, attempt: u32, outcome: &AckOutcome) -> Option<Self> {
        let (outcome, exit) = match outcome {
            AckOutcome::Fail { exit } => (FailureOutcome::Failed, exit),
            AckOutcome::Retry { delay, exit } => (FailureOutcome::Retried { delay: *delay }, exit),
            _ => return None,
        };
        Some(Self {
            id: job.id.clone(),
            name: job.spec.name.clone(),
            queue: job.spec.queue.clone(),
            cause: FailureCause::Exit {
                attempt,
                exit: exit.clone().unwrap_or_default(),
            },
            outcome,
        })
    }

    /// What is to be told of a job that stalled too often.
    pub(crate) fn stalled(job: Stalled) -> Self {
        Self {
            id: job.id,
            name: job.name,
            queue: job.queue,
            cause: FailureCause::Stalled,
            outcome: FailureOutcome::Failed,
        }
    }
}

/// What is called for each failed run.
pub(crate) type OnFailure = Arc<dyn Fn(FailedRun) -> BoxFuture<'static, ()> + Send + Sync>;

/// The callbacks, and their calls that are under way.
#[derive(Default)]
pub(crate) struct Failures {
    callbacks: Vec<OnFailure>,
    calls: Mutex<JoinSet<()>>,
}

impl Failures {
    pub(crate) fn new(callbacks: Vec<OnFailure>) -> Self {
        Self {
            callbacks,
            calls: Mutex::default(),
        }
    }

    /// Whether nobody listens.
    pub(crate) fn is_unheard(&self) -> bool {
        self.callbacks.is_empty()
    }

    /// Tells of a failed run. Nothing waits for the callbacks, and their panics
    /// go no further.
    pub(crate) fn tell(&self, failed: &FailedRun) {
        let mut calls = self.calls.lock();
        while calls.try_join_next().is_some() {}
        for callback in &self.callbacks {
            let callback = Arc::clone(callback);
            let failed = failed.clone();
            calls.spawn(async move {
                let id = failed.id.clone();
                let call = AssertUnwindSafe(async move { callback(failed).await });
                if let Err(payload) = call.catch_unwind().await {
                    let message = panic::message(payload);
                    error!(job_id = %id, panic = message, "on_failure panicked");
                }
            });
        }
    }

    /// Returns once the calls that are under way have ended.
    pub(crate) async fn told(&self) {
        let mut calls = std::mem::take(&mut *self.calls.lock());
        while calls.join_next().await.is_some() {}
    }
}
