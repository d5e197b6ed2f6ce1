//! What the children of a flow came to, inside `collect` and outside.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use futures::{Stream, stream};
use mq_core::{
    ChildKey, ChildResult, ChildStatus, Client, ClientError, FlowCounts, Job, JobId, JobName,
    Outcome, RawJson, SameStoreAs, Store, StoreError, StoreKey,
};

use crate::flow::Flow;

/// What the children of one parent came to, read from the parent's store.
pub struct ChildResults<F: Flow> {
    store: Arc<dyn Store>,
    flow_id: JobId,
    counts: FlowCounts,
    flow: PhantomData<fn() -> F>,
}

impl<F: Flow> ChildResults<F> {
    pub(crate) fn new(store: Arc<dyn Store>, flow_id: JobId, counts: FlowCounts) -> Self {
        Self {
            store,
            flow_id,
            counts,
            flow: PhantomData,
        }
    }

    /// What is known of a parent's children at this moment, whatever state it
    /// is in; `None` if it is unknown or has not fanned out.
    ///
    /// # Errors
    /// `Store`; `IdTaken` if the id belongs to another kind of job.
    pub async fn of<S>(client: &Client<S>, parent: &JobId) -> Result<Option<Self>, ClientError>
    where
        S: SameStoreAs<<F::Parent as Job>::Store>,
    {
        let store = client.store();
        let Some(record) = store.get_job(parent).await? else {
            return Ok(None);
        };
        if record.spec.name != <F::Parent as Job>::NAME {
            return Err(ClientError::IdTaken {
                id: record.id,
                name: record.spec.name,
            });
        }
        let counts = record.flow.map(|flow| flow.counts);
        Ok(counts.map(|counts| Self::new(Arc::clone(store), record.id, counts)))
    }

    /// How many children are in which status. It costs nothing: it was read
    /// along with the parent.
    pub fn counts(&self) -> FlowCounts {
        self.counts
    }

    /// Reads the children in byte order of their keys, page by page, so that
    /// only one page is in memory at a time. After an error it goes on where
    /// it was if it is asked again.
    pub fn stream(&self) -> ResultStream {
        let pages = Pages {
            store: Arc::clone(&self.store),
            flow_id: self.flow_id.clone(),
            read: VecDeque::new(),
            next: Next::Page(None),
        };
        ResultStream(
            stream::unfold(pages, |mut pages| async {
                Some((pages.next().await?, pages))
            })
            .boxed(),
        )
    }

    /// All children, in byte order of their keys.
    ///
    /// # Errors
    /// What the parent's store says.
    pub async fn all(&self) -> Result<Vec<SettledChild>, StoreError> {
        let mut stream = self.stream();
        let mut all = Vec::new();
        while let Some(child) = stream.next().await {
            all.push(child?);
        }
        Ok(all)
    }

    /// What those children returned that are of the kind `J` and completed, in
    /// byte order of their keys.
    ///
    /// # Errors
    /// `Store`; `Undecodable` names the first result that is no `J::Output`.
    /// [`stream`](Self::stream) reads past those.
    pub async fn completed<J: Job>(&self) -> Result<Vec<(ChildKey, J::Output)>, ResultsError> {
        let mut stream = self.stream();
        let mut completed = Vec::new();
        while let Some(child) = stream.next().await {
            let child = child?;
            match child.outcome::<J>() {
                Some(Outcome::Completed(output)) => completed.push((child.key().clone(), output)),
                Some(Outcome::Undecodable { raw, error })
                    if child.status() == ChildStatus::Completed =>
                {
                    return Err(ResultsError::Undecodable {
                        key: child.key().clone(),
                        raw,
                        error,
                    });
                }
                _ => {}
            }
        }
        Ok(completed)
    }
}

impl<F: Flow> fmt::Debug for ChildResults<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildResults")
            .field("flow", &F::NAME)
            .field("flow_id", &self.flow_id)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Why the results of a kind of child are not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The store did not answer, or not with results.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A child's result is not of its kind's type.
    #[error(
        "the result of child {key:?} does not decode: {error}. Read the results one by one to go on without it"
    )]
    Undecodable {
        /// The child's key.
        key: ChildKey,
        /// What is stored.
        raw: RawJson,
        /// What serde says.
        error: serde_json::Error,
    },
}

/// A child as its parent's store knows it. Inside `collect` it has ended;
/// outside it may be pending.
#[derive(Clone, Debug, PartialEq)]
pub struct SettledChild(ChildResult);

impl SettledChild {
    /// Its key.
    pub fn key(&self) -> &ChildKey {
        &self.0.key
    }

    /// The name of its job.
    pub fn name(&self) -> &JobName {
        &self.0.name
    }

    /// The store it runs on.
    pub fn store(&self) -> &StoreKey {
        &self.0.store
    }

    /// The id of its job there.
    pub fn job_id(&self) -> &JobId {
        &self.0.job_id
    }

    /// How it is doing.
    pub fn status(&self) -> ChildStatus {
        self.0.status
    }

    /// How it ended, if it has and is of the kind `J`. What does not decode is
    /// [`Outcome::Undecodable`].
    pub fn outcome<J: Job>(&self) -> Option<Outcome<J>> {
        match self.0.name == J::NAME {
            true => Outcome::of_child(self.0.clone()),
            false => None,
        }
    }

    /// All that is stored of it.
    pub fn record(&self) -> &ChildResult {
        &self.0
    }
}

/// The children of a flow, read page by page: a stream, which also can be
/// read with its own [`next`](Self::next).
#[must_use = "nothing is read until it is asked for"]
pub struct ResultStream(BoxStream<'static, Result<SettledChild, StoreError>>);

impl ResultStream {
    /// The next child; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<SettledChild, StoreError>> {
        self.0.next().await
    }
}

impl Stream for ResultStream {
    type Item = Result<SettledChild, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultStream").finish_non_exhaustive()
    }
}

struct Pages {
    store: Arc<dyn Store>,
    flow_id: JobId,
    read: VecDeque<ChildResult>,
    next: Next,
}

enum Next {
    Page(Option<ChildKey>),
    End,
}

impl Pages {
    async fn next(&mut self) -> Option<Result<SettledChild, StoreError>> {
        loop {
            if let Some(child) = self.read.pop_front() {
                return Some(Ok(SettledChild(child)));
            }
            let Next::Page(cursor) = &self.next else {
                return None;
            };
            let page = self
                .store
                .list_child_results(&self.flow_id, cursor.as_ref(), None);
            match page.await {
                Ok(page) => {
                    self.read = page.items.into();
                    self.next = match page.cursor {
                        Some(cursor) => Next::Page(Some(cursor)),
                        None => Next::End,
                    };
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
