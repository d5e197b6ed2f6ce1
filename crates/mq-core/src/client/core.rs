//! What the clones of a client share: the store, and calls gathered into batches.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::coalesce::Coalescer;
use crate::error::StoreError;
use crate::id::JobId;
use crate::record::{JobRecord, NewJob};
use crate::store::{Enqueued, Result, Store, WatchCursor};
use crate::validate::{self, Limits, MAX_BATCH};

pub(super) struct Core {
    pub(super) store: Arc<dyn Store>,
    enqueues: Coalescer<NewJob, Result<Enqueued>>,
    watches: Coalescer<JobId, Result<Watched>>,
    reads: Coalescer<JobId, Result<Option<JobRecord>>>,
}

/// What a look at an awaited job shows.
#[derive(Clone, Copy)]
pub(super) enum Watched {
    /// It has ended, or is unknown.
    Over,
    /// It has not; this is where to wait from.
    Underway(WatchCursor),
}

/// Everything but the store's own limit, which only the store knows.
const NO_LIMITS: Limits = Limits {
    max_payload: usize::MAX,
};

impl Core {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        const MOST: usize = MAX_BATCH as usize;
        let enqueues = {
            let store = Arc::clone(&store);
            Coalescer::new(MOST, move |jobs| enqueue_each(Arc::clone(&store), jobs))
        };
        let watches = {
            let store = Arc::clone(&store);
            Coalescer::new(MOST, move |ids| watch_each(Arc::clone(&store), ids))
        };
        let reads = {
            let store = Arc::clone(&store);
            Coalescer::new(MOST, move |ids| read_each(Arc::clone(&store), ids))
        };
        Self {
            store,
            enqueues,
            watches,
            reads,
        }
    }

    /// Enqueues one job, together with those that are enqueued meanwhile.
    pub(super) async fn enqueue(&self, job: NewJob) -> Result<Enqueued> {
        // Refused here, so that it does not hold up the batch it would spoil.
        validate::new_job(&job, &NO_LIMITS)?;
        self.enqueues.call(job).await
    }

    /// Reads one job, together with those that are read meanwhile.
    pub(super) async fn read(&self, id: &JobId) -> Result<Option<JobRecord>> {
        validate::job_id(id)?;
        self.reads.call(id.clone()).await
    }

    /// Waits until a job has ended, and reads it then; `None` if it is unknown.
    pub(super) async fn await_end(&self, id: &JobId) -> Result<Option<JobRecord>> {
        validate::job_id(id)?;
        loop {
            match self.watches.call(id.clone()).await? {
                Watched::Underway(cursor) => {
                    let ids = std::slice::from_ref(id);
                    self.store.await_finished(ids, cursor).await?;
                }
                Watched::Over => match self.reads.call(id.clone()).await? {
                    // Retried since: it goes on.
                    Some(record) if !record.state.is_terminal() => {}
                    ended => return Ok(ended),
                },
            }
        }
    }
}

/// Enqueues a batch. One that is refused as a whole is halved until only the
/// culprits are, so that nobody's job fails for another's.
fn enqueue_each(
    store: Arc<dyn Store>,
    jobs: Vec<NewJob>,
) -> BoxFuture<'static, Vec<Result<Enqueued>>> {
    Box::pin(async move {
        let count = jobs.len();
        // Kept for a second try, which only payloads over the limit call for.
        let again = if count > 1 { jobs.clone() } else { Vec::new() };
        match store.enqueue_many(jobs).await {
            Err(StoreError::InvalidInput(_)) if count > 1 => {
                let mut first = again;
                let second = first.split_off(count / 2);
                let mut answers = enqueue_each(Arc::clone(&store), first).await;
                answers.extend(enqueue_each(store, second).await);
                answers
            }
            answer => positional(count, answer.map(|answers| answers.into_iter().map(Ok))),
        }
    })
}

async fn watch_each(store: Arc<dyn Store>, ids: Vec<JobId>) -> Vec<Result<Watched>> {
    match store.watch(&ids).await {
        Ok(watch) => {
            let finished: HashSet<_> = watch.finished.into_iter().collect();
            let watched = |id| match finished.contains(id) {
                true => Watched::Over,
                false => Watched::Underway(watch.cursor),
            };
            ids.iter().map(|id| Ok(watched(id))).collect()
        }
        Err(error) => vec![Err(error); ids.len()],
    }
}

async fn read_each(store: Arc<dyn Store>, ids: Vec<JobId>) -> Vec<Result<Option<JobRecord>>> {
    positional(ids.len(), store.get_jobs(&ids).await)
}

/// An answer for each of `count` items: the store's, or its one error for all.
pub(super) fn positional<T: Clone>(
    count: usize,
    answer: Result<impl IntoIterator<Item = Result<T>>>,
) -> Vec<Result<T>> {
    let error = match answer {
        Ok(answers) => {
            let answers: Vec<_> = answers.into_iter().collect();
            if answers.len() == count {
                return answers;
            }
            StoreError::Backend {
                message: format!(
                    "the store gave {} answers to a batch of {count}: this is a defect of its driver",
                    answers.len()
                ),
                source: None,
            }
        }
        Err(error) => error,
    };
    vec![Err(error); count]
}
