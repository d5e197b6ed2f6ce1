//! Stalls: locks that nobody extended, and what becomes of their jobs.

use mq_core::{Recovered, Result, StallOutcome, Stalled, validate};

use crate::RedisStore;
use crate::script;

impl RedisStore {
    pub(super) async fn take_back_stalled(
        &self,
        max_stalled_count: u32,
        limit: u32,
    ) -> Result<Recovered> {
        let limit = validate::batch_limit(limit)?;
        let mut call = self.call(&script::STALLS);
        call.number(max_stalled_count.into()).number(limit.into());
        let mut answer = self.run_list(&call).await?;
        let mut recovered = Recovered {
            more: answer.number()? == 1,
            ..Recovered::default()
        };
        while !answer.is_empty() {
            recovered.stalled.push(Stalled {
                id: answer.text()?.into(),
                name: answer.text()?.into(),
                queue: answer.text()?.into(),
                outcome: match answer.number()? {
                    1 => StallOutcome::Failed,
                    _ => StallOutcome::Requeued,
                },
            });
        }
        Ok(recovered)
    }
}
