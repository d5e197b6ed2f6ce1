//! Makes a store's check of tokens worthless, to show that the harness would
//! notice if it were missing.
//!
//! On Redis the check is taken out of the scripts. Elsewhere a layer gets around it:
//! workers post the token of each claim on a board that all of them see, and whoever
//! ends a run or extends a lock does so with the token on the board, whoever posted
//! it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, Acked, Claim, ClaimRequest, Extended, JobId, Lock, Report, ReportApplied, Result, Store,
    StoreError,
};

/// What a store is robbed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sabotage {
    /// Any worker's token is taken for the right one.
    TokenCheck,
    /// Some reports of children are taken, and not recorded. Only of flows.
    Reports,
}

impl Sabotage {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TokenCheck => "token-check",
            Self::Reports => "reports",
        }
    }
}

/// Takes the check of tokens out of a script: what compares them, `job.token ~= …`
/// up to `then`, is never so.
pub(crate) fn without_token_check(_name: &str, script: String) -> String {
    let mut parts = script.split("job.token ~= ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once(" then").unwrap_or(("", part));
        text.push_str("false then");
        text.push_str(rest);
    }
    text
}

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

/// A parents' store that says of some reports that it has them, and has not.
pub(crate) struct LostReports {
    inner: Arc<dyn Store>,
    calls: AtomicU64,
}

impl LostReports {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
        }
    }
}

#[mq_core::async_trait]
impl StoreLayer for LostReports {
    type Inner = dyn Store;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
            let taken = ReportApplied {
                applied: true,
                parent_settled: false,
            };
            return Ok(vec![taken; reports.len()]);
        }
        self.inner.record_child_results(reports).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_of_tokens_is_taken_out_and_nothing_else() {
        let script = "if not job or job.token ~= ARGV[2] then return 0 end return 1";
        let robbed = without_token_check("ack", script.into());
        assert_eq!(robbed, "if not job or false then return 0 end return 1");
        let other = "if job.token == ARGV[2] then return 0 end";
        assert_eq!(without_token_check("ack", other.into()), other);
    }
}
