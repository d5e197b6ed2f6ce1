//! The store: a connection, a prefix and the options that go with them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mq_core::validate::Limits;
use mq_core::{
    AdminOps, HistoryCeiling, IdGenerator, Result, StoreError, StoreKey, TimeSource, uuid_v7,
};
use redis::Value;

use crate::connection::{Call, Connection};
use crate::keys::HashTag;
use crate::reply::Reply;
use crate::script::{self, Script};
use crate::wake::Wakes;
use crate::{indexes, version};

/// The layout that this version reads and writes.
const LAYOUT: u64 = 1;

/// A store on a Redis or Valkey server, or on a cluster of them.
///
/// All its keys begin with `{prefix}`, so a store lives in one slot; several
/// stores share a server under prefixes of their own. It mends its connection
/// by itself. Clones are handles on the same connection; whoever needs the
/// server's time, a lock or a wake-up gets it through any of them.
///
/// ```no_run
/// # async fn example() -> mq_core::Result<()> {
/// use mq_redis::RedisStore;
///
/// let store = RedisStore::connect("redis://127.0.0.1/").await?;
/// let billing = RedisStore::builder("redis://127.0.0.1/")
///     .prefix("billing")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) tag: HashTag,
    pub(crate) time: TimeSource,
    pub(crate) limits: Limits,
    pub(crate) ceiling: Option<HistoryCeiling>,
    pub(crate) draw_id: IdGenerator,
    pub(crate) list_indexes: ListIndexes,
    pub(crate) wakes: Wakes,
    next_nonce: AtomicU64,
}

/// Whether the store keeps the indexes that unfiltered lists read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListIndexes {
    On,
    Off,
}

impl RedisStore {
    /// Opens the store of prefix `mq` on one server: `redis://`, `rediss://`
    /// with the feature `tls`, or `unix://`.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached; `Backend` if it is too
    /// old, does not let the store in, or holds a store of another layout.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// A store with other options than the defaults.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(vec![url.into()])
    }

    /// A store on the cluster that these nodes belong to; two at the least, so
    /// that one may be down.
    #[cfg(feature = "cluster")]
    pub fn cluster<U: Into<String>>(nodes: impl IntoIterator<Item = U>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(nodes.into_iter().map(Into::into).collect())
    }

    /// Begins a call of a script: its key is the store's, its first argument
    /// the time.
    pub(crate) fn call(&self, script: &'static Script) -> Call {
        let mut call = Call::new(script, self.shared.tag.as_str());
        match &self.shared.time {
            TimeSource::Server => call.arg(""),
            TimeSource::Clock(clock) => call.number(clock.now().as_millis()),
        };
        call
    }

    /// Calls a script.
    pub(crate) async fn run(&self, call: &Call) -> Result<Value> {
        self.shared.connection.call(call).await
    }

    /// Calls a script that answers a list.
    pub(crate) async fn run_list(&self, call: &Call) -> Result<Reply> {
        Reply::new(call.name(), self.run(call).await?)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Draws numbers that tell the tries of one request from all others'.
    pub(crate) fn draw_nonces(&self, count: usize) -> u64 {
        self.shared
            .next_nonce
            .fetch_add(count as u64, Ordering::Relaxed)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("server", &self.shared.connection.server())
            .field("prefix", &self.shared.tag.as_str())
            .field("time", &self.shared.time)
            .finish_non_exhaustive()
    }
}

/// The options of a [`RedisStore`].
#[must_use]
pub struct RedisStoreBuilder {
    urls: Vec<String>,
    prefix: String,
    name: Option<StoreKey>,
    time: TimeSource,
    limits: Limits,
    ceiling: Option<HistoryCeiling>,
    draw_id: IdGenerator,
    list_indexes: ListIndexes,
    response_timeout: Duration,
}

impl RedisStoreBuilder {
    fn new(urls: Vec<String>) -> Self {
        Self {
            urls,
            prefix: "mq".into(),
            name: None,
            time: TimeSource::Server,
            limits: Limits::default(),
            ceiling: None,
            draw_id: uuid_v7(),
            list_indexes: ListIndexes::On,
            response_timeout: Duration::from_secs(5),
        }
    }

    /// What the store's keys begin with, in braces; `mq` by default. At most
    /// 256 bytes, without braces.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Binds the store to a name as it is opened; a store that bears another
    /// is refused.
    pub fn name(mut self, name: impl Into<StoreKey>) -> Self {
        self.name = Some(name.into());
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
    /// [`uuid_v7`](mq_core::uuid_v7) by default.
    pub fn id_generator(mut self, draw: IdGenerator) -> Self {
        self.draw_id = draw;
        self
    }

    /// Keeps no indexes for lists by `enqueued_at`, which saves some 290 bytes
    /// a job; such lists are then `Unsupported`. It is a choice of the store,
    /// not of the handle: who opened it last has made it for all.
    pub fn without_list_indexes(mut self) -> Self {
        self.list_indexes = ListIndexes::Off;
        self
    }

    /// How long an answer may take before the call fails with `Unavailable`;
    /// 5 s by default.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix that cannot be; `Unavailable` if the server
    /// cannot be reached; `Backend` if it is too old, does not let the store
    /// in, or holds a store of another layout; `NameMismatch`.
    pub async fn connect(self) -> Result<RedisStore> {
        let tag = HashTag::new(&self.prefix)?;
        let (connection, clients) = Connection::open(&self.urls, self.response_timeout).await?;
        version::check(&connection).await?;
        let wakes = Wakes::new(clients, tag.channel(), self.response_timeout);
        let nonce = fastrand::u64(..);
        let store = RedisStore {
            shared: Arc::new(Shared {
                connection,
                tag,
                time: self.time,
                limits: self.limits,
                ceiling: self.ceiling,
                draw_id: self.draw_id,
                list_indexes: self.list_indexes,
                wakes,
                next_nonce: AtomicU64::new(nonce),
            }),
        };
        store.take_into_use().await?;
        if let Some(name) = &self.name {
            store.bind_name(name).await?;
        }
        Ok(store)
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("prefix", &self.prefix)
            .field("name", &self.name)
            .field("time", &self.time)
            .field("limits", &self.limits)
            .field("ceiling", &self.ceiling)
            .field("list_indexes", &self.list_indexes)
            .field("response_timeout", &self.response_timeout)
            .finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Checks the layout and settles the choice of list indexes.
    async fn take_into_use(&self) -> Result<()> {
        let mut call = self.call(&script::OPEN);
        let choice = match self.shared.list_indexes {
            ListIndexes::On => "on",
            ListIndexes::Off => "off",
        };
        call.number(LAYOUT).arg(choice);
        let mut answer = self.run_list(&call).await?;
        let layout = answer.text()?;
        if layout != LAYOUT.to_string() {
            let (tag, server) = (self.shared.tag.as_str(), self.shared.connection.server());
            return Err(StoreError::Backend {
                message: format!(
                    "the store {tag} at {server} has layout {layout}, this version of mq-redis \
                     knows layout {LAYOUT}: open it with the version that wrote it, or use \
                     another prefix"
                ),
                source: None,
            });
        }
        indexes::settle(self, &answer.text()?).await
    }
}
