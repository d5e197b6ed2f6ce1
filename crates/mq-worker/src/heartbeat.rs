//! Extends the locks this worker holds, in bulk, whatever its handlers do.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mq_core::{Extended, JobId, Result};
use tokio::time::{Instant, sleep_until};
use tracing::error;

use crate::backoff::Backoff;
use crate::run::{Run, StopReason};
use crate::runtime::Shared;
use crate::settled;

/// How many locks one call extends.
const PAGE: usize = 1_000;

/// Goes on until the task is aborted.
pub(crate) async fn heartbeat(shared: Arc<Shared>) {
    let interval = shared.options.heartbeat_interval();
    let mut backoff = Backoff::within(interval);
    let mut next = Instant::now() + interval;
    let mut refused = false;
    loop {
        tokio::select! {
            () = sleep_until(next) => {}
            () = shared.beat_now.notified() => {}
        }
        let begun = Instant::now();
        next = match beat(&shared).await {
            Ok(()) => {
                shared.link.contact.beaten(begun);
                backoff.reset();
                refused = false;
                begun + interval
            }
            Err(error) => {
                if !error.is_transient() && !std::mem::replace(&mut refused, true) {
                    error!(%error, "the store refuses to extend locks; trying again until it does not");
                }
                Instant::now() + backoff.delay()
            }
        };
    }
}

/// Extends every lock once.
async fn beat(shared: &Shared) -> Result<()> {
    let mut runs = shared.held.all();
    runs.retain(|run| !run.is_lost());
    while !runs.is_empty() {
        let page = page(&mut runs);
        let locks = page.iter().map(|run| run.lock.clone()).collect();
        let link = &shared.link;
        let call = link.store.extend_locks(locks, shared.options.lock_duration);
        // Later, the locks are better tried to be extended again.
        let patience = shared.options.lock_duration / 3;
        let extended = link.call_within(patience, "extend_locks", call).await?;
        heed(shared, &page, &extended).await;
    }
    Ok(())
}

/// Takes a page of runs, no two of one job: the answer names jobs, not locks,
/// and an old run of a job may still be going on.
fn page(runs: &mut Vec<Arc<Run>>) -> Vec<Arc<Run>> {
    let mut jobs = HashSet::new();
    runs.extract_if(.., |run| {
        jobs.len() < PAGE && jobs.insert(run.job.id.clone())
    })
    .collect()
}

/// Does what the answer asks for, to the runs that were asked about: by now,
/// another run of the same job may be held.
async fn heed(shared: &Shared, page: &[Arc<Run>], extended: &Extended) {
    if extended.lost.is_empty() && extended.cancel_requested.is_empty() {
        return;
    }
    let runs: HashMap<&JobId, &Arc<Run>> = page.iter().map(|run| (&run.job.id, run)).collect();
    // Of a run that has ended, the answer to its ack decides.
    let running = |id| runs.get(id).filter(|run| !run.has_ended());
    let lost: Vec<&Arc<Run>> = extended.lost.iter().filter_map(running).copied().collect();
    // A run that ended by a transaction of its handler's holds no lock, and
    // does no harm. Without an answer the worst is assumed.
    let completed = match lost.as_slice() {
        [] => HashSet::new(),
        lost => settled::completed(shared, lost).await.unwrap_or_default(),
    };
    for run in lost {
        if completed.contains(&run.job.id) {
            run.lose();
        } else {
            shared.lock_lost(run);
        }
    }
    for run in extended.cancel_requested.iter().filter_map(running) {
        run.stop(StopReason::Cancel);
    }
}
