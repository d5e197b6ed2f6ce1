//! What a worker does besides running jobs, over and over: the loop that all
//! of it goes through, and the worker's own tasks.

mod history;
mod report;
mod schedules;
mod stalls;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mq_core::StoreError;
use tokio::time::sleep;
use tracing::{debug, error, warn};

use history::History;
use report::Report;
use schedules::Schedules;
pub(crate) use stalls::Patience;
use stalls::Stalls;

use crate::backoff::Backoff;
use crate::extension::MaintenanceTask;
use crate::panic;
use crate::runtime::Shared;

/// What every worker does besides running jobs.
pub(crate) fn own_tasks(shared: &Arc<Shared>, patience: Patience) -> [Arc<dyn MaintenanceTask>; 4] {
    [
        Arc::new(Stalls::new(Arc::clone(shared), patience)),
        Arc::new(Schedules::new(Arc::clone(shared))),
        Arc::new(History(Arc::clone(shared))),
        Arc::new(Report::new(Arc::clone(shared))),
    ]
}

/// Does round after round until the task is aborted.
pub(crate) async fn maintain(task: &Arc<dyn MaintenanceTask>, lock_duration: Duration) {
    let mut backoff = Backoff::within(lock_duration);
    let mut failing = false;
    let pulse = task.pulse();
    loop {
        let round = AssertUnwindSafe(task.round()).catch_unwind().await;
        let wait = match round {
            Ok(Ok(wait)) => {
                backoff.reset();
                failing = false;
                wait
            }
            Ok(Err(error)) => {
                complain(&**task, &error, std::mem::replace(&mut failing, true));
                sleep(backoff.delay()).await;
                continue;
            }
            Err(payload) => {
                let message = panic::message(payload);
                error!(task = task.name(), panic = message, "maintenance panicked");
                sleep(backoff.delay()).await;
                continue;
            }
        };
        match &pulse {
            None => sleep(wait).await,
            Some(pulse) => tokio::select! {
                () = sleep(wait) => {}
                () = pulse.received() => {}
            },
        }
    }
}

/// Logs one line per streak of failures, not per failure.
fn complain(task: &dyn MaintenanceTask, error: &StoreError, said_so: bool) {
    let task = task.name();
    match (said_so, error.is_transient()) {
        (true, _) => debug!(task, %error, "maintenance still fails"),
        (false, true) => debug!(task, %error, "maintenance fails, to be done again"),
        (false, false) => warn!(task, %error, "maintenance fails, to be done again"),
    }
}
