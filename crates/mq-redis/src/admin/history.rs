//! Retention that no finishing job carries out.

use mq_core::{JobState, Result, Swept, ceil_millis, validate};

use crate::RedisStore;
use crate::script;

impl RedisStore {
    pub(super) async fn sweep(&self, limit: u32) -> Result<Swept> {
        let limit = validate::batch_limit(limit)?;
        let mut call = self.call(&script::SWEEP_HISTORY);
        call.number(limit.into());
        for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
            let ceiling = self.shared.ceiling;
            match ceiling.and_then(|ceiling| ceiling.of(state)) {
                Some(ttl) => call.number(ceil_millis(ttl)),
                None => call.arg(""),
            };
        }
        let mut answer = self.run_list(&call).await?;
        Ok(Swept {
            deleted: answer.number()?,
            more: answer.number()? == 1,
        })
    }
}
