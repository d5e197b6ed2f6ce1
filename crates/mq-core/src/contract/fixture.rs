//! What a case works with: a store of its own, on a clock of its own.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::capability::Capability;
use crate::id::{IdGenerator, JobId};
use crate::record::HistoryCeiling;
use crate::store::Store;
use crate::time::{ManualClock, TimeSource};
use crate::validate::Limits;

/// Opens the stores that cases are run against.
#[async_trait]
pub trait StoreFactory: Send + Sync {
    /// Opens an empty store that shares nothing with any other.
    async fn open(&self, options: StoreOptions) -> Opened;

    /// What can be done to the stores besides calling them. Cases that need
    /// more than this do not apply to them; of what is named here, all must
    /// hold.
    fn capabilities(&self) -> &[Capability];

    /// How long a wake-up may be on its way before a case calls it lost: 10 s.
    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// How a case wants its store.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Where the store takes its time from: nearly always a manual clock.
    pub time: TimeSource,
    /// The largest payload, in bytes.
    pub max_payload: usize,
    /// The longest that finished jobs are kept.
    pub history_ceiling: Option<HistoryCeiling>,
    /// What draws ids; the usual generator if absent.
    pub id_generator: Option<IdGenerator>,
    /// What the case will do to the store: a store that is to be restarted,
    /// for instance, needs a server of its own.
    pub needs: &'static [Capability],
}

impl StoreOptions {
    /// A store with the usual limits on this clock.
    pub fn new(time: impl Into<TimeSource>) -> Self {
        Self {
            time: time.into(),
            max_payload: Limits::default().max_payload,
            history_ceiling: None,
            id_generator: None,
            needs: &[],
        }
    }

    pub(super) fn server_time(mut self) -> Self {
        self.time = TimeSource::Server;
        self
    }

    pub(super) fn max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = bytes;
        self
    }

    pub(super) fn history_ceiling(mut self, ceiling: HistoryCeiling) -> Self {
        self.history_ceiling = Some(ceiling);
        self
    }

    pub(super) fn id_generator(mut self, draw: IdGenerator) -> Self {
        self.id_generator = Some(draw);
        self
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("time", &self.time)
            .field("max_payload", &self.max_payload)
            .field("history_ceiling", &self.history_ceiling)
            .field("id_generator", &self.id_generator.is_some())
            .field("needs", &self.needs)
            .finish()
    }
}

/// A store that was opened for a case. It is dropped when the case has ended,
/// with all that its second-handle function holds.
pub struct Opened {
    store: Arc<dyn Store>,
    second: Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>,
    corrupt: Option<Hook<JobId>>,
    restart: Option<Hook<()>>,
}

/// What a factory does to a store for a case.
type Hook<T> = Arc<dyn Fn(T) -> BoxFuture<'static, ()> + Send + Sync>;

impl Opened {
    /// The store, and a function that opens a second handle on the same data,
    /// on the same clock, as another process would have.
    pub fn new<S, T, F>(store: S, second: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        S: Store + 'static,
        T: Store + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        Self {
            store: Arc::new(store),
            second: Arc::new(move || {
                let opening = second();
                async move { Arc::new(opening.await) as Arc<dyn Store> }.boxed()
            }),
            corrupt: None,
            restart: None,
        }
    }

    /// Adds how a stored job is damaged, so that it cannot be decoded any
    /// more; for [`Capability::Corruption`].
    #[must_use]
    pub fn with_corruption<F>(
        mut self,
        corrupt: impl Fn(JobId) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.corrupt = Some(Arc::new(move |id| corrupt(id).boxed()));
        self
    }

    /// Adds how the server under the store is killed and started again, with
    /// what it has stored durably; for [`Capability::Restart`]. It returns once
    /// the server answers; the store's handles stay, and have to find it.
    #[must_use]
    pub fn with_restart<F>(mut self, restart: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.restart = Some(Arc::new(move |()| restart().boxed()));
        self
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

impl Opened {
    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Opens a second handle on the same data.
    pub async fn open_second(&self) -> Arc<dyn Store> {
        (self.second)().await
    }
}

/// What a case is given: a store, its clock, and short words for what cases do.
#[derive(Clone)]
pub(crate) struct Fixture {
    /// The store under test.
    pub(super) store: Arc<dyn Store>,
    /// The store's clock.
    pub(super) clock: ManualClock,
    pub(super) patience: Duration,
    second: Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>,
    corrupt: Option<Hook<JobId>>,
    restart: Option<Hook<()>>,
}

impl Fixture {
    pub(super) async fn open(
        factory: &dyn StoreFactory,
        adapt: fn(StoreOptions) -> StoreOptions,
        needs: &'static [Capability],
    ) -> Self {
        let clock = ManualClock::default();
        let mut options = adapt(StoreOptions::new(clock.clone()));
        options.needs = needs;
        let opened = factory.open(options).await;
        Self {
            store: opened.store,
            clock,
            patience: factory.patience(),
            second: opened.second,
            corrupt: opened.corrupt,
            restart: opened.restart,
        }
    }

    /// Damages what is stored of a job.
    pub(super) async fn corrupt(&self, id: &JobId) {
        match &self.corrupt {
            Some(corrupt) => corrupt(id.clone()).await,
            None => panic!("the factory names Corruption, but opens stores without it"),
        }
    }

    /// Kills the server under the store, and starts it again.
    pub(super) async fn restart(&self) {
        match &self.restart {
            Some(restart) => restart(()).await,
            None => panic!("the factory names Restart, but opens stores without it"),
        }
    }

    /// The same data, through a handle of its own.
    pub(super) async fn second(&self) -> Self {
        Self {
            store: (self.second)().await,
            ..self.clone()
        }
    }
}
