//! What the tests of this crate share: a server, and stores of their own on it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mq_core::contract::StoreOptions;
use mq_core::{JobId, JobSpec, NewJob, RawJson};
use mq_redis::{RedisStore, RedisStoreBuilder};
use mq_testkit::servers::{Redis, Settings};
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

/// The server to test on.
pub(crate) fn url() -> String {
    from_environment("MQ_TEST_REDIS_URL", "Redis server")
}

/// The nodes of the cluster to test on.
pub(crate) fn cluster_nodes() -> Vec<String> {
    let urls = from_environment("MQ_TEST_REDIS_CLUSTER_URL", "Redis Cluster");
    urls.split(',').map(str::to_owned).collect()
}

fn from_environment(name: &str, what: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} names no {what}: run `cargo xtask test`, or \
             `eval \"$(cargo xtask services env)\"` first"
        )
    })
}

/// A prefix that no other test uses.
pub(crate) fn prefix() -> String {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{nanos}-{drawn}", std::process::id())
}

/// A store as a case of the contract wants it.
pub(crate) fn adapt(builder: RedisStoreBuilder, options: &StoreOptions) -> RedisStoreBuilder {
    let mut builder = builder
        .time(options.time.clone())
        .max_payload(options.max_payload);
    if let Some(ceiling) = options.history_ceiling {
        builder = builder.history_ceiling(ceiling);
    }
    if let Some(draw) = options.id_generator.clone() {
        builder = builder.id_generator(draw);
    }
    builder
}

/// A handle on the store of this prefix.
pub(crate) async fn open(prefix: &str, options: &StoreOptions) -> RedisStore {
    let builder = adapt(RedisStore::builder(url()).prefix(prefix), options);
    builder.connect().await.expect("the store opens")
}

/// A plain connection to a server.
pub(crate) async fn connection(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("the URL is one");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.expect("the server answers")
}

/// Writes something else where a job's record should be.
pub(crate) async fn corrupt(url: &str, prefix: &str, id: &JobId) {
    let mut connection = connection(url).await;
    let mut command = redis::cmd("SET");
    command
        .arg(format!("{{{prefix}}}:job:{id}"))
        .arg("no record");
    let written: redis::RedisResult<()> = command.query_async(&mut connection).await;
    written.expect("the record is overwritten");
}

/// A server of a test's own, in a folder that goes with it.
pub(crate) struct OwnServer {
    pub(crate) redis: Redis,
    _folder: TempDir,
}

impl OwnServer {
    pub(crate) fn start(settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a folder for a server");
        let redis = Redis::start(folder.path(), settings).expect("a server of the test's own");
        Self {
            redis,
            _folder: folder,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.redis.url()
    }

    /// A store on it that gives up on an answer soon.
    pub(crate) async fn store(&self) -> RedisStore {
        self.builder().connect().await.expect("the store opens")
    }

    pub(crate) fn builder(&self) -> RedisStoreBuilder {
        RedisStore::builder(self.url()).response_timeout(Duration::from_millis(500))
    }

    /// Asks it for something, and expects an answer that is no error.
    pub(crate) fn ask(&self, command: &str) -> String {
        let answer = self.redis.ask(command);
        answer.unwrap_or_else(|error| panic!("{command}: {error}"))
    }
}

/// A job to enqueue.
pub(crate) fn job() -> NewJob {
    NewJob::new(JobSpec::new("job", "queue", RawJson::null()))
}
