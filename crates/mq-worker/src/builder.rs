//! Puts a worker together: its handlers, its queues, its options.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use mq_core::{
    Clock, DefaultStore, HandlerError, Job, JobName, ManualClock, QueueName, SameStoreAs, Store,
    StoreHandle, StoreName, Timestamp, WorkerId, WorkerRecord, validate,
};

use crate::by_hand::ByHand;
use crate::context::JobContext;
use crate::error::StartError;
use crate::extension::{AfterAck, MaintenanceTask, PhaseRunner, SettledRun};
use crate::failure::{FailedRun, OnFailure};
use crate::handler::{AsyncHandler, BlockingHandler, Handler};
use crate::options::{OnLockLost, Options, drawn_id, host};
use crate::registry::Registry;
use crate::worker::Worker;

/// A worker that has not started yet. Made by [`Worker::builder`].
///
/// Each option says its default. Durations are checked by
/// [`start`](Self::start), not before.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder<S: StoreName = DefaultStore> {
    store: Arc<dyn Store>,
    handlers: Vec<(JobName, Handler)>,
    default_queues: Vec<QueueName>,
    further_queues: Vec<QueueName>,
    only_queues: Option<Vec<QueueName>>,
    options: Options,
    on_failure: Vec<OnFailure>,
    after_ack: Vec<AfterAck>,
    maintenance: Vec<Arc<dyn MaintenanceTask>>,
    extensions: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    name: PhantomData<fn() -> S>,
}

impl<S: StoreName> WorkerBuilder<S> {
    pub(crate) fn new(handle: &StoreHandle<S>) -> Self {
        Self {
            store: Arc::clone(handle.store()),
            handlers: Vec::new(),
            default_queues: Vec::new(),
            further_queues: Vec::new(),
            only_queues: None,
            options: Options::default(),
            on_failure: Vec::new(),
            after_ack: Vec::new(),
            maintenance: Vec::new(),
            extensions: HashMap::new(),
            name: PhantomData,
        }
    }

    // ---- what it runs

    /// Runs jobs of type `J` with this handler, and serves `J`'s queue.
    ///
    /// The handler may be a closure that returns an `async` block, or an async
    /// function. `?` makes a [`HandlerError`] of the job's error.
    ///
    /// ```
    /// use mq_core::{Job, MemoryStore, Outcome, StoreHandle};
    /// use mq_worker::{JobContext, Worker};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(name = "parse", output = u32)]
    /// struct Parse {
    ///     text: String,
    /// }
    ///
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store: StoreHandle = StoreHandle::bind(MemoryStore::new()).await?;
    /// let worker = Worker::builder(store.clone())
    ///     .register(|job: Parse, _: JobContext| async move { Ok(job.text.parse()?) })
    ///     .start()
    ///     .await?;
    /// let outcome = store.client().execute(Parse { text: "7".into() }).await?;
    /// assert!(matches!(outcome, Outcome::Completed(7)));
    /// worker.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn register<J, F, Fut>(self, handler: F) -> Self
    where
        S: SameStoreAs<J::Store>,
        J: Job,
        F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<J::Output, HandlerError<J::Error>>> + Send + 'static,
    {
        self.with_handler::<J>(Handler::Plain(Arc::new(AsyncHandler::<J, F>::new(handler))))
    }

    /// Runs jobs of type `J` with this function on the runtime's pool of
    /// threads that may block, and serves `J`'s queue.
    ///
    /// Once a thread has begun it, it can be told to stop
    /// ([`JobContext::is_cancelled`]), but not stopped: past its time-out it keeps its lock and its slot until it returns.
    pub fn register_blocking<J, F>(self, handler: F) -> Self
    where
        S: SameStoreAs<J::Store>,
        J: Job,
        F: Fn(J, JobContext) -> Result<J::Output, HandlerError<J::Error>> + Send + Sync + 'static,
    {
        self.with_handler::<J>(Handler::Plain(Arc::new(BlockingHandler::<J, F>::new(
            handler,
        ))))
    }

    /// Runs every phase of jobs of type `J` with this runner, and serves `J`'s
    /// queue.
    pub fn register_phases<J: Job>(self, runner: impl PhaseRunner) -> Self
    where
        S: SameStoreAs<J::Store>,
    {
        self.with_handler::<J>(Handler::Phases(Arc::new(runner)))
    }

    fn with_handler<J: Job>(mut self, handler: Handler) -> Self {
        self.handlers.push((JobName::from(J::NAME), handler));
        self.default_queues.push(QueueName::from(J::QUEUE));
        self
    }

    // ---- where it takes it from

    /// Serves this queue, too: jobs that were enqueued into it instead of their
    /// own. Every registered handler serves every queue.
    pub fn queue(mut self, queue: impl Into<QueueName>) -> Self {
        self.further_queues.push(queue.into());
        self
    }

    /// Serves these queues instead of the handlers' own, so that one program
    /// can run as several kinds of worker.
    pub fn only_queues<Q: Into<QueueName>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.only_queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// How many handlers run at once on this queue, if not as many as on
    /// others.
    pub fn concurrency(mut self, queue: impl Into<QueueName>, handlers: u32) -> Self {
        self.options
            .concurrency_by_queue
            .insert(queue.into(), handlers);
        self
    }

    /// How many handlers run at once on each queue; 10.
    pub fn default_concurrency(mut self, handlers: u32) -> Self {
        self.options.concurrency = handlers;
        self
    }

    // ---- locks

    /// How long a claim locks a job, unless extended; 30 s. A job whose worker
    /// died runs again after that.
    pub fn lock_duration(mut self, duration: Duration) -> Self {
        self.options.lock_duration = duration;
        self
    }

    /// How often locks are extended, and cancels noticed; a third of
    /// `lock_duration`, and always shorter than it.
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.options.heartbeat_interval = Some(interval);
        self
    }

    /// How often jobs are looked for whose worker died; 15 s.
    pub fn stalled_interval(mut self, interval: Duration) -> Self {
        self.options.stalled_interval = interval;
        self
    }

    /// How often a job may lose its worker before it fails; 3.
    pub fn max_stalled_count(mut self, count: u32) -> Self {
        self.options.max_stalled_count = count;
        self
    }

    /// What happens to a run whose lock is lost; it is cancelled.
    pub fn on_lock_lost(mut self, policy: OnLockLost) -> Self {
        self.options.on_lock_lost = policy;
        self
    }

    // ---- ends

    /// How long a handler has between being told to stop and being dropped;
    /// 5 s.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.options.cancel_grace = grace;
        self
    }

    /// How long running handlers have at shutdown before they are told to
    /// stop; 20 s.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.options.shutdown_grace = grace;
        self
    }

    /// Called after each failed run, once the store has confirmed it, and for
    /// each job that stalled too often. Nothing waits for it; its panics are
    /// logged. May be given several times.
    pub fn on_failure<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(FailedRun) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_failure
            .push(Arc::new(move |failed| Box::pin(callback(failed))));
        self
    }

    // ---- intervals

    /// How often the store is asked for jobs without being woken; 5 s.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.options.poll_interval = interval;
        self
    }

    /// How often schedules are looked at, besides exactly at the next slot;
    /// 5 s.
    pub fn schedule_interval(mut self, interval: Duration) -> Self {
        self.options.schedule_interval = interval;
        self
    }

    /// How often finished jobs are deleted whose retention is over; 60 s.
    pub fn history_interval(mut self, interval: Duration) -> Self {
        self.options.history_interval = interval;
        self
    }

    /// How often the worker reports itself to the store; 10 s, and less than
    /// 60 s.
    pub fn report_interval(mut self, interval: Duration) -> Self {
        self.options.report_interval = interval;
        self
    }

    // ---- who it is

    /// The worker's id in records and logs; made of host, process and something
    /// drawn.
    pub fn id(mut self, id: impl Into<WorkerId>) -> Self {
        self.options.id = Some(id.into());
        self
    }

    /// The program's version in worker records; empty.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.options.version = version.into();
        self
    }

    // ---- what it does besides

    /// Called for each ack that the store has taken. It is called between two
    /// calls to the store, so it must not block; its panics are logged. May be
    /// given several times.
    pub fn after_ack(mut self, hook: impl Fn(&SettledRun<'_>) + Send + Sync + 'static) -> Self {
        self.after_ack.push(Arc::new(hook));
        self
    }

    /// Does this over and over while the worker runs. May be given several
    /// times.
    pub fn maintenance(mut self, task: impl MaintenanceTask) -> Self {
        self.maintenance.push(Arc::new(task));
        self
    }

    /// The store the worker will take from.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What an extension keeps with the builder, so that several calls can add
    /// to one thing: there is one `T` per builder.
    pub fn extension<T: Default + Send + Sync + 'static>(&mut self) -> &mut T {
        self.extensions
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::new(T::default()))
            .downcast_mut()
            .expect("it is kept under its own type")
    }

    /// Checks the options and starts the worker on the current runtime. The
    /// store need not be in reach.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(self) -> Result<Worker<S>, StartError> {
        Ok(Worker::spawn(self.parts()?))
    }

    /// Checks the options and makes a worker that stands still until it is
    /// driven, for tests: see [`Worker::run_until_idle`]. `clock` is the one
    /// that its store takes its time from.
    ///
    /// # Errors
    /// See [`StartError`]; `OtherClock` if the store's time is not the clock's.
    pub async fn start_by_hand(self, clock: ManualClock) -> Result<Worker<S, ByHand>, StartError> {
        let now = self.store.now().await.map_err(StartError::NoTime)?;
        let told = clock.now();
        if now != told {
            return Err(StartError::OtherClock { now, told });
        }
        Ok(Worker::drive(self.parts()?, clock))
    }

    fn parts(self) -> Result<Parts, StartError> {
        if self.handlers.is_empty() && self.maintenance.is_empty() {
            return Err(StartError::NoHandler);
        }
        let queues = self.served_queues();
        self.options.check(&queues)?;
        self.maintenance.iter().try_for_each(|task| task.check())?;
        let host = host();
        let id = self.options.id.clone().unwrap_or_else(|| drawn_id(&host));
        validate::worker(&WorkerRecord {
            id: id.clone(),
            host: host.clone(),
            version: self.options.version.clone(),
            queues: queues.clone(),
            in_flight: 0,
            started_at: Timestamp::MIN,
            last_seen_at: Timestamp::MIN,
        })?;
        Ok(Parts {
            store: self.store,
            id,
            host,
            queues,
            registry: Registry::new(self.handlers)?,
            options: self.options,
            on_failure: self.on_failure,
            after_ack: self.after_ack,
            maintenance: self.maintenance,
        })
    }

    fn served_queues(&self) -> Vec<QueueName> {
        let own = self.only_queues.as_ref().unwrap_or(&self.default_queues);
        let mut queues: Vec<_> = own.iter().chain(&self.further_queues).cloned().collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}

/// What a worker is spawned from.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) id: WorkerId,
    pub(crate) host: String,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) registry: Registry,
    pub(crate) options: Options,
    pub(crate) on_failure: Vec<OnFailure>,
    pub(crate) after_ack: Vec<AfterAck>,
    pub(crate) maintenance: Vec<Arc<dyn MaintenanceTask>>,
}
