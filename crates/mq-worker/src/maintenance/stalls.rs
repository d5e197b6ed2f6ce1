//! Takes back jobs whose worker died.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mq_core::{StallOutcome, Stalled, StoreError, validate::MAX_BATCH};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::extension::MaintenanceTask;
use crate::failure::FailedRun;
use crate::runtime::Shared;

/// Recovers stalled jobs.
pub(crate) struct Stalls {
    shared: Arc<Shared>,
    patience: Patience,
}

/// From when on a lock that has expired means that its worker is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// From one lock after the first contact with the store on: workers that
    /// could not reach it either get that long to show that they are alive.
    OneLock,
    /// At once: time stands still, and nobody else needs the chance.
    None,
}

#[async_trait]
impl MaintenanceTask for Stalls {
    fn name(&self) -> &str {
        "stall recovery"
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        loop {
            if self.patience == Patience::OneLock {
                self.locks_had_their_chance().await;
            }
            let link = &self.shared.link;
            let options = &self.shared.options;
            let call = link
                .store
                .recover_stalled(options.max_stalled_count, MAX_BATCH);
            let recovered = link.call("recover_stalled", call).await?;
            for job in recovered.stalled {
                self.note(job);
            }
            if !recovered.more {
                return Ok(options.stalled_interval);
            }
        }
    }
}

impl Stalls {
    pub(crate) fn new(shared: Arc<Shared>, patience: Patience) -> Self {
        Self { shared, patience }
    }

    async fn locks_had_their_chance(&self) {
        loop {
            let from = self.shared.link.contact.since().await + self.shared.options.lock_duration;
            if Instant::now() >= from {
                return;
            }
            // There may be another outage meanwhile.
            sleep_until(from).await;
        }
    }

    fn note(&self, job: Stalled) {
        let counters = &self.shared.counters;
        match job.outcome {
            StallOutcome::Requeued => {
                counters.stalls_requeued.one();
                warn!(job_id = %job.id, job_name = %job.name, queue = %job.queue, "stalled, to be run again");
            }
            StallOutcome::Failed => {
                counters.stalls_failed.one();
                warn!(job_id = %job.id, job_name = %job.name, queue = %job.queue, "stalled too often, and failed");
                self.shared.failures.tell(&FailedRun::stalled(job));
            }
        }
    }
}
