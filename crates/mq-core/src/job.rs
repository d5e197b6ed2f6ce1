//! Typed jobs: a job type is its payload.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::{Backoff, Dedupe, Keep, Metadata};
use crate::store::StoreName;

/// A kind of job. The type is the payload; the trait says what it is called,
/// where it goes and what comes of it.
///
/// `#[derive(Job)]` writes the implementation; by hand it is no more than this:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use mq_core::{DefaultStore, Failure, Job};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail { to: String }
///
/// impl Job for SendEmail {
///     const NAME: &'static str = "send-email";
///     type Store = DefaultStore;
///     type Output = ();
///     type Error = Failure;
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name that handlers are registered by; at most 256 bytes, no `/`.
    const NAME: &'static str;

    /// The queue it waits in unless told otherwise.
    const QUEUE: &'static str = "default";

    /// The store it belongs to.
    type Store: StoreName;

    /// What a handler returns when it succeeds.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// What a handler returns when it fails.
    type Error: Serialize + DeserializeOwned + Send + 'static;

    /// What applies unless told otherwise at enqueue.
    fn defaults() -> JobDefaults {
        JobDefaults::default()
    }

    /// A key that makes the job unique for as long as its record is kept: its
    /// id becomes `<name>/<key>`.
    fn idempotency_key(&self) -> Option<String> {
        None
    }

    /// Which earlier job makes this one superfluous.
    fn dedupe(&self) -> Option<Dedupe> {
        None
    }

    /// Labels to find it by.
    fn metadata(&self) -> Metadata {
        Metadata::new()
    }

    /// Whether another attempt may succeed after this error.
    fn retryable(_error: &Self::Error) -> bool {
        true
    }
}

/// Says that two types name one store. It holds between each and itself, and
/// is there for what the compiler says where it does not.
#[diagnostic::on_unimplemented(
    message = "the store `{Self}` takes no jobs of the store `{T}`",
    label = "this job belongs to `{T}`",
    note = "use the client or worker of `{T}`, or move the job with `#[job(store = …)]`"
)]
pub trait SameStoreAs<T>: StoreName {}

impl<S: StoreName> SameStoreAs<S> for S {}

// Means nothing. With the one above alone the compiler infers the type, and
// reports that mismatch instead of the message above.
impl<S: StoreName> SameStoreAs<()> for S {}

/// What applies to a kind of job unless told otherwise at enqueue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobDefaults {
    /// Higher runs first; 0.
    pub priority: i32,
    /// How many runs may fail before the job does; 1.
    pub attempts: u32,
    /// How long to wait between them; not at all.
    pub backoff: Option<Backoff>,
    /// How long one run may take; for ever.
    pub timeout: Option<Duration>,
    /// How long the finished job is kept; for ever, or up to the store's ceiling.
    pub keep: Option<Keep>,
}

impl Default for JobDefaults {
    fn default() -> Self {
        Self {
            priority: 0,
            attempts: 1,
            backoff: None,
            timeout: None,
            keep: None,
        }
    }
}
