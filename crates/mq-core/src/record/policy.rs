//! Policies a job carries: backoff, retention, dedupe; and the store's own.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, Rule};
use crate::id::DedupeKey;
use crate::record::JobState;
use crate::time::{LONGEST, millis};

/// How long to wait after a failed attempt.
///
/// ```
/// use std::time::Duration;
/// use mq_core::Backoff;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1)).max(Duration::from_secs(5));
/// let delays: Vec<_> = (1..=4).map(|attempt| backoff.delay(attempt).as_secs()).collect();
/// assert_eq!(delays, [1, 2, 4, 5]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Backoff {
    /// Always the same.
    Fixed {
        /// The delay.
        #[serde(with = "millis")]
        delay: Duration,
    },
    /// Longer each time: after attempt n, `delay · factor^(n−1)`.
    Exponential {
        /// The delay after the first attempt.
        #[serde(with = "millis")]
        delay: Duration,
        /// What each further delay is multiplied by; finite, at least 1.
        factor: f64,
        /// The longest delay.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            with = "millis::option"
        )]
        max: Option<Duration>,
        /// How much of the delay d is left to chance, from 0 to 1: with jitter
        /// j the delay is drawn uniformly from [d(1−j), d].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jitter: Option<f64>,
    },
}

impl Backoff {
    /// The same delay after each attempt.
    pub const fn fixed(delay: Duration) -> Self {
        Self::Fixed { delay }
    }

    /// A delay that doubles after each attempt.
    pub const fn exponential(delay: Duration) -> Self {
        Self::Exponential {
            delay,
            factor: 2.0,
            max: None,
            jitter: None,
        }
    }

    /// Sets the longest delay; changes nothing on a fixed backoff.
    #[must_use]
    pub const fn max(mut self, longest: Duration) -> Self {
        if let Self::Exponential { ref mut max, .. } = self {
            *max = Some(longest);
        }
        self
    }

    /// Sets the factor; changes nothing on a fixed backoff.
    #[must_use]
    pub const fn factor(mut self, by: f64) -> Self {
        if let Self::Exponential { ref mut factor, .. } = self {
            *factor = by;
        }
        self
    }

    /// Sets the jitter; changes nothing on a fixed backoff.
    #[must_use]
    pub const fn jitter(mut self, share: f64) -> Self {
        if let Self::Exponential { ref mut jitter, .. } = self {
            *jitter = Some(share);
        }
        self
    }

    /// The delay after failed attempt `attempt` (1-based), before jitter; at
    /// the most the span from 1970 to 9999.
    pub fn delay(&self, attempt: u32) -> Duration {
        let delay = match *self {
            Self::Fixed { delay } => delay,
            Self::Exponential {
                delay, factor, max, ..
            } => {
                let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
                let grown = if delay.is_zero() {
                    delay
                } else {
                    Duration::try_from_secs_f64(delay.as_secs_f64() * factor.powi(exponent))
                        .unwrap_or(Duration::MAX)
                };
                grown.min(max.unwrap_or(Duration::MAX))
            }
        };
        delay.min(LONGEST)
    }

    /// The delay after failed attempt `attempt`, with `chance` (from 0 to 1)
    /// deciding where in the jitter's range it falls.
    pub fn delay_with_jitter(&self, attempt: u32, chance: f64) -> Duration {
        let longest = self.delay(attempt);
        match *self {
            Self::Exponential {
                jitter: Some(share),
                ..
            } => longest.mul_f64((1.0 - share * chance).clamp(0.0, 1.0)),
            _ => longest,
        }
    }
}

/// How long finished jobs are kept, by the state they ended in. It acts among
/// the jobs of the finishing job's name and state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// For completed jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Retention>,
    /// For failed jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Retention>,
    /// For cancelled jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Retention>,
}

impl Keep {
    /// The same for every terminal state.
    pub const fn all(retention: Retention) -> Self {
        Self {
            completed: Some(retention),
            failed: Some(retention),
            cancelled: Some(retention),
        }
    }

    /// What applies to a job that ended in `state`.
    pub fn of(&self, state: JobState) -> Option<Retention> {
        match state {
            JobState::Completed => self.completed,
            JobState::Failed => self.failed,
            JobState::Cancelled => self.cancelled,
            _ => None,
        }
    }
}

/// How many finished jobs are kept, and for how long; 0 keeps none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The newest so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Those younger than this.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "millis::option"
    )]
    pub age: Option<Duration>,
}

impl Retention {
    /// Keeps the newest `count`.
    pub const fn count(count: u32) -> Self {
        Self {
            count: Some(count),
            age: None,
        }
    }

    /// Keeps what is younger than `age`.
    pub const fn age(age: Duration) -> Self {
        Self {
            count: None,
            age: Some(age),
        }
    }
}

/// Which earlier job makes a new one superfluous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dedupe {
    /// The key, scoped to the job's name.
    pub key: DedupeKey,
    /// How long the key is held; until the keyed job ends if absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "millis::option"
    )]
    pub ttl: Option<Duration>,
    /// Whether a duplicate pushes the end of the window out to its own `ttl`
    /// from now; it never draws it in.
    #[serde(default)]
    pub extend: bool,
    /// Whether a duplicate replaces the keyed job while that is still delayed.
    #[serde(default)]
    pub replace: bool,
}

impl Dedupe {
    /// Holds `key` until the keyed job ends.
    pub fn key(key: impl Into<DedupeKey>) -> Self {
        Self {
            key: key.into(),
            ttl: None,
            extend: false,
            replace: false,
        }
    }

    /// Holds the key for this long instead, whatever becomes of the job.
    #[must_use]
    pub fn ttl(mut self, window: Duration) -> Self {
        self.ttl = Some(window);
        self
    }

    /// Lets each duplicate push the end of the window out; needs a `ttl`.
    #[must_use]
    pub fn extend(mut self) -> Self {
        self.extend = true;
        self
    }

    /// Lets a duplicate replace the keyed job while that is still delayed.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }
}

/// The longest that a store keeps finished jobs, whatever their own `keep` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryCeiling {
    completed: Option<Duration>,
    failed: Option<Duration>,
    cancelled: Option<Duration>,
}

impl HistoryCeiling {
    /// A ceiling per terminal state, none where `None`.
    ///
    /// # Errors
    /// If it names no state: leave the ceiling out instead.
    pub fn new(
        completed: Option<Duration>,
        failed: Option<Duration>,
        cancelled: Option<Duration>,
    ) -> Result<Self, InvalidInput> {
        if completed.or(failed).or(cancelled).is_none() {
            return Err(InvalidInput::new(
                "history ceiling",
                (completed, failed, cancelled),
                Rule::Other("names no state: give at least one a duration, or leave it out".into()),
            ));
        }
        Ok(Self {
            completed,
            failed,
            cancelled,
        })
    }

    /// The same ceiling for every terminal state.
    pub const fn all(ttl: Duration) -> Self {
        Self {
            completed: Some(ttl),
            failed: Some(ttl),
            cancelled: Some(ttl),
        }
    }

    /// What applies to jobs that ended in `state`.
    pub fn of(&self, state: JobState) -> Option<Duration> {
        match state {
            JobState::Completed => self.completed,
            JobState::Failed => self.failed,
            JobState::Cancelled => self.cancelled,
            _ => None,
        }
    }
}

/// At most `count` starts in any half-open window of length `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many; at least 1.
    pub count: u32,
    /// In how long; more than zero.
    #[serde(with = "millis")]
    pub per: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_never_overflow() {
        let backoff = Backoff::exponential(Duration::from_secs(1));
        assert_eq!(backoff.delay(0), Duration::from_secs(1));
        assert_eq!(backoff.delay(11), Duration::from_secs(1024));
        assert_eq!(backoff.delay(u32::MAX), LONGEST);
        let capped = backoff.max(Duration::from_secs(60));
        assert_eq!(capped.delay(u32::MAX), Duration::from_secs(60));
        let none = Backoff::exponential(Duration::ZERO);
        assert_eq!(none.delay(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn jitter_takes_away_at_most_its_share() {
        let backoff = Backoff::exponential(Duration::from_secs(8)).jitter(0.25);
        assert_eq!(backoff.delay_with_jitter(1, 0.0), Duration::from_secs(8));
        assert_eq!(backoff.delay_with_jitter(1, 1.0), Duration::from_secs(6));
        let saturated = backoff.jitter(1.0).delay_with_jitter(u32::MAX, 1.0);
        assert_eq!(saturated, Duration::ZERO);
    }

    #[test]
    fn a_ceiling_that_names_no_state_is_refused() {
        assert!(HistoryCeiling::new(None, None, None).is_err());
        let ceiling = HistoryCeiling::new(None, Some(Duration::ZERO), None).unwrap();
        assert_eq!(ceiling.of(JobState::Failed), Some(Duration::ZERO));
        assert_eq!(ceiling.of(JobState::Completed), None);
    }
}
