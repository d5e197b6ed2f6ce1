//! How long to wait before a call to the store is repeated.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
/// The longest wait.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

/// The waits between tries: they double up to a cap, and each is drawn from
/// its upper half, so that workers do not come back all at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    cap: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits that fit a lock of this length: several tries within its life.
    pub(crate) fn within(lock_duration: Duration) -> Self {
        Self::up_to(LONGEST, lock_duration)
    }

    /// Waits of no more than this, that fit a lock of this length.
    pub(crate) fn up_to(longest: Duration, lock_duration: Duration) -> Self {
        let cap = (lock_duration / 4).clamp(Duration::from_millis(1), longest);
        Self {
            cap,
            next: FIRST.min(cap),
        }
    }

    /// Begins anew: a call has succeeded.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST.min(self.cap);
    }

    /// The wait before the next try.
    pub(crate) fn delay(&mut self) -> Duration {
        let delay = self.next.mul_f64(0.5 + 0.5 * fastrand::f64());
        self.next = (self.next * 2).min(self.cap);
        delay
    }

    /// Waits before the next try.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_cap_and_are_never_nothing() {
        let mut backoff = Backoff::within(Duration::from_secs(30));
        let waits: Vec<_> = (0..20).map(|_| backoff.delay()).collect();
        assert!(waits[0] >= FIRST / 2 && waits[0] <= FIRST);
        assert!(waits[19] >= LONGEST / 2 && waits[19] <= LONGEST);
        backoff.reset();
        assert!(backoff.delay() <= FIRST);
    }

    #[test]
    fn several_tries_fit_into_a_short_lock() {
        let mut backoff = Backoff::within(Duration::from_millis(40));
        assert!((0..10).all(|_| backoff.delay() <= Duration::from_millis(10)));
    }
}
