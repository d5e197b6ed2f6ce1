//! What the tests of the worker share: a store whose time is tokio's, jobs,
//! and ways to wait for events.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::unwrap_used)]

pub mod jobs;
pub mod logs;
pub mod recorder;

use std::sync::Arc;
use std::time::Duration;

use mq_core::{
    AttemptOutcome, AttemptRecord, Clock, DefaultStore, Job, JobId, JobRecord, JobSpec, JobState,
    MemoryStore, NewJob, RawJson, Store, StoreError, StoreHandle, TimeSource, Timestamp,
};
use mq_testkit::FaultyStore;
use mq_worker::{Worker, WorkerBuilder};
use tokio::time::Instant;

pub use jobs::*;
pub use mq_core::layer::Operation;
pub use mq_testkit::{Fault, Faults};
pub use recorder::Recorder;

/// The store's time, driven by tokio's: in a paused test, waiting moves both.
#[derive(Debug)]
pub struct TokioClock {
    begun: Instant,
}

/// The store's time when a test begins.
pub const BEGIN: u64 = 1_735_689_600_000;

impl TokioClock {
    pub fn source() -> TimeSource {
        TimeSource::Clock(Arc::new(Self {
            begun: Instant::now(),
        }))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let begin = Timestamp::from_millis(BEGIN).unwrap();
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap();
        begin.saturating_add(Duration::from_millis(passed))
    }
}

/// A store that can be made to fail, and a handle on it.
pub struct Fixture {
    pub faults: Faults,
    pub store: Arc<Recorder>,
    pub handle: StoreHandle<DefaultStore>,
    plain: MemoryStore,
}

/// A fresh store on tokio's time.
pub async fn fixture() -> Fixture {
    fixture_on(MemoryStore::builder().time(TokioClock::source()).build()).await
}

pub async fn fixture_on(plain: MemoryStore) -> Fixture {
    fixture_with(plain, Faults::none()).await
}

pub async fn fixture_with(plain: MemoryStore, faults: Faults) -> Fixture {
    let store = Arc::new(Recorder::around(FaultyStore::new(plain.clone(), &faults)));
    let handle = loop {
        let store = Arc::clone(&store) as Arc<dyn Store>;
        if let Ok(handle) = StoreHandle::bind_shared(store).await {
            break handle;
        }
    };
    Fixture {
        faults,
        store,
        handle,
        plain,
    }
}

/// A failure that no repetition mends.
pub fn permanent() -> Fault {
    Fault::Error(StoreError::Backend {
        message: "a table is missing".to_owned(),
        source: None,
    })
}

impl Fixture {
    pub fn worker(&self) -> WorkerBuilder<DefaultStore> {
        Worker::builder(self.handle.clone())
    }

    /// The store without its faults.
    pub fn plain(&self) -> &MemoryStore {
        &self.plain
    }

    pub async fn enqueue<J: Job>(&self, job: &J) -> JobId {
        self.enqueue_spec(spec(job)).await
    }

    pub async fn enqueue_spec(&self, spec: JobSpec) -> JobId {
        self.enqueue_new(NewJob::new(spec)).await
    }

    pub async fn enqueue_new(&self, job: NewJob) -> JobId {
        use mq_core::EnqueueOps;
        self.plain().enqueue(job).await.unwrap().id
    }

    pub async fn job(&self, id: &JobId) -> JobRecord {
        use mq_core::InspectOps;
        self.plain().get_job(id).await.unwrap().unwrap()
    }

    pub async fn attempts(&self, id: &JobId) -> Vec<AttemptRecord> {
        use mq_core::InspectOps;
        self.plain().get_attempts(id).await.unwrap()
    }

    pub async fn outcomes(&self, id: &JobId) -> Vec<AttemptOutcome> {
        let attempts = self.attempts(id).await;
        attempts.iter().map(|attempt| attempt.outcome).collect()
    }

    /// Waits for a job to end, and returns it.
    pub async fn finished(&self, id: &JobId) -> JobRecord {
        use mq_core::RunOps;
        let ids = [id.clone()];
        loop {
            let watch = self.plain().watch(&ids).await.unwrap();
            if watch.finished.contains(id) {
                return self.job(id).await;
            }
            self.plain()
                .await_finished(&ids, watch.cursor)
                .await
                .unwrap();
        }
    }

    /// Waits until a job is in this state, looking each millisecond.
    pub async fn in_state(&self, id: &JobId, state: JobState) -> JobRecord {
        loop {
            let job = self.job(id).await;
            if job.state == state {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// What a job of this type is enqueued as.
pub fn spec<J: Job>(job: &J) -> JobSpec {
    let defaults = J::defaults();
    JobSpec {
        metadata: job.metadata(),
        priority: defaults.priority,
        attempts_max: defaults.attempts,
        backoff: defaults.backoff,
        keep: defaults.keep,
        timeout: defaults.timeout,
        ..JobSpec::new(J::NAME, J::QUEUE, RawJson::encode(job).unwrap())
    }
}

pub fn exit(job: &JobRecord) -> &str {
    job.exit.as_ref().map_or("", RawJson::get)
}

pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Lets time pass in small steps, for tests in which something keeps tokio
/// from advancing by itself.
pub async fn pass(duration: Duration) {
    const STEP: Duration = Duration::from_millis(100);
    let end = Instant::now() + duration;
    while Instant::now() < end {
        tokio::time::advance(STEP.min(end - Instant::now())).await;
        settle().await;
    }
}

/// Lets every task that is ready go first.
pub async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Tells when it was dropped.
pub struct Dropped(pub tokio::sync::mpsc::UnboundedSender<Instant>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(Instant::now());
    }
}
