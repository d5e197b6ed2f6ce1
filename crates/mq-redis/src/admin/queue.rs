//! A queue's settings.

use mq_core::{Change, QueueName, QueueSettings, Rate, Result, ceil_millis, validate};

use crate::RedisStore;
use crate::connection::Repeat;
use crate::script;

impl RedisStore {
    pub(super) async fn change_queue(
        &self,
        queue: &QueueName,
        settings: QueueSettings,
    ) -> Result<()> {
        validate::set_queue(queue, &settings)?;
        let mut call = self.call(&script::SET_QUEUE).repeat(Repeat::Safely);
        call.arg(&**queue);
        match settings.paused {
            Change::Keep => call.arg(""),
            Change::Clear | Change::Set(false) => call.arg("0"),
            Change::Set(true) => call.arg("1"),
        };
        match settings.max_active {
            Change::Keep => call.arg(""),
            Change::Clear => call.arg("0"),
            Change::Set(most) => call.number(most.into()),
        };
        match settings.rate {
            Change::Keep => {
                call.arg("");
            }
            Change::Clear => {
                call.arg("0");
            }
            Change::Set(rate) => {
                call.number(rate.count.into()).number(ceil_millis(rate.per));
                let Pace { interval, lead } = Pace::of(rate);
                for micros in [interval, lead] {
                    call.number(micros / 1_000).number(micros % 1_000);
                }
            }
        }
        self.run(&call).await?;
        Ok(())
    }
}

/// A rate as its limiter counts it, in microseconds: the generic cell rate
/// algorithm with room for a burst of a tenth of the count.
struct Pace {
    /// What lies between two starts that are spread evenly.
    interval: u64,
    /// How far starts may run ahead of an even spread.
    lead: u64,
}

impl Pace {
    fn of(rate: Rate) -> Self {
        let burst = u64::from(rate.count.div_ceil(10));
        let starts = u64::from(rate.count) - burst + 1;
        let interval = (ceil_millis(rate.per) * 1_000).div_ceil(starts);
        Self {
            interval,
            lead: (burst - 1) * interval,
        }
    }
}
