//! What the tests against a server share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use mq_core::{Claim, ClaimRequest, JobId, JobSpec, LockToken, NewJob, RawJson, RunOps};
use mq_diesel_pg::{PgStore, PgStoreBuilder};
use mq_testkit::servers::{Postgres, Settings};
use tempfile::TempDir;

/// The server's URL.
pub(crate) fn url() -> String {
    std::env::var("MQ_TEST_PG_URL").unwrap_or_else(|_| {
        panic!(
            "MQ_TEST_PG_URL is not set: run the tests by `cargo xtask test`, which starts a \
             Postgres, or set it to the URL of one that may be filled with test data"
        )
    })
}

/// A name that no other test has.
pub(crate) fn fresh_name() -> String {
    format!("t_{:016x}", fastrand::u64(..))
}

/// A store in a schema of its own, with few connections.
pub(crate) fn fresh_schema() -> PgStoreBuilder {
    PgStore::builder(url()).schema(fresh_name()).pool_size(4)
}

/// A usual job.
pub(crate) fn job() -> NewJob {
    NewJob::new(JobSpec::new("job", "queue", RawJson::null()))
}

/// A store in a schema of its own.
pub(crate) async fn opened() -> PgStore {
    let builder = fresh_schema();
    builder.migrate().await.expect("the tables can be created");
    builder.open().await.expect("the store opens")
}

/// The Postgres schema that a store is in.
pub(crate) fn schema_of(store: &PgStore) -> String {
    let shown = format!("{store:?}");
    let (_, rest) = shown.split_once("mq_wake_").expect("its channel names it");
    rest.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Claims usual jobs.
pub(crate) async fn claim(store: &PgStore, limit: u32) -> Claim {
    store
        .claim(request(limit))
        .await
        .expect("the claim is answered")
}

/// A claim of usual jobs.
pub(crate) fn request(limit: u32) -> ClaimRequest {
    ClaimRequest {
        queue: "queue".into(),
        names: ["job".into()].into(),
        token: LockToken::random(),
        lock_for: Duration::from_secs(30),
        limit,
    }
}

/// A plain connection to a server.
pub(crate) async fn connection(url: &str) -> AsyncPgConnection {
    let established = AsyncPgConnection::establish(url).await;
    established.expect("the server takes connections")
}

/// Writes something else where a job's policy should be.
pub(crate) async fn corrupt(url: &str, schema: &str, id: &JobId) {
    let update = format!("UPDATE \"{schema}\".mq_job SET backoff = '\"none\"' WHERE id = '{id}'");
    let written = connection(url).await.batch_execute(&update).await;
    written.expect("the record is overwritten");
}

/// A server of a test's own, in a folder that goes with it.
pub(crate) struct OwnServer {
    pub(crate) postgres: Postgres,
    _folder: TempDir,
}

impl OwnServer {
    pub(crate) async fn start(settings: Settings) -> Self {
        let started = tokio::task::spawn_blocking(|| {
            let folder = tempfile::tempdir().expect("a folder for a server");
            let postgres = Postgres::start(folder.path(), settings);
            Self {
                postgres: postgres.expect("a server of the test's own"),
                _folder: folder,
            }
        });
        started.await.expect("a server of the test's own")
    }

    pub(crate) fn url(&self) -> String {
        self.postgres.url()
    }

    /// A store on it.
    pub(crate) async fn store(&self) -> PgStore {
        let builder = PgStore::builder(self.url())
            .pool_size(4)
            .connection_timeout(Duration::from_secs(2));
        builder.migrate().await.expect("the tables can be created");
        builder.open().await.expect("the store opens")
    }
}
