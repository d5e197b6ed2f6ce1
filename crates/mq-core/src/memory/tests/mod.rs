//! What the contract cases cannot see: the indexes, and what waiting costs.

mod consistency;
mod details;
mod flows;
mod indexes;
mod wakes;

use std::time::Duration;

use super::MemoryStore;
use crate::id::LockToken;
use crate::json::RawJson;
use crate::record::{JobSpec, NewJob};
use crate::store::{Ack, AckOutcome, ClaimRequest, Lock};
use crate::time::ManualClock;

/// A store on a clock that stands still.
fn store() -> (MemoryStore, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().time(clock.clone()).build();
    (store, clock)
}

fn job(name: &str, queue: &str) -> NewJob {
    NewJob::new(JobSpec::new(name, queue, RawJson::null()))
}

/// A claim of jobs `a` and `b` in a queue, for 30 s.
fn claim(queue: &str, limit: u32) -> ClaimRequest {
    ClaimRequest {
        queue: queue.into(),
        names: ["a".into(), "b".into()].into(),
        token: LockToken::random(),
        lock_for: Duration::from_secs(30),
        limit,
    }
}

fn complete(lock: Lock) -> Ack {
    Ack {
        lock,
        outcome: AckOutcome::Complete { exit: None },
    }
}
