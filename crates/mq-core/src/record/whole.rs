//! Durations as stores keep them: in whole milliseconds, rounded up.

use std::time::Duration;

use super::{Backoff, Cadence, JobSpec, Keep, Rate, Retention};
#[cfg(feature = "memory")]
use super::{Dedupe, FlowChild, NewJob, When};
use crate::time::ceil_millis;

pub(crate) fn whole(duration: Duration) -> Duration {
    Duration::from_millis(ceil_millis(duration))
}

impl JobSpec {
    /// The spec as it is stored.
    pub(crate) fn whole(self) -> Self {
        Self {
            backoff: self.backoff.map(Backoff::whole),
            keep: self.keep.map(Keep::whole),
            timeout: self.timeout.map(whole),
            ..self
        }
    }
}

#[cfg(feature = "memory")]
impl FlowChild {
    /// The child as its row keeps it.
    pub(crate) fn whole(self) -> Self {
        let NewJob {
            spec, when, dedupe, ..
        } = self.job;
        Self {
            job: NewJob {
                spec: spec.whole(),
                when: match when {
                    When::After(delay) => When::After(whole(delay)),
                    at => at,
                },
                dedupe: dedupe.map(|dedupe| Dedupe {
                    ttl: dedupe.ttl.map(whole),
                    ..dedupe
                }),
                ..self.job
            },
            ..self
        }
    }
}

impl Backoff {
    /// The backoff as it is stored.
    pub(crate) fn whole(self) -> Self {
        match self {
            Self::Fixed { delay } => Self::Fixed {
                delay: whole(delay),
            },
            Self::Exponential {
                delay,
                factor,
                max,
                jitter,
            } => Self::Exponential {
                delay: whole(delay),
                factor,
                max: max.map(whole),
                jitter,
            },
        }
    }
}

impl Keep {
    /// The policy as it is stored.
    pub(crate) fn whole(self) -> Self {
        let whole_age = |retention: Retention| Retention {
            age: retention.age.map(whole),
            ..retention
        };
        Self {
            completed: self.completed.map(whole_age),
            failed: self.failed.map(whole_age),
            cancelled: self.cancelled.map(whole_age),
        }
    }
}

impl Rate {
    /// The rate as it is stored.
    #[cfg(feature = "memory")]
    pub(crate) fn whole(self) -> Self {
        Self {
            per: whole(self.per),
            ..self
        }
    }
}

impl Cadence {
    /// The cadence as it is stored.
    pub(crate) fn whole(self) -> Self {
        match self {
            Self::Every(interval) => Self::Every(whole(interval)),
            cron @ Self::Cron { .. } => cron,
        }
    }
}
