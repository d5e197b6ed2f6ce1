//! Reconcile: looks for children that have been pending for long, and delivers
//! or enqueues what is missing.

use std::collections::{BTreeMap, HashMap};

use mq_core::{
    FlowChild, JobId, JobRecord, JobState, LockToken, ReconcileRow, Report, ReportOutcome, Result,
    StoreError, StoreKey,
};
use tracing::{debug, warn};

use crate::enqueue::{Enqueuer, failed};
use crate::hub::{Held, Hub};
use crate::patience::patiently;
use crate::record::record;

/// Sees to rows that have been pending for long; answers the first error, when
/// all that could be done is done.
pub(crate) async fn reconcile(hub: &Hub, rows: &[ReconcileRow]) -> Result<()> {
    let mut by_store: BTreeMap<&StoreKey, Vec<&ReconcileRow>> = BTreeMap::new();
    for row in rows {
        by_store.entry(&row.child.store).or_default().push(row);
    }
    let Some(parents) = hub.store(&hub.own) else {
        return Ok(());
    };
    let mut outcome = Ok(());
    for (store, rows) in by_store {
        let Some(children) = hub.store(store) else {
            debug!(%store, count = rows.len(), "children on a store this worker does not hold");
            continue;
        };
        if let Err(error) = in_store(hub, &parents, &children, &rows).await {
            debug!(%store, %error, "children cannot be reconciled, to be tried again");
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

async fn in_store(
    hub: &Hub,
    parents: &Held,
    children: &Held,
    rows: &[&ReconcileRow],
) -> Result<()> {
    let rows: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((*row, row.child.job.id.clone()?)))
        .collect();
    let ids: Vec<_> = rows.iter().map(|(_, id)| id.clone()).collect();
    let found = patiently(children.store.get_jobs(&ids)).await?;
    let mut reports = Vec::new();
    let mut missing: HashMap<(&JobId, &LockToken), Vec<&FlowChild>> = HashMap::new();
    for ((row, _), found) in rows.iter().zip(found) {
        match found {
            Ok(None) => missing
                .entry((&row.flow_id, &row.manifest))
                .or_default()
                .push(&row.child),
            Ok(Some(job)) => reports.extend(report_of(row, job)),
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                let reason = format!("the child cannot be read: {error}");
                reports.push(failed(&row.flow_id, &row.manifest, &row.child.key, reason));
            }
        }
    }
    let mut outcome = record(hub, &hub.own, parents, reports).await;
    for ((flow_id, manifest), batch) in missing {
        let mut enqueuer = Enqueuer::new(hub, parents, children, flow_id, manifest);
        let enqueued = bring(&mut enqueuer, &batch).await;
        let looked = enqueuer.finish().await;
        outcome = outcome.and(enqueued).and(looked);
    }
    outcome
}

/// Delivers or enqueues children that are not in their store.
async fn bring(enqueuer: &mut Enqueuer<'_>, batch: &[&FlowChild]) -> Result<()> {
    let entries = enqueuer.enqueue(batch).await?;
    let (ids, reports): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .map(|entry| (entry.id, entry.report))
        .unzip();
    let hub = enqueuer.hub;
    record(hub, &hub.own, enqueuer.parents, reports).await?;
    match ids.is_empty() {
        true => Ok(()),
        false => patiently(enqueuer.children.store.delete_outbox(&ids)).await,
    }
}

/// What a job says of the child it should be; nothing while it is in flight.
fn report_of(row: &ReconcileRow, job: JobRecord) -> Option<Report> {
    let (flow_id, manifest, key) = (&row.flow_id, &row.manifest, &row.child.key);
    if job.parent != row.child.job.parent {
        warn!(%flow_id, child = %key, job_id = %job.id, "a child's id belongs to another job");
        let reason = format!(
            "job {:?} of the store {:?} has the child's id, but is not this child: remove it, or enqueue the parent under another id",
            job.id, row.child.store
        );
        return Some(failed(flow_id, manifest, key, reason));
    }
    let outcome = match job.state {
        JobState::Completed => ReportOutcome::Completed,
        JobState::Failed => ReportOutcome::Failed,
        JobState::Cancelled => ReportOutcome::Cancelled,
        JobState::Waiting | JobState::Delayed | JobState::Active | JobState::WaitingChildren => {
            return None;
        }
    };
    Some(Report {
        flow_id: flow_id.clone(),
        manifest: manifest.clone(),
        child_key: key.clone(),
        outcome,
        exit: job.exit,
        failed_reason: job.failed_reason,
    })
}

/// A store's answer that says nothing against the store itself.
pub(crate) fn is_about_the_job(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotFound { .. } | StoreError::IllegalState { .. } | StoreError::Corrupt { .. }
    )
}
