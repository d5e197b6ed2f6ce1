//! A store for testing code that enqueues: in memory, on a clock that stands
//! still, and with a log of what was enqueued.

mod diff;
mod layer;
mod log;
mod typed;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mq_core::{
    Client, DefaultStore, ManualClock, MemoryStore, MemoryStoreBuilder, StoreHandle, StoreName,
    Timestamp,
};
use parking_lot::Mutex;

pub use self::log::{Enqueues, LoggedJob};
pub use self::typed::EnqueuedJob;

use self::layer::Logging;

/// An in-memory store on a manual clock that remembers what was enqueued.
///
/// Give the code under test its [`client`](Self::client) or
/// [`handle`](Self::handle), and ask afterwards. Clones are the same store. To
/// run what was enqueued, start a worker on the handle by hand, with the
/// store's [`clock`](Self::clock).
///
/// ```
/// use std::time::Duration;
/// use mq_core::{Client, ClientError, Job};
/// use mq_testkit::TestStore;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(name = "send-email", queue = "email")]
/// struct SendEmail { to: String }
///
/// async fn sign_up(client: &Client, to: &str) -> Result<(), ClientError> {
///     let later = Duration::from_secs(3600);
///     client.enqueue(SendEmail { to: to.into() }).delay(later).await?;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), ClientError> {
/// let store: TestStore = TestStore::new();
/// sign_up(&store.client(), "ada@example.org").await?;
/// store.assert_enqueued(&SendEmail { to: "ada@example.org".into() });
/// let email = &store.enqueued::<SendEmail>()[0];
/// assert_eq!(email.delay(), Duration::from_secs(3600));
/// # Ok(())
/// # }
/// ```
pub struct TestStore<S: StoreName = DefaultStore> {
    handle: StoreHandle<S>,
    clock: ManualClock,
    log: Arc<Mutex<Vec<LoggedJob>>>,
}

impl<S: StoreName> TestStore<S> {
    /// An empty store whose clock stands at the start of 2025.
    pub fn new() -> Self {
        Self::on(ManualClock::default())
    }

    /// An empty store on this clock, which several stores may share.
    pub fn on(clock: ManualClock) -> Self {
        Self::with(clock, MemoryStore::builder())
    }

    /// An empty store with other options; it takes its time from `clock`,
    /// whatever they say.
    pub fn with(clock: ManualClock, options: MemoryStoreBuilder) -> Self {
        let log = Arc::default();
        let store = options.time(clock.clone()).build();
        let store = Logging::new(store, clock.clone(), Arc::clone(&log));
        let handle = StoreHandle::bind(store)
            .now_or_never()
            .expect("the in-memory store never waits")
            .expect("a new store takes any name");
        Self { handle, clock, log }
    }

    /// The store under its name, to build workers and clients from.
    pub fn handle(&self) -> &StoreHandle<S> {
        &self.handle
    }

    /// A client for the code under test.
    pub fn client(&self) -> Client<S> {
        self.handle.client()
    }

    /// The store's clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// The store's time.
    pub fn now(&self) -> Timestamp {
        mq_core::Clock::now(&self.clock)
    }

    /// Moves the store's clock. Nothing runs by that alone.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// What was enqueued so far, or since it was last forgotten: in order, by
    /// clients and by the slots of schedules. Flow children are among it.
    pub fn enqueues(&self) -> Enqueues {
        Enqueues::new(self.log.lock().clone())
    }

    /// Forgets what was enqueued, but keeps the jobs: what is asserted from now
    /// on is of what is enqueued from now on.
    pub fn forget_enqueues(&self) {
        self.log.lock().clear();
    }
}

macro_rules! delegate {
    ($($(#[$doc:meta])* $name:ident $(<$job:ident>)? ($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        /// Shorthands for [`enqueues`](Self::enqueues), which also narrows them
        /// down to a queue.
        impl<S: StoreName> TestStore<S> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name$(<$job: mq_core::Job>)?(&self $(, $argument: $type)*) $(-> $answer)? {
                    self.enqueues().$name$(::<$job>)?($($argument),*)
                }
            )*
        }
    };
}

delegate! {
    /// See [`Enqueues::of`].
    enqueued<J>() -> Vec<EnqueuedJob<J>>;
    /// See [`Enqueues::assert_enqueued`].
    assert_enqueued<J>(expected: &J) -> EnqueuedJob<J>;
    /// See [`Enqueues::assert_enqueued_with`].
    assert_enqueued_with<J>(what: &str, holds: impl Fn(&EnqueuedJob<J>) -> bool) -> EnqueuedJob<J>;
    /// See [`Enqueues::assert_enqueued_exactly`].
    assert_enqueued_exactly<J>(expected: &[J]) -> Vec<EnqueuedJob<J>>;
    /// See [`Enqueues::assert_enqueued_count`].
    assert_enqueued_count<J>(count: usize) -> Vec<EnqueuedJob<J>>;
    /// See [`Enqueues::assert_not_enqueued`].
    assert_not_enqueued<J>();
    /// See [`Enqueues::assert_none`].
    assert_nothing_enqueued();
}

impl Enqueues {
    #[track_caller]
    fn enqueued<J: mq_core::Job>(&self) -> Vec<EnqueuedJob<J>> {
        self.of::<J>()
    }

    #[track_caller]
    fn assert_nothing_enqueued(&self) {
        self.assert_none();
    }
}

impl<S: StoreName> Default for TestStore<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: StoreName> Clone for TestStore<S> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            clock: self.clock.clone(),
            log: Arc::clone(&self.log),
        }
    }
}

impl<S: StoreName> fmt::Debug for TestStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStore")
            .field("name", &S::NAME)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
