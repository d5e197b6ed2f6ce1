//! One clock for all processes of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant of the system's monotonic clock, in nanoseconds. It is the same in
/// every process, and nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Instant(pub(crate) u64);

impl Instant {
    /// After all others.
    pub(crate) const END: Self = Self(u64::MAX);

    pub(crate) fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        // It begins at zero, and so do its parts.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds * 1_000_000_000 + rest)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }
}
