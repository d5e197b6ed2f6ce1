//! A layer that makes a store's check of tokens worthless, to show that the
//! harness would notice if it were missing.
//!
//! Workers post the token of each claim on a board that all of them see. Whoever
//! ends a run or extends a lock does so with the token on the board, whoever
//! posted it: that a token is the right one then says nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{Ack, Acked, Claim, ClaimRequest, Extended, JobId, Lock, Result, Store, StoreError};

/// A store that any worker's token opens.
pub(crate) struct AnyToken {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) board: Board,
}

/// A folder with a file per job.
pub(crate) struct Board(PathBuf);

impl Board {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    fn post(&self, id: &JobId, token: &str) -> std::io::Result<()> {
        std::fs::write(self.0.join(id.as_str()), token)
    }

    fn open(&self, mut lock: Lock) -> Lock {
        if let Ok(token) = std::fs::read_to_string(self.0.join(lock.id.as_str())) {
            lock.token = token.into();
        }
        lock
    }
}

#[mq_core::async_trait]
impl StoreLayer for AnyToken {
    type Inner = dyn Store;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let token = request.token.clone();
        let claim = self.inner.claim(request).await?;
        for job in &claim.jobs {
            self.board
                .post(&job.id, &token)
                .map_err(|error| StoreError::unavailable(format!("the board: {error}")))?;
        }
        Ok(claim)
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        let acks = acks.into_iter().map(|ack| Ack {
            lock: self.board.open(ack.lock),
            ..ack
        });
        self.inner.ack_many(acks.collect()).await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        let locks = locks.into_iter().map(|lock| self.board.open(lock));
        self.inner.extend_locks(locks.collect(), lock_for).await
    }
}
