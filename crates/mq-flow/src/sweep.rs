//! The sweeper: sees to whatever a process that died, or a store that was out
//! of reach, has left behind.

use std::sync::Arc;
use std::time::Duration;

use mq_core::validate::MAX_BATCH;
use mq_core::{StoreError, async_trait};
use mq_worker::{MaintenanceTask, Pulse, StartError};

use crate::cascade::cascade;
use crate::hub::Hub;
use crate::patience::patiently;
use crate::reconcile::reconcile;

/// Sweeps the flows of the worker's own store.
pub(crate) struct Sweeper(pub(crate) Arc<Hub>);

#[async_trait]
impl MaintenanceTask for Sweeper {
    fn name(&self) -> &str {
        "flow sweep"
    }

    fn check(&self) -> Result<(), StartError> {
        self.0.check()
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.0.sweep.clone())
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        let hub = &self.0;
        let interval = hub.interval();
        loop {
            let work = hub.own_store.flow_sweep_work(interval, MAX_BATCH);
            let work = patiently(work).await?;
            // Rows that fail come again after another interval.
            let _ = cascade(hub, &work.cascade).await;
            let _ = reconcile(hub, &work.reconcile).await;
            if !work.more {
                return Ok(interval);
            }
        }
    }
}
