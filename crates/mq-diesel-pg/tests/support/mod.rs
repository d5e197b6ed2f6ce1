//! What the tests against a server share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::time::Duration;

use mq_core::{Claim, ClaimRequest, JobSpec, LockToken, NewJob, RawJson, RunOps};
use mq_diesel_pg::{PgStore, PgStoreBuilder};

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
