//! What sweepers have to look after, and what they have done.

use std::time::Duration;

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{
    CascadeRow, ChildKey, FlowSweepWork, JobId, LockToken, ReconcileRow, Result, ceil_millis,
};

use super::broken_row;
use crate::RedisStore;
use crate::codec::{Closed, child, child_result};
use crate::connection::Repeat;
use crate::script;

impl RedisStore {
    pub(super) async fn sweep_flows(
        &self,
        pending_age: Duration,
        limit: u32,
    ) -> Result<FlowSweepWork> {
        let limit = validate::flow_sweep_work(pending_age, limit)?;
        let mut call = self.call(&script::SWEEP_FLOWS);
        call.number(ceil_millis(pending_age)).number(limit.into());
        let mut answer = self.run_list(&call).await?;
        let mut work = FlowSweepWork {
            more: answer.number()? == 1,
            ..FlowSweepWork::default()
        };
        let mut reconcile = answer.list()?;
        while !reconcile.is_empty() {
            let flow_id = JobId::from(reconcile.text()?);
            let manifest = LockToken::from(reconcile.text()?);
            let (key, row) = (reconcile.text()?, reconcile.bytes()?);
            match child(&key, &row) {
                Ok(child) => work.reconcile.push(ReconcileRow {
                    flow_id,
                    manifest,
                    child,
                }),
                // One poison row must not stop the others.
                Err(broken) => tracing::error!("{}", broken_row(&flow_id, &key, broken)),
            }
        }
        let mut cascade = answer.list()?;
        while !cascade.is_empty() {
            let flow_id = JobId::from(cascade.text()?);
            let manifest = LockToken::from(cascade.text()?);
            let (key, row) = (cascade.text()?, cascade.bytes()?);
            let owed_for = Duration::from_millis(cascade.number()?);
            match child_result(&key, &row, Closed::Yes) {
                Ok(child) => work.cascade.push(CascadeRow {
                    flow_id,
                    manifest,
                    child_key: child.key,
                    store: child.store,
                    job_id: child.job_id,
                    owed_for,
                }),
                Err(broken) => tracing::error!("{}", broken_row(&flow_id, &key, broken)),
            }
        }
        Ok(work)
    }

    pub(super) async fn mark_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        validate::flow_children(flow_id, manifest, keys)?;
        for page in keys.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::MARK_CASCADED).repeat(Repeat::Safely);
            call.arg(&**flow_id).arg(&**manifest);
            for key in page {
                call.arg(&**key);
            }
            self.run(&call).await?;
        }
        Ok(())
    }
}
