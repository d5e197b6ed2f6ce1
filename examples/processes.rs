//! A producer and two workers, each a process of its own, on one Redis server.
//!
//! `cargo run --features redis --example processes -- redis://127.0.0.1/` starts
//! the workers, enqueues a hundred jobs, waits for all of their results, and
//! tells which worker ran how many.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mq::redis::RedisStore;
use mq::{Failure, HandlerError, Job, JobContext, Outcome, StoreHandle, Worker};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

/// Its output says which worker ran it.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "resize", queue = "images", output = String, attempts = 3, timeout = "10s", keep = "1h")]
struct Resize {
    image: u32,
}

const JOBS: u32 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [url] => produce(url).await,
        ["work", url, prefix, name] => work(url, prefix, name).await,
        _ => Err("usage: processes URL".into()),
    }
}

async fn open(url: &str, prefix: &str) -> Result<StoreHandle, Box<dyn Error>> {
    let store = RedisStore::builder(url).prefix(prefix).connect().await?;
    Ok(StoreHandle::bind(store).await?)
}

/// What runs in the first process.
async fn produce(url: &str) -> Result<(), Box<dyn Error>> {
    let prefix = format!("processes-{}", std::process::id());
    let client = open(url, &prefix).await?.client();
    let mut workers = vec![
        start_worker(url, &prefix, "left")?,
        start_worker(url, &prefix, "right")?,
    ];

    let jobs = (0..JOBS).map(|image| Resize { image });
    let mut ran: BTreeMap<String, u32> = BTreeMap::new();
    for job in client.enqueue_many(jobs).await? {
        match job.result().await? {
            Outcome::Completed(worker) => *ran.entry(worker).or_default() += 1,
            other => return Err(format!("{} ended otherwise: {other:?}", job.id()).into()),
        }
    }
    for (worker, jobs) in &ran {
        println!("{worker} ran {jobs} of {JOBS} jobs");
    }

    // A worker stops in its own time once its input ends.
    for worker in &mut workers {
        drop(worker.stdin.take());
        let status = worker.wait()?;
        println!("a worker stopped: {status}");
    }
    Ok(())
}

fn start_worker(url: &str, prefix: &str, name: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["work", url, prefix, name])
        .stdin(Stdio::piped())
        .spawn()
}

/// What runs in the others.
async fn work(url: &str, prefix: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let name = name.to_owned();
    let worker = Worker::builder(open(url, prefix).await?)
        .register(move |_: Resize, _: JobContext| {
            let name = name.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok::<_, HandlerError<Failure>>(name)
            }
        })
        .concurrency("images", 4)
        .start()
        .await?;
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    worker.shutdown().await;
    Ok(())
}
