//! Flow: not served yet.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::error::StoreError;
use crate::id::{ChildKey, JobId, LockToken, OutboxId, StoreKey};
use crate::record::{OutboxEntry, Report};
use crate::store::{FlowOps, FlowSweepWork, OutboxPage, ReportApplied, Result, ResultPage};
use crate::validate;

/// The answer to whatever belongs to flows.
pub(super) fn unsupported(operation: &'static str) -> StoreError {
    StoreError::Unsupported {
        operation,
        remedy: "the in-memory store does not serve flows yet: run the jobs of a flow one by one, or keep the flow's parent on another store",
    }
}

#[async_trait]
impl FlowOps for MemoryStore {
    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        validate::record_child_results(&reports, self.limits())?;
        Err(unsupported("record_child_results"))
    }

    async fn list_child_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage> {
        validate::job_id(flow_id)?;
        cursor.map_or(Ok(()), validate::child_key)?;
        limit.map_or(Ok(0), validate::page_limit)?;
        Err(unsupported("list_child_results"))
    }

    async fn pending_children(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        validate::flow_children(flow_id, manifest, keys)?;
        Err(unsupported("pending_children"))
    }

    async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork> {
        validate::flow_sweep_work(pending_age, limit)?;
        Err(unsupported("flow_sweep_work"))
    }

    async fn mark_children_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        validate::flow_children(flow_id, manifest, keys)?;
        Err(unsupported("mark_children_cascaded"))
    }

    async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage> {
        after.map_or(Ok(()), validate::outbox_id)?;
        validate::page_limit(limit)?;
        Err(unsupported("peek_outbox"))
    }

    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()> {
        ids.iter().try_for_each(validate::outbox_id)?;
        Err(unsupported("delete_outbox"))
    }

    async fn undelivered_reports(
        &self,
        parent_store: &StoreKey,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>> {
        validate::store_key(parent_store)?;
        validate::flow_children(flow_id, manifest, keys)?;
        Err(unsupported("undelivered_reports"))
    }
}
