//! Fan-outs and reports.

use std::collections::HashSet;
use std::time::Duration;

use super::json::exit;
use super::number::duration;
use super::text::no_nul;
use super::{Limits, Validated, batch_limit, child_key, job_id, lock_token, new_job, store_key};
use crate::error::{InvalidInput, Rule};
use crate::id::{ChildKey, JobId, LockToken, OutboxId};
use crate::record::{FlowChild, Report};

/// The children of a fan-out.
pub fn fan_out(children: &[FlowChild], limits: &Limits) -> Validated {
    let mut keys = HashSet::with_capacity(children.len());
    for child in children {
        child_key(&child.key)?;
        store_key(&child.store)?;
        if !keys.insert(&child.key) {
            return Err(InvalidInput::new(
                "child key",
                &*child.key,
                Rule::Other("is used by two children of one fan-out: give each its own".into()),
            ));
        }
        if child.job.id.is_none() {
            return Err(InvalidInput::new(
                "child",
                &*child.key,
                Rule::Other("has no job id: a fan-out names the id of each child".into()),
            ));
        }
        new_job(&child.job, limits)?;
    }
    Ok(())
}

/// `record_child_results`.
pub fn record_child_results(reports: &[Report], limits: &Limits) -> Validated {
    for report in reports {
        job_id(&report.flow_id)?;
        lock_token(&report.manifest)?;
        child_key(&report.child_key)?;
        exit(report.exit.as_ref(), limits)?;
        report
            .failed_reason
            .as_deref()
            .map_or(Ok(()), |reason| no_nul("failed reason", reason))?;
    }
    Ok(())
}

/// `pending_children`, `mark_children_cascaded` and `undelivered_reports`.
pub fn flow_children(flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Validated {
    job_id(flow_id)?;
    lock_token(manifest)?;
    keys.iter().try_for_each(child_key)
}

/// `flow_sweep_work`: answers the clamped limit.
pub fn flow_sweep_work(pending_age: Duration, limit: u32) -> Validated<u32> {
    duration("pending age", pending_age)?;
    batch_limit(limit)
}

/// An outbox entry's id: any text without NUL, since one that was never issued
/// is merely unknown.
pub fn outbox_id(id: &OutboxId) -> Validated {
    no_nul("outbox id", id)
}
