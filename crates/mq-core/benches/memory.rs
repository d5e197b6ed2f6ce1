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
        "enqueue + claim + ack in batches of {BATCH}: {} rounds of {} cycles",
        size.rounds,
        size.batches * BATCH
    );
    println!("cycles a second of processor time, where the system tells it; else of time\n");
    println!(
        "{:<28}{:>12}{:>12}{:>12}{:>14}",
        "", "median", "slowest", "fastest", "by the clock"
    );
    for (label, finished) in [
        ("finished jobs stay", Finished::Stay),
        ("the newest 1,000 stay", Finished::NewestStay(1_000)),
    ] {
        println!("{label}");
        let store = MemoryStore::new();
        fill(&store, size.others, finished).await?;
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        // Taken in turn, so that a busy machine slows both alike.
        for _ in 0..size.rounds {
            alone.push(round(&MemoryStore::new(), finished, size).await?);
            beside.push(round(&store, finished, size).await?);
        }
        let alone = report("in an empty store", alone);
        let beside = report(&format!("beside {} others", size.others), beside);
        println!("  {:<26}{:>12.2}", "ratio", alone / beside);
    }
    Ok(())
}

/// Cycles a second in one round.
struct Rate {
    by_processor: f64,
    by_clock: f64,
}

/// Prints the rates' medians and spread, and answers the median.
fn report(label: &str, rates: Vec<Rate>) -> f64 {
    let sorted = |rate: fn(&Rate) -> f64| {
        let mut sorted: Vec<f64> = rates.iter().map(rate).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    };
    let rates = sorted(|rate| rate.by_processor);
    let (slowest, median, fastest) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    let by_clock = sorted(|rate| rate.by_clock)[rates.len() / 2];
    println!("  {label:<26}{median:>12.0}{slowest:>12.0}{fastest:>12.0}{by_clock:>14.0}");
    median
}

async fn round(store: &MemoryStore, finished: Finished, size: Size) -> Result<Rate> {
    let mut job = job("measured", "q");
    job.spec.keep = match finished {
        Finished::Stay => None,
        Finished::NewestStay(count) => Some(Keep::all(Retention::count(count))),
    };
    let names: Arc<[JobName]> = ["measured".into()].into();
    cycle(store, &job, &names).await?;
    let (clock, processor) = (Instant::now(), processor_time());
    for _ in 0..size.batches {
        cycle(store, &job, &names).await?;
    }
    let by_clock = clock.elapsed();
    let by_processor = processor_time()
        .zip(processor)
        .map_or(by_clock, |(end, begin)| end - begin);
    let rate = |time: Duration| (size.batches * BATCH) as f64 / time.as_secs_f64();
    Ok(Rate {
        by_processor: rate(by_processor),
        by_clock: rate(by_clock),
    })
}

/// How long this thread has had a processor, on Linux.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = stat.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
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
/// quarter has finished.
async fn fill(store: &MemoryStore, others: usize, finished: Finished) -> Result<()> {
    let finished = match finished {
        Finished::Stay => "measured",
        // Under the measured name they would be given up at once.
        Finished::NewestStay(_) => "other",
    };
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
