//! What the tests against a server share.

#![allow(dead_code, reason = "each test file uses a part of it")]

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
