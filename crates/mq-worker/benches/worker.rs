//! How fast a worker is on the in-memory store: jobs a second with handlers
//! that do nothing, and the time from enqueue to the start of a handler on an
//! idle worker.
//!
//! `cargo bench -p mq-worker`; `-- --quick` for fewer and shorter rounds.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mq_core::{
    Ack, AckOutcome, ClaimRequest, DefaultStore, EnqueueOps, Failure, Job, JobName, JobSpec, Lock,
    LockToken, MemoryStore, NewJob, RawJson, RunOps, StoreHandle,
};
use mq_worker::{JobContext, Worker};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};

#[derive(Serialize, Deserialize)]
struct Nothing {
    number: usize,
}

impl Job for Nothing {
    const NAME: &'static str = "nothing";
    type Store = DefaultStore;
    type Output = ();
    type Error = Failure;
}

struct Plan {
    rounds: usize,
    jobs: usize,
    samples: usize,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let plan = if quick {
        Plan {
            rounds: 3,
            jobs: 20_000,
            samples: 200,
        }
    } else {
        Plan {
            rounds: 9,
            jobs: 200_000,
            samples: 2_000,
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    bare(&runtime, &plan);
    for concurrency in [100, 10] {
        throughput(&runtime, &plan, concurrency);
    }
    latency(&runtime, &plan);
}

async fn filled(jobs: usize) -> MemoryStore {
    let store = MemoryStore::new();
    let mut batch = Vec::with_capacity(1_000);
    for number in 0..jobs {
        batch.push(job(number));
        if batch.len() == 1_000 || number + 1 == jobs {
            store
                .enqueue_many(std::mem::take(&mut batch))
                .await
                .unwrap();
        }
    }
    store
}

fn job(number: usize) -> NewJob {
    let payload = RawJson::encode(&Nothing { number }).unwrap();
    NewJob::new(JobSpec::new(Nothing::NAME, Nothing::QUEUE, payload))
}

/// The processor time of all threads of this process, where the system tells
/// it: unlike the wall clock's, it is not that of others on the machine.
fn processor_time() -> Option<Duration> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let nanos = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("schedstat");
        let stat = std::fs::read_to_string(path).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(nanos.sum()))
}

/// What the store alone does, claimed and acknowledged by one loop: the
/// ceiling of any worker.
fn bare(runtime: &Runtime, plan: &Plan) {
    let names: Arc<[JobName]> = [JobName::from(Nothing::NAME)].into();
    let rates = (0..plan.rounds).map(|_| {
        runtime.block_on(async {
            let store = filled(plan.jobs).await;
            let begun = Instant::now();
            loop {
                let token = LockToken::random();
                let claim = store
                    .claim(ClaimRequest {
                        queue: Nothing::QUEUE.into(),
                        names: Arc::clone(&names),
                        token: token.clone(),
                        lock_for: Duration::from_secs(30),
                        limit: 100,
                    })
                    .await
                    .unwrap();
                if claim.jobs.is_empty() {
                    break;
                }
                let acks = claim.jobs.into_iter().map(|job| Ack {
                    lock: Lock {
                        id: job.id,
                        token: token.clone(),
                    },
                    outcome: AckOutcome::Complete { exit: None },
                });
                store.ack_many(acks.collect()).await.unwrap();
            }
            per_second(plan.jobs, begun.elapsed())
        })
    });
    report(
        "store alone, claim and ack of 100",
        "jobs/s",
        rates.collect(),
    );
}

fn throughput(runtime: &Runtime, plan: &Plan, concurrency: u32) {
    let mut costs = Vec::new();
    let rates = (0..plan.rounds).map(|_| {
        runtime.block_on(async {
            let store = filled(plan.jobs).await;
            let handle: StoreHandle = StoreHandle::bind(store).await.unwrap();
            let acked = Arc::new(AtomicUsize::new(0));
            let done = Arc::new(Notify::new());
            let (count, finish, jobs) = (Arc::clone(&acked), Arc::clone(&done), plan.jobs);
            let before = processor_time();
            let begun = Instant::now();
            let worker = Worker::builder(handle)
                .default_concurrency(concurrency)
                .after_ack(move |_| {
                    if count.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                        finish.notify_one();
                    }
                })
                .register(|_: Nothing, _: JobContext| async { Ok(()) })
                .start()
                .await
                .unwrap();
            done.notified().await;
            let elapsed = begun.elapsed();
            if let (Some(before), Some(after)) = (before, processor_time()) {
                costs.push((after - before).as_secs_f64() * 1e6 / plan.jobs as f64);
            }
            worker.shutdown().await;
            per_second(plan.jobs, elapsed)
        })
    });
    let what = format!("worker, handlers that do nothing, concurrency {concurrency}");
    report(&what, "jobs/s", rates.collect());
    costs.sort_by(f64::total_cmp);
    if let Some(cost) = costs.get(costs.len() / 2) {
        println!(
            "  of processor time {cost:.2} µs a job in the median, so two cores do {:.0} jobs/s at the most",
            2e6 / cost
        );
    }
}

fn latency(runtime: &Runtime, plan: &Plan) {
    let mut waits = runtime.block_on(async {
        let store = MemoryStore::new();
        let handle: StoreHandle = StoreHandle::bind(store.clone()).await.unwrap();
        let (started, mut starts) = mpsc::unbounded_channel();
        let worker = Worker::builder(handle)
            .register(move |_: Nothing, _: JobContext| {
                started.send(Instant::now()).unwrap();
                async { Ok(()) }
            })
            .start()
            .await
            .unwrap();
        let mut waits = Vec::with_capacity(plan.samples);
        for number in 0..plan.samples {
            // The worker is idle again, and its threads are asleep.
            tokio::time::sleep(Duration::from_millis(3)).await;
            let enqueued = Instant::now();
            store.enqueue(job(number)).await.unwrap();
            let start = starts.recv().await.unwrap();
            waits.push((start - enqueued).as_secs_f64() * 1e6);
        }
        worker.shutdown().await;
        waits
    });
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "enqueue to handler start, idle worker: median {:.0} µs, p90 {:.0} µs, p99 {:.0} µs ({} samples)",
        at(0.5),
        at(0.9),
        at(0.99),
        waits.len()
    );
}

fn per_second(jobs: usize, elapsed: Duration) -> f64 {
    jobs as f64 / elapsed.as_secs_f64()
}

fn report(what: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    println!(
        "{what}: median {:.0} {unit}, from {:.0} to {:.0} in {} rounds",
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
        values.len()
    );
}
