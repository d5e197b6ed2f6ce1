//! The producer's side: typed jobs in, typed outcomes out.

mod admin;
mod core;
mod enqueue;
mod error;
mod group;
mod handle;
mod outcome;
mod request;
mod schedule;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use enqueue::IntoRequest;
pub use error::ClientError;
pub use group::{Declared, Drift, Schedules};
pub use handle::JobHandle;
pub use outcome::Outcome;
pub use request::{AnyTime, Detached, Request, Timed};
pub use schedule::{Recurring, Schedule, Unplanned};

use self::core::Core;
use crate::id::JobId;
use crate::job::{Job, SameStoreAs};
use crate::store::{DefaultStore, Store, StoreHandle, StoreName};

/// What the client's operations answer.
pub type ClientResult<T> = Result<T, ClientError>;

/// The producer's side of a store: enqueues jobs, waits for them, calls them
/// off. It needs no worker.
///
/// Cloning it is cheap, and clones share their calls: while one enqueue is on
/// its way to the store, those that other tasks make meanwhile are gathered
/// and go together next. Make one client and clone it.
///
/// ```
/// use mq_core::{Job, MemoryStore, StoreHandle};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(name = "send-email")]
/// struct SendEmail {
///     to: String,
/// }
///
/// # futures::executor::block_on(async {
/// let store: StoreHandle = StoreHandle::bind(MemoryStore::new()).await?;
/// let client = store.client();
/// let email = SendEmail { to: "ada@example.org".into() };
/// let job = client.enqueue(email).priority(10).await?;
/// assert!(job.poll().await?.is_none()); // it waits for a worker
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Client<S: StoreName = DefaultStore> {
    core: Arc<Core>,
    name: PhantomData<fn() -> S>,
}

impl<S: StoreName> Client<S> {
    /// A client of this store.
    pub fn new(handle: &StoreHandle<S>) -> Self {
        Self::over(Arc::new(Core::new(Arc::clone(handle.store()))))
    }

    fn over(core: Arc<Core>) -> Self {
        Self {
            core,
            name: PhantomData,
        }
    }

    /// The store, with all its operations.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// A handle on a job that was enqueued elsewhere or earlier. Nothing is
    /// looked up: its kind is checked when its outcome is read.
    pub fn handle<J: Job>(&self, id: impl Into<JobId>) -> JobHandle<J>
    where
        S: SameStoreAs<J::Store>,
    {
        JobHandle::existing(Arc::clone(&self.core), id.into())
    }
}

impl<S: StoreName> Clone for Client<S> {
    fn clone(&self) -> Self {
        Self::over(Arc::clone(&self.core))
    }
}

impl<S: StoreName> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("store", &S::NAME)
            .finish_non_exhaustive()
    }
}
