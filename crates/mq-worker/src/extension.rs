//! What a worker runs besides handlers, for whoever registers it: a runner for
//! the phases of a job, maintenance tasks, and a look at each landed ack.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mq_core::{AckOutcome, Acked, JobRecord, Lock, StoreError};
use tokio::sync::Notify;

use crate::context::JobContext;
use crate::error::StartError;
use crate::outcome::RunEnd;

/// Runs every phase of a job that may fan out into children.
///
/// The first phase ends with [`RunEnd::FannedOut`]; the store then parks the
/// job until its children have settled, and a later run finds
/// [`JobRecord::flow`] present. Time-outs, cancels, lost locks and panics are
/// treated as those of a handler.
#[async_trait]
pub trait PhaseRunner: Send + Sync + 'static {
    /// Runs the phase the job is in: `context.record().flow` says which, and
    /// `context.record().spec.payload` is the job's data.
    async fn run(&self, context: JobContext) -> RunEnd;
}

/// Something a worker does over and over, as long as it runs.
///
/// Rounds never overlap. The worker begins the first at start, keeps panics
/// in, waits longer and longer after transient errors, and goes on until the
/// last ack of its shutdown has landed; then the round that is under way is
/// dropped where it waits, so each step must be safe to repeat.
#[async_trait]
pub trait MaintenanceTask: Send + Sync + 'static {
    /// What it is called in logs.
    fn name(&self) -> &str;

    /// Does one round, and answers how long to wait before the next.
    ///
    /// # Errors
    /// What kept the round from being done; it is begun again after a while.
    async fn round(&self) -> Result<Duration, StoreError>;

    /// Looks at its options before the worker starts.
    ///
    /// # Errors
    /// What keeps the worker from starting.
    fn check(&self) -> Result<(), StartError> {
        Ok(())
    }

    /// What makes the next round begin before its time.
    fn pulse(&self) -> Option<Pulse> {
        None
    }
}

/// Makes a maintenance task begin its next round at once. Clones pulse the
/// same task; a pulse during a round makes another one follow.
#[derive(Clone, Default)]
pub struct Pulse(Arc<Notify>);

impl Pulse {
    /// A pulse that nobody waits for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next round begin at once.
    pub fn send(&self) {
        self.0.notify_one();
    }

    /// Returns at the next pulse, or at once if one came since the last.
    pub(crate) async fn received(&self) {
        self.0.notified().await;
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").finish_non_exhaustive()
    }
}

/// A run whose end the store has confirmed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SettledRun<'a> {
    /// The job as it was claimed.
    pub job: &'a JobRecord,
    /// The lock the run held.
    pub lock: &'a Lock,
    /// How it ended, as the store was told.
    pub outcome: &'a AckOutcome,
    /// What it answered. Not applied means that the store knew already: an
    /// earlier try had landed, whose answer was lost, or the handler completed
    /// the job inside a transaction of its own.
    pub acked: Acked,
}

impl<'a> SettledRun<'a> {
    pub(crate) fn new(
        job: &'a JobRecord,
        lock: &'a Lock,
        outcome: &'a AckOutcome,
        acked: Acked,
    ) -> Self {
        Self {
            job,
            lock,
            outcome,
            acked,
        }
    }
}

/// What is called for each landed ack.
pub(crate) type AfterAck = Arc<dyn Fn(&SettledRun<'_>) + Send + Sync>;
