//! Flows: a parent's rows and the reports that settle it.

use mq_core::{
    ChildKey, FlowOps, FlowSweepWork, JobId, LockToken, OutboxEntry, OutboxId, OutboxPage, Report,
    ReportApplied, Result, ResultPage, StoreError, StoreKey, async_trait,
};
use std::time::Duration;

use crate::RedisStore;

fn unsupported(operation: &'static str) -> StoreError {
    StoreError::Unsupported {
        operation,
        remedy: "this version of the Redis store does not serve it yet",
    }
}

#[async_trait]
impl FlowOps for RedisStore {
    async fn record_child_results(&self, _reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        Err(unsupported("record_child_results"))
    }

    async fn list_child_results(
        &self,
        _flow_id: &JobId,
        _cursor: Option<&ChildKey>,
        _limit: Option<u32>,
    ) -> Result<ResultPage> {
        Err(unsupported("list_child_results"))
    }

    async fn pending_children(
        &self,
        _flow_id: &JobId,
        _manifest: &LockToken,
        _keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        Err(unsupported("pending_children"))
    }

    async fn flow_sweep_work(&self, _pending_age: Duration, _limit: u32) -> Result<FlowSweepWork> {
        Err(unsupported("flow_sweep_work"))
    }

    async fn mark_children_cascaded(
        &self,
        _flow_id: &JobId,
        _manifest: &LockToken,
        _keys: &[ChildKey],
    ) -> Result<()> {
        Err(unsupported("mark_children_cascaded"))
    }

    async fn peek_outbox(&self, _after: Option<&OutboxId>, _limit: u32) -> Result<OutboxPage> {
        Err(unsupported("peek_outbox"))
    }

    async fn delete_outbox(&self, _ids: &[OutboxId]) -> Result<()> {
        Err(unsupported("delete_outbox"))
    }

    async fn undelivered_reports(
        &self,
        _parent_store: &StoreKey,
        _flow_id: &JobId,
        _manifest: &LockToken,
        _keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>> {
        Err(unsupported("undelivered_reports"))
    }
}
