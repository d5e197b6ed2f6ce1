//! What the tests of flows share: two stores that can be made to fail, on
//! tokio's time; jobs and flows over them; ways to wait for events.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::unwrap_used)]

pub mod jobs;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mq_core::{
    AdminOps, AttemptOutcome, Clock, EnqueueOps, FlowOps, InspectOps, Job, JobId, JobRecord,
    JobSpec, JobState, ListFilter, MemoryStore, NewJob, RunOps, StoreHandle, StoreName, TimeSource,
    Timestamp,
};
use mq_flow::FlowWorker;
use mq_testkit::FaultyStore;
use mq_worker::{Worker, WorkerBuilder};
use tokio::time::Instant;

pub use jobs::*;
pub use mq_core::layer::Operation;
pub use mq_testkit::{Fault, Faults};

/// The store's time, driven by tokio's: in a paused test, waiting moves both.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let begin = Timestamp::from_millis(1_735_689_600_000).unwrap();
        begin.saturating_add(self.0.elapsed())
    }
}

/// A store with its faults.
pub struct Side<S: StoreName> {
    /// The store without its faults.
    pub plain: MemoryStore,
    pub faults: Faults,
    pub handle: StoreHandle<S>,
}

impl<S: StoreName> Side<S> {
    async fn new() -> Self {
        Self::on(
            MemoryStore::builder().time(TimeSource::Clock(Arc::new(TokioClock(Instant::now())))),
        )
        .await
    }

    pub async fn on(builder: mq_core::MemoryStoreBuilder) -> Self {
        let plain = builder.build();
        let faults = Faults::none();
        let handle = StoreHandle::bind(FaultyStore::new(plain.clone(), &faults))
            .await
            .unwrap();
        Self {
            plain,
            faults,
            handle,
        }
    }

    pub async fn enqueue<J: Job>(&self, job: &J) -> JobId {
        let job = NewJob::new(JobSpec::of(job).unwrap());
        self.plain.enqueue(job).await.unwrap().id
    }

    pub async fn enqueue_as<J: Job>(&self, id: &str, job: &J) -> JobId {
        let mut job = NewJob::new(JobSpec::of(job).unwrap());
        job.id = Some(id.into());
        self.plain.enqueue(job).await.unwrap().id
    }

    pub async fn job(&self, id: &JobId) -> JobRecord {
        self.plain.get_job(id).await.unwrap().unwrap()
    }

    /// Waits for a job to end, and returns it.
    pub async fn finished(&self, id: &JobId) -> JobRecord {
        self.until(id, |job| job.state.is_terminal()).await
    }

    /// Waits until a job is in this state.
    pub async fn in_state(&self, id: &JobId, state: JobState) -> JobRecord {
        self.until(id, |job| job.state == state).await
    }

    pub async fn until(&self, id: &JobId, holds: impl Fn(&JobRecord) -> bool) -> JobRecord {
        eventually(async || {
            let job = self.plain.get_job(id).await.unwrap()?;
            holds(&job).then_some(job)
        })
        .await
    }

    pub async fn outcomes(&self, id: &JobId) -> Vec<AttemptOutcome> {
        let attempts = self.plain.get_attempts(id).await.unwrap();
        attempts.iter().map(|attempt| attempt.outcome).collect()
    }

    /// Waits until no report is left to deliver.
    pub async fn outbox_is_empty(&self) {
        eventually(async || {
            let page = self.plain.peek_outbox(None, 1).await.unwrap();
            page.entries.is_empty().then_some(())
        })
        .await;
    }

    /// All jobs of this kind.
    pub async fn jobs<J: Job>(&self) -> Vec<JobRecord> {
        let filter = ListFilter {
            name: Some(J::NAME.into()),
            limit: Some(1_000),
            ..ListFilter::default()
        };
        self.plain.list(filter).await.unwrap().items
    }
}

/// Two stores, and what ran on them.
pub struct World {
    pub durable: Side<Durable>,
    pub ephemeral: Side<Ephemeral>,
    pub runs: Runs,
}

impl World {
    pub async fn new() -> Self {
        Self {
            durable: Side::new().await,
            ephemeral: Side::new().await,
            runs: Runs::default(),
        }
    }

    /// A worker of the parents.
    pub fn parents(&self) -> WorkerBuilder<Durable> {
        let ephemeral = &self.ephemeral.handle;
        Worker::builder(self.durable.handle.clone())
            .flow(Gather::new(&self.runs), ephemeral.clone())
            .flow(Strict::new(&self.runs), ephemeral.clone())
            .flow(Outer::new(&self.runs), (ephemeral.clone(),))
    }

    /// A worker of the children that delivers their reports at once.
    pub fn children(&self) -> WorkerBuilder<Ephemeral> {
        self.silent_children().relay_to(&self.durable.handle)
    }

    /// A worker of plain children that delivers no reports to their parents.
    pub fn silent_children(&self) -> WorkerBuilder<Ephemeral> {
        let runs = self.runs.clone();
        Worker::builder(self.ephemeral.handle.clone())
            .register(move |mail: Mail, ctx| send(mail, ctx, runs.clone()))
    }

    /// A worker of children that are flows themselves, and of theirs.
    pub fn inner(&self) -> WorkerBuilder<Ephemeral> {
        let ephemeral = self.ephemeral.handle.clone();
        self.children().flow(Inner::new(&self.runs), ephemeral)
    }

    /// Waits for so many sweeps of the parents' store.
    pub async fn sweeps(&self, count: u64) {
        let faults = &self.durable.faults;
        let before = faults.calls(Operation::FlowSweepWork);
        soon(faults.called(Operation::FlowSweepWork, before + count)).await;
    }

    /// Checks that a parent completed, by one settle, and that nothing is left
    /// over; answers its summary.
    pub async fn settles_once(&self, id: &JobId) -> Summary {
        let job = self.durable.finished(id).await;
        assert_eq!(job.state, JobState::Completed, "{job:?}");
        let outcomes = self.durable.outcomes(id).await;
        let count = |outcome| outcomes.iter().filter(|each| **each == outcome).count();
        assert_eq!(count(AttemptOutcome::FannedOut), 1, "{outcomes:?}");
        assert_eq!(count(AttemptOutcome::Completed), 1, "{outcomes:?}");
        self.ephemeral.outbox_is_empty().await;
        self.durable.outbox_is_empty().await;
        summary(&job)
    }
}

pub fn exit(job: &JobRecord) -> &str {
    job.exit.as_ref().map_or("", |exit| exit.get())
}

pub fn summary(job: &JobRecord) -> Summary {
    match job.exit.as_ref().unwrap().decode().unwrap() {
        mq_core::Exit::<Summary, mq_core::Failure>::Ok(summary) => summary,
        other => panic!("{other:?}"),
    }
}

/// Waits for something; an hour of the test's time is too long.
pub async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3_600), event)
        .await
        .expect("it did not happen within an hour of the test's time")
}

/// Looks now and then until there is an answer.
pub async fn eventually<T>(look: impl AsyncFn() -> Option<T>) -> T {
    soon(async {
        loop {
            if let Some(answer) = look().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
}

pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}
