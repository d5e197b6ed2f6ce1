//! What a fan-out names.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use mq_core::validate::{self, Limits, MAX_FLOW_DEPTH};
use mq_core::{
    Backoff, ChildKey, Defect, DefectKind, FlowChild, FlowName, Job, JobName, JobRecord, JobSpec,
    Keep, LockToken, NewJob, ParentEnvelope, Rule, StoreKey, StoreName,
};

use crate::flow::Flow;
use crate::id::child_job_id;
use crate::members::HasMember;

/// A child with what applies to it; what is not set is as its [`Job`] trait
/// says. A child runs as soon as it can: there is no delay.
#[must_use = "a child is none until it is added to `Children`"]
pub struct Child<J: Job> {
    spec: Result<JobSpec, serde_json::Error>,
    kind: PhantomData<fn(J)>,
}

impl<J: Job> Child<J> {
    /// A child that does this job. Its data is encoded at once; one that does
    /// not encode fails the fan-out.
    pub fn new(job: J) -> Self {
        Self {
            spec: JobSpec::of(&job),
            kind: PhantomData,
        }
    }

    /// Adds labels to the job's own; of two under one key this one counts.
    pub fn metadata<K: Into<String>, L: Into<String>>(
        self,
        labels: impl IntoIterator<Item = (K, L)>,
    ) -> Self {
        let labels = labels.into_iter();
        self.set(|spec| {
            let labels = labels.map(|(key, label)| (key.into(), label.into()));
            spec.metadata.extend(labels);
        })
    }

    /// Higher runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|spec| spec.priority = priority)
    }

    /// How many runs may fail before the child does; at least 1.
    pub fn attempts(self, attempts: u32) -> Self {
        self.set(|spec| spec.attempts_max = attempts)
    }

    /// How long to wait between attempts; not at all if `None`.
    pub fn backoff(self, backoff: impl Into<Option<Backoff>>) -> Self {
        self.set(|spec| spec.backoff = backoff.into())
    }

    /// How long the finished child is kept in its store. Its result is kept
    /// with its parent, however short that is.
    pub fn keep(self, keep: impl Into<Option<Keep>>) -> Self {
        self.set(|spec| spec.keep = keep.into())
    }

    /// How long one run may take; for ever if `None`.
    pub fn timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        self.set(|spec| spec.timeout = timeout.into())
    }

    fn set(mut self, change: impl FnOnce(&mut JobSpec)) -> Self {
        if let Ok(spec) = &mut self.spec {
            change(spec);
        }
        self
    }
}

impl<J: Job> fmt::Debug for Child<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Child").field(&self.spec).finish()
    }
}

/// What [`Children::add`] takes: a job, or a [`Child`] that has options.
pub trait IntoChild {
    /// The kind of job.
    type Job: Job;

    /// The child.
    fn into_child(self) -> Child<Self::Job>;
}

impl<J: Job> IntoChild for J {
    type Job = J;

    fn into_child(self) -> Child<J> {
        Child::new(self)
    }
}

impl<J: Job> IntoChild for Child<J> {
    type Job = J;

    fn into_child(self) -> Self {
        self
    }
}

/// The children that a fan-out names.
///
/// A child's key is what makes it one: a member's own `idempotency_key` and
/// `dedupe` do not apply. A key that is empty or used twice, a job id that
/// comes out longer than 1,024 bytes, and data that do not encode are mistakes
/// that no repetition mends: they fail the parent at once.
#[must_use = "children are named by returning them from `fan_out`"]
pub struct Children<F: Flow> {
    named: Vec<(ChildKey, StoreKey, JobSpec)>,
    unencodable: Option<Defect>,
    flow: PhantomData<fn(F)>,
}

impl<F: Flow> Children<F> {
    /// No children yet.
    pub fn new() -> Self {
        Self {
            named: Vec::new(),
            unencodable: None,
            flow: PhantomData,
        }
    }

    /// Adds a child: a job of one of the flow's `Children`, or a [`Child`].
    pub fn add<C: IntoChild, I>(mut self, key: impl Into<ChildKey>, child: C) -> Self
    where
        F::Children: HasMember<C::Job, I>,
    {
        self.push(key, child);
        self
    }

    /// [`add`](Self::add), for loops.
    pub fn push<C: IntoChild, I>(&mut self, key: impl Into<ChildKey>, child: C)
    where
        F::Children: HasMember<C::Job, I>,
    {
        let key = key.into();
        match child.into_child().spec {
            Ok(spec) => {
                let store = StoreKey::from(<<C::Job as Job>::Store as StoreName>::NAME);
                self.named.push((key, store, spec));
            }
            Err(error) => {
                let name = JobName::from(<C::Job as Job>::NAME);
                let message = format!(
                    "child {key:?} of flow {:?}: job {name:?} does not encode as JSON: {error}",
                    F::NAME
                );
                self.unencodable
                    .get_or_insert_with(|| Defect::new(DefectKind::Encode, message));
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The children as the parent's store takes them from this run; or why it
    /// never will.
    pub(crate) fn into_manifest(
        self,
        parent: &JobRecord,
        manifest: &LockToken,
    ) -> Result<Vec<FlowChild>, Defect> {
        if let Some(defect) = self.unencodable {
            return Err(defect);
        }
        let depth = parent.parent.as_ref().map_or(0, |above| above.depth) + 1;
        if depth > MAX_FLOW_DEPTH && !self.named.is_empty() {
            return Err(Defect::new(
                DefectKind::TooLarge,
                format!(
                    "flow {:?} is nested deeper than {MAX_FLOW_DEPTH} levels: let fewer of its jobs be flows themselves",
                    F::NAME
                ),
            ));
        }
        let parent_store = StoreKey::from(<<F::Parent as Job>::Store as StoreName>::NAME);
        let flow_name = FlowName::from(F::NAME);
        let children: Vec<_> = self
            .named
            .into_iter()
            .map(|(key, store, spec)| FlowChild {
                job: NewJob {
                    id: Some(child_job_id(&parent_store, &parent.id, manifest, &key)),
                    trace: parent.trace.clone(),
                    parent: Some(ParentEnvelope {
                        flow_name: flow_name.clone(),
                        flow_id: parent.id.clone(),
                        manifest: manifest.clone(),
                        child_key: key.clone(),
                        parent_store: parent_store.clone(),
                        depth,
                    }),
                    ..NewJob::new(spec)
                },
                key,
                store,
            })
            .collect();
        // Only the store knows how large a payload it takes.
        let limits = Limits {
            max_payload: usize::MAX,
        };
        match validate::fan_out(&children, &limits) {
            Ok(()) => Ok(children),
            Err(reason) => {
                let kind = match reason.rule {
                    Rule::TooLong { .. } => DefectKind::TooLarge,
                    _ => DefectKind::Encode,
                };
                let message = format!(
                    "flow {:?} names children that no store takes: {reason}",
                    F::NAME
                );
                Err(Defect::new(kind, message))
            }
        }
    }
}

impl<F: Flow> Default for Children<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Flow> fmt::Debug for Children<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children")
            .field("flow", &F::NAME)
            .field("named", &self.named)
            .finish_non_exhaustive()
    }
}
