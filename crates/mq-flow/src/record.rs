//! Record: delivers reports to the parents' store.

use mq_core::{Report, ReportOutcome, Result, StoreError, StoreKey};
use tracing::{debug, error, warn};

use crate::hub::{Held, Hub};
use crate::patience::patiently;

/// Delivers reports to one store. One that the store refuses is recorded as a
/// failure that says so: the parent must not wait for ever.
pub(crate) async fn record(
    hub: &Hub,
    name: &StoreKey,
    held: &Held,
    reports: Vec<Report>,
) -> Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    match deliver(hub, name, held, reports.clone()).await {
        Err(StoreError::InvalidInput(_)) => {}
        answer => return answer,
    }
    for report in reports {
        let refused = match deliver(hub, name, held, vec![report.clone()]).await {
            Err(StoreError::InvalidInput(reason)) => reason,
            Ok(()) => continue,
            Err(error) => return Err(error),
        };
        warn!(
            flow_id = %report.flow_id, child = %report.child_key, store = %name, %refused,
            "the parent's store does not take what a child ended with; it counts as failed"
        );
        let instead = Report {
            outcome: ReportOutcome::Failed,
            exit: None,
            failed_reason: Some(format!(
                "the store {name:?} does not take what the child ended with: {refused}"
            )),
            ..report
        };
        match deliver(hub, name, held, vec![instead]).await {
            Err(StoreError::InvalidInput(refused)) => {
                error!(store = %name, %refused, "a report names what cannot exist; it is dropped");
            }
            answer => answer?,
        }
    }
    Ok(())
}

async fn deliver(hub: &Hub, name: &StoreKey, held: &Held, reports: Vec<Report>) -> Result<()> {
    let count = reports.len();
    let answers = patiently(held.store.record_child_results(reports)).await?;
    let applied = answers.iter().filter(|answer| answer.applied).count();
    debug!(store = %name, count, applied, "recorded reports");
    if answers.iter().any(|answer| answer.parent_settled) {
        hub.settled(name);
    }
    Ok(())
}
