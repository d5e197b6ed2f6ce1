//! A store that remembers what it was asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, Acked, Claim, ClaimRequest, Extended, FlowCounts, FlowState, JobId, Lock, LockToken,
    MemoryStore, Result, RunOps, StoreError,
};
use mq_testkit::FaultyStore;

/// A store that remembers what it was asked for.
pub struct Recorder {
    inner: FaultyStore<MemoryStore>,
    acks: Mutex<Vec<usize>>,
    extended: Mutex<Vec<Vec<Lock>>>,
    claims: Mutex<Vec<ClaimRequest>>,
    parents: AtomicBool,
    refused: Mutex<Option<JobId>>,
}

impl Recorder {
    pub fn around(inner: FaultyStore<MemoryStore>) -> Self {
        Self {
            inner,
            acks: Mutex::default(),
            extended: Mutex::default(),
            claims: Mutex::default(),
            parents: AtomicBool::new(false),
            refused: Mutex::default(),
        }
    }

    /// Makes every claimed job look like a parent that has fanned out.
    pub fn claim_parents(&self) {
        self.parents.store(true, Ordering::SeqCst);
    }

    /// Makes every call fail for good that acknowledges this job.
    pub fn refuse_acks_of(&self, id: Option<&JobId>) {
        *self.refused.lock().unwrap() = id.cloned();
    }

    /// How many acks each call held.
    pub fn ack_batches(&self) -> Vec<usize> {
        self.acks.lock().unwrap().clone()
    }

    /// The locks that each heartbeat extended.
    pub fn extended(&self) -> Vec<Vec<Lock>> {
        self.extended.lock().unwrap().clone()
    }

    /// The claims, in order.
    pub fn claims(&self) -> Vec<ClaimRequest> {
        self.claims.lock().unwrap().clone()
    }
}

#[mq_core::async_trait]
impl StoreLayer for Recorder {
    type Inner = FaultyStore<MemoryStore>;

    fn inner(&self) -> &Self::Inner {
        &self.inner
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.claims.lock().unwrap().push(request.clone());
        let mut claim = RunOps::claim(&self.inner, request).await?;
        if self.parents.load(Ordering::SeqCst) {
            for job in &mut claim.jobs {
                job.flow = Some(FlowState {
                    manifest: LockToken::random(),
                    fail_fast: false,
                    counts: FlowCounts::default(),
                });
            }
        }
        Ok(claim)
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        self.acks.lock().unwrap().push(acks.len());
        let refused = self.refused.lock().unwrap().clone();
        if acks
            .iter()
            .any(|ack| Some(&ack.lock.id) == refused.as_ref())
        {
            return Err(StoreError::Backend {
                message: "a table is missing".to_owned(),
                source: None,
            });
        }
        RunOps::ack_many(&self.inner, acks).await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        self.extended.lock().unwrap().push(locks.clone());
        RunOps::extend_locks(&self.inner, locks, lock_for).await
    }
}
