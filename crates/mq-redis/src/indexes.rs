//! The indexes that lists by `enqueued_at` read: a choice of the store, which
//! every enqueue looks up, so that no process leaves out what another counts on.

use mq_core::Result;
use redis::Value;

use crate::RedisStore;
use crate::connection::Repeat;
use crate::reply::unexpected;
use crate::script::{self, Script};
use crate::store::ListIndexes;

/// Brings the indexes into the state that was asked for; `found` is the one
/// they are in: `on`, `off` or `building`.
///
/// While they are built, enqueues write to them already, and lists that need
/// them are refused. Whoever is stopped at it leaves `building`, and the next
/// to open the store begins again.
pub(crate) async fn settle(store: &RedisStore, found: &str) -> Result<()> {
    match (store.shared.list_indexes, found) {
        (ListIndexes::On, "on") | (ListIndexes::Off, "off") => Ok(()),
        (ListIndexes::On, _) => {
            tracing::info!(store = %store.shared.tag.as_str(), "building the list indexes");
            set_state(store, "building").await?;
            each_part(store, &script::INDEX_BUILD, "job").await?;
            set_state(store, "on").await
        }
        (ListIndexes::Off, _) => {
            set_state(store, "off").await?;
            each_part(store, &script::INDEX_DROP, "byname").await?;
            each_part(store, &script::INDEX_DROP, "byqueue").await
        }
    }
}

async fn set_state(store: &RedisStore, state: &str) -> Result<()> {
    let mut call = store.call(&script::INDEX_STATE).repeat(Repeat::Safely);
    call.arg(state);
    store.run(&call).await.map(drop)
}

/// Calls a script for each part of the server's keys, until it has met all
/// those of one of the store's kinds.
async fn each_part(store: &RedisStore, script: &'static Script, kind: &str) -> Result<()> {
    let pattern = store.shared.tag.pattern(kind);
    let mut cursor = "0".to_owned();
    loop {
        let mut call = store.call(script).repeat(Repeat::Safely);
        call.arg(&cursor).arg(&pattern);
        cursor = match store.run(&call).await? {
            Value::BulkString(next) => String::from_utf8_lossy(&next).into_owned(),
            other => return Err(unexpected(script.name, "a cursor", &other)),
        };
        if cursor == "0" {
            return Ok(());
        }
    }
}
