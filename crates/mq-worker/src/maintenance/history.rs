//! Deletes finished jobs whose retention is over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mq_core::{StoreError, validate::MAX_BATCH};

use crate::extension::MaintenanceTask;
use crate::runtime::Shared;

/// Sweeps the history.
pub(crate) struct History(pub(crate) Arc<Shared>);

#[async_trait]
impl MaintenanceTask for History {
    fn name(&self) -> &str {
        "history sweep"
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        let link = &self.0.link;
        loop {
            let call = link.store.sweep_history(MAX_BATCH);
            let swept = link.call("sweep_history", call).await?;
            self.0.counters.swept.add(swept.deleted);
            if !swept.more {
                return Ok(self.0.options.history_interval);
            }
        }
    }
}
