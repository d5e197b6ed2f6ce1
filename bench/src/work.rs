//! What a program does with mq, on any store: the same for all rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::future;
use mq_core::{Client, Failure, HandlerError, Job, Outcome, StoreHandle};
use mq_flow::{ChildResults, Children, Flow, FlowWorker};
use mq_worker::{JobContext, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};

/// How many jobs a producer hands over at once.
pub const BULK: usize = 1_000;

/// How long a drain or a flow may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(300);

/// A job whose payload is about 107 bytes of JSON.
#[derive(Clone, Serialize, Deserialize, Job)]
#[job(name = "measured")]
pub struct Measured {
    number: usize,
    text: String,
}

impl Measured {
    /// The job of a number.
    pub fn of(number: usize) -> Self {
        Self {
            number,
            text: "x".repeat(80),
        }
    }
}

/// The bytes of a measured job's payload.
pub fn payload() -> String {
    serde_json::to_string(&Measured::of(12_345)).expect("it encodes")
}

/// One producer awaits each `enqueue` before the next.
pub async fn enqueue_one_by_one(client: &Client, jobs: usize) -> anyhow::Result<()> {
    for number in 0..jobs {
        client.enqueue(Measured::of(number)).await?;
    }
    Ok(())
}

/// So many tasks share a client, each awaiting each of its `enqueue`s.
pub async fn enqueue_from_tasks(client: &Client, jobs: usize, tasks: usize) -> anyhow::Result<()> {
    let producers = (0..tasks).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            for number in 0..jobs / tasks {
                client.enqueue(Measured::of(task * jobs + number)).await?;
            }
            anyhow::Ok(())
        })
    });
    for producer in future::join_all(producers).await {
        producer??;
    }
    Ok(())
}

/// Two producers hand over [`BULK`] jobs a call.
pub async fn enqueue_in_bulk(client: &Client, jobs: usize) -> anyhow::Result<()> {
    let producers = (0..2).map(|half| {
        let client = client.clone();
        tokio::spawn(async move {
            for call in 0..jobs / 2 / BULK {
                let first = (half * jobs / 2) + call * BULK;
                let batch = (first..first + BULK).map(Measured::of);
                client.enqueue_many(batch).await?;
            }
            anyhow::Ok(())
        })
    });
    for producer in future::join_all(producers).await {
        producer??;
    }
    Ok(())
}

/// A worker of so many slots, whose handlers do nothing, runs all jobs of a
/// store; from its start to the last acknowledgement.
pub async fn drain(store: &StoreHandle, jobs: usize, slots: u32) -> anyhow::Result<Duration> {
    let done = Arc::new(Notify::new());
    let acked = Arc::new(AtomicUsize::new(0));
    let finished = Arc::clone(&done);
    let begun = Instant::now();
    let worker = Worker::builder(store.clone())
        .default_concurrency(slots)
        .after_ack(move |_| {
            if acked.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                finished.notify_one();
            }
        })
        .register(|_: Measured, _: JobContext| async { Ok(()) })
        .start()
        .await?;
    let ended = tokio::time::timeout(PATIENCE, done.notified()).await;
    ended.context("the worker did not drain the store")?;
    let elapsed = begun.elapsed();
    worker.shutdown().await;
    let counts = store.store().counts(None).await?;
    ensure!(
        counts.completed == jobs as u64,
        "{jobs} jobs were drained, the store says {counts:?}"
    );
    Ok(elapsed)
}

/// From the call of `enqueue` to the start of the handler, on an idle worker;
/// in milliseconds, sorted.
pub async fn latencies(store: &StoreHandle, samples: usize) -> anyhow::Result<Vec<f64>> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::builder(store.clone())
        .register(move |_: Measured, _: JobContext| {
            let started = started.clone();
            async move {
                started.send(Instant::now()).ok();
                Ok(())
            }
        })
        .start()
        .await?;
    let client = store.client();
    let mut waits = Vec::with_capacity(samples);
    for number in 0..samples {
        // The worker is idle again, and its threads are asleep.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let begun = Instant::now();
        client.enqueue(Measured::of(number)).await?;
        let start = starts.recv().await.context("the worker has ended")?;
        waits.push((start - begun).as_secs_f64() * 1e3);
    }
    worker.shutdown().await;
    waits.sort_unstable_by(f64::total_cmp);
    Ok(waits)
}

/// The figure below which this share of sorted figures lies.
pub fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted
        .get((last * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "gather", queue = "parents", output = u64)]
struct Gather {
    children: usize,
}

struct Gathering;

impl Flow for Gathering {
    const NAME: &'static str = "gathering";
    type Parent = Gather;
    type Children = (Measured,);

    async fn fan_out(
        &self,
        gather: &Gather,
        _: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        let mut children = Children::new();
        for number in 0..gather.children {
            children.push(number.to_string(), Measured::of(number));
        }
        Ok(children)
    }

    async fn collect(
        &self,
        _: &Gather,
        results: ChildResults<Self>,
        _: &JobContext,
    ) -> Result<u64, HandlerError<Failure>> {
        let (mut stream, mut completed) = (results.stream(), 0);
        while let Some(child) = stream.next().await {
            if let Some(Outcome::Completed(())) = child?.outcome::<Measured>() {
                completed += 1;
            }
        }
        Ok(completed)
    }
}

/// A parent fans out into so many children on its own store and reads each
/// one's result; from `enqueue` to the parent's end.
pub async fn flow(store: &StoreHandle, children: usize) -> anyhow::Result<Duration> {
    let worker = Worker::builder(store.clone())
        .default_concurrency(100)
        .flow(Gathering, store.clone())
        .register(|_: Measured, _: JobContext| async { Ok(()) })
        .relay_to(store)
        .start()
        .await?;
    let begun = Instant::now();
    let parent = store.client().enqueue(Gather { children }).await?;
    let outcome = tokio::time::timeout(PATIENCE, parent.result()).await;
    let outcome = outcome.context("the flow did not end")??;
    let elapsed = begun.elapsed();
    worker.shutdown().await;
    let Outcome::Completed(completed) = outcome else {
        anyhow::bail!("the flow's parent did not complete: {outcome:?}");
    };
    ensure!(
        completed == children as u64,
        "{completed} of {children} children completed"
    );
    Ok(elapsed)
}

/// Jobs a second.
pub fn per_second(jobs: usize, elapsed: Duration) -> f64 {
    jobs as f64 / elapsed.as_secs_f64()
}

/// How many jobs a second some work handles.
///
/// # Errors
/// The work's own.
pub async fn rate(
    jobs: usize,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(per_second(jobs, begun.elapsed()))
}
