//! A job as this store holds it: what most jobs have in few bytes, the rest
//! behind one pointer.

use std::sync::Arc;
use std::time::Duration;

use super::arena::Ix;
use super::flow::Flow;
use super::history::Sparing;
use super::state::Group;
use crate::id::{DedupeKey, JobId, JobName, LockToken, QueueName};
use crate::json::RawJson;
use crate::record::whole::whole;
use crate::record::{
    AttemptOutcome, AttemptRecord, Backoff, JobRecord, JobSpec, JobState, Keep,
    MAX_ATTEMPT_RECORDS, Metadata, ParentEnvelope, Retention, TraceContext,
};
use crate::time::Timestamp;

/// Where a job lies; indexes hold these.
pub(super) type Slot = Ix<Box<Job>>;

/// The order of a `run_at` or `finished_at` index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimeKey {
    pub(super) at: Timestamp,
    pub(super) seq: u64,
}

/// The order of an `enqueued_at` or `lock_expires_at` index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdKey {
    pub(super) at: Timestamp,
    pub(super) id: JobId,
}

/// The order in which jobs wait: highest priority first, then first come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitKey {
    descending_priority: u32,
    seq: u64,
}

impl WaitKey {
    fn new(priority: i32, seq: u64) -> Self {
        // Flipping the sign bit maps the order of i32 onto that of u32.
        let ascending = priority.cast_unsigned() ^ (1 << 31);
        Self {
            descending_priority: !ascending,
            seq,
        }
    }
}

/// The policies of a job. Jobs of one kind mostly share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Policies {
    pub(super) backoff: Option<Backoff>,
    pub(super) keep: Option<Keep>,
    pub(super) timeout: Option<Duration>,
}

/// A lock on an active job.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) token: LockToken,
    pub(super) expires_at: Timestamp,
}

/// What few jobs have.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub(super) metadata: Metadata,
    pub(super) dedupe_key: Option<DedupeKey>,
    pub(super) trace: Option<TraceContext>,
    pub(super) parent: Option<ParentEnvelope>,
    pub(super) flow: Option<Box<Flow>>,
    pub(super) failed_reason: Option<String>,
    pub(super) progress: Option<RawJson>,
    /// The place in the stream of ends of this job's last one, or else of the
    /// moment from which it is watched.
    pub(super) announced: u64,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) payload: RawJson,
    pub(super) policies: Option<Arc<Policies>>,
    pub(super) extra: Option<Box<Extra>>,
    pub(super) exit: Option<RawJson>,
    pub(super) lock: Option<Held>,
    /// The token of the last run that was acked.
    pub(super) last_acked: Option<LockToken>,
    pub(super) ledger: Vec<AttemptRecord>,
    pub(super) seq: u64,
    pub(super) run_at: Timestamp,
    pub(super) enqueued_at: Timestamp,
    pub(super) processed_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    /// When the sweep has to look at this finished job, if ever.
    pub(super) sweep_at: Option<Timestamp>,
    pub(super) group: Ix<Group>,
    pub(super) priority: i32,
    pub(super) attempts_max: u32,
    pub(super) attempts_made: u32,
    pub(super) attempts_recorded: u32,
    pub(super) stalled_count: u32,
    pub(super) state: JobState,
    pub(super) cancel_requested: bool,
    pub(super) watched: bool,
    /// Whether automatic retention spares this finished job because it was
    /// watched.
    pub(super) spared: bool,
}

impl Job {
    pub(super) fn wait_key(&self) -> WaitKey {
        WaitKey::new(self.priority, self.seq)
    }

    pub(super) fn run_key(&self) -> TimeKey {
        TimeKey {
            at: self.run_at,
            seq: self.seq,
        }
    }

    /// The key among finished jobs; only for jobs that have finished.
    pub(super) fn finish_key(&self) -> TimeKey {
        TimeKey {
            at: self.finished_at.expect("a terminal job has finished"),
            seq: self.seq,
        }
    }

    pub(super) fn sweep_key(&self) -> Option<TimeKey> {
        self.sweep_at.map(|at| TimeKey { at, seq: self.seq })
    }

    pub(super) fn listing_key(&self) -> IdKey {
        IdKey {
            at: self.enqueued_at,
            id: self.id.clone(),
        }
    }

    /// The key among active jobs; only for jobs that are locked.
    pub(super) fn lock_key(&self) -> IdKey {
        IdKey {
            at: self
                .lock
                .as_ref()
                .expect("an active job is locked")
                .expires_at,
            id: self.id.clone(),
        }
    }

    pub(super) fn is_held_by(&self, token: &LockToken) -> bool {
        self.lock.as_ref().is_some_and(|held| held.token == *token)
    }

    pub(super) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(super) fn dedupe_key(&self) -> Option<&DedupeKey> {
        self.extra.as_ref()?.dedupe_key.as_ref()
    }

    pub(super) fn flow(&self) -> Option<&Flow> {
        self.extra.as_ref()?.flow.as_deref()
    }

    pub(super) fn flow_mut(&mut self) -> Option<&mut Flow> {
        self.extra.as_mut()?.flow.as_deref_mut()
    }

    /// Whether it is a flow's parent and its rows still owe cancels.
    pub(super) fn owes(&self) -> bool {
        self.flow().is_some_and(|flow| flow.owed() > 0)
    }

    /// Why automatic retention spares it, if it does.
    pub(super) fn sparing(&self) -> Option<Sparing> {
        if self.spared {
            Some(Sparing::ForAWhile)
        } else {
            self.owes().then_some(Sparing::WhileItOwes)
        }
    }

    /// The part of its `keep` that applies to the state it is in.
    pub(super) fn retention(&self) -> Option<Retention> {
        self.policies.as_ref()?.keep?.of(self.state)
    }

    /// Appends a ledger entry; an active job's run is closed by it.
    pub(super) fn record_attempt(
        &mut self,
        outcome: AttemptOutcome,
        exit: Option<RawJson>,
        now: Timestamp,
    ) {
        self.attempts_recorded = self.attempts_recorded.saturating_add(1);
        if self.ledger.len() == MAX_ATTEMPT_RECORDS {
            self.ledger.remove(0);
        } else if self.ledger.capacity() == 0 {
            // Most jobs run once.
            self.ledger.reserve_exact(1);
        }
        self.ledger.push(AttemptRecord {
            attempt: self.attempts_recorded,
            started_at: self.lock.as_ref().and(self.processed_at),
            finished_at: now,
            outcome,
            exit,
        });
    }

    pub(super) fn record(&self, queue: &QueueName, name: &JobName) -> JobRecord {
        let policies = self.policies.as_deref();
        let mut record = JobRecord {
            id: self.id.clone(),
            spec: JobSpec {
                name: name.clone(),
                queue: queue.clone(),
                payload: self.payload.clone(),
                metadata: Metadata::new(),
                priority: self.priority,
                attempts_max: self.attempts_max,
                backoff: policies.and_then(|policies| policies.backoff),
                keep: policies.and_then(|policies| policies.keep),
                timeout: policies.and_then(|policies| policies.timeout),
            },
            state: self.state,
            attempts_made: self.attempts_made,
            attempts_recorded: self.attempts_recorded,
            stalled_count: self.stalled_count,
            cancel_requested: self.cancel_requested,
            dedupe_key: None,
            trace: None,
            parent: None,
            flow: None,
            run_at: self.run_at,
            enqueued_at: self.enqueued_at,
            processed_at: self.processed_at,
            finished_at: self.finished_at,
            exit: self.exit.clone(),
            failed_reason: None,
            progress: None,
        };
        if let Some(extra) = self.extra.as_deref() {
            record.spec.metadata.clone_from(&extra.metadata);
            record.dedupe_key.clone_from(&extra.dedupe_key);
            record.trace.clone_from(&extra.trace);
            record.parent.clone_from(&extra.parent);
            record.flow = extra.flow.as_ref().map(|flow| flow.state().clone());
            record.failed_reason.clone_from(&extra.failed_reason);
            record.progress.clone_from(&extra.progress);
        }
        record
    }

    /// The bytes of raw JSON in its record.
    pub(super) fn raw_bytes(&self) -> usize {
        let progress = self
            .extra
            .as_ref()
            .and_then(|extra| extra.progress.as_ref());
        let length = |json: Option<&RawJson>| json.map_or(0, |json| json.get().len());
        self.payload.get().len() + length(self.exit.as_ref()) + length(progress)
    }
}

impl Policies {
    /// A spec's policies, with durations in whole milliseconds; `None` if it
    /// has none.
    pub(super) fn of(spec: &JobSpec) -> Option<Self> {
        let policies = Self {
            backoff: spec.backoff.map(Backoff::whole),
            keep: spec.keep.map(Keep::whole),
            timeout: spec.timeout.map(whole),
        };
        (policies != Self::default()).then_some(policies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_in_order_of_priority_then_arrival() {
        let order = [
            WaitKey::new(i32::MAX, 9),
            WaitKey::new(1, 8),
            WaitKey::new(0, 3),
            WaitKey::new(0, 4),
            WaitKey::new(-1, 2),
            WaitKey::new(i32::MIN, 1),
        ];
        assert!(order.is_sorted());
    }
}
