//! Tells the store that this worker is alive, and what it does.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use mq_core::{StoreError, Timestamp, WorkerRecord};

use crate::extension::MaintenanceTask;
use crate::runtime::Shared;

/// Reports the worker.
pub(crate) struct Report {
    shared: Arc<Shared>,
    /// When the worker started, by the store's clock.
    started_at: OnceLock<Timestamp>,
}

impl Report {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            started_at: OnceLock::new(),
        }
    }
}

#[async_trait]
impl MaintenanceTask for Report {
    fn name(&self) -> &str {
        "worker report"
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        let shared = &self.shared;
        let link = &shared.link;
        let started_at = match self.started_at.get() {
            Some(&started_at) => started_at,
            None => {
                let now = link.call("now", link.store.now()).await?;
                *self.started_at.get_or_init(|| now)
            }
        };
        let record = record(shared, started_at);
        link.call("report_worker", link.store.report_worker(record))
            .await?;
        Ok(shared.options.report_interval)
    }
}

/// What the worker says of itself.
pub(crate) fn record(shared: &Shared, started_at: Timestamp) -> WorkerRecord {
    WorkerRecord {
        id: shared.id.clone(),
        host: shared.host.clone(),
        version: shared.options.version.clone(),
        queues: shared.queues.clone(),
        in_flight: u32::try_from(shared.held.running()).unwrap_or(u32::MAX),
        started_at,
        last_seen_at: started_at,
    }
}
