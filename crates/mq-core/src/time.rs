//! Instants, durations, and where a store takes its time from.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant in whole milliseconds since the Unix epoch (UTC), from 1970 to
/// the end of the year 9999.
///
/// Every value is in range, by construction, and exact in an IEEE 754 double.
/// Zero is an instant like any other; "no instant" is `Option::None`.
///
/// ```
/// use std::time::Duration;
/// use mq_core::Timestamp;
///
/// let noon = Timestamp::from_millis(43_200_000).unwrap();
/// assert_eq!(noon.to_string(), "1970-01-01T12:00:00.000Z");
/// assert_eq!(noon.saturating_add(Duration::from_micros(1)).as_millis(), 43_200_001);
/// assert!(Timestamp::from_millis(u64::MAX).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The instant so many milliseconds after the epoch, if it is in range.
    pub const fn from_millis(millis: u64) -> Option<Self> {
        if millis <= Self::MAX.0 {
            Some(Self(millis))
        } else {
            None
        }
    }

    /// The instant so many milliseconds after the epoch, the last one if that
    /// is out of range.
    pub const fn saturating_from_millis(millis: u64) -> Self {
        match Self::from_millis(millis) {
            Some(instant) => instant,
            None => Self::MAX,
        }
    }

    /// This machine's time. Stores answer with their own, [`now`]; only what
    /// never meets a store's instants may use this one.
    ///
    /// [`now`]: crate::InspectOps::now
    pub fn of_this_machine() -> Self {
        Self::from(SystemTime::now())
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `duration` later, rounded up to milliseconds; the last
    /// instant if that is out of range.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::saturating_from_millis(self.0.saturating_add(ceil_millis(duration)))
    }

    /// The instant `duration` earlier, rounded up to milliseconds; the epoch
    /// if that is out of range.
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(ceil_millis(duration)))
    }

    /// How long after `earlier` this instant is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounds down to milliseconds; instants out of range become the nearest in it.
    fn from(time: SystemTime) -> Self {
        let millis = time.duration_since(UNIX_EPOCH).map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        Self::saturating_from_millis(millis)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(instant: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(instant.0)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339, in UTC, with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(SystemTime::from(*self)).fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let millis = u64::deserialize(deserializer)?;
        Self::from_millis(millis).ok_or_else(|| {
            de::Error::custom(format_args!(
                "instant {millis} is after 9999-12-31 ({} ms)",
                Self::MAX.0
            ))
        })
    }
}

/// The longest duration that means anything: the span of all instants.
pub const LONGEST: Duration = Duration::from_millis(Timestamp::MAX.0);

/// A duration in whole milliseconds, rounded up, so that nothing fires early.
pub fn ceil_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Durations in persisted JSON: a number of milliseconds, rounded up.
pub(crate) mod millis {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(ceil_millis(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }

    /// The same for a duration that may be absent.
    pub(crate) mod option {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(ceil_millis).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
        }
    }
}

/// Something that tells the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// A clock that stands still until it is told to move: the time of tests.
///
/// Clones tell the same time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(start.0)))
    }

    /// Moves the clock forward, by whole milliseconds rounded up.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.0, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// A clock that stands at the start of 2025.
    fn default() -> Self {
        Self::new(Timestamp(1_735_689_600_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Where a store takes its time from. All who share a store must share its
/// source, so that no worker's clock can expire another's lock.
#[derive(Clone, Debug, Default)]
pub enum TimeSource {
    /// The server's own clock, read inside each operation; for the in-memory
    /// store, the machine's.
    #[default]
    Server,
    /// A clock of the caller's, as in tests.
    Clock(Arc<dyn Clock>),
}

impl From<ManualClock> for TimeSource {
    fn from(clock: ManualClock) -> Self {
        Self::Clock(Arc::new(clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(millis: u64) -> String {
        Timestamp::from_millis(millis).unwrap().to_string()
    }

    #[test]
    fn instants_print_as_calendar_dates() {
        assert_eq!(instant(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(instant(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(instant(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(instant(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn durations_round_up_to_milliseconds() {
        assert_eq!(ceil_millis(Duration::ZERO), 0);
        assert_eq!(ceil_millis(Duration::from_nanos(1)), 1);
        assert_eq!(ceil_millis(Duration::from_micros(1_001)), 2);
        assert_eq!(ceil_millis(Duration::MAX), u64::MAX);
    }

    #[test]
    fn sums_saturate_at_the_ends_of_time() {
        assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_sub(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn an_instant_out_of_range_is_not_decoded() {
        assert!(serde_json::from_str::<Timestamp>("253402300800000").is_err());
        assert!(serde_json::from_str::<Timestamp>("-1").is_err());
        assert_eq!(
            serde_json::from_str::<Timestamp>("0").unwrap(),
            Timestamp::MIN
        );
    }
}
