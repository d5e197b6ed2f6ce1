//! Short words for what cases put in.

use std::time::Duration;

use crate::id::{DedupeKey, JobId, JobName, LockToken, QueueName};
use crate::json::RawJson;
use crate::record::{Dedupe, JobSpec, Keep, NewJob, When};
use crate::store::{Ack, AckOutcome, ClaimRequest, Lock};
use crate::time::Timestamp;

/// The queue that jobs go to unless a case says otherwise.
pub(super) const QUEUE: &str = "queue";
/// The name that jobs bear unless a case says otherwise.
pub(super) const NAME: &str = "job";
/// How long a claim's lock holds unless a case says otherwise, in milliseconds.
pub(super) const LOCK: u64 = 30_000;

/// No job at all.
pub(super) const NO_JOBS: [JobId; 0] = [];

/// The usual job: named [`NAME`], in [`QUEUE`], to run at once.
pub(super) fn job() -> NewJob {
    NewJob::new(JobSpec::new(NAME, QUEUE, RawJson::null()))
}

/// So many usual jobs.
pub(super) fn jobs(count: usize) -> Vec<NewJob> {
    vec![job(); count]
}

/// Ways to make a job unlike the usual one.
pub(super) trait Make {
    fn id(self, id: impl Into<JobId>) -> Self;
    fn name(self, name: impl Into<JobName>) -> Self;
    fn queue(self, queue: impl Into<QueueName>) -> Self;
    fn payload(self, text: impl Into<String>) -> Self;
    fn label(self, key: &str, value: &str) -> Self;
    fn priority(self, priority: i32) -> Self;
    fn delay(self, millis: u64) -> Self;
    fn at(self, instant: Timestamp) -> Self;
    fn keep(self, keep: Keep) -> Self;
    fn dedupe(self, dedupe: Dedupe) -> Self;
    fn key(self, key: impl Into<DedupeKey>) -> Self;
}

impl Make for NewJob {
    fn id(mut self, id: impl Into<JobId>) -> Self {
        self.id = Some(id.into());
        self
    }

    fn name(mut self, name: impl Into<JobName>) -> Self {
        self.spec.name = name.into();
        self
    }

    fn queue(mut self, queue: impl Into<QueueName>) -> Self {
        self.spec.queue = queue.into();
        self
    }

    fn payload(mut self, text: impl Into<String>) -> Self {
        self.spec.payload = json(text);
        self
    }

    fn label(mut self, key: &str, value: &str) -> Self {
        self.spec.metadata.insert(key.into(), value.into());
        self
    }

    fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    fn delay(mut self, millis: u64) -> Self {
        self.when = When::After(ms(millis));
        self
    }

    fn at(mut self, instant: Timestamp) -> Self {
        self.when = When::At(instant);
        self
    }

    fn keep(mut self, keep: Keep) -> Self {
        self.spec.keep = Some(keep);
        self
    }

    fn dedupe(mut self, dedupe: Dedupe) -> Self {
        self.dedupe = Some(dedupe);
        self
    }

    fn key(self, key: impl Into<DedupeKey>) -> Self {
        self.dedupe(Dedupe::key(key))
    }
}

/// So many milliseconds.
pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A JSON text, as it is.
pub(super) fn json(text: impl Into<String>) -> RawJson {
    RawJson::parse(text).expect("the case writes JSON")
}

/// A claim for the usual jobs, under a token of its own.
pub(super) fn request(limit: u32) -> ClaimRequest {
    request_for(&[NAME], limit)
}

/// A claim for jobs of these names.
pub(super) fn request_for(names: &[&str], limit: u32) -> ClaimRequest {
    ClaimRequest {
        queue: QUEUE.into(),
        names: names.iter().map(|&name| JobName::from(name)).collect(),
        token: LockToken::random(),
        lock_for: ms(LOCK),
        limit,
    }
}

/// The end of a run.
pub(super) fn ack(lock: &Lock, outcome: AckOutcome) -> Ack {
    Ack {
        lock: lock.clone(),
        outcome,
    }
}

/// A lock that nobody holds.
pub(super) fn lock(id: impl Into<JobId>, token: impl Into<LockToken>) -> Lock {
    Lock {
        id: id.into(),
        token: token.into(),
    }
}

/// Ends a run well, without a value.
pub(super) fn complete() -> AckOutcome {
    AckOutcome::Complete { exit: None }
}

/// Ends a run badly, without a value.
pub(super) fn fail() -> AckOutcome {
    AckOutcome::Fail { exit: None }
}

/// Ends a run badly, to be tried again.
pub(super) fn retry_in(millis: u64) -> AckOutcome {
    AckOutcome::Retry {
        delay: ms(millis),
        exit: None,
    }
}

/// Puts a run off.
pub(super) fn snooze_for(millis: u64) -> AckOutcome {
    AckOutcome::Snooze { delay: ms(millis) }
}
