//! Calls of the flow room, as they are asked of a store.

use std::time::Duration;

use mq_core::{ChildResult, FlowSweepWork, JobId, OutboxEntry, OutboxId, Result, Store};

use super::answer::Answer;

/// How many pages anything that sequences build can take.
const MOST_PAGES: usize = 1_000;

/// Replaces words that are a store's own.
pub(super) fn hide(reason: &mut Option<String>) {
    if let Some(reason) = reason {
        let empty = reason.is_empty();
        *reason = if empty { "(empty)" } else { "(a reason)" }.to_owned();
    }
}

pub(super) fn comparable_entries(mut entries: Vec<OutboxEntry>) -> Vec<OutboxEntry> {
    for entry in &mut entries {
        entry.id = "".into();
        hide(&mut entry.report.failed_reason);
    }
    entries
}

pub(super) fn comparable_children(mut children: Vec<ChildResult>) -> Vec<ChildResult> {
    for child in &mut children {
        hide(&mut child.failed_reason);
    }
    children
}

/// Reads the outbox to its end.
pub(super) async fn outbox(store: &dyn Store, limit: u32) -> Result<Vec<OutboxEntry>> {
    let mut all: Vec<OutboxEntry> = Vec::new();
    loop {
        let after = all.last().map(|entry| entry.id.clone());
        let page = store.peek_outbox(after.as_ref(), limit).await?;
        all.extend(page.entries);
        if !page.more {
            return Ok(all);
        }
    }
}

/// Deletes the entries at these places, counted from the oldest.
pub(super) async fn delete(store: &dyn Store, places: &[usize]) -> Result<Answer> {
    let all = outbox(store, 1_000).await?;
    let ids: Vec<OutboxId> = places
        .iter()
        .filter_map(|place| Some(all.get(*place)?.id.clone()))
        .collect();
    store.delete_outbox(&ids).await?;
    Ok(Answer::Done(vec![Ok(())]))
}

/// Reads a flow's children to their end.
pub(super) async fn children(store: &dyn Store, flow: &JobId, limit: u32) -> Result<Answer> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page = store
            .list_child_results(flow, cursor.as_ref(), Some(limit))
            .await?;
        all.extend(page.items);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(Answer::Children(comparable_children(all)));
        }
    }
}

/// Sweeps until there is nothing more to do.
pub(super) async fn sweep(store: &dyn Store, age: Duration, limit: u32) -> Result<Answer> {
    let mut all = FlowSweepWork::default();
    for _ in 0..MOST_PAGES {
        let work = store.flow_sweep_work(age, limit).await?;
        all.reconcile.extend(work.reconcile);
        all.cascade.extend(work.cascade);
        all.more = work.more;
        if !work.more {
            break;
        }
    }
    all.reconcile
        .sort_by_key(|row| (row.flow_id.clone(), row.child.key.clone()));
    all.cascade
        .sort_by_key(|row| (row.flow_id.clone(), row.child_key.clone()));
    Ok(Answer::FlowWork(all))
}
