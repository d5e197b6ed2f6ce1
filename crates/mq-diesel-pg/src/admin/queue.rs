//! A queue's settings.

use std::sync::Arc;

use mq_core::{Change, QueueName, QueueSettings, Rate, Result};

use crate::enqueue::millis;
use crate::pool::Failure;
use crate::rows::{millis as duration, read_one};
use crate::store::Inner;
use crate::wake::Topic;

/// Locks the settings of a queue, which it then has.
const LOCK: &str = "INSERT INTO $mq_queue_control AS c (queue) VALUES ($1)
    ON CONFLICT (queue) DO UPDATE SET queue = c.queue
    RETURNING paused, max_active, rate_count, rate_per_ms";

/// Changes settings; a new rate starts afresh.
const CHANGE: &str = "UPDATE $mq_queue_control SET paused = $2, max_active = $3,
    next_even_start = CASE
        WHEN rate_count IS NOT DISTINCT FROM $4 AND rate_per_ms IS NOT DISTINCT FROM $5
            THEN next_even_start
        ELSE 0 END,
    rate_count = $4, rate_per_ms = $5
    WHERE queue = $1";

/// A queue without settings has no row.
const CLEAR: &str = "DELETE FROM $mq_queue_control WHERE queue = $1";

/// The settings of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Control {
    paused: bool,
    max_active: Option<u32>,
    rate: Option<Rate>,
}

impl Control {
    fn changed(self, settings: QueueSettings) -> Self {
        fn apply<T>(was: Option<T>, change: Change<T>) -> Option<T> {
            match change {
                Change::Keep => was,
                Change::Clear => None,
                Change::Set(value) => Some(value),
            }
        }
        let whole = |rate: Rate| Rate {
            per: std::time::Duration::from_millis(mq_core::ceil_millis(rate.per)),
            ..rate
        };
        Self {
            paused: apply(Some(self.paused), settings.paused).unwrap_or(false),
            max_active: apply(self.max_active, settings.max_active),
            rate: apply(self.rate, settings.rate).map(whole),
        }
    }

    /// Whether something may run by these settings that could not by `was`.
    fn lets_more_in_than(&self, was: &Self) -> bool {
        let resumed = was.paused && !self.paused;
        let raised = was
            .max_active
            .is_some_and(|was| self.max_active.is_none_or(|most| most > was));
        resumed || raised || (was.rate.is_some() && was.rate != self.rate)
    }
}

impl Inner {
    pub(super) async fn set_queue(
        self: &Arc<Self>,
        queue: &QueueName,
        settings: QueueSettings,
    ) -> Result<()> {
        if self
            .repeatedly(|| self.change_queue(queue, settings))
            .await?
        {
            self.announce(vec![Topic::Queue(queue.clone())]);
        }
        Ok(())
    }

    async fn change_queue(
        &self,
        queue: &QueueName,
        settings: QueueSettings,
    ) -> Result<bool, Failure> {
        let mut transaction = self.begin().await?;
        let rows = transaction
            .rows(&self.statement(LOCK).bind(&**queue))
            .await?;
        let was = read_one(&rows, |columns| {
            Ok(Control {
                paused: columns.flag()?,
                max_active: columns.maybe_number()?.map(u32::try_from).transpose()?,
                rate: match (columns.maybe_number()?, columns.maybe_number()?) {
                    (Some(count), Some(per)) => Some(Rate {
                        count: u32::try_from(count)?,
                        per: duration(per)?,
                    }),
                    _ => None,
                },
            })
        })?;
        let changed = was.changed(settings);
        let statement = if changed == Control::default() {
            self.statement(CLEAR).bind(&**queue)
        } else {
            self.statement(CHANGE)
                .bind(&**queue)
                .bind(changed.paused)
                .bind(changed.max_active.map(i64::from))
                .bind(changed.rate.map(|rate| i64::from(rate.count)))
                .bind(changed.rate.map(|rate| millis(rate.per)))
        };
        transaction.rows(&statement).await?;
        transaction.commit().await?;
        Ok(changed.lets_more_in_than(&was))
    }
}
