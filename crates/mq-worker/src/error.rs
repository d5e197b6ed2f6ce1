//! What keeps a worker from starting, and a handler from reporting progress.

use std::time::Duration;

use mq_core::{InvalidInput, JobName, QueueName, StoreError, Timestamp};

/// Why a worker does not start. Each names the option or handler and what to
/// do about it; a store that is out of reach is none of them.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is nothing to run.
    #[error(
        "the worker has no handler: register one, or give it a maintenance task if it is to run none"
    )]
    NoHandler,
    /// Two handlers for one name.
    #[error("two handlers are registered for jobs named {name:?}: remove one of them")]
    DuplicateHandler {
        /// The name.
        name: JobName,
    },
    /// A name that no store takes.
    #[error("{0}")]
    InvalidName(#[from] InvalidInput),
    /// A concurrency for a queue that nothing is taken from.
    #[error(
        "queue {queue:?} has a concurrency, but is not served: register a handler of one of its jobs, or add it with `.queue({queue:?})`"
    )]
    UnservedQueue {
        /// The queue.
        queue: QueueName,
    },
    /// A number that must not be zero.
    #[error("{option} is 0, must be at least 1")]
    ZeroConcurrency {
        /// The option, as the builder calls it.
        option: String,
    },
    /// A duration that the option does not take.
    #[error("{option} is {value:?}, {rule}")]
    Duration {
        /// The option, as the builder calls it.
        option: &'static str,
        /// What it was set to.
        value: Duration,
        /// The rule it breaks.
        rule: DurationRule,
    },
    /// A worker that is driven by hand moves its store's clock, and this is
    /// not it.
    #[error(
        "the store's time is {now}, and the clock's {told}: give the worker the clock that its store was built with"
    )]
    OtherClock {
        /// The store's time.
        now: Timestamp,
        /// The clock's.
        told: Timestamp,
    },
    /// The store does not tell its time, which a worker that is driven by hand
    /// compares with its clock's.
    #[error("the store does not tell its time: {0}")]
    NoTime(StoreError),
}

/// A rule for durations; printed, it completes the sentence that the option
/// and its value begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationRule {
    /// Stores tell time in milliseconds.
    #[error("must be at least 1 ms")]
    TooShort,
    /// It must fit between the first and the last instant.
    #[error("at most 253,402,300,799,999 ms, the span from 1970 to 9999")]
    TooLong,
    /// Locks must be extended before they expire.
    #[error(
        "must be shorter than lock_duration ({lock_duration:?}), or locks expire between two heartbeats"
    )]
    NotShorterThanLock {
        /// What `lock_duration` is.
        lock_duration: Duration,
    },
    /// The store forgets a worker that is silent for too long.
    #[error("must be shorter than 60 s, or the store forgets the worker between two reports")]
    NotShorterThanMemory,
}

/// Why a handler's progress was not stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// The value does not encode to JSON.
    #[error("the progress does not encode to JSON: {message}")]
    Encode {
        /// What the encoder says.
        message: String,
    },
    /// The stored value does not decode.
    #[error("the stored progress does not decode: {message}")]
    Decode {
        /// What the decoder says, with the path to the place.
        message: String,
    },
    /// The store did not take it. `LockLost` means that the run is void.
    #[error(transparent)]
    Store(#[from] StoreError),
}
