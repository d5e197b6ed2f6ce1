//! Run: claim jobs under a lock, keep the lock, and say how the run ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Result, only};
use crate::id::{JobId, JobName, LockToken, QueueName};
use crate::json::RawJson;
use crate::record::{FlowChild, JobRecord};
use crate::time::Timestamp;

/// Claim, run, acknowledge.
#[async_trait]
pub trait RunOps: Send + Sync {
    /// Promotes due delayed jobs of the asked names (250 at the most), then
    /// locks up to `limit` (clamped to 250) of the best waiting jobs: highest
    /// priority first, then first come. Promotion leaves `run_at` as it is.
    ///
    /// A claim repeated with its token, because its answer was lost, returns
    /// what is still locked under it, with the lock extended by `lock_for`
    /// from now, and locks nothing more, not even if nothing is left: whoever
    /// repeats a claim goes on with a new token. A paused queue yields nothing, but
    /// still promotes; a queue with limits yields no more than they allow.
    ///
    /// # Errors
    /// `InvalidInput`: a limit or lock of zero, a bad name, queue or token.
    async fn claim(&self, request: ClaimRequest) -> Result<Claim>;

    /// Ends runs, each answered in its place and on its own: one refused ack
    /// does not touch the others.
    ///
    /// The token must hold the lock; a lock that expired but was not recovered
    /// yet still does. A repeated ack answers `applied: false` and changes
    /// nothing, until another run of the job is acknowledged. A second entry
    /// for one id in a call is `LockLost`.
    ///
    /// # Errors
    /// Per ack: `LockLost`, `NotFound` (the worker takes it as settled),
    /// `InvalidInput`.
    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>>;

    /// Ends one run: [`ack_many`](Self::ack_many) for a batch of one.
    async fn ack(&self, ack: Ack) -> Result<Acked> {
        only(self.ack_many(vec![ack]).await?)?
    }

    /// Puts active jobs back in their old place, as if they had not been
    /// claimed; ends them `cancelled` if a cancel is pending. Answered in
    /// place, each on its own.
    ///
    /// # Errors
    /// Per lock: `LockLost` (also when repeated), `NotFound`.
    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>>;

    /// Puts one job back: [`release_many`](Self::release_many) for a batch of one.
    async fn release(&self, lock: Lock) -> Result<()> {
        only(self.release_many(vec![lock]).await?)?
    }

    /// Extends locks to `lock_for` from now. Locks on jobs with a pending
    /// cancel are named and not extended. A row that another transaction holds
    /// at this moment may be neither extended nor named.
    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended>;

    /// Stores what the handler reports, replacing what it reported before.
    ///
    /// # Errors
    /// `LockLost`, `NotFound`, `InvalidInput` (larger than a payload may be).
    async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()>;

    /// Takes back jobs whose lock has expired, `limit` (clamped to 250) at the
    /// most: each counts a stall and waits again in its old place, or, with
    /// more than `max_stalled_count` stalls, fails. A pending cancel ends it
    /// `cancelled` instead, counts no stall and is not reported.
    async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered>;

    /// Returns when something may be runnable in one of these queues that was
    /// not at the claim which gave `wake`: a job became `waiting` or
    /// `delayed`, a slot became free, a queue was resumed, or the store was
    /// out of reach for a while. Another queue's wake-up is no reason. Drop
    /// the future to stop waiting; nothing is lost.
    async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()>;

    /// Marks jobs as watched, so that their end is announced and automatic
    /// retention spares them for 60 s from it, and returns those that have
    /// ended already; an unknown id counts as ended.
    async fn watch(&self, ids: &[JobId]) -> Result<Watch>;

    /// Returns when one of these jobs may have ended since `cursor` was given;
    /// [`watch`](Self::watch) then says which. Drop the future to stop
    /// waiting; nothing is lost.
    async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()>;
}

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The queue to take from.
    pub queue: QueueName,
    /// The kinds of job it has handlers for.
    pub names: Arc<[JobName]>,
    /// The token of this one call; never used for another.
    pub token: LockToken,
    /// How long the lock holds unless it is extended; more than zero.
    pub lock_for: Duration,
    /// How many jobs at the most; at least 1, clamped to 250.
    pub limit: u32,
}

/// What a worker got.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The jobs, now active and locked under the call's token, best first.
    pub jobs: Vec<JobRecord>,
    /// When it is worth asking again without a wake-up: the earliest run time
    /// among delayed jobs of the asked names, or when a limit lets go; now, if
    /// more jobs are due than one call promotes.
    pub next_run_at: Option<Timestamp>,
    /// The store's time.
    pub now: Timestamp,
    /// Where to wait from.
    pub wake: WakeCursor,
}

/// A place in a store handle's stream of wake-ups; means nothing to another
/// handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeCursor(pub u64);

/// A place in a store handle's stream of announced ends; means nothing to
/// another handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchCursor(pub u64);

/// A job and the token that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The job.
    pub id: JobId,
    /// The token of the claim that locked it.
    pub token: LockToken,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Ack {
    /// What the run held.
    pub lock: Lock,
    /// How it ended.
    pub outcome: AckOutcome,
}

/// How a run ended. Each writes a ledger entry; all but `FanOut` and `Snooze`
/// consume an attempt.
#[derive(Clone, Debug)]
pub enum AckOutcome {
    /// Well: the job is completed, even if a cancel is pending.
    Complete {
        /// What the handler returned.
        exit: Option<RawJson>,
    },
    /// Badly and for good: the job is failed.
    Fail {
        /// What the handler returned.
        exit: Option<RawJson>,
    },
    /// Badly, to be tried again; with a cancel pending the job is cancelled.
    Retry {
        /// How long from now.
        delay: Duration,
        /// What the handler returned; kept in the ledger only.
        exit: Option<RawJson>,
    },
    /// It heeded a cancel: the job is cancelled.
    Cancelled,
    /// It put itself off; with a cancel pending the job is cancelled.
    Snooze {
        /// How long from now.
        delay: Duration,
    },
    /// It named its children: the job is parked until they settle, or waits
    /// for its second phase at once if there are none.
    FanOut {
        /// Whether the first failed child fails the job.
        fail_fast: bool,
        /// The children; the store keeps them and enqueues none.
        children: Vec<FlowChild>,
    },
}

/// What an ack did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Whether this call ended the run; false if an earlier one had.
    pub applied: bool,
}

/// What became of locks to extend; those not named were extended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Jobs whose lock is lost, unknown ones among them.
    pub lost: Vec<JobId>,
    /// Jobs to be cancelled, whose lock was not extended.
    pub cancel_requested: Vec<JobId>,
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The jobs that counted a stall, by lock expiry.
    pub stalled: Vec<Stalled>,
    /// Whether more locks have expired.
    pub more: bool,
}

/// A job that counted a stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The job.
    pub id: JobId,
    /// Its name.
    pub name: JobName,
    /// Its queue.
    pub queue: QueueName,
    /// What became of it.
    pub outcome: StallOutcome,
}

/// What becomes of a stalled job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallOutcome {
    /// It waits again.
    Requeued,
    /// It had stalled too often, and failed.
    Failed,
}

/// What is known when a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Which of the jobs have ended already, or are unknown.
    pub finished: Vec<JobId>,
    /// Where to wait from for the others.
    pub cursor: WatchCursor,
}
