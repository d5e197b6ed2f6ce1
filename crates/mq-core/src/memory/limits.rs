//! A queue's rate limit: never more than `count` starts in any half-open
//! window of length `per`.
//!
//! It is the generic cell rate algorithm with room for a burst of a tenth of
//! the count: starts are spread by one interval each, and may run ahead of
//! that by the burst.

use crate::record::Rate;
use crate::time::{Timestamp, ceil_millis};

/// A rate and how far it is used up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limiter {
    pub(super) rate: Rate,
    /// When the next start would fall if all were spread evenly, in µs.
    next_even_start: u64,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            next_even_start: 0,
        }
    }

    /// How many starts are allowed at `now`, `most` at the most.
    pub(super) fn allowed(&self, now: Timestamp, most: usize) -> usize {
        let mut ahead = *self;
        (0..most).take_while(|_| ahead.start(now)).count()
    }

    /// Counts starts that were allowed.
    pub(super) fn count(&mut self, now: Timestamp, starts: usize) {
        for _ in 0..starts {
            self.start(now);
        }
    }

    /// From when on another start is allowed, rounded up to milliseconds.
    pub(super) fn next_start(&self) -> Timestamp {
        let at = self.next_even_start.saturating_sub(self.lead());
        Timestamp::saturating_from_millis(at.div_ceil(1_000))
    }

    fn start(&mut self, now: Timestamp) -> bool {
        let now = now.as_millis() * 1_000;
        let allowed = self.next_even_start <= now + self.lead();
        if allowed {
            self.next_even_start = self.next_even_start.max(now) + self.interval();
        }
        allowed
    }

    fn burst(&self) -> u64 {
        u64::from(self.rate.count.div_ceil(10))
    }

    fn interval(&self) -> u64 {
        let starts = u64::from(self.rate.count) - self.burst() + 1;
        (ceil_millis(self.rate.per) * 1_000).div_ceil(starts)
    }

    /// How far starts may run ahead of an even spread.
    fn lead(&self) -> u64 {
        (self.burst() - 1) * self.interval()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::saturating_from_millis(millis)
    }

    proptest! {
        #[test]
        fn no_window_holds_more_starts_than_the_rate(
            count in 1_u32..60,
            per in 1_u64..2_000,
            steps in prop::collection::vec((0_u64..300, 1_usize..40), 1..80),
        ) {
            let mut limiter = Limiter::new(Rate { count, per: Duration::from_millis(per) });
            let mut now = 1_000_000;
            let mut starts = Vec::new();
            for (wait, asked) in steps {
                now += wait;
                let allowed = limiter.allowed(at(now), asked);
                limiter.count(at(now), allowed);
                starts.extend(std::iter::repeat_n(now, allowed));
                if allowed < asked {
                    let next = limiter.next_start();
                    prop_assert!(next > at(now));
                    prop_assert_eq!(limiter.allowed(at(next.as_millis() - 1), 1), 0);
                    prop_assert_eq!(limiter.allowed(next, 1), 1);
                }
            }
            for (first, start) in starts.iter().enumerate() {
                let window = starts[first..].iter().take_while(|next| **next < start + per);
                prop_assert!(window.count() <= count as usize);
            }
        }
    }

    #[test]
    fn a_rate_is_used_to_the_full_over_time() {
        let mut limiter = Limiter::new(Rate {
            count: 100,
            per: Duration::from_secs(1),
        });
        let starts: usize = (0..10_000)
            .map(|millis| {
                let allowed = limiter.allowed(at(millis), 250);
                limiter.count(at(millis), allowed);
                allowed
            })
            .sum();
        // The burst costs a tenth of the rate's even part.
        assert_eq!(starts, 10 + 909);
    }
}
