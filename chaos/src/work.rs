//! The jobs of a run, and how each must end.

use std::time::Duration;

use mq_core::{Backoff, Job, JobSpec, JobState, NewJob, RawJson, When};
use serde::{Deserialize, Serialize};

/// How a job behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Ends well.
    Steady,
    /// Ends well, after one failure.
    Flaky,
    /// Fails for good.
    Doomed,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Steady, Self::Flaky, Self::Doomed];

    fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
            Self::Doomed => "doomed",
        }
    }

    /// The kind that a job's id tells.
    pub(crate) fn of(id: &str) -> Option<Self> {
        let (name, _) = id.split_once('-')?;
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The state it must end in.
    pub(crate) fn end(self) -> JobState {
        match self {
            Self::Steady | Self::Flaky => JobState::Completed,
            Self::Doomed => JobState::Failed,
        }
    }

    /// How many attempts it must have used.
    pub(crate) fn attempts(self) -> u32 {
        match self {
            Self::Steady | Self::Doomed => 1,
            Self::Flaky => 2,
        }
    }
}

/// A job of a run.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(name = "work", queue = "chaos")]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    /// How long its handler takes, in milliseconds.
    pub(crate) takes: u64,
}

/// The job of this number. Most take a few milliseconds, and a few longer than a
/// lock, so that heartbeats matter.
pub(crate) fn job(seed: u64, number: u64, lock: Duration) -> Result<NewJob, serde_json::Error> {
    let mut chance = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let kind = match chance.u8(0..20) {
        0 => Kind::Doomed,
        1..4 => Kind::Flaky,
        _ => Kind::Steady,
    };
    let lock = u64::try_from(lock.as_millis()).unwrap_or(u64::MAX);
    let takes = match chance.u32(0..1000) {
        0..2 => lock * 5 / 4,
        2..40 => chance.u64(100..1000),
        40..200 => chance.u64(10..100),
        _ => chance.u64(0..10),
    };
    let payload = RawJson::encode(&Work { kind, takes })?;
    let mut spec = JobSpec::new(Work::NAME, "chaos", payload);
    spec.attempts_max = 2;
    spec.priority = chance.i32(0..3);
    spec.backoff = Some(Backoff::Fixed {
        delay: Duration::from_millis(100),
    });
    let mut job = NewJob::new(spec);
    job.id = Some(format!("{}-{number:06}", kind.name()).into());
    if chance.u8(0..10) == 0 {
        job.when = When::After(Duration::from_millis(chance.u64(0..1000)));
    }
    Ok(job)
}
