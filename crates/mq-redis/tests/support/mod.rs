//! What the tests of this crate share: a server, and stores of their own on it.

use std::time::{SystemTime, UNIX_EPOCH};

use mq_core::contract::StoreOptions;
use mq_redis::RedisStore;

/// The server to test on.
pub(crate) fn url() -> String {
    std::env::var("MQ_TEST_REDIS_URL").expect(
        "MQ_TEST_REDIS_URL names no Redis server: run `cargo xtask test`, or \
         `eval \"$(cargo xtask services env)\"` first",
    )
}

/// A prefix that no other test uses.
pub(crate) fn prefix() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    format!("test-{}-{nanos}", std::process::id())
}

/// A handle on the store of this prefix.
pub(crate) async fn open(prefix: &str, options: &StoreOptions) -> RedisStore {
    let mut builder = RedisStore::builder(url())
        .prefix(prefix)
        .time(options.time.clone())
        .max_payload(options.max_payload);
    if let Some(ceiling) = options.history_ceiling {
        builder = builder.history_ceiling(ceiling);
    }
    if let Some(draw) = options.id_generator.clone() {
        builder = builder.id_generator(draw);
    }
    builder.connect().await.expect("the store opens")
}
