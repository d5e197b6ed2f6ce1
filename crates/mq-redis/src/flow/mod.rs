//! Flow: a parent's rows and the reports that settle it.

mod outbox;
mod reports;
mod rows;
mod sweep;

use std::time::Duration;

use mq_core::{
    ChildKey, FlowOps, FlowSweepWork, JobId, LockToken, OutboxEntry, OutboxId, OutboxPage, Report,
    ReportApplied, Result, ResultPage, StoreError, StoreKey, async_trait,
};

use crate::RedisStore;
use crate::codec::Broken;

#[async_trait]
impl FlowOps for RedisStore {
    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        self.apply_reports(reports).await
    }

    async fn list_child_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage> {
        self.read_results(flow_id, cursor, limit).await
    }

    async fn pending_children(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        self.which_are_pending(flow_id, manifest, keys).await
    }

    async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork> {
        self.sweep_flows(pending_age, limit).await
    }

    async fn mark_children_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        self.mark_cascaded(flow_id, manifest, keys).await
    }

    async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage> {
        self.read_outbox(after, limit).await
    }

    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()> {
        self.delete_reports(ids).await
    }

    async fn undelivered_reports(
        &self,
        parent_store: &StoreKey,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>> {
        self.find_reports(parent_store, flow_id, manifest, keys)
            .await
    }
}

/// The error for a row that cannot be read.
fn broken_row(flow_id: &JobId, key: &str, broken: Broken) -> StoreError {
    StoreError::Backend {
        message: format!(
            "the row of child {key:?} of flow {flow_id:?} cannot be read: {}",
            broken.0
        ),
        source: None,
    }
}

/// Keys in byte order, each once.
fn in_order(keys: &[ChildKey]) -> Vec<&ChildKey> {
    let mut keys: Vec<&ChildKey> = keys.iter().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
