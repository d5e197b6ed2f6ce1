//! A store that fails when it is told to.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, Acked, Claim, ClaimRequest, DueSchedules, Extended, FlowCounts, FlowState, Lock,
    LockToken, MemoryStore, QueueName, RawJson, Recovered, Result, StoreError, Swept,
    Tick, Timestamp, WakeCursor, WorkerRecord,
};
use tokio::sync::watch;

/// What happens to one call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails, and has no effect.
    Before,
    /// It takes effect, and its answer is lost.
    After,
    /// It takes effect at once; its answer takes so long.
    LateAnswer(Duration),
    /// It takes effect only after so long, and answers then.
    LateEffect(Duration),
    /// It has no effect, and never answers.
    Hang,
    /// It panics.
    Panic,
    /// It fails for good.
    Permanent,
}

/// Faults at random, in parts of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    pub before: f64,
    pub after: f64,
    pub lost_wakes: f64,
}

/// A store that fails when it is told to. Operations that are not listed below
/// never do.
pub struct Faulty {
    inner: MemoryStore,
    script: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    calls: watch::Sender<HashMap<&'static str, usize>>,
    down: AtomicBool,
    rates: Mutex<Rates>,
    /// What batches of acks held, as they were sent.
    batches: Mutex<Vec<usize>>,
    locks_extended: Mutex<Vec<Vec<Lock>>>,
    claims: Mutex<Vec<ClaimRequest>>,
    parents: AtomicBool,
}

impl Faulty {
    pub fn around(inner: MemoryStore) -> Self {
        Self {
            inner,
            script: Mutex::default(),
            calls: watch::Sender::default(),
            down: AtomicBool::new(false),
            rates: Mutex::default(),
            batches: Mutex::default(),
            locks_extended: Mutex::default(),
            claims: Mutex::default(),
            parents: AtomicBool::new(false),
        }
    }

    /// The store without its faults.
    pub fn plain(&self) -> &MemoryStore {
        &self.inner
    }

    /// What happens to the next calls of an operation, in order.
    pub fn next<const N: usize>(&self, operation: &'static str, faults: [Fault; N]) {
        let mut script = self.script.lock().unwrap();
        script.entry(operation).or_default().extend(faults);
    }

    /// Makes every call fail, or none.
    pub fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Makes calls fail at random.
    pub fn rates(&self, rates: Rates) {
        *self.rates.lock().unwrap() = rates;
    }

    /// Makes every claimed job look like a parent that has fanned out.
    pub fn claim_parents(&self) {
        self.parents.store(true, Ordering::SeqCst);
    }

    /// How often an operation was called.
    pub fn calls(&self, operation: &'static str) -> usize {
        self.calls.borrow().get(operation).copied().unwrap_or(0)
    }

    /// Waits until an operation has been called so often.
    pub async fn called(&self, operation: &'static str, times: usize) {
        self.calls
            .subscribe()
            .wait_for(|calls| calls.get(operation).is_some_and(|&called| called >= times))
            .await
            .unwrap();
    }

    pub fn ack_batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }

    pub fn extended(&self) -> Vec<Vec<Lock>> {
        self.locks_extended.lock().unwrap().clone()
    }

    pub fn claims(&self) -> Vec<ClaimRequest> {
        self.claims.lock().unwrap().clone()
    }

    fn fault(&self, operation: &'static str) -> Option<Fault> {
        self.calls
            .send_modify(|calls| *calls.entry(operation).or_default() += 1);
        let scripted = self
            .script
            .lock()
            .unwrap()
            .get_mut(operation)
            .and_then(VecDeque::pop_front);
        if scripted.is_some() {
            return scripted;
        }
        if self.down.load(Ordering::SeqCst) {
            return Some(Fault::Before);
        }
        let rates = *self.rates.lock().unwrap();
        let chance = fastrand::f64();
        if chance < rates.before {
            Some(Fault::Before)
        } else if chance < rates.before + rates.after {
            Some(Fault::After)
        } else {
            None
        }
    }

    async fn through<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.fault(operation) {
            None => call.await,
            Some(Fault::Before) => Err(StoreError::unavailable("connection refused")),
            Some(Fault::After) => {
                call.await?;
                Err(StoreError::unavailable("connection reset"))
            }
            Some(Fault::LateAnswer(late)) => {
                let answer = call.await;
                tokio::time::sleep(late).await;
                answer
            }
            Some(Fault::LateEffect(late)) => {
                tokio::time::sleep(late).await;
                call.await
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Panic) => panic!("a bug in the store"),
            Some(Fault::Permanent) => Err(StoreError::Backend {
                message: "a table is missing".to_owned(),
                source: None,
            }),
        }
    }
}

#[mq_core::async_trait]
impl StoreLayer for Faulty {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        use mq_core::RunOps;
        self.claims.lock().unwrap().push(request.clone());
        let mut claim = self.through("claim", self.inner.claim(request)).await?;
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
        use mq_core::RunOps;
        self.batches.lock().unwrap().push(acks.len());
        self.through("ack_many", self.inner.ack_many(acks)).await
    }

    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        use mq_core::RunOps;
        self.through("release_many", self.inner.release_many(locks))
            .await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        use mq_core::RunOps;
        self.locks_extended.lock().unwrap().push(locks.clone());
        self.through("extend_locks", self.inner.extend_locks(locks, lock_for))
            .await
    }

    async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()> {
        use mq_core::RunOps;
        self.through("set_progress", self.inner.set_progress(lock, progress))
            .await
    }

    async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered> {
        use mq_core::RunOps;
        self.through(
            "recover_stalled",
            self.inner.recover_stalled(max_stalled_count, limit),
        )
        .await
    }

    async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()> {
        use mq_core::RunOps;
        let lost = self.rates.lock().unwrap().lost_wakes;
        self.through("await_wake", async {
            self.inner.await_wake(queues, wake).await?;
            if fastrand::f64() < lost {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp> {
        use mq_core::InspectOps;
        self.through("now", self.inner.now()).await
    }

    async fn sweep_history(&self, limit: u32) -> Result<Swept> {
        use mq_core::AdminOps;
        self.through("sweep_history", self.inner.sweep_history(limit))
            .await
    }

    async fn report_worker(&self, record: WorkerRecord) -> Result<()> {
        use mq_core::AdminOps;
        self.through("report_worker", self.inner.report_worker(record))
            .await
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        use mq_core::ScheduleOps;
        self.through("due_schedules", self.inner.due_schedules(limit))
            .await
    }

    async fn tick_schedule(&self, tick: Tick) -> Result<bool> {
        use mq_core::ScheduleOps;
        self.through("tick_schedule", self.inner.tick_schedule(tick))
            .await
    }
}
