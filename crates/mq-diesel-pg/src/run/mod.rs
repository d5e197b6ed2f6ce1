//! Run: claim jobs under a lock, keep the lock, and say how the run ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mq_core::{
    Ack, Acked, Claim, ClaimRequest, Extended, JobId, Lock, QueueName, RawJson, Recovered, Result,
    RunOps, WakeCursor, Watch, WatchCursor,
};

use crate::store::{Inner, PgStore, unsupported};

#[async_trait]
impl RunOps for PgStore {
    async fn claim(&self, _request: ClaimRequest) -> Result<Claim> {
        Err(unsupported("claim"))
    }

    async fn ack_many(&self, _acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        Err(unsupported("ack_many"))
    }

    async fn release_many(&self, _locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        Err(unsupported("release_many"))
    }

    async fn extend_locks(&self, _locks: Vec<Lock>, _lock_for: Duration) -> Result<Extended> {
        Err(unsupported("extend_locks"))
    }

    async fn set_progress(&self, _lock: Lock, _progress: RawJson) -> Result<()> {
        Err(unsupported("set_progress"))
    }

    async fn recover_stalled(&self, _max_stalled_count: u32, _limit: u32) -> Result<Recovered> {
        Err(unsupported("recover_stalled"))
    }

    async fn await_wake(&self, _queues: &[QueueName], _wake: WakeCursor) -> Result<()> {
        Err(unsupported("await_wake"))
    }

    async fn watch(&self, _ids: &[JobId]) -> Result<Watch> {
        Err(unsupported("watch"))
    }

    async fn await_finished(&self, _ids: &[JobId], _cursor: WatchCursor) -> Result<()> {
        Err(unsupported("await_finished"))
    }
}

impl Inner {
    pub(crate) async fn ack_each(self: &Arc<Self>, acks: Vec<Ack>) -> Vec<Result<Acked>> {
        acks.into_iter().map(|_| Err(unsupported("ack"))).collect()
    }
}
