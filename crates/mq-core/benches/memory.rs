//! How many jobs the in-memory store enqueues, claims and completes in a
//! second, in batches of 100 on one core, and what of that is left when it
//! holds a million other jobs.
//!
//! `cargo bench -p mq-core --bench memory [-- --quick]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_core::{
    Ack, AckOutcome, ClaimRequest, EnqueueOps, JobName, JobSpec, Keep, Lock, LockToken,
    MemoryStore, NewJob, RawJson, Result, Retention, RunOps, When,
};

const BATCH: usize = 100;

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    batches: usize,
    others: usize,
}

const FULL: Size = Size {
    rounds: 9,
    batches: 1_000,
    others: 1_000_000,
};
const QUICK: Size = Size {
    rounds: 3,
    batches: 100,
    others: 20_000,
};

/// What becomes of the jobs that the cycles complete.
#[derive(Clone, Copy)]
enum Finished {
    Stay,
    NewestStay(u32),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let size = if quick { QUICK } else { FULL };
    println!(
        "enqueue + claim + ack in batches of {BATCH}, {} cycles a round, {} rounds\n",
        size.batches * BATCH,
        size.rounds
    );
    println!(
        "{:<28}{:>12}{:>12}{:>12}",
        "cycles a second", "median", "slowest", "fastest"
    );
    for (label, finished) in [
        ("finished jobs stay", Finished::Stay),
        ("the newest 1,000 stay", Finished::NewestStay(1_000)),
    ] {
        println!("{label}");
        let mut rates = Vec::new();
        for _ in 0..size.rounds {
            rates.push(round(&MemoryStore::new(), finished, size).await?);
        }
        let empty = report("in an empty store", rates);
        let store = MemoryStore::new();
        let name = match finished {
            Finished::Stay => "measured",
            // Under the measured name they would be given up at once.
            Finished::NewestStay(_) => "other",
        };
        fill(&store, size.others, name).await?;
        let mut rates = Vec::new();
        for _ in 0..size.rounds {
            rates.push(round(&store, finished, size).await?);
        }
        let full = report(&format!("beside {} others", size.others), rates);
        println!("  {:<26}{:>12.2}", "ratio", empty / full);
    }
    Ok(())
}

/// Prints the rates' median and spread, and answers the median.
fn report(label: &str, mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    let (slowest, median, fastest) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    println!("  {label:<26}{median:>12.0}{slowest:>12.0}{fastest:>12.0}");
    median
}

/// Cycles a second over one round.
async fn round(store: &MemoryStore, finished: Finished, size: Size) -> Result<f64> {
    let mut job = job("measured", "q");
    job.spec.keep = match finished {
        Finished::Stay => None,
        Finished::NewestStay(count) => Some(Keep::all(Retention::count(count))),
    };
    let names: Arc<[JobName]> = ["measured".into()].into();
    cycle(store, &job, &names).await?;
    let begin = Instant::now();
    for _ in 0..size.batches {
        cycle(store, &job, &names).await?;
    }
    Ok((size.batches * BATCH) as f64 / begin.elapsed().as_secs_f64())
}

/// Enqueues a batch, claims it and completes it.
async fn cycle(store: &MemoryStore, job: &NewJob, names: &Arc<[JobName]>) -> Result<()> {
    store.enqueue_many(vec![job.clone(); BATCH]).await?;
    let token = LockToken::random();
    let claim = store
        .claim(ClaimRequest {
            queue: job.spec.queue.clone(),
            names: Arc::clone(names),
            token: token.clone(),
            lock_for: Duration::from_secs(30),
            limit: BATCH as u32,
        })
        .await?;
    assert_eq!(claim.jobs.len(), BATCH);
    let exit = RawJson::parse(r#"{"ok":null}"#).expect("it is JSON");
    let acks = claim.jobs.into_iter().map(|job| Ack {
        lock: Lock {
            id: job.id,
            token: token.clone(),
        },
        outcome: AckOutcome::Complete {
            exit: Some(exit.clone()),
        },
    });
    for acked in store.ack_many(acks.collect()).await? {
        assert!(acked?.applied);
    }
    Ok(())
}

/// Adds other jobs: three tenths wait in the queue under another name, two
/// tenths in other queues, a quarter is delayed under the measured name, and a
/// quarter finished under the given one.
async fn fill(store: &MemoryStore, others: usize, finished: &str) -> Result<()> {
    for _ in 0..others / 4 / BATCH {
        cycle(store, &job(finished, "q"), &[finished.into()].into()).await?;
    }
    let mut delayed = job("measured", "q");
    delayed.when = When::After(Duration::from_secs(3_600));
    let mut jobs = vec![job("other", "q"); others * 3 / 10];
    for queue in 0..100 {
        let queue = format!("q{queue}");
        jobs.extend(vec![job("measured", &queue); others / 500]);
    }
    jobs.extend(vec![delayed; others / 4]);
    for chunk in jobs.chunks(1_000) {
        store.enqueue_many(chunk.to_vec()).await?;
    }
    Ok(())
}

fn job(name: &str, queue: &str) -> NewJob {
    let payload = format!("{:?}", "x".repeat(98));
    let payload = RawJson::parse(payload).expect("it is JSON");
    NewJob::new(JobSpec::new(name, queue, payload))
}
