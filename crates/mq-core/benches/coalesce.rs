//! What it costs a call to be gathered into batches: alone on an idle handle,
//! and among many others while a batch takes the time of a round trip.
//!
//! `cargo bench -p mq-core --bench coalesce [-- --quick]`

use std::hint::black_box;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use mq_core::coalesce::Coalescer;
use mq_core::{Client, Job, MemoryStore, StoreHandle};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(name = "nothing", keep = 0)]
struct Nothing;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let calls = if quick { 10_000 } else { 1_000_000 };

    let direct = time(calls, async || {
        black_box(answer(black_box(vec![1])).await);
    });
    let gathered = Coalescer::new(250, answer);
    let alone = time(calls, async || {
        black_box(gathered.call(black_box(1)).await);
    });
    println!("a batch of one, called directly     {direct:>8.1?} a call");
    println!("the same through an idle coalescer  {alone:>8.1?} a call");

    let store: StoreHandle = block_on(StoreHandle::bind(MemoryStore::new()))?;
    let client = store.client();
    let enqueue = time(calls / 10, async || {
        black_box(client.enqueue(Nothing).await).ok();
    });
    println!("client.enqueue, alone               {enqueue:>8.1?} a call");

    for tasks in [1, 10, 100, 1_000] {
        let (each, batches) = round_trips(tasks, if quick { 5 } else { 100 })?;
        println!(
            "{tasks:>5} tasks, round trips of 1 ms     {each:>8.1?} a call, {batches} batches"
        );
    }
    let each = many_producers(client, if quick { 1_000 } else { 20_000 })?;
    println!("client.enqueue, 16 tasks, 2 threads {each:>8.1?} a call");
    Ok(())
}

async fn answer(items: Vec<u64>) -> Vec<u64> {
    items
}

fn time(calls: u32, call: impl AsyncFn()) -> Duration {
    let start = Instant::now();
    block_on(async {
        for _ in 0..calls {
            call().await;
        }
    });
    start.elapsed() / calls
}

/// The processor's time a call, and how many batches there were.
fn round_trips(tasks: u32, calls: u32) -> std::io::Result<(Duration, usize)> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let batches = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&batches);
    let gathered = Coalescer::new(250, move |items: Vec<u64>| {
        counter.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            items
        }
    });
    // The clock jumps over the sleeps, so that what is left is the work.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let start = Instant::now();
    runtime.block_on(async {
        let callers = (0..tasks).map(|_| {
            let gathered = gathered.clone();
            tokio::spawn(async move {
                for call in 0..calls {
                    black_box(gathered.call(call.into()).await);
                }
            })
        });
        futures::future::join_all(callers).await;
    });
    Ok((
        start.elapsed() / (tasks * calls),
        batches.load(Ordering::Relaxed),
    ))
}

fn many_producers(client: Client, calls: u32) -> std::io::Result<Duration> {
    const TASKS: u32 = 16;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    let start = Instant::now();
    runtime.block_on(async {
        let producers = (0..TASKS).map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..calls {
                    black_box(client.enqueue(Nothing).await).ok();
                }
            })
        });
        futures::future::join_all(producers).await;
    });
    Ok(start.elapsed() / (TASKS * calls))
}
