//! The indexes that lists by `enqueued_at` read: a choice of the store.

use mq_core::Result;

use crate::RedisStore;

/// Brings the indexes into the state that was asked for; `found` is the one
/// they are in: `on`, `off` or `building`.
pub(crate) async fn settle(_store: &RedisStore, _found: &str) -> Result<()> {
    Ok(())
}
