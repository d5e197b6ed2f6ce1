//! A flow over two stores: one parent that fans out into thousands of emails.
//!
//! `cargo run --features flow --example daily_digest -- --memory` needs nothing installed: the
//! durable store and the ephemeral one both live in memory. A schedule starts
//! the parent, the terminal shows how far it has come, and the program checks
//! what it says.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use mq::{
    ChildResults, Children, Failure, Flow, FlowWorker, HandlerError, Job, JobContext, JobId,
    JobState, ListFilter, MemoryStore, Outcome, StoreHandle, StoreName, Worker,
};
use serde::{Deserialize, Serialize};

const READERS: u32 = 5_000;
/// The mail server knows no reader whose number this divides.
const UNKNOWN: u32 = 1_000;

struct Durable;
impl StoreName for Durable {
    const NAME: &'static str = "durable";
}

struct Ephemeral;
impl StoreName for Ephemeral {
    const NAME: &'static str = "ephemeral";
}

/// The parent must not be lost.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-digest", store = Durable, output = Summary, attempts = 3)]
struct SendDigest {
    readers: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Summary {
    sent: u64,
    unknown: u64,
    letters: usize,
}

/// The children are many and small. Their results are kept with the parent, so
/// finished ones need not stay.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-email", store = Ephemeral, queue = "email", output = String)]
#[job(keep(completed(count = 0), failed(count = 0)))]
struct SendEmail {
    reader: u32,
}

async fn send(email: SendEmail, _: JobContext) -> Result<String, HandlerError<Failure>> {
    if email.reader.is_multiple_of(UNKNOWN) {
        return Err(Failure::new(format!("no reader {}", email.reader)).into());
    }
    Ok(format!("letter {}", email.reader))
}

struct DailyDigest;

impl Flow for DailyDigest {
    const NAME: &'static str = "daily-digest";
    type Parent = SendDigest;
    type Children = (SendEmail,);

    async fn fan_out(
        &self,
        digest: &SendDigest,
        _: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        let mut children = Children::new();
        for reader in 0..digest.readers {
            children.push(reader.to_string(), SendEmail { reader });
        }
        Ok(children)
    }

    async fn collect(
        &self,
        _: &SendDigest,
        results: ChildResults<Self>,
        _: &JobContext,
    ) -> Result<Summary, HandlerError<Failure>> {
        let counts = results.counts();
        // Page by page: any number of results takes the memory of one page.
        let (mut stream, mut letters) = (results.stream(), 0);
        while let Some(child) = stream.next().await {
            if let Some(Outcome::Completed(_)) = child?.outcome::<SendEmail>() {
                letters += 1;
            }
        }
        Ok(Summary {
            sent: counts.completed,
            unknown: counts.failed,
            letters,
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() != Some("--memory") {
        return Err("run it with --memory: `cargo run --example daily_digest -- --memory`".into());
    }
    let durable: StoreHandle<Durable> = StoreHandle::bind(MemoryStore::new()).await?;
    let ephemeral: StoreHandle<Ephemeral> = StoreHandle::bind(MemoryStore::new()).await?;

    let parents = Worker::builder(durable.clone())
        .flow(DailyDigest, ephemeral.clone())
        .start()
        .await?;
    let children = Worker::builder(ephemeral.clone())
        .register(send)
        .concurrency("email", 100)
        .relay_to(&durable)
        .start()
        .await?;

    // Every second, so that nobody has to wait for the morning.
    let client = durable.client();
    let digest = SendDigest { readers: READERS };
    client.schedule("daily", digest).cron("* * * * * *").await?;
    println!("Schedule: the digest goes out at the next second.");
    let id = first_slot(&durable).await?;
    client.unschedule::<SendDigest>("daily").await?;

    let begun = Instant::now();
    show_progress(&client, &id).await?;
    let outcome = client.handle::<SendDigest>(id).result().await?;
    let Outcome::Completed(summary) = outcome else {
        return Err(format!("the digest did not complete: {outcome:?}").into());
    };
    let unknown = u64::from(READERS.div_ceil(UNKNOWN));
    let sent = u64::from(READERS) - unknown;
    let letters = usize::try_from(sent)?;
    assert_eq!(
        summary,
        Summary {
            sent,
            unknown,
            letters
        }
    );
    println!(
        "Collect: {} letters sent, {} readers unknown, in {:.1?}.",
        summary.sent,
        summary.unknown,
        begun.elapsed()
    );
    let left = ephemeral.store().counts(None).await?;
    println!(
        "Kept: {} of the children, as all are pruned once reported.",
        left.completed + left.failed
    );
    children.shutdown().await;
    parents.shutdown().await;
    Ok(())
}

/// Waits for the schedule's first job, and answers its id.
async fn first_slot(durable: &StoreHandle<Durable>) -> Result<JobId, Box<dyn Error>> {
    loop {
        let filter = ListFilter {
            name: Some(SendDigest::NAME.into()),
            ..ListFilter::default()
        };
        if let Some(job) = durable.store().list(filter).await?.items.pop() {
            return Ok(job.id);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Shows how many children have ended until the parent has.
async fn show_progress(client: &mq::Client<Durable>, id: &JobId) -> Result<(), Box<dyn Error>> {
    let live = std::io::stdout().is_terminal();
    loop {
        if let Some(results) = ChildResults::<DailyDigest>::of(client, id).await? {
            let counts = results.counts();
            let ended = counts.completed + counts.failed + counts.cancelled;
            if live {
                print!(
                    "\rFan-out: {ended} of {} children have ended.",
                    ended + counts.pending
                );
                std::io::stdout().flush()?;
            }
            if counts.pending == 0 {
                let end = if live { "\n" } else { "" };
                print!("{end}");
                println!("Fan-out: {ended} children have ended.");
                return Ok(());
            }
        }
        let job = client.store().get_job(id).await?;
        if job.is_none_or(|job| matches!(job.state, JobState::Failed | JobState::Cancelled)) {
            return Err("the digest has ended without its children".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
