//! Random sequences of operations, after each of which the indexes must agree
//! with the jobs, and after which nothing may be left once all is removed.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::complete;
use crate::id::{JobId, LockToken};
use crate::json::RawJson;
use crate::memory::MemoryStore;
use crate::record::*;
use crate::store::*;
use crate::time::{ManualClock, Timestamp};

#[derive(Clone, Debug)]
enum Op {
    Enqueue(Vec<NewJob>),
    Claim(ClaimRequest),
    ClaimAgain(prop::sample::Index),
    Ack(prop::sample::Index, AckOutcome),
    Release(prop::sample::Index),
    Extend(prop::sample::Index),
    Progress(prop::sample::Index),
    Recover(u32, u32),
    Cancel(prop::sample::Index),
    CancelByDedupe(&'static str, &'static str),
    Retry(prop::sample::Index),
    Promote(prop::sample::Index),
    Remove(prop::sample::Index),
    Watch(prop::sample::Index),
    SetQueue(&'static str, QueueSettings),
    Sweep(u32),
    Schedule(u64),
    Tick(u64, bool),
    Advance(u64),
}

const QUEUES: [&str; 2] = ["p", "q"];
const NAMES: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 2] = ["k", "l"];

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

fn keep() -> impl Strategy<Value = Keep> {
    let retention = (
        prop::option::of(0_u32..4),
        prop::option::of(millis(0..90_000)),
    )
        .prop_map(|(count, age)| Retention { count, age });
    retention.prop_map(Keep::all)
}

fn dedupe() -> impl Strategy<Value = Dedupe> {
    let key = prop::sample::select(&KEYS);
    let ttl = prop::option::of(millis(0..5_000));
    (key, ttl, any::<bool>(), any::<bool>()).prop_map(|(key, ttl, extend, replace)| Dedupe {
        key: key.into(),
        ttl,
        extend: extend && ttl.is_some(),
        replace,
    })
}

fn new_job() -> impl Strategy<Value = NewJob> {
    let place = (prop::sample::select(&NAMES), prop::sample::select(&QUEUES));
    let id = prop::option::of((0..12_u8).prop_map(|id| JobId::from(format!("id{id}"))));
    let delay = prop_oneof![Just(Duration::ZERO), millis(1..5_000)];
    (
        place,
        id,
        delay,
        prop::option::of(dedupe()),
        prop::option::of(keep()),
        -1..2_i32,
    )
        .prop_map(|((name, queue), id, delay, dedupe, keep, priority)| {
            let mut job = super::job(name, queue);
            job.id = id;
            job.when = When::After(delay);
            job.dedupe = dedupe;
            job.spec.keep = keep;
            job.spec.priority = priority;
            job
        })
}

fn claim() -> impl Strategy<Value = ClaimRequest> {
    let names = prop::sample::subsequence(NAMES.to_vec(), 1..=3);
    (
        prop::sample::select(&QUEUES),
        names,
        1_u32..5,
        millis(1..8_000),
    )
        .prop_map(|(queue, names, limit, lock_for)| ClaimRequest {
            queue: queue.into(),
            names: names.into_iter().map(Into::into).collect(),
            token: LockToken::random(),
            lock_for,
            limit,
        })
}

fn outcome() -> impl Strategy<Value = AckOutcome> {
    prop_oneof![
        3 => Just(AckOutcome::Complete { exit: None }),
        2 => Just(AckOutcome::Fail { exit: None }),
        1 => Just(AckOutcome::Cancelled),
        1 => millis(0..3_000).prop_map(|delay| AckOutcome::Retry { delay, exit: None }),
        1 => millis(0..3_000).prop_map(|delay| AckOutcome::Snooze { delay }),
    ]
}

fn settings() -> impl Strategy<Value = QueueSettings> {
    fn change<T: Clone + std::fmt::Debug + 'static>(
        to: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = Change<T>> {
        prop_oneof![
            2 => Just(Change::Keep),
            2 => Just(Change::Clear),
            1 => to.prop_map(Change::Set),
        ]
    }
    let rate = (1_u32..20, millis(1..5_000)).prop_map(|(count, per)| Rate { count, per });
    (change(any::<bool>()), change(1_u32..4), change(rate)).prop_map(
        |(paused, max_active, rate)| QueueSettings {
            paused,
            max_active,
            rate,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        6 => prop::collection::vec(new_job(), 1..5).prop_map(Op::Enqueue),
        6 => claim().prop_map(Op::Claim),
        1 => which().prop_map(Op::ClaimAgain),
        8 => (which(), outcome()).prop_map(|(which, outcome)| Op::Ack(which, outcome)),
        1 => which().prop_map(Op::Release),
        1 => which().prop_map(Op::Extend),
        1 => which().prop_map(Op::Progress),
        2 => (0_u32..3, 1_u32..4).prop_map(|(most, limit)| Op::Recover(most, limit)),
        2 => which().prop_map(Op::Cancel),
        1 => (prop::sample::select(&NAMES), prop::sample::select(&KEYS))
            .prop_map(|(name, key)| Op::CancelByDedupe(name, key)),
        1 => which().prop_map(Op::Retry),
        1 => which().prop_map(Op::Promote),
        2 => which().prop_map(Op::Remove),
        2 => which().prop_map(Op::Watch),
        1 => (prop::sample::select(&QUEUES), settings())
            .prop_map(|(queue, settings)| Op::SetQueue(queue, settings)),
        2 => (1_u32..4).prop_map(Op::Sweep),
        1 => (1_u64..3).prop_map(Op::Schedule),
        1 => (1_u64..3, any::<bool>()).prop_map(|(slot, stale)| Op::Tick(slot, stale)),
        4 => prop_oneof![0_u64..4_000, 40_000_u64..70_000].prop_map(Op::Advance),
    ]
}

/// A store, what was claimed of it, and the ids it has given.
struct Run {
    store: MemoryStore,
    clock: ManualClock,
    claims: Vec<ClaimRequest>,
    locks: Vec<Lock>,
    ids: Vec<JobId>,
}

impl Run {
    fn lock(&self, which: prop::sample::Index) -> Option<Lock> {
        (!self.locks.is_empty()).then(|| which.get(&self.locks).clone())
    }

    fn id(&self, which: prop::sample::Index) -> Option<JobId> {
        (!self.ids.is_empty()).then(|| which.get(&self.ids).clone())
    }

    /// Refusals are as good as answers here: only the state counts.
    async fn apply(&mut self, op: Op) {
        let store = self.store.clone();
        match op {
            Op::Enqueue(jobs) => {
                let enqueued = store.enqueue_many(jobs).await.unwrap();
                self.ids.extend(enqueued.into_iter().map(|job| job.id));
            }
            Op::Claim(request) => {
                self.claims.push(request.clone());
                let claim = store.claim(request.clone()).await.unwrap();
                self.locks.extend(claim.jobs.into_iter().map(|job| Lock {
                    id: job.id,
                    token: request.token.clone(),
                }));
            }
            Op::ClaimAgain(which) if !self.claims.is_empty() => {
                store.claim(which.get(&self.claims).clone()).await.unwrap();
            }
            Op::ClaimAgain(_) => {}
            Op::Ack(which, outcome) => {
                if let Some(lock) = self.lock(which) {
                    drop(store.ack(Ack { lock, outcome }).await);
                }
            }
            Op::Release(which) => {
                if let Some(lock) = self.lock(which) {
                    drop(store.release(lock).await);
                }
            }
            Op::Extend(which) => {
                let locks = self.lock(which).into_iter().collect();
                store
                    .extend_locks(locks, Duration::from_secs(9))
                    .await
                    .unwrap();
            }
            Op::Progress(which) => {
                if let Some(lock) = self.lock(which) {
                    drop(store.set_progress(lock, RawJson::null()).await);
                }
            }
            Op::Recover(most, limit) => drop(store.recover_stalled(most, limit).await.unwrap()),
            Op::Cancel(which) => {
                let ids: Vec<_> = self.id(which).into_iter().collect();
                store.cancel_many(&ids).await.unwrap();
            }
            Op::CancelByDedupe(name, key) => {
                store
                    .cancel_by_dedupe(&name.into(), &key.into())
                    .await
                    .unwrap();
            }
            Op::Retry(which) => {
                if let Some(id) = self.id(which) {
                    drop(store.retry(&id).await);
                }
            }
            Op::Promote(which) => {
                if let Some(id) = self.id(which) {
                    drop(store.promote(&id).await);
                }
            }
            Op::Remove(which) => {
                if let Some(id) = self.id(which) {
                    drop(store.remove(&id).await);
                }
            }
            Op::Watch(which) => {
                let ids: Vec<_> = self.id(which).into_iter().collect();
                store.watch(&ids).await.unwrap();
            }
            Op::SetQueue(queue, settings) => {
                store.set_queue(&queue.into(), settings).await.unwrap();
            }
            Op::Sweep(limit) => drop(store.sweep_history(limit).await.unwrap()),
            Op::Schedule(slot) => {
                let schedule = NewSchedule {
                    key: "s".into(),
                    cadence: Cadence::Every(Duration::from_secs(slot)),
                    spec: JobSpec::new("a", "q", RawJson::null()),
                    group: None,
                    next_run_at: Timestamp::saturating_from_millis(slot),
                };
                store.upsert_schedule(schedule).await.unwrap();
            }
            Op::Tick(slot, with_job) => self.tick(slot, with_job).await,
            Op::Advance(by) => self.clock.advance(Duration::from_millis(by)),
        }
    }

    async fn tick(&self, slot: u64, with_job: bool) {
        let schedules = self
            .store
            .list_schedules(ScheduleFilter::default())
            .await
            .unwrap();
        for schedule in schedules {
            let mut job = super::job("a", "q");
            job.id = Some(format!("id{slot}").into());
            let tick = Tick {
                key: schedule.key,
                version: schedule.version,
                expected: schedule.next_run_at,
                next: schedule.next_run_at.saturating_add(Duration::from_secs(1)),
                job: with_job.then_some(job),
            };
            self.store.tick_schedule(tick).await.unwrap();
        }
    }

    /// Removes everything there is, by the operations that are there for it.
    async fn remove_everything(&self) {
        let store = &self.store;
        for queue in QUEUES {
            let clear = QueueSettings {
                paused: Change::Clear,
                max_active: Change::Clear,
                rate: Change::Clear,
            };
            store.set_queue(&queue.into(), clear).await.unwrap();
        }
        store.remove_schedule(&"s".into()).await.unwrap();
        self.clock.advance(Duration::from_secs(120));
        while store.recover_stalled(9, 250).await.unwrap().more {}
        for id in &self.ids {
            store.remove(id).await.unwrap();
        }
        for slot in 1..3 {
            store.remove(&format!("id{slot}").into()).await.unwrap();
        }
        self.clock.advance(Duration::from_secs(120));
        store.sweep_history(250).await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn indexes_agree_with_the_jobs_and_nothing_is_left_in_the_end(
        ops in prop::collection::vec(op(), 1..60),
        ceiling in prop::option::of(millis(1..60_000)),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let clock = ManualClock::default();
        let mut builder = MemoryStore::builder().time(clock.clone());
        if let Some(ceiling) = ceiling {
            builder = builder.history_ceiling(HistoryCeiling::all(ceiling));
        }
        let store = builder.build();
        let mut run = Run { store, clock, claims: Vec::new(), locks: Vec::new(), ids: Vec::new() };
        for op in ops {
            runtime.block_on(run.apply(op));
            run.store.shared.state.lock().check();
        }
        runtime.block_on(run.remove_everything());
        run.store.shared.state.lock().check_empty();
    }
}

#[tokio::test]
async fn a_queue_that_comes_and_goes_leaves_nothing_behind() {
    let (store, clock) = super::store();
    for round in 0..3 {
        let queue = format!("tenant-{round}");
        let mut job = super::job("a", &queue);
        job.spec.keep = Some(Keep::all(Retention::count(0)));
        store.enqueue(job).await.unwrap();
        let request = super::claim(&queue, 1);
        let claimed = store.claim(request.clone()).await.unwrap().jobs;
        let lock = Lock {
            id: claimed[0].id.clone(),
            token: request.token,
        };
        store.ack(complete(lock)).await.unwrap();
        assert_eq!(store.queues().await.unwrap(), []);
    }
    clock.advance(Duration::from_secs(60));
    store.sweep_history(250).await.unwrap();
    store.shared.state.lock().check_empty();
}

#[tokio::test]
async fn payloads_and_names_are_shared_not_copied() {
    let (store, _) = super::store();
    let payload = RawJson::parse("[1]").unwrap();
    let mut job = super::job("a", "q");
    job.spec.payload = payload.clone();
    job.spec.timeout = Some(Duration::from_secs(1));
    store.enqueue_many(vec![job.clone(), job]).await.unwrap();
    let claimed = store.claim(super::claim("q", 2)).await.unwrap().jobs;
    assert!(std::ptr::eq(claimed[0].spec.payload.get(), payload.get()));
    assert!(std::ptr::eq(&*claimed[0].spec.name, &*claimed[1].spec.name));
    let state = store.shared.state.lock();
    let policies: Vec<_> = state
        .jobs
        .iter()
        .map(|(_, job)| Arc::as_ptr(job.policies.as_ref().unwrap()))
        .collect();
    assert_eq!(policies[0], policies[1]);
}
