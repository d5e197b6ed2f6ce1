//! The in-memory store under real contention.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use mq_core::{
    Ack, AckOutcome, AdminOps, AttemptOutcome, Cancelled, ClaimRequest, EnqueueOps, InspectOps,
    JobId, JobRecord, JobSpec, JobState, Lock, LockToken, ManualClock, MemoryStore, NewJob,
    RawJson, RunOps, StoreError,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

const JOBS: usize = 10_000;
const TASKS: u64 = 64;

/// What the tasks share, and what they count.
struct Scene {
    store: MemoryStore,
    clock: ManualClock,
    ids: Vec<JobId>,
    /// Which task runs which job: 0 is none.
    runners: HashMap<JobId, AtomicU64>,
    completed: AtomicU64,
    failed: AtomicU64,
    put_off: AtomicU64,
    stalled: AtomicU64,
    cancels_requested: AtomicU64,
    retries_done: AtomicBool,
}

/// The same numbers on each run, different for each task.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_tasks_claim_while_acks_cancels_stalls_and_retries_run() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().time(clock.clone()).build();
    let job = NewJob::new(JobSpec::new("work", "q", RawJson::null()));
    let enqueued = store.enqueue_many(vec![job; JOBS]).await.unwrap();
    let ids: Vec<JobId> = enqueued.into_iter().map(|job| job.id).collect();
    let scene = Arc::new(Scene {
        store,
        clock,
        runners: ids
            .iter()
            .map(|id| (id.clone(), AtomicU64::new(0)))
            .collect(),
        ids,
        completed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        put_off: AtomicU64::new(0),
        stalled: AtomicU64::new(0),
        cancels_requested: AtomicU64::new(0),
        retries_done: AtomicBool::new(false),
    });
    let (over, is_over) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for task in 1..=TASKS {
        tasks.spawn(work(Arc::clone(&scene), task, is_over.clone()));
    }
    tasks.spawn(cancel_some(Arc::clone(&scene)));
    tasks.spawn(retry_some(Arc::clone(&scene)));
    tasks.spawn(recover(Arc::clone(&scene), over));
    let all = tasks.join_all();
    tokio::time::timeout(Duration::from_secs(60), all)
        .await
        .expect("a wake-up was lost: not all jobs ended");
    check(&scene).await;
}

/// Claims and acks until all is over. One claim in ten comes from a worker that
/// dies: its lock is short and it never acks.
async fn work(scene: Arc<Scene>, task: u64, mut is_over: watch::Receiver<bool>) {
    let mut dice = Dice(task);
    loop {
        let dies = dice.roll(10) == 0;
        let request = ClaimRequest {
            queue: "q".into(),
            names: ["work".into()].into(),
            token: LockToken::random(),
            lock_for: Duration::from_secs(if dies { 1 } else { 1_000_000 }),
            limit: 1 + dice.roll(8) as u32,
        };
        let claim = scene.store.claim(request.clone()).await.unwrap();
        if claim.jobs.is_empty() {
            let queues = ["q".into()];
            tokio::select! {
                woken = scene.store.await_wake(&queues, claim.wake) => woken.unwrap(),
                _ = is_over.wait_for(|over| *over) => return,
            }
        }
        if !dies {
            run(&scene, claim.jobs, &request.token, task, &mut dice).await;
        }
    }
}

async fn run(scene: &Scene, jobs: Vec<JobRecord>, token: &LockToken, task: u64, dice: &mut Dice) {
    for job in &jobs {
        let before = scene.runners[&job.id].swap(task, SeqCst);
        assert_eq!(before, 0, "job {} runs twice at once", job.id);
    }
    for job in &jobs {
        if dice.roll(20) == 0 {
            let cancelled = scene.store.cancel(&job.id).await.unwrap();
            assert_eq!(cancelled, Cancelled::Requested, "job {} is active", job.id);
            scene.cancels_requested.fetch_add(1, SeqCst);
        }
    }
    tokio::task::yield_now().await;
    for job in &jobs {
        let before = scene.runners[&job.id].swap(0, SeqCst);
        assert_eq!(before, task, "job {} was taken from its live lock", job.id);
    }
    let mut acks = Vec::new();
    for job in jobs {
        let lock = Lock {
            id: job.id,
            token: token.clone(),
        };
        let (outcome, count) = match dice.roll(10) {
            0 => {
                scene.store.release(lock).await.unwrap();
                continue;
            }
            1 => (AckOutcome::Fail { exit: None }, &scene.failed),
            2 | 3 => {
                let delay = Duration::ZERO;
                (AckOutcome::Retry { delay, exit: None }, &scene.put_off)
            }
            _ => (AckOutcome::Complete { exit: None }, &scene.completed),
        };
        count.fetch_add(1, SeqCst);
        acks.push(Ack { lock, outcome });
    }
    for acked in scene.store.ack_many(acks.clone()).await.unwrap() {
        assert!(acked.unwrap().applied, "a live lock was lost");
    }
    // The reply might have been lost, so the worker says it again.
    for acked in scene.store.ack_many(acks).await.unwrap() {
        match acked {
            Ok(acked) => assert!(!acked.applied, "a run ended twice"),
            // Another run of the job has been acked since.
            Err(StoreError::LockLost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn cancel_some(scene: Arc<Scene>) {
    let mut dice = Dice(1_000);
    for _ in 0..2_000 {
        let id = &scene.ids[dice.roll(JOBS as u64) as usize];
        match scene.store.cancel(id).await {
            Ok(_) | Err(StoreError::IllegalState { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

async fn retry_some(scene: Arc<Scene>) {
    let mut dice = Dice(2_000);
    for _ in 0..5_000 {
        let id = &scene.ids[dice.roll(JOBS as u64) as usize];
        match scene.store.retry(id).await {
            Ok(()) | Err(StoreError::IllegalState { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    scene.retries_done.store(true, SeqCst);
}

/// Lets time pass and takes dead workers' jobs back, until all jobs have ended
/// for good.
async fn recover(scene: Arc<Scene>, over: watch::Sender<bool>) {
    loop {
        let no_more_retries = scene.retries_done.load(SeqCst);
        scene.clock.advance(Duration::from_millis(500));
        let recovered = scene.store.recover_stalled(1, 250).await.unwrap();
        scene
            .stalled
            .fetch_add(recovered.stalled.len() as u64, SeqCst);
        let counts = scene.store.counts(None).await.unwrap();
        assert_eq!(counts.total(), JOBS as u64);
        let ended = counts.completed + counts.failed + counts.cancelled;
        if no_more_retries && ended == JOBS as u64 {
            over.send_replace(true);
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The counts, the records, the ledgers and what the tasks did must agree.
async fn check(scene: &Scene) {
    let counts = scene.store.counts(Some(&"q".into())).await.unwrap();
    let mut states: HashMap<JobState, u64> = HashMap::new();
    let mut outcomes: HashMap<AttemptOutcome, u64> = HashMap::new();
    for record in scene.store.get_jobs(&scene.ids).await.unwrap() {
        let record = record.unwrap().expect("nothing is removed here");
        *states.entry(record.state).or_default() += 1;
        let ledger = scene.store.get_attempts(&record.id).await.unwrap();
        assert_eq!(ledger.len(), record.attempts_recorded as usize);
        for (index, entry) in ledger.iter().enumerate() {
            assert_eq!(entry.attempt as usize, index + 1);
            *outcomes.entry(entry.outcome).or_default() += 1;
        }
    }
    for state in JobState::ALL {
        assert_eq!(
            counts.of(state),
            states.get(&state).copied().unwrap_or(0),
            "{state}"
        );
    }
    let outcome = |outcome| outcomes.get(&outcome).copied().unwrap_or(0);
    assert_eq!(
        outcome(AttemptOutcome::Completed),
        scene.completed.load(SeqCst)
    );
    assert_eq!(outcome(AttemptOutcome::Completed), counts.completed);
    assert_eq!(outcome(AttemptOutcome::Failed), scene.failed.load(SeqCst));
    assert_eq!(outcome(AttemptOutcome::Stalled), scene.stalled.load(SeqCst));
    assert_eq!(outcome(AttemptOutcome::Cancelled), counts.cancelled);
    // A retry that a cancel was pending for ended its job instead.
    let put_off = scene.put_off.load(SeqCst);
    let retried = outcome(AttemptOutcome::Retried);
    assert!((put_off.saturating_sub(counts.cancelled)..=put_off).contains(&retried));
    // Each kind of thing did happen, or this shows nothing.
    for (what, count) in [
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
        ("stalled", scene.stalled.load(SeqCst)),
        ("retried", retried),
        ("cancels requested", scene.cancels_requested.load(SeqCst)),
    ] {
        assert!(count > 0, "none were {what}");
    }
}
