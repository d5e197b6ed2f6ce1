//! The process of the producer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mq_core::{Enqueued, NewJob, Store};

use crate::backend::Backend;
use crate::clock::Instant;
use crate::event::Event;
use crate::log::Writer;
use crate::work;

/// How long to wait before trying again.
const PAUSE: Duration = Duration::from_millis(10);

/// How many jobs a batch has at the most.
const BATCH: u64 = 200;

/// What the producer is told on its command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long)]
    pub(crate) store: Backend,
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) log: PathBuf,
    #[arg(long)]
    pub(crate) jobs: u64,
    #[arg(long)]
    pub(crate) seed: u64,
    /// How long a lock holds, in milliseconds.
    #[arg(long)]
    pub(crate) lock: u64,
    /// A file that says how many jobs may be there by now.
    #[arg(long)]
    pub(crate) pace: PathBuf,
}

/// Enqueues the jobs, each until it is accepted.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let log = Writer::create(&options.log)?;
    let store = options.store.open_patiently(&options.url).await;
    let mut chance = fastrand::Rng::with_seed(options.seed);
    let lock = Duration::from_millis(options.lock);
    let mut next = 0;
    while next < options.jobs {
        let end = (next + chance.u64(1..=BATCH)).min(options.jobs);
        while allowed(&options.pace) < end {
            tokio::time::sleep(PAUSE).await;
        }
        let batch: Result<Vec<_>, _> = (next..end)
            .map(|number| work::job(options.seed, number, lock))
            .collect();
        enqueue(&store, &log, batch?).await?;
        next = end;
    }
    Ok(())
}

fn allowed(pace: &Path) -> u64 {
    let text = std::fs::read_to_string(pace).unwrap_or_default();
    text.parse().unwrap_or(0)
}

async fn enqueue(store: &Arc<dyn Store>, log: &Writer, batch: Vec<NewJob>) -> anyhow::Result<()> {
    loop {
        match store.enqueue_many(batch.clone()).await {
            Ok(answers) => {
                accept(log, &batch, &answers);
                return Ok(());
            }
            Err(error) if error.is_transient() => {}
            Err(error) => {
                surprise(log, format!("enqueueing failed for good: {error}"));
                return Err(error.into());
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Writes down what was accepted. Whether an answer says that a job was there
/// already means nothing: a driver may have sent the batch again by itself.
fn accept(log: &Writer, batch: &[NewJob], answers: &[Enqueued]) {
    for (place, job) in batch.iter().enumerate() {
        match answers.get(place) {
            Some(answer) if Some(&answer.id) != job.id.as_ref() => {
                surprise(log, format!("{:?} was enqueued as {}", job.id, answer.id));
            }
            Some(_) => {}
            None => surprise(log, format!("{:?} got no answer", job.id)),
        }
    }
    log.write(&Event::Accepted {
        at: Instant::now(),
        ids: answers.iter().map(|answer| answer.id.to_string()).collect(),
    });
}

fn surprise(log: &Writer, what: String) {
    log.write(&Event::Surprise {
        at: Instant::now(),
        what,
    });
}
