//! The runs that this worker holds locks for: those whose handler runs, and
//! those whose end the store has not confirmed yet.

use std::collections::HashMap;
use std::sync::Arc;

use mq_core::{JobRecord, Lock, LockToken};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::run::Run;

/// The runs that this worker holds locks for.
#[derive(Debug, Default)]
pub(crate) struct Held {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<u64, Arc<Run>>,
    /// How many of them have a handler that has not ended.
    running: usize,
    drawn: u64,
}

impl Held {
    /// Holds the jobs that one claim locked, as runs.
    pub(crate) fn hold(&self, jobs: Vec<JobRecord>, token: &LockToken) -> Vec<Arc<Run>> {
        let mut state = self.state.lock();
        state.running += jobs.len();
        let hold = |job: JobRecord| {
            let lock = Lock {
                id: job.id.clone(),
                token: token.clone(),
            };
            state.drawn += 1;
            let number = state.drawn;
            let run = Arc::new(Run::new(number, job, lock));
            state.runs.insert(number, Arc::clone(&run));
            run
        };
        jobs.into_iter().map(hold).collect()
    }

    /// Notes that a run's handler has ended.
    pub(crate) fn ended(&self, run: &Run) {
        if run.end() {
            self.state.lock().running -= 1;
            self.changed.notify_waiters();
        }
    }

    /// Lets go of runs that are settled.
    pub(crate) fn let_go<'a>(&self, runs: impl IntoIterator<Item = &'a Arc<Run>>) {
        let mut state = self.state.lock();
        for run in runs {
            if state.runs.remove(&run.number).is_some() && run.end() {
                state.running -= 1;
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The runs held now, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Run>> {
        self.state.lock().runs.values().cloned().collect()
    }

    /// How many runs are held.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().runs.len()
    }

    /// Returns once fewer runs are held.
    pub(crate) async fn fewer_than(&self, count: usize) {
        self.wait_until(|state| state.runs.len() < count).await;
    }

    /// How many handlers have not ended.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().running
    }

    /// Returns once no handler runs.
    pub(crate) async fn handlers_ended(&self) {
        self.wait_until(|state| state.running == 0).await;
    }

    /// Returns once nothing is held but runs that cannot be stopped.
    pub(crate) async fn emptied(&self) {
        self.wait_until(|state| state.runs.values().all(|run| run.cannot_be_stopped()))
            .await;
    }

    async fn wait_until(&self, reached: impl Fn(&State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Listens before it looks, so that no change falls in between.
            changed.as_mut().enable();
            if reached(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}
