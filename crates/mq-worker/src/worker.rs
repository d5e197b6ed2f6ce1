//! A running worker.

use std::fmt;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use mq_core::{
    DefaultStore, Job, JobName, QueueName, SameStoreAs, StoreHandle, StoreName, WorkerId,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::acknowledge::{Acknowledger, MOST_PENDING};
use crate::builder::{Parts, WorkerBuilder};
use crate::contact::Contact;
use crate::failure::Failures;
use crate::fetch::Fetcher;
use crate::heartbeat::heartbeat;
use crate::held::Held;
use crate::link::Link;
use crate::maintenance::{Patience, maintain, own_tasks};
use crate::panic;
use crate::runtime::Shared;
use crate::shutdown::{self, ShutdownReport};
use crate::stats::{Counters, WorkerStats};

/// How long the worker's own tasks have to leave off at the end.
const PATIENCE_WITH_SERVICES: Duration = Duration::from_secs(1);

/// A running worker of the store `S`.
///
/// End it with [`shutdown`](Self::shutdown). Dropped without, it stops at
/// once: its handlers are dropped where they stand, and their jobs run again
/// when their locks have expired.
///
/// `M` says who drives it: itself, or, in tests, [`ByHand`](crate::ByHand)
/// whoever holds it.
pub struct Worker<S: StoreName = DefaultStore, M = ByItself> {
    pub(crate) shared: Arc<Shared>,
    /// One task per queue; they end when the worker stops.
    pub(crate) fetchers: JoinSet<()>,
    /// Heartbeat, acks and maintenance; they end when they are aborted.
    services: JoinSet<()>,
    pub(crate) mode: M,
    name: PhantomData<fn() -> S>,
}

/// A worker that looks for work by itself: any but those of tests.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ByItself;

impl<S: StoreName> Worker<S> {
    /// Begins a worker of this store.
    pub fn builder(store: StoreHandle<S>) -> WorkerBuilder<S> {
        WorkerBuilder::new(&store)
    }

    pub(crate) fn spawn(mut parts: Parts) -> Self {
        let maintenance = std::mem::take(&mut parts.maintenance);
        let mut worker = Worker::still(parts, ByItself);
        let shared = &worker.shared;
        for queue in &shared.queues {
            let fetcher = Fetcher::new(Arc::clone(shared), queue.clone());
            worker
                .fetchers
                .spawn(async move { while panicked("fetcher", fetcher.run()).await {} });
        }
        let lock_duration = shared.options.lock_duration;
        for task in own_tasks(shared, Patience::OneLock)
            .into_iter()
            .chain(maintenance)
        {
            worker.services.spawn(async move {
                while panicked("maintenance", maintain(&task, lock_duration)).await {}
            });
        }
        worker
    }
}

impl<S: StoreName, M> Worker<S, M> {
    /// A worker that extends locks and acknowledges runs, but begins nothing.
    pub(crate) fn still(parts: Parts, mode: M) -> Self {
        let (acks, ended) = mpsc::channel(MOST_PENDING);
        let options = parts.options;
        let contact = Contact::new(S::NAME, options.lock_duration, options.heartbeat_interval());
        let shared = Arc::new(Shared {
            id: parts.id,
            host: parts.host,
            queues: parts.queues,
            link: Link::new(parts.store, contact, options.lock_duration),
            registry: parts.registry,
            held: Held::default(),
            counters: Counters::default(),
            failures: Failures::new(parts.on_failure),
            after_ack: parts.after_ack,
            acks,
            beat_now: Notify::new(),
            stopping: CancellationToken::new(),
            gone: AtomicBool::new(false),
            options,
        });
        info!(
            worker = %shared.id,
            store = S::NAME,
            queues = ?shared.queues,
            handlers = ?shared.registry.now().names,
            "the worker starts"
        );
        let mut services = JoinSet::new();
        let mut acknowledger = Acknowledger::new(Arc::clone(&shared), ended);
        services.spawn(async move { while panicked("acknowledger", acknowledger.run()).await {} });
        let beating = Arc::clone(&shared);
        services.spawn(async move {
            while panicked("heartbeat", heartbeat(Arc::clone(&beating))).await {}
        });
        Self {
            shared,
            fetchers: JoinSet::new(),
            services,
            mode,
            name: PhantomData,
        }
    }

    /// The worker's id, as it is in worker records.
    pub fn id(&self) -> &WorkerId {
        &self.shared.id
    }

    /// The queues it takes from, by name.
    pub fn queues(&self) -> &[QueueName] {
        &self.shared.queues
    }

    /// How many handlers are running.
    pub fn in_flight(&self) -> usize {
        self.shared.held.running()
    }

    /// What it has done so far.
    pub fn stats(&self) -> WorkerStats {
        self.shared.counters.read()
    }

    /// Takes no more jobs of type `J`; false if it took none. Handlers that
    /// run go on; jobs that were claimed but not begun go back.
    pub fn unregister<J: Job>(&self) -> bool
    where
        S: SameStoreAs<J::Store>,
    {
        self.shared.registry.forget(&JobName::from(J::NAME))
    }

    /// Stops the worker, and returns what became of what it was doing.
    ///
    /// It takes no more jobs and puts back those it has not begun. Handlers
    /// have `shutdown_grace` to end; then they are told to stop, dropped after
    /// `cancel_grace`, and their jobs put back without using an attempt. Last,
    /// ended runs are acknowledged, for 5 s at the most: with a store that is
    /// down it ends, too, and what it could not say is said by locks that
    /// expire.
    pub async fn shutdown(mut self) -> ShutdownReport {
        let report = shutdown::shutdown(&self.shared, &mut self.fetchers).await;
        // What blocks its thread cannot be aborted, nor waited for.
        let _ = tokio::time::timeout(PATIENCE_WITH_SERVICES, self.services.shutdown()).await;
        info!(worker = %self.shared.id, ?report, "the worker has stopped");
        report
    }
}

impl<S: StoreName, M> Drop for Worker<S, M> {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
        self.shared.gone.store(true, Ordering::SeqCst);
        for run in self.shared.held.all() {
            run.abort();
        }
    }
}

impl<S: StoreName, M> fmt::Debug for Worker<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", self.id())
            .field("store", &S::NAME)
            .field("queues", &self.queues())
            .finish_non_exhaustive()
    }
}

/// Runs a loop of the worker's own; true if it panicked and is to begin again.
async fn panicked(name: &'static str, turning: impl Future<Output = ()>) -> bool {
    const PAUSE: Duration = Duration::from_secs(1);
    let Err(payload) = AssertUnwindSafe(turning).catch_unwind().await else {
        return false;
    };
    let message = panic::message(payload);
    error!(
        name,
        panic = message,
        "a loop of the worker panicked; it begins again"
    );
    tokio::time::sleep(PAUSE).await;
    true
}
