//! What a worker has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use mq_core::AckOutcome;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a worker has done since it started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters behind [`WorkerStats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Runs that ended well.
    completed,
    /// Runs that failed and are tried again.
    retried,
    /// Runs that failed, and their jobs with them.
    failed,
    /// Runs that heeded a cancel.
    cancelled,
    /// Runs that put themselves off.
    snoozed,
    /// Runs that named the children of a flow.
    fanned_out,
    /// Jobs put back without a run, or with one that was broken off.
    released,
    /// Runs whose lock was lost.
    locks_lost,
    /// Runs whose end the store refused to take for good; their jobs stall.
    refused,
    /// Claims that were repeated, as their outcome was unknown.
    claims_repeated,
    /// Jobs of any worker that stalled and were put back.
    stalls_requeued,
    /// Jobs of any worker that stalled too often and failed.
    stalls_failed,
    /// Schedule slots decided by this worker.
    slots_decided,
    /// Finished jobs deleted because their retention was over.
    swept,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }
}

impl Counters {
    /// Counts a run that ended like this.
    pub(crate) fn ended(&self, outcome: &AckOutcome) {
        match outcome {
            AckOutcome::Complete { .. } => self.completed.one(),
            AckOutcome::Fail { .. } => self.failed.one(),
            AckOutcome::Retry { .. } => self.retried.one(),
            AckOutcome::Cancelled => self.cancelled.one(),
            AckOutcome::Snooze { .. } => self.snoozed.one(),
            AckOutcome::FanOut { .. } => self.fanned_out.one(),
        }
    }
}

impl WorkerStats {
    /// Runs that ended, however they did, with the store's knowledge.
    pub fn ends(&self) -> u64 {
        self.completed
            + self.retried
            + self.failed
            + self.cancelled
            + self.snoozed
            + self.fanned_out
    }
}
