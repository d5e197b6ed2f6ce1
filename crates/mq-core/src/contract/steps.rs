//! Short words for what cases do and look at.

use std::fmt::Debug;
use std::future::Future;

use super::expect::Must;
use super::fixture::Fixture;
use super::flow::steps::{child, fan_out};
use super::make::{LOCK, Make, ack, complete, fail, job, ms, request, request_for};
use crate::id::{JobId, QueueName};
use crate::record::{AttemptOutcome, AttemptRecord, JobRecord, JobState, NewJob};
use crate::store::{
    AckOutcome, Cancelled, Claim, ClaimRequest, Lock, QueueSettings, StateCounts, WakeCursor,
};
use crate::time::{Clock, Timestamp};

/// Time.
impl Fixture {
    /// What the store's clock says.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What the store's clock will say so many milliseconds later.
    pub(super) fn later(&self, millis: u64) -> Timestamp {
        self.now().saturating_add(ms(millis))
    }

    pub(super) fn advance(&self, millis: u64) {
        self.clock.advance(ms(millis));
    }

    /// Waits for an event; panics if it does not come within the store's patience.
    pub(super) async fn within<T>(&self, what: &str, event: impl Future<Output = T>) -> T {
        match tokio::time::timeout(self.patience, event).await {
            Ok(answer) => answer,
            Err(_) => panic!("expected {what} within {:?}, nothing came", self.patience),
        }
    }
}

/// Putting in.
impl Fixture {
    /// Enqueues a job that must be new.
    pub(super) async fn enqueue(&self, job: NewJob) -> JobId {
        let answer = self.store.enqueue(job).await.must();
        assert!(!answer.duplicate, "expected a new job, got {answer:?}");
        answer.id
    }

    /// Enqueues jobs that must all be new.
    pub(super) async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let count = jobs.len();
        let answers = self.store.enqueue_many(jobs).await.must();
        assert_eq!(answers.len(), count, "one answer for each job");
        let duplicate = answers.iter().find(|answer| answer.duplicate);
        assert_eq!(duplicate, None, "expected nothing but new jobs");
        answers.into_iter().map(|answer| answer.id).collect()
    }

    /// Enqueues a job for which `standing` must stand.
    pub(super) async fn duplicate_of(&self, standing: &JobId, job: NewJob) {
        let answer = self.store.enqueue(job).await.must();
        let got = (answer.duplicate, &answer.id);
        assert_eq!(got, (true, standing), "(duplicate, id) of the answer");
    }

    /// Brings a new usual job into a state.
    pub(super) async fn job_in(&self, state: JobState) -> JobId {
        match state {
            JobState::Waiting => self.enqueue(job()).await,
            JobState::Delayed => self.enqueue(job().delay(1_000)).await,
            JobState::Active => self.start(job()).await.id,
            JobState::Completed => self.finish(job(), complete()).await,
            JobState::Failed => self.finish(job(), fail()).await,
            JobState::Cancelled => {
                let id = self.enqueue(job()).await;
                assert_eq!(self.store.cancel(&id).await.must(), Cancelled::Ended);
                id
            }
            JobState::WaitingChildren => {
                let children = vec![child("of a parked parent")];
                self.park_as(job(), fan_out(children)).await.id
            }
        }
    }

    pub(super) async fn set_queue(&self, settings: QueueSettings) {
        self.store
            .set_queue(&QueueName::from("queue"), settings)
            .await
            .must();
    }
}

/// Running.
impl Fixture {
    pub(super) async fn claim_with(&self, request: ClaimRequest) -> Claim {
        self.store.claim(request).await.must()
    }

    /// Claims up to `limit` usual jobs.
    pub(super) async fn claim(&self, limit: u32) -> Claim {
        self.claim_with(request(limit)).await
    }

    /// Claims up to `limit` usual jobs, and tells which they are.
    pub(super) async fn claim_ids(&self, limit: u32) -> Vec<JobId> {
        ids(&self.claim(limit).await.jobs)
    }

    /// Claims the usual job that is next, which must exist.
    pub(super) async fn claim_one(&self) -> Lock {
        let mut locks = self.claim_locks(request(1)).await;
        assert_eq!(locks.len(), 1, "expected one job to claim, got {locks:?}");
        locks.remove(0)
    }

    /// Claims, and answers the locks.
    pub(super) async fn claim_locks(&self, request: ClaimRequest) -> Vec<Lock> {
        let token = request.token.clone();
        let claim = self.claim_with(request).await;
        let lock = |job: JobRecord| Lock {
            id: job.id,
            token: token.clone(),
        };
        claim.jobs.into_iter().map(lock).collect()
    }

    /// Enqueues a job and claims it; nothing else of its name may be runnable
    /// in its queue.
    pub(super) async fn start(&self, job: NewJob) -> Lock {
        let mut request = request_for(&[&job.spec.name], 1);
        request.queue = job.spec.queue.clone();
        let id = self.enqueue(job).await;
        let mut locks = self.claim_locks(request).await;
        assert_eq!(
            locks.iter().map(|lock| &lock.id).collect::<Vec<_>>(),
            [&id],
            "expected to claim the job that was enqueued just now"
        );
        locks.remove(0)
    }

    /// Ends a run; the ack must be the one that does it.
    pub(super) async fn ack(&self, lock: &Lock, outcome: AckOutcome) {
        let acked = self.store.ack(ack(lock, outcome)).await.must();
        assert!(acked.applied, "expected the ack to be applied");
    }

    /// Enqueues a job, claims it and ends its run.
    pub(super) async fn finish(&self, job: NewJob, outcome: AckOutcome) -> JobId {
        let lock = self.start(job).await;
        self.ack(&lock, outcome).await;
        lock.id
    }

    /// Lets the locks of all active jobs expire, and recovers up to 250 of them.
    pub(super) async fn stall(&self, max_stalled_count: u32) {
        self.advance(LOCK);
        self.store
            .recover_stalled(max_stalled_count, 250)
            .await
            .must();
    }

    /// Flags an active job to be cancelled.
    pub(super) async fn request_cancel(&self, id: &JobId) {
        assert_eq!(self.store.cancel(id).await.must(), Cancelled::Requested);
    }

    /// A place in the stream of wake-ups, taken without taking jobs.
    pub(super) async fn wake_cursor(&self) -> WakeCursor {
        self.claim_with(request_for(&["nobody"], 1)).await.wake
    }
}

/// Looking.
impl Fixture {
    /// A job, if there is one of this id.
    pub(super) async fn find(&self, id: &JobId) -> Option<JobRecord> {
        self.store.get_job(id).await.must()
    }

    /// A job that must exist.
    pub(super) async fn job(&self, id: &JobId) -> JobRecord {
        match self.find(id).await {
            Some(record) => record,
            None => panic!("expected job {id:?} to exist"),
        }
    }

    pub(super) async fn state(&self, id: &JobId) -> JobState {
        self.job(id).await.state
    }

    /// The states of several jobs, none for those that do not exist.
    pub(super) async fn states(&self, ids: &[JobId]) -> Vec<Option<JobState>> {
        let answers = self.store.get_jobs(ids).await.must();
        let state = |answer: crate::store::Result<Option<JobRecord>>| {
            answer.must().map(|record| record.state)
        };
        answers.into_iter().map(state).collect()
    }

    pub(super) async fn ledger(&self, id: &JobId) -> Vec<AttemptRecord> {
        self.store.get_attempts(id).await.must()
    }

    /// The outcomes in a job's ledger, oldest first.
    pub(super) async fn outcomes(&self, id: &JobId) -> Vec<AttemptOutcome> {
        let outcome = |entry: AttemptRecord| entry.outcome;
        self.ledger(id).await.into_iter().map(outcome).collect()
    }

    /// How many jobs of the whole store are in which state.
    pub(super) async fn counts(&self) -> StateCounts {
        self.store.counts(None).await.must()
    }

    /// Checks how many jobs of the whole store are in one state.
    pub(super) async fn expect_count(&self, state: JobState, expected: u64) {
        let counts = self.counts().await;
        assert_eq!(
            counts.of(state),
            expected,
            "jobs that are {state}, of {counts:?}"
        );
    }
}

/// Running at once.
impl Fixture {
    /// Runs the same thing many times over, each in a task of its own, and
    /// answers what came of each.
    pub(super) async fn race<T, F>(&self, runners: usize, run: impl Fn(Self, usize) -> F) -> Vec<T>
    where
        T: Debug + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let tasks: Vec<_> = (0..runners)
            .map(|number| tokio::spawn(run(self.clone(), number)))
            .collect();
        let mut answers = Vec::with_capacity(runners);
        for task in tasks {
            match task.await {
                Ok(answer) => answers.push(answer),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        answers
    }
}

/// The ids of these jobs, in their order.
pub(super) fn ids(jobs: &[JobRecord]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id.clone()).collect()
}
