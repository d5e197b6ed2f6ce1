//! Run: claim jobs under a lock, keep the lock, and say how the run ended.
//! A file for each of its operations, or for a few that belong together.

mod ack;
mod claim;
mod fan_out;
mod locks;
mod release;
mod stalls;
mod watch;

use std::time::Duration;

use mq_core::{
    Ack, Acked, Claim, ClaimRequest, Extended, JobId, Lock, QueueName, RawJson, Recovered, Result,
    RunOps, StoreError, WakeCursor, Watch, WatchCursor, async_trait,
};
use redis::Value;

use crate::RedisStore;
use crate::reply::unexpected;

#[async_trait]
impl RunOps for RedisStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.claim_jobs(request).await
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        self.ack_jobs(acks).await
    }

    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        self.release_jobs(locks).await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        self.extend(locks, lock_for).await
    }

    async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()> {
        self.store_progress(lock, progress).await
    }

    async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered> {
        self.take_back_stalled(max_stalled_count, limit).await
    }

    async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()> {
        self.wait_for_wake(queues, wake).await
    }

    async fn watch(&self, ids: &[JobId]) -> Result<Watch> {
        self.watch_jobs(ids).await
    }

    async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()> {
        self.wait_for_end(ids, cursor).await
    }
}

/// What a script says of a lock that it was given: the number it answers if it
/// held.
fn lock_answer(script: &str, id: &JobId, answer: Value) -> Result<i64> {
    match answer {
        Value::Int(number) => Ok(number),
        Value::BulkString(word) if word == b"lost" => Err(StoreError::LockLost { id: id.clone() }),
        Value::BulkString(word) if word == b"unknown" => {
            Err(StoreError::NotFound { id: id.clone() })
        }
        other => Err(unexpected(script, "what became of a lock", &other)),
    }
}
