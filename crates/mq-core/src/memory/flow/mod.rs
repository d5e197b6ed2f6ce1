//! Flow: what a parent's store knows of its children, and what a child's store
//! has to report.
//!
//! A flow's rows hang on its parent, so that they come and go with it in one
//! step. A fan-out too large for one step elsewhere is one step here: its rows
//! are made before the lock is taken.

mod outbox;
mod rows;
mod settle;
mod sweep;

use std::time::Duration;

use async_trait::async_trait;

pub(super) use self::outbox::Outbox;
pub(super) use self::rows::Flow;
pub(super) use self::sweep::FlowSweeps;
use super::MemoryStore;
use crate::id::{ChildKey, JobId, LockToken, OutboxId, StoreKey};
use crate::record::{OutboxEntry, Report};
use crate::store::{FlowOps, FlowSweepWork, OutboxPage, ReportApplied, Result, ResultPage};
use crate::validate::{self, MAX_BATCH, MAX_PAGE};

#[async_trait]
impl FlowOps for MemoryStore {
    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        validate::record_child_results(&reports, self.limits())?;
        Ok(self.in_pages(reports, |state, page, now| state.record_reports(page, now)))
    }

    async fn list_child_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage> {
        validate::job_id(flow_id)?;
        cursor.map_or(Ok(()), validate::child_key)?;
        let limit = validate::page_limit(limit.unwrap_or(MAX_PAGE))? as usize;
        Ok(self.step(|state| {
            let flow = state.flow_of(flow_id);
            flow.map(|flow| flow.page(cursor, limit))
                .unwrap_or_default()
        }))
    }

    async fn pending_children(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        validate::flow_children(flow_id, manifest, keys)?;
        let mut pending = self.in_pages(keys, |state, page, _| {
            let flow = state.flow_of_manifest(flow_id, manifest);
            page.filter(|key| flow.is_some_and(|flow| flow.is_pending(key)))
                .cloned()
                .collect()
        });
        pending.sort_unstable();
        pending.dedup();
        Ok(pending)
    }

    async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork> {
        let limit = validate::flow_sweep_work(pending_age, limit)? as usize;
        let now = self.read_clock();
        Ok(self.step(|state| state.sweep_flows(pending_age, limit, now)))
    }

    async fn mark_children_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        validate::flow_children(flow_id, manifest, keys)?;
        for page in keys.chunks(MAX_BATCH as usize) {
            let now = self.read_clock();
            self.step(|state| state.mark_cascaded(flow_id, manifest, page, now));
        }
        Ok(())
    }

    async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage> {
        after.map_or(Ok(()), validate::outbox_id)?;
        let limit = validate::page_limit(limit)? as usize;
        Ok(self.step(|state| state.outbox.page(after, limit)))
    }

    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()> {
        ids.iter().try_for_each(validate::outbox_id)?;
        for page in ids.chunks(MAX_BATCH as usize) {
            self.step(|state| page.iter().for_each(|id| state.outbox.delete(id)));
        }
        Ok(())
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
        let mut keys: Vec<_> = keys.iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(self.in_pages(keys, |state, page, _| {
            page.flat_map(|key| state.outbox.of_child(parent_store, flow_id, manifest, key))
                .collect()
        }))
    }
}
