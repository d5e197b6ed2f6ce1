//! What processes write down while a run lasts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Instant;

/// A job under the token of one claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) token: String,
}

/// Something that happened. What asks the store is written down with the
/// instants before the call and after the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The producer was told that these jobs are in the store.
    Accepted { at: Instant, ids: Vec<String> },
    /// A worker was given these jobs.
    Claimed {
        asked: Instant,
        at: Instant,
        lock_for: Duration,
        token: String,
        ids: Vec<String>,
    },
    /// A worker's locks were extended.
    Extended {
        asked: Instant,
        at: Instant,
        lock_for: Duration,
        held: Vec<Held>,
    },
    /// A worker was told that these locks are lost.
    Lost { at: Instant, held: Vec<Held> },
    /// A handler began.
    Started { at: Instant, held: Held },
    /// A handler ended, or was dropped.
    Ended { at: Instant, held: Held },
    /// A worker is about to end a run.
    Acking {
        at: Instant,
        held: Held,
        outcome: Outcome,
    },
    /// The store answered it.
    Acked {
        at: Instant,
        held: Held,
        answer: Answer,
    },
    /// A worker is about to put a job back.
    Releasing { at: Instant, held: Held },
    /// A worker's process is about to be killed.
    Killed { at: Instant, worker: String },
    /// Any other fault, in words.
    Struck { at: Instant, fault: String },
    /// Something that must not happen, whatever goes wrong.
    Surprise { at: Instant, what: String },
}

/// How a worker would have a run end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The job is over.
    Final,
    /// It is to run again.
    Again,
}

/// What a store answers to an ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// This call ended the run.
    Applied,
    /// An earlier call had.
    Repeated,
    /// The token does not hold the job, or there is no such job.
    Refused,
    /// Nobody knows.
    InDoubt,
}
