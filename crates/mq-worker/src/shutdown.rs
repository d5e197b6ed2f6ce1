//! The end of a worker, within a bounded time.

use std::sync::Arc;
use std::time::Duration;

use mq_core::JobId;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::run::StopReason;
use crate::runtime::Shared;

/// How long the store has at the end to learn how runs ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What became of what a worker was doing when it was shut down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many runs ended, and the store knows it.
    pub ended: u64,
    /// How many jobs went back, to be run again.
    pub released: u64,
    /// Jobs whose end the store could not be told in time. Their locks expire,
    /// and they run again.
    pub untold: Vec<JobId>,
    /// Jobs whose handler runs on the blocking pool, and still does. Their
    /// locks expire, and they run again.
    pub still_running: Vec<JobId>,
}

/// Stops a worker: takes nothing more, lets handlers end, tells those that do
/// not to stop, and gives the store the last words.
pub(crate) async fn shutdown(shared: &Arc<Shared>, fetchers: &mut JoinSet<()>) -> ShutdownReport {
    let before = shared.counters.read();
    let options = &shared.options;
    let held = &shared.held;
    shared.stopping.cancel();
    let in_time = timeout(options.shutdown_grace, held.handlers_ended()).await;
    let mut deadline = Instant::now() + LAST_WORDS;
    if in_time.is_err() {
        for run in held.all() {
            run.stop(StopReason::Shutdown);
        }
        deadline += options.cancel_grace;
    }
    let _ = timeout_at(deadline, async {
        while fetchers.join_next().await.is_some() {}
        held.emptied().await;
        shared.failures.told().await;
    })
    .await;
    let (still_running, untold): (Vec<_>, Vec<_>) = held
        .all()
        .into_iter()
        .partition(|run| run.cannot_be_stopped());
    let ids = |runs: Vec<Arc<crate::run::Run>>| runs.iter().map(|run| run.job.id.clone()).collect();
    let after = shared.counters.read();
    ShutdownReport {
        ended: after.ends() - before.ends(),
        released: after.released - before.released,
        untold: ids(untold),
        still_running: ids(still_running),
    }
}
