//! Jobs: what a producer asks for, and what a store holds of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Backoff, Dedupe, FlowState, Keep, ParentEnvelope};
use crate::id::{DedupeKey, JobId, JobName, QueueName};
use crate::job::Job;
use crate::json::RawJson;
use crate::time::{Timestamp, millis};

/// Labels of a job, for finding it again; at most 64 KiB of keys and values in all.
pub type Metadata = BTreeMap<String, String>;

/// The metadata key under which a scheduled job finds the instant of its slot,
/// in milliseconds since the epoch.
pub const SCHEDULED_FOR: &str = "scheduled_for";

/// What a job is and how it is to be run: the part its producer decides and
/// that schedules and flow children carry too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The kind of job; handlers are registered by it.
    pub name: JobName,
    /// The queue it waits in.
    pub queue: QueueName,
    /// The job's data.
    pub payload: RawJson,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Higher runs first; 0 is usual.
    #[serde(default)]
    pub priority: i32,
    /// How many runs may fail before the job does; at least 1.
    pub attempts_max: u32,
    /// How long to wait between them; not at all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// How long the finished job is kept; for ever, or up to the store's own
    /// ceiling, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
    /// How long one run may take.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "millis::option"
    )]
    pub timeout: Option<Duration>,
}

impl JobSpec {
    /// What a typed job and the defaults of its kind ask for.
    ///
    /// # Errors
    /// What serde says, if the job does not encode as JSON.
    pub fn of<J: Job>(job: &J) -> Result<Self, serde_json::Error> {
        let payload = RawJson::encode(job)?;
        let defaults = J::defaults();
        Ok(Self {
            metadata: job.metadata(),
            priority: defaults.priority,
            attempts_max: defaults.attempts,
            backoff: defaults.backoff,
            keep: defaults.keep,
            timeout: defaults.timeout,
            ..Self::new(J::NAME, J::QUEUE, payload)
        })
    }

    /// A job of this name and payload in this queue, with one attempt and
    /// nothing else set.
    pub fn new(name: impl Into<JobName>, queue: impl Into<QueueName>, payload: RawJson) -> Self {
        Self {
            name: name.into(),
            queue: queue.into(),
            payload,
            metadata: Metadata::new(),
            priority: 0,
            attempts_max: 1,
            backoff: None,
            keep: None,
            timeout: None,
        }
    }
}

/// A request to enqueue a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// The id it shall have; drawn by the store if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// What to run.
    pub spec: JobSpec,
    /// When to run it.
    #[serde(default)]
    pub when: When,
    /// Which earlier job would make this one superfluous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<Dedupe>,
    /// The trace the producer was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The flow this job is a child of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentEnvelope>,
}

impl NewJob {
    /// A job to run at once under an id that the store draws.
    pub fn new(spec: JobSpec) -> Self {
        Self {
            id: None,
            spec,
            when: When::NOW,
            dedupe: None,
            trace: None,
            parent: None,
        }
    }
}

/// When a job may run first, resolved by the store's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// So long from now.
    After(#[serde(with = "millis")] Duration),
    /// At this instant; at once if it is not in the future.
    At(Timestamp),
}

impl When {
    /// At once.
    pub const NOW: Self = Self::After(Duration::ZERO);

    /// The instant meant, if the time is `now`: never earlier than `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::After(delay) => now.saturating_add(delay),
            Self::At(instant) => instant.max(now),
        }
    }
}

impl Default for When {
    fn default() -> Self {
        Self::NOW
    }
}

/// Where a trace goes on. The store keeps it as opaque text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// The trace id, in W3C form
    /// ([Trace Context](https://www.w3.org/TR/trace-context/#trace-id)):
    /// 32 lower-case hexadecimal digits. Whoever restores it ignores anything else.
    pub trace_id: String,
    /// The id of the producer's span: 16 lower-case hexadecimal digits.
    pub span_id: String,
    /// Whether the producer's trace is being recorded.
    pub sampled: bool,
    /// Whether the producer asked for a future run: the intent, not the backlog.
    pub delayed: bool,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Runnable, in order of priority, then arrival.
    Waiting,
    /// Not to run before its `run_at`.
    Delayed,
    /// Locked by a worker.
    Active,
    /// A flow parent, parked until its children have settled.
    WaitingChildren,
    /// Ended well. Terminal.
    Completed,
    /// Ended badly, with no attempts left or none allowed. Terminal.
    Failed,
    /// Called off. Terminal.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Delayed,
        Self::Active,
        Self::WaitingChildren,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether nothing but `retry` or `remove` moves a job on from here.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The state's name as it is stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delayed => "delayed",
            Self::Active => "active",
            Self::WaitingChildren => "waiting-children",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job as a store holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The id, unique in the store.
    pub id: JobId,
    /// What the producer asked for.
    pub spec: JobSpec,
    /// Where the job is in its life.
    pub state: JobState,
    /// Attempts consumed of the current budget; `retry` begins a fresh one.
    pub attempts_made: u32,
    /// Ledger entries ever written, over all budgets; the next run's entry has
    /// this number plus one.
    pub attempts_recorded: u32,
    /// How often a lock on this job expired, in the current budget.
    pub stalled_count: u32,
    /// Whether a cancel waits for the running handler to notice.
    pub cancel_requested: bool,
    /// The dedupe key it was enqueued under.
    pub dedupe_key: Option<DedupeKey>,
    /// The trace its producer was in.
    pub trace: Option<TraceContext>,
    /// The flow it is a child of.
    pub parent: Option<ParentEnvelope>,
    /// The flow it is the parent of, once it has fanned out.
    pub flow: Option<FlowState>,
    /// When it may run, or might have.
    pub run_at: Timestamp,
    /// When it was inserted.
    pub enqueued_at: Timestamp,
    /// When it was last claimed.
    pub processed_at: Option<Timestamp>,
    /// When it reached a terminal state.
    pub finished_at: Option<Timestamp>,
    /// How it ended: `{"ok": …}`, `{"err": …}` or `{"defect": …}`.
    pub exit: Option<RawJson>,
    /// Why the store itself ended it, where no handler did.
    pub failed_reason: Option<String>,
    /// What the handler last reported; kept across attempts and `retry`.
    pub progress: Option<RawJson>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_way_through_json() {
        let mut job = NewJob::new(JobSpec::new("a", "q", RawJson::parse("1e400").unwrap()));
        job.when = When::After(Duration::from_micros(1_500));
        job.spec.timeout = Some(Duration::from_secs(1));
        let back: NewJob = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(back.when, When::After(Duration::from_millis(2)));
        assert_eq!(back.spec, job.spec);
    }

    #[test]
    fn an_instant_in_the_past_means_now() {
        let now = Timestamp::from_millis(1_000).unwrap();
        assert_eq!(When::At(Timestamp::MIN).resolve(now), now);
        assert_eq!(When::At(Timestamp::MAX).resolve(now), Timestamp::MAX);
    }

    #[test]
    fn state_names_are_the_persisted_ones() {
        for state in JobState::ALL {
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("\"{state}\"")
            );
        }
    }
}
