//! A queue's limits: how many jobs a claim may take.
//!
//! The rate is the generic cell rate algorithm with room for a burst of a
//! tenth of the count: starts are spread by one interval each, and may run
//! ahead of that by the burst.

use mq_core::{QueueName, Rate, Timestamp, ceil_millis};

use crate::pool::{Failure, Transaction};
use crate::rows::{millis, read_all};
use crate::statement::clock;
use crate::store::Inner;

/// Locks a queue's settings.
const LOCK_SETTINGS: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT (SELECT now FROM clock), max_active, rate_count, rate_per_ms, next_even_start
    FROM $mq_queue_control WHERE queue = $2 FOR UPDATE"
);

/// Counts a queue's active jobs, seen after its settings were locked.
const COUNT_ACTIVE: &str = "SELECT count(*) FROM $mq_active WHERE queue = $1";

const STORE_LIMITER: &str = "UPDATE $mq_queue_control SET next_even_start = $2 WHERE queue = $1";

/// How many jobs a queue's rate lets a claim take.
pub(super) struct Room {
    pub(super) jobs: u32,
    /// From when on there is more, if it is the rate that holds work back.
    pub(super) more_from: Option<Timestamp>,
}

/// What a queue's settings say to a claim.
pub(super) struct Settings {
    pub(super) limiter: Option<Limiter>,
    /// How many jobs `max_active` leaves room for.
    pub(super) free: u32,
    pub(super) now: Timestamp,
}

impl Inner {
    pub(super) async fn lock_settings(
        &self,
        transaction: &mut Transaction<'_>,
        queue: &QueueName,
        limit: u32,
    ) -> Result<Settings, Failure> {
        let lock = self.timed(LOCK_SETTINGS).bind(&**queue);
        let rows = transaction.rows(&lock).await?;
        let found = read_all(&rows, |columns| {
            let now = columns.instant()?;
            let max_active = columns.maybe_number()?;
            let rate = match (columns.maybe_number()?, columns.maybe_number()?) {
                (Some(count), Some(per)) => Some(Rate {
                    count: u32::try_from(count)?,
                    per: millis(per)?,
                }),
                _ => None,
            };
            let next_even_start = u64::try_from(columns.number()?)?;
            let limiter = rate.map(|rate| Limiter {
                rate,
                next_even_start,
            });
            Ok((now, max_active, limiter))
        })?
        .pop();
        let Some((now, max_active, limiter)) = found else {
            // They were cleared just now: the next claim finds none.
            return Ok(Settings {
                limiter: None,
                free: limit,
                now: Timestamp::MIN,
            });
        };
        let free = match max_active {
            None => limit,
            Some(most) => {
                let count = self.statement(COUNT_ACTIVE).bind(&**queue);
                let rows = transaction.rows(&count).await?;
                let active = crate::rows::read_one(&rows, |columns| columns.number())?;
                let free = u32::try_from((most - active).max(0)).unwrap_or(limit);
                free.min(limit)
            }
        };
        Ok(Settings { limiter, free, now })
    }

    pub(super) async fn store_limiter(
        &self,
        transaction: &mut Transaction<'_>,
        queue: &QueueName,
        limiter: Limiter,
    ) -> Result<(), Failure> {
        let next = i64::try_from(limiter.next_even_start).unwrap_or(i64::MAX);
        let store = self.statement(STORE_LIMITER).bind(&**queue).bind(next);
        transaction.rows(&store).await.map(drop)
    }
}

/// A rate and how far it is used up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limiter {
    rate: Rate,
    /// When the next start would fall if all were spread evenly, in µs.
    next_even_start: u64,
}

impl Limiter {
    /// How many starts are allowed at `now`, `most` at the most.
    pub(super) fn room(mut self, now: Timestamp, most: u32) -> Room {
        let mut jobs = 0;
        while jobs < most && self.start(now) {
            jobs += 1;
        }
        Room {
            jobs,
            more_from: (jobs < most).then(|| self.next_start()),
        }
    }

    /// Counts starts that were allowed.
    pub(super) fn count(&mut self, now: Timestamp, starts: usize) {
        for _ in 0..starts {
            self.start(now);
        }
    }

    /// From when on another start is allowed, rounded up to milliseconds.
    fn next_start(&self) -> Timestamp {
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
