//! The store behind a PgBouncer.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use diesel_async::RunQueryDsl;
use mq_core::{Ack, AckOutcome, Dedupe, EnqueueOps, InspectOps, Lock, RunOps, StoreError};
use mq_diesel_pg::{PgStore, Wake};
use mq_testkit::servers::{PgBouncer, PoolMode, Upstream};
use tempfile::TempDir;

use support::{fresh_name, job, request, url};

/// A pooler before the tests' server.
struct Pooled {
    bouncer: PgBouncer,
    database: String,
    _folder: TempDir,
}

impl Pooled {
    async fn start(mode: PoolMode) -> Self {
        let config: tokio_postgres::Config = url().parse().unwrap();
        let host = match &config.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        };
        let upstream = Upstream {
            host,
            port: config.get_ports().first().copied().unwrap_or(5432),
            user: config.get_user().unwrap_or("postgres").to_owned(),
        };
        let database = config.get_dbname().unwrap_or("postgres").to_owned();
        let started = tokio::task::spawn_blocking(move || {
            let folder = tempfile::tempdir().unwrap();
            let bouncer = PgBouncer::start(folder.path(), &upstream, mode);
            (bouncer.unwrap(), folder)
        });
        let (bouncer, folder) = started.await.unwrap();
        Self {
            bouncer,
            database,
            _folder: folder,
        }
    }

    fn url(&self) -> String {
        self.bouncer.url(&self.database)
    }

    /// A store through the pooler.
    async fn store(&self, schema: &str) -> PgStore {
        let builder = PgStore::builder(self.url())
            .schema(schema)
            .pool_size(3)
            .connection_timeout(Duration::from_secs(2));
        builder.migrate().await.unwrap();
        builder.open().await.unwrap()
    }
}

async fn setting(url: &str, name: &str) -> String {
    #[derive(diesel::QueryableByName)]
    struct Setting {
        #[diesel(sql_type = diesel::sql_types::Text)]
        value: String,
    }
    let mut connection = support::connection(url).await;
    let read = format!("SELECT current_setting('{name}') AS value");
    let mut found: Vec<Setting> = diesel::sql_query(read).load(&mut connection).await.unwrap();
    found.remove(0).value
}

#[tokio::test]
async fn in_session_mode_jobs_go_round_and_processes_wake_each_other() {
    let pooled = Pooled::start(PoolMode::Session).await;
    let schema = fresh_name();
    let (one, other) = (pooled.store(&schema).await, pooled.store(&schema).await);
    // More often than a statement is planned anew before its plan is kept.
    for round in 0..12 {
        let asked = request(10);
        let before = other.claim(asked).await.unwrap();
        assert!(before.jobs.is_empty());
        let queues = ["queue".into()];
        let woken = other.await_wake(&queues, before.wake);
        let mut keyed = job();
        keyed.dedupe = Some(Dedupe::key("key"));
        one.enqueue_many(vec![job(), keyed]).await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), woken)
            .await
            .expect("a wake-up through the pooler")
            .unwrap();
        let asked = request(10);
        let token = asked.token.clone();
        let claim = other.claim(asked).await.unwrap();
        assert_eq!(claim.jobs.len(), 2, "in round {round}");
        let acks = claim.jobs.into_iter().map(|job| Ack {
            lock: Lock {
                id: job.id,
                token: token.clone(),
            },
            outcome: AckOutcome::Complete { exit: None },
        });
        for acked in other.ack_many(acks.collect()).await.unwrap() {
            assert!(acked.unwrap().applied);
        }
    }
    assert_eq!(one.counts(None).await.unwrap().completed, 24);
}

#[tokio::test]
async fn in_session_mode_the_stores_settings_do_not_outlive_its_connections() {
    let pooled = Pooled::start(PoolMode::Session).await;
    let before = setting(&pooled.url(), "enable_seqscan").await;
    let store = pooled.store(&fresh_name()).await;
    store.enqueue(job()).await.unwrap();
    drop(store);
    // The sessions that served it serve these next.
    for _ in 0..5 {
        assert_eq!(setting(&pooled.url(), "enable_seqscan").await, before);
    }
}

#[tokio::test]
async fn a_pooler_that_dies_is_a_transient_error_and_its_return_mends_it() {
    let mut pooled = Pooled::start(PoolMode::Session).await;
    let store = pooled.store(&fresh_name()).await;
    store.enqueue(job()).await.unwrap();
    pooled.bouncer.kill9().unwrap();
    let error = store.enqueue(job()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    pooled.bouncer.restart().unwrap();
    let mut tries = 0;
    while let Err(error) = store.enqueue(job()).await {
        assert!(error.is_transient(), "{error:?}");
        tries += 1;
        assert!(tries < 20, "{error}");
    }
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused_whatever_the_pool() {
    let pooled = Pooled::start(PoolMode::Transaction).await;
    let schema = fresh_name();
    let direct = PgStore::builder(url()).schema(&schema);
    direct.migrate().await.unwrap();
    for size in [1, 4] {
        let builder = PgStore::builder(pooled.url())
            .schema(&schema)
            .pool_size(size)
            .wake(Wake::Poll(Duration::from_secs(1)));
        let refused = builder.open().await.map(drop);
        let Err(StoreError::Backend { message, .. }) = refused else {
            panic!("expected a refusal with {size}, got {refused:?}");
        };
        assert!(message.contains("transaction mode"), "{message}");
        assert!(message.contains("pool_mode = session"), "{message}");
    }
    // Nor does a refused try spoil the sessions that others get.
    let usual = setting(&url(), "enable_seqscan").await;
    assert_eq!(setting(&pooled.url(), "enable_seqscan").await, usual);
    // Past the pooler it opens.
    direct.open().await.unwrap();
}
