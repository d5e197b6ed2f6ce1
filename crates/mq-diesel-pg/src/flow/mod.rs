//! Flow: what a parent's store knows of its children, and what a child's store
//! has to report.
//!
//! Whoever changes a flow's rows holds the lock of its row in `mq_flow`.

mod children;
mod outbox;
mod reports;
mod sweep;

use std::time::Duration;

use async_trait::async_trait;
use mq_core::{
    ChildKey, FlowOps, FlowSweepWork, JobId, LockToken, OutboxEntry, OutboxId, OutboxPage, Report,
    ReportApplied, Result, ResultPage, StoreKey, validate,
};

use crate::store::PgStore;

/// How many bytes of results or payloads a page may have, unless its first
/// entry alone has more.
const PAGE_BYTES: i64 = validate::MAX_PAGE_BYTES as i64;

#[async_trait]
impl FlowOps for PgStore {
    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        validate::record_child_results(&reports, &self.inner.limits)?;
        self.inner.record_reports(&reports).await
    }

    async fn list_child_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage> {
        validate::job_id(flow_id)?;
        cursor.map_or(Ok(()), validate::child_key)?;
        let limit = validate::page_limit(limit.unwrap_or(validate::MAX_PAGE))?;
        self.inner.child_results(flow_id, cursor, limit).await
    }

    async fn pending_children(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        validate::flow_children(flow_id, manifest, keys)?;
        self.inner.pending_children(flow_id, manifest, keys).await
    }

    async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork> {
        let limit = validate::flow_sweep_work(pending_age, limit)?;
        self.inner.flow_sweep_work(pending_age, limit).await
    }

    async fn mark_children_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        validate::flow_children(flow_id, manifest, keys)?;
        self.inner.mark_cascaded(flow_id, manifest, keys).await
    }

    async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage> {
        after.map_or(Ok(()), validate::outbox_id)?;
        let limit = validate::page_limit(limit)?;
        self.inner.peek_outbox(after, limit).await
    }

    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()> {
        ids.iter().try_for_each(validate::outbox_id)?;
        self.inner.delete_outbox(ids).await
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
        self.inner
            .undelivered_reports(parent_store, flow_id, manifest, keys)
            .await
    }
}
