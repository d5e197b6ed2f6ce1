//! The store and its options.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::bb8::Pool;
use mq_core::coalesce::Coalescer;
use mq_core::validate::{Limits, MAX_BATCH};
use mq_core::{
    Ack, Acked, Enqueued, HistoryCeiling, IdGenerator, NewJob, Result, TimeSource, Timestamp,
    uuid_v7,
};
use parking_lot::Mutex;

use crate::error::{self, Fate};
use crate::migrate;
use crate::pool::{Connections, Failure, PoolOptions, Transaction};
use crate::rows::Row;
use crate::statement::{Statement, Texts};
use crate::wake::listen::{Listener, Probing};
use crate::wake::notify::Outgoing;
use crate::wake::{Topic, Wakes};

/// How often a statement is repeated that the server rolled back.
const REPEATS: u32 = 5;

/// A store in a Postgres database.
///
/// Clones are handles on the same pool. See [`PgStore::builder`] for how to
/// open one.
#[derive(Clone)]
pub struct PgStore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) enqueues: Coalescer<NewJob, Result<Enqueued>>,
    pub(crate) acks: Coalescer<Ack, Result<Acked>>,
}

/// What all clones of a store share.
pub(crate) struct Inner {
    pub(crate) connections: Connections,
    texts: Texts,
    time: TimeSource,
    pub(crate) limits: Limits,
    pub(crate) ceiling: Option<HistoryCeiling>,
    pub(crate) draw_id: IdGenerator,
    pub(crate) wakes: Wakes,
    pub(crate) outgoing: Outgoing,
    /// What tells this handle's words from others'.
    pub(crate) speaker: String,
    pub(crate) channel: String,
    pub(crate) wake: Wake,
    pub(crate) listen_url: Option<String>,
    pub(crate) probing: Probing,
    listener: Mutex<Option<Listener>>,
    /// How many claims this handle has made.
    pub(crate) claims: AtomicU32,
    /// Whether jobs with a `keep` were met: acks then expect them.
    pub(crate) meets_keeps: AtomicBool,
}

/// How a store hears of work that other processes bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// By `LISTEN`, on one connection of its own.
    #[default]
    Listen,
    /// Not at all: waits end after this time at the latest, and the worker
    /// asks again. For poolers in transaction mode, which cannot `LISTEN`.
    Poll(Duration),
}

impl PgStore {
    /// Begins to open a store at a URL, such as
    /// `postgres://user:password@host:5432/database`.
    pub fn builder(url: impl Into<String>) -> PgStoreBuilder {
        PgStoreBuilder::new(Source::Url(url.into()))
    }

    /// Begins to open a store on a pool of the program's own.
    ///
    /// Waits and statements share its connections, and its settings are left
    /// alone: set a `statement_timeout` on its connections, and a recycling
    /// method that does not ask the server each time.
    pub fn with_pool(pool: Pool<AsyncPgConnection>) -> PgStoreBuilder {
        PgStoreBuilder::new(Source::Pool(pool))
    }

    /// Opens the store in the schema `public` of the database at this URL.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached; `Backend` if its tables
    /// are missing or of another version, naming the remedy.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).open().await
    }

    /// Creates or updates the store's tables in the schema `public` of the
    /// database at this URL. Safe to call from many processes at once.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); `Backend` if the user may not create tables.
    pub async fn migrate(url: impl Into<String>) -> Result<()> {
        Self::builder(url).migrate().await
    }
}

impl fmt::Debug for PgStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStore")
            .field("server", &self.inner.connections.server())
            .field("channel", &self.inner.channel)
            .field("time", &self.inner.time)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
enum Source {
    Url(String),
    Pool(Pool<AsyncPgConnection>),
}

/// The options of a [`PgStore`].
#[derive(Clone)]
#[must_use]
pub struct PgStoreBuilder {
    source: Source,
    schema: String,
    time: TimeSource,
    limits: Limits,
    ceiling: Option<HistoryCeiling>,
    draw_id: IdGenerator,
    wake: Wake,
    listen_url: Option<String>,
    probing: Probing,
    pool: PoolOptions,
}

impl PgStoreBuilder {
    fn new(source: Source) -> Self {
        Self {
            source,
            schema: "public".into(),
            time: TimeSource::Server,
            limits: Limits::default(),
            ceiling: None,
            draw_id: uuid_v7(),
            wake: Wake::default(),
            listen_url: None,
            probing: Probing::default(),
            pool: PoolOptions {
                size: 10,
                connection_time_out: Duration::from_secs(10),
                statement_time_out: Some(Duration::from_secs(30)),
            },
        }
    }

    /// The Postgres schema the tables are in; `public` by default. Stores in
    /// schemas of their own share nothing but the database.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Where the time comes from: the server's clock unless this says otherwise.
    pub fn time(mut self, source: impl Into<TimeSource>) -> Self {
        self.time = source.into();
        self
    }

    /// The largest payload, result or progress value, in bytes of JSON; 1 MiB
    /// by default.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limits.max_payload = bytes;
        self
    }

    /// How long finished jobs are kept at the most; without end by default.
    pub fn history_ceiling(mut self, ceiling: HistoryCeiling) -> Self {
        self.ceiling = Some(ceiling);
        self
    }

    /// What draws the ids of jobs that are enqueued without one;
    /// [`uuid_v7`] by default.
    pub fn id_generator(mut self, draw: IdGenerator) -> Self {
        self.draw_id = draw;
        self
    }

    /// How the store hears of what other processes do; [`Wake::Listen`] by default.
    pub fn wake(mut self, how: Wake) -> Self {
        self.wake = how;
        self
    }

    /// Another URL to listen at than the one for statements: past a pooler.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// How often the listening connection is tried, and how long its answer may
    /// take, for tests that cannot wait as long as is usual.
    #[doc(hidden)]
    pub fn listen_probe(mut self, every: Duration, echo_within: Duration) -> Self {
        self.probing = Probing { every, echo_within };
        self
    }

    /// How many connections the store's own pool may have; 10 by default. One
    /// more listens.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.pool.size = connections.max(1);
        self
    }

    /// How long to wait for a connection; 10 s by default.
    pub fn connection_timeout(mut self, limit: Duration) -> Self {
        self.pool.connection_time_out = limit.max(Duration::from_millis(1));
        self
    }

    /// How long one statement may take; 30 s by default, `None` for no limit.
    /// On a pool of the program's own it is only how long to wait for an answer.
    pub fn statement_timeout(mut self, limit: Option<Duration>) -> Self {
        self.pool.statement_time_out = limit;
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached; `Backend` if its tables
    /// are missing or of another version, or if statements go through a pooler
    /// in transaction mode, naming the remedy.
    pub async fn open(self) -> Result<PgStore> {
        migrate::check_schema(&self.schema)?;
        let connections = self.connections().await?;
        let inner = Arc::new(Inner {
            connections,
            texts: Texts::new(&self.schema),
            time: self.time,
            limits: self.limits,
            ceiling: self.ceiling,
            draw_id: self.draw_id,
            wakes: Wakes::default(),
            outgoing: Outgoing::default(),
            speaker: format!("{:016x}", fastrand::u64(..)),
            channel: migrate::channel(&self.schema),
            wake: self.wake,
            listen_url: self.listen_url,
            probing: self.probing,
            listener: Mutex::default(),
            claims: AtomicU32::new(0),
            meets_keeps: AtomicBool::new(false),
        });
        migrate::check(&inner, &self.schema).await?;
        inner.check_sessions().await?;
        Ok(PgStore::of(inner))
    }

    /// Creates or updates the store's tables. Safe to call from many processes
    /// at once.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached; `Backend` if the user may
    /// not create tables, or they are of a newer version.
    pub async fn migrate(&self) -> Result<()> {
        migrate::check_schema(&self.schema)?;
        let connections = self.connections().await?;
        migrate::migrate(&connections, &self.schema).await
    }

    async fn connections(&self) -> Result<Connections> {
        match &self.source {
            Source::Url(url) => Connections::to(url, &self.pool).await,
            Source::Pool(pool) => Ok(Connections::of(pool.clone(), &self.pool)),
        }
    }
}

impl fmt::Debug for PgStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStoreBuilder")
            .field("schema", &self.schema)
            .field("time", &self.time)
            .field("limits", &self.limits)
            .field("ceiling", &self.ceiling)
            .field("wake", &self.wake)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl PgStore {
    fn of(inner: Arc<Inner>) -> Self {
        let most = MAX_BATCH as usize;
        let enqueuer = Arc::clone(&inner);
        let acker = Arc::clone(&inner);
        Self {
            enqueues: Coalescer::new(most, move |jobs| {
                let inner = Arc::clone(&enqueuer);
                async move { inner.enqueue_each(jobs).await }
            }),
            acks: Coalescer::new(most, move |acks| {
                let inner = Arc::clone(&acker);
                async move { inner.ack_each(acks).await }
            }),
            inner,
        }
    }
}

impl Inner {
    /// A statement of this template, with its first value: the manual clock's
    /// time, if there is such a clock.
    pub(crate) fn timed(&self, template: &'static str) -> Statement<'_> {
        let now: Option<Timestamp> = match &self.time {
            TimeSource::Server => None,
            TimeSource::Clock(clock) => Some(clock.now()),
        };
        self.statement(template).bind(now)
    }

    /// A statement of this template, without values yet.
    pub(crate) fn statement(&self, template: &'static str) -> Statement<'_> {
        Statement::new(self.texts.text(template))
    }

    /// Runs one statement, as a transaction of its own, in one round trip;
    /// again if the server rolled it back.
    pub(crate) async fn query(&self, statement: &Statement<'_>) -> Result<Vec<Row>> {
        self.attempt(statement)
            .await
            .map_err(|failure| self.connections.store_error(failure))
    }

    /// [`query`](Self::query), with the server's own error.
    pub(crate) async fn attempt(&self, statement: &Statement<'_>) -> Result<Vec<Row>, Failure> {
        let mut repeats = 0;
        loop {
            let mut connection = self.connections.get().await?;
            match connection.rows(statement).await {
                Err(Failure::Statement(error))
                    if error::fate(&error) == Fate::RolledBack && repeats < REPEATS =>
                {
                    drop(connection);
                    pause(repeats).await;
                    repeats += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Begins a transaction of several statements.
    pub(crate) async fn begin(&self) -> Result<Transaction<'_>, Failure> {
        self.connections.get().await?.begin().await
    }

    /// Does something in a transaction, and again if the server rolled it back.
    pub(crate) async fn repeatedly<T, F>(&self, mut run: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut repeats = 0;
        loop {
            match run().await {
                Err(Failure::Statement(error))
                    if error::fate(&error) == Fate::RolledBack && repeats < REPEATS =>
                {
                    pause(repeats).await;
                    repeats += 1;
                }
                answer => {
                    return answer.map_err(|failure| self.connections.store_error(failure));
                }
            }
        }
    }

    /// Waits until one of these was told of since `cursor`.
    pub(crate) async fn wait(&self, topics: &[Topic], cursor: u64) {
        let waiting = self.wakes.wait(topics, cursor);
        match self.wake {
            Wake::Listen => waiting.await,
            Wake::Poll(interval) => {
                let _ = tokio::time::timeout(interval, waiting).await;
            }
        }
    }

    /// Sees to it that this handle hears of what others do.
    pub(crate) async fn listen_first(self: &Arc<Self>) {
        if self.wake != Wake::Listen {
            return;
        }
        let mut tried = self
            .listener
            .lock()
            .get_or_insert_with(|| Listener::start(Arc::downgrade(self)))
            .tried();
        if *tried.borrow() {
            return;
        }
        // An error means that the listener is gone with its runtime.
        let _ = tried.wait_for(|tried| *tried).await;
    }
}

/// Waits a moment, at random and longer each time, so that those who met do
/// not meet again.
async fn pause(repeats: u32) {
    let most = 2_u64.saturating_pow(repeats + 1);
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=most))).await;
}
