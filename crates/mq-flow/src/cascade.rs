//! Cascade: cancels the children of closed flows, at once and again later.

use std::collections::{BTreeMap, HashMap};

use mq_core::{CascadeRow, ChildKey, JobId, LockToken, Result, StoreKey};
use tracing::debug;

use crate::hub::{Held, Hub};
use crate::patience::patiently;
use crate::reconcile::is_about_the_job;

/// Cancels children whose cancel is owed, and marks those for whom it has been
/// for a whole interval: by then every enqueue has landed that was decided
/// before the close. Answers the first error, when all that could be done is.
pub(crate) async fn cascade(hub: &Hub, rows: &[CascadeRow]) -> Result<()> {
    let mut by_store: BTreeMap<&StoreKey, Vec<&CascadeRow>> = BTreeMap::new();
    for row in rows {
        by_store.entry(&row.store).or_default().push(row);
    }
    let mut outcome = Ok(());
    for (store, rows) in by_store {
        let Some(children) = hub.store(store) else {
            debug!(%store, count = rows.len(), "cancels owed to a store this worker does not hold");
            continue;
        };
        if let Err(error) = in_store(hub, &children, &rows).await {
            debug!(%store, %error, "children cannot be cancelled, to be tried again");
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

async fn in_store(hub: &Hub, children: &Held, rows: &[&CascadeRow]) -> Result<()> {
    let ids: Vec<_> = rows.iter().map(|row| row.job_id.clone()).collect();
    let answers = patiently(children.store.cancel_many(&ids)).await?;
    // What waited has ended, and says so.
    children.relay.send();
    let mut done: HashMap<(&JobId, &LockToken), Vec<ChildKey>> = HashMap::new();
    let mut outcome = Ok(());
    for (row, answer) in rows.iter().zip(answers) {
        match answer {
            Err(error) if !is_about_the_job(&error) => outcome = outcome.and(Err(error)),
            _ if row.owed_for >= hub.interval() => done
                .entry((&row.flow_id, &row.manifest))
                .or_default()
                .push(row.child_key.clone()),
            _ => {}
        }
    }
    for ((flow_id, manifest), keys) in done {
        let marked = hub
            .own_store
            .mark_children_cascaded(flow_id, manifest, &keys);
        outcome = outcome.and(patiently(marked).await);
    }
    outcome
}
