//! A store that counts calls and can be made to hold them or fail, and the
//! worker's part in a few lines.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mq_core::{
    Ack, AckOutcome, ClaimRequest, Client, EnqueueOps, Enqueued, InspectOps, JobId, JobRecord,
    Lock, LockToken, ManualClock, MemoryStore, NewJob, RawJson, Result, RunOps, StoreError,
    StoreHandle, Watch, WatchCursor,
};
use tokio::sync::Semaphore;

/// A memory store with a gate before its enqueues, watches and reads, and a
/// switch for outages.
#[derive(Clone)]
pub(crate) struct Probe(Arc<Inner>);

struct Inner {
    store: MemoryStore,
    gate: Semaphore,
    down: AtomicBool,
    enqueues: AtomicUsize,
    watches: AtomicUsize,
    reads: AtomicUsize,
}

impl Probe {
    pub(crate) fn over(store: MemoryStore) -> Self {
        Self(Arc::new(Inner {
            store,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            down: AtomicBool::new(false),
            enqueues: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
        }))
    }

    /// Holds calls until as many are let through.
    pub(crate) fn hold(&self) {
        self.0.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn let_through(&self, calls: usize) {
        self.0.gate.add_permits(calls);
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn enqueues(&self) -> usize {
        self.0.enqueues.load(Ordering::SeqCst)
    }

    pub(crate) fn watches(&self) -> usize {
        self.0.watches.load(Ordering::SeqCst)
    }

    pub(crate) fn reads(&self) -> usize {
        self.0.reads.load(Ordering::SeqCst)
    }

    async fn pass(&self) -> Result<()> {
        self.0.gate.acquire().await.unwrap().forget();
        self.check()
    }

    fn check(&self) -> Result<()> {
        match self.0.down.load(Ordering::SeqCst) {
            true => Err(StoreError::unavailable("switched off")),
            false => Ok(()),
        }
    }
}

#[mq_core::async_trait]
impl mq_core::store::layer::StoreLayer for Probe {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0.store
    }

    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        self.0.enqueues.fetch_add(1, Ordering::SeqCst);
        self.pass().await?;
        EnqueueOps::enqueue_many(&self.0.store, jobs).await
    }

    async fn watch(&self, ids: &[JobId]) -> Result<Watch> {
        self.0.watches.fetch_add(1, Ordering::SeqCst);
        self.pass().await?;
        RunOps::watch(&self.0.store, ids).await
    }

    async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()> {
        RunOps::await_finished(&self.0.store, ids, cursor).await?;
        self.check()
    }

    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        self.pass().await?;
        InspectOps::get_jobs(&self.0.store, ids).await
    }
}

/// A client of a fresh store, the store, and its clock.
pub(crate) async fn client() -> (Client, Probe, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder()
        .time(clock.clone())
        .max_payload(1_000)
        .build();
    let probe = Probe::over(store);
    let handle = StoreHandle::bind(probe.clone()).await.unwrap();
    (handle.client(), probe, clock)
}

/// Claims the jobs of this kind from this queue.
pub(crate) async fn claim(client: &Client, queue: &str, name: &str) -> Vec<(JobRecord, Lock)> {
    let token = LockToken::random();
    let request = ClaimRequest {
        queue: queue.into(),
        names: Arc::from([name.into()]),
        token: token.clone(),
        lock_for: Duration::from_secs(30),
        limit: 250,
    };
    let jobs = client.store().claim(request).await.unwrap().jobs;
    let locked = |job: JobRecord| {
        let lock = Lock {
            id: job.id.clone(),
            token: token.clone(),
        };
        (job, lock)
    };
    jobs.into_iter().map(locked).collect()
}

pub(crate) async fn ack(client: &Client, lock: Lock, outcome: AckOutcome) {
    client.store().ack(Ack { lock, outcome }).await.unwrap();
}

pub(crate) fn complete(exit: &str) -> AckOutcome {
    AckOutcome::Complete {
        exit: Some(RawJson::parse(exit).unwrap()),
    }
}

pub(crate) fn fail(exit: &str) -> AckOutcome {
    AckOutcome::Fail {
        exit: Some(RawJson::parse(exit).unwrap()),
    }
}

pub(crate) fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(key, label): &(&str, &str)| (key.to_owned(), label.to_owned());
    labels.iter().map(owned).collect()
}
