//! A job with what applies to it, on its way into a store.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::{ClientError, ClientResult};
use crate::error::{InvalidInput, Rule};
use crate::id::{JobId, JobName, QueueName};
use crate::job::Job;
use crate::record::{Backoff, Dedupe, JobSpec, Keep, NewJob, When};
use crate::time::Timestamp;
use crate::validate;

/// A job with what applies to it; what is not set is as its [`Job`] trait says.
///
/// [`Client::enqueue`](super::Client::enqueue) gives one that is awaited;
/// [`Request::new`] one that goes into
/// [`enqueue_many`](super::Client::enqueue_many).
///
/// `V` is what it is sent through, and `T` whether its time is set:
/// [`delay`](Self::delay) and [`at`](Self::at) exclude each other.
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use mq_core::{Job, Request, Timestamp};
/// # fn both<J: Job>(job: J, at: Timestamp) {
/// Request::new(job).delay(Duration::from_secs(1)).at(at);
/// # }
/// ```
#[must_use = "a request does nothing until it is awaited or handed to `enqueue_many`"]
pub struct Request<J, V = Detached, T = AnyTime> {
    pub(super) via: V,
    parts: ClientResult<NewJob>,
    explicit_id: bool,
    kind: PhantomData<fn(J) -> T>,
}

/// A [`Request`] or [`Schedule`](super::Schedule) that no client has taken up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detached;

/// A [`Request`] whose time is not set: at once, unless that follows.
#[derive(Clone, Copy, Debug)]
pub enum AnyTime {}

/// A [`Request`] whose time is set.
#[derive(Clone, Copy, Debug)]
pub enum Timed {}

impl<J: Job> Request<J> {
    /// A request for this job, to be handed to
    /// [`enqueue_many`](super::Client::enqueue_many).
    pub fn new(job: J) -> Self {
        Self::via(Detached, &job)
    }
}

impl<J: Job, V> Request<J, V> {
    pub(super) fn via(via: V, job: &J) -> Self {
        Self {
            via,
            parts: new_job(job),
            explicit_id: false,
            kind: PhantomData,
        }
    }

    /// Runs it so long from now, by the store's clock.
    pub fn delay(self, delay: Duration) -> Request<J, V, Timed> {
        self.when(When::After(delay))
    }

    /// Runs it at this instant, by the store's clock; at once if that is past.
    pub fn at(self, instant: Timestamp) -> Request<J, V, Timed> {
        self.when(When::At(instant))
    }

    /// Runs it then: [`delay`](Self::delay) or [`at`](Self::at), decided at run
    /// time.
    pub fn when(self, when: When) -> Request<J, V, Timed> {
        let request = self.set(|job| job.when = when);
        Request {
            via: request.via,
            parts: request.parts,
            explicit_id: request.explicit_id,
            kind: PhantomData,
        }
    }
}

impl<J: Job, V, T> Request<J, V, T> {
    /// Gives it this id instead of a drawn one or that of the job's own key.
    /// If a job has it already, in any state, that one stands for this.
    ///
    /// Ids that begin with `sched/` or `flow/` are refused.
    pub fn id(mut self, id: impl Into<JobId>) -> Self {
        self.explicit_id = true;
        self.set(|job| job.id = Some(id.into()))
    }

    /// Puts it into this queue.
    pub fn queue(self, queue: impl Into<QueueName>) -> Self {
        self.set(|job| job.spec.queue = queue.into())
    }

    /// Adds labels to the job's own; of two under one key this one counts.
    pub fn metadata<K: Into<String>, L: Into<String>>(
        self,
        labels: impl IntoIterator<Item = (K, L)>,
    ) -> Self {
        self.set(|job| add_labels(&mut job.spec, labels))
    }

    /// Decides which earlier job makes it superfluous, instead of the job's own
    /// [`dedupe`](Job::dedupe); with `None`, none does.
    pub fn dedupe(self, dedupe: impl Into<Option<Dedupe>>) -> Self {
        self.set(|job| job.dedupe = dedupe.into())
    }

    /// Higher runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|job| job.spec.priority = priority)
    }

    /// How many runs may fail before the job does; at least 1.
    pub fn attempts(self, attempts: u32) -> Self {
        self.set(|job| job.spec.attempts_max = attempts)
    }

    /// How long to wait between attempts; not at all if `None`.
    pub fn backoff(self, backoff: impl Into<Option<Backoff>>) -> Self {
        self.set(|job| job.spec.backoff = backoff.into())
    }

    /// How long the finished job is kept; up to the store's ceiling if `None`.
    pub fn keep(self, keep: impl Into<Option<Keep>>) -> Self {
        self.set(|job| job.spec.keep = keep.into())
    }

    /// How long one run may take; for ever if `None`.
    pub fn timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        self.set(|job| job.spec.timeout = timeout.into())
    }

    fn set(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.parts {
            change(job);
        }
        self
    }

    /// The request as stores take it.
    pub(super) fn checked(self) -> ClientResult<NewJob> {
        let job = self.parts?;
        if let (true, Some(id)) = (self.explicit_id, &job.id) {
            validate::chosen_job_id(id)?;
        }
        Ok(job)
    }
}

impl<J: Job, V, T> fmt::Debug for Request<J, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&self.parts).finish()
    }
}

/// What the job itself asks for.
fn new_job<J: Job>(job: &J) -> ClientResult<NewJob> {
    let id = match job.idempotency_key() {
        Some(key) if key.is_empty() => {
            return Err(InvalidInput::new("idempotency key", key, Rule::Empty).into());
        }
        Some(key) => Some(JobId::from(format!("{}/{key}", J::NAME))),
        None => None,
    };
    Ok(NewJob {
        id,
        dedupe: job.dedupe(),
        ..NewJob::new(spec(job)?)
    })
}

/// What the job's payload and its kind's defaults make of it.
pub(super) fn spec<J: Job>(job: &J) -> ClientResult<JobSpec> {
    JobSpec::of(job).map_err(|source| ClientError::Encode {
        name: JobName::from(J::NAME),
        source,
    })
}

pub(super) fn add_labels<K: Into<String>, L: Into<String>>(
    spec: &mut JobSpec,
    labels: impl IntoIterator<Item = (K, L)>,
) {
    let labels = labels.into_iter();
    spec.metadata
        .extend(labels.map(|(key, label)| (key.into(), label.into())));
}
