//! The main job of mq, end to end, on the in-memory store.
//!
//! `cargo run --example quickstart` needs nothing installed and takes a few
//! seconds. It tells what happens and checks it: if anything is not as it says,
//! it fails.
//!
//! `cargo run --features redis --example quickstart -- --redis redis://127.0.0.1/`
//! does the same on a Redis server, under a prefix of its own.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mq::{
    AttemptOutcome, Client, Dedupe, Failure, HandlerError, Job, JobContext, JobHandle, JobState,
    MemoryStore, Outcome, StoreHandle, Timestamp, Worker,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// A job type is its payload. What applies to it stands beside it.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-email", queue = "email", output = MessageId, error = MailError)]
#[job(attempts = 3, backoff = exponential("100ms", max = "5s"), timeout = "30s")]
#[job(retryable = MailError::may_pass, keep(completed = "1d", failed = "30d"))]
struct SendEmail {
    to: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct MessageId(String);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum MailError {
    ServerBusy,
    NoSuchMailbox,
}

impl MailError {
    fn may_pass(&self) -> bool {
        *self == Self::ServerBusy
    }
}

/// A handler gets the job and what is known of its run.
async fn send_email(job: SendEmail, ctx: JobContext) -> Result<MessageId, HandlerError<MailError>> {
    match job.to.as_str() {
        "busy@example.org" if ctx.attempt() < 3 => Err(MailError::ServerBusy)?,
        "nobody@example.org" => Err(MailError::NoSuchMailbox)?,
        to => Ok(MessageId(format!("message-for-{to}"))),
    }
}

/// Its output is how many pages were printed before it.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "print", queue = "printer", output = u32)]
struct Print {
    page: String,
}

/// While one of these for a site is not over, another is superfluous.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "reindex", dedupe = Self::one_per_site)]
struct Reindex {
    site: String,
}

impl Reindex {
    fn one_per_site(&self) -> Dedupe {
        Dedupe::key(&*self.site)
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "roll-up")]
struct RollUp;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "import")]
struct Import {
    rows: u32,
}

/// A handler that takes long reports how far it came, and heeds a cancel.
async fn import(job: Import, ctx: JobContext) -> Result<(), HandlerError<Failure>> {
    for row in 0..job.rows {
        ctx.set_progress(&row).await?;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
            reason = ctx.cancelled() => Err(Failure::new(format!("stopped at row {row}: {reason:?}")))?,
        }
    }
    Ok(())
}

/// The in-memory store, or one on the server that the command line names.
async fn open_store() -> Result<StoreHandle, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => Ok(StoreHandle::bind(MemoryStore::new()).await?),
        #[cfg(feature = "redis")]
        ["--redis", url] => {
            let prefix = format!("quickstart-{}", std::process::id());
            let store = mq::redis::RedisStore::builder(url).prefix(prefix);
            Ok(StoreHandle::bind(store.connect().await?).await?)
        }
        #[cfg(not(feature = "redis"))]
        ["--redis", ..] => Err("build it with `--features redis` to run it on Redis".into()),
        _ => Err("usage: quickstart [--redis URL]".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Whoever enqueues needs a client, and no worker.
    let store = open_store().await?;
    let client = store.client();
    let pages = enqueue_by_priority(&client).await?;
    let every = Duration::from_millis(250);
    let first_slot = client
        .schedule("all-sites", RollUp)
        .every(every)
        .await?
        .next_run_at;

    let printed = Arc::new(AtomicU32::new(0));
    let (tell_slot, slots) = mpsc::unbounded_channel();
    let worker = Worker::builder(store)
        .register(send_email)
        .register(import)
        .register(move |_: Print, _| {
            let before = printed.fetch_add(1, Ordering::Relaxed);
            async move { Ok(before) }
        })
        .register(|_: Reindex, _| async { Ok(()) })
        .register(move |_: RollUp, ctx: JobContext| {
            // Nobody listens any more once the tour has seen enough.
            let _ = tell_slot.send(ctx.scheduled_for());
            async { Ok(()) }
        })
        .concurrency("printer", 1)
        // A running job learns of a cancel by the heartbeat.
        .heartbeat_interval(Duration::from_millis(100))
        .start()
        .await?;

    check_priority(pages).await?;
    await_typed_result(&client).await?;
    retry_with_backoff(&client).await?;
    fail_for_good(&client).await?;
    delay(&client).await?;
    deduplicate(&client).await?;
    follow_schedule(&client, first_slot, every, slots).await?;
    cancel_running(&client).await?;

    let counts = client.store().counts(None).await?;
    println!(
        "\nIn the store: {} completed, {} failed, {} cancelled.",
        counts.completed, counts.failed, counts.cancelled
    );
    worker.shutdown().await;
    Ok(())
}

/// Jobs wait by priority, and by arrival among equals.
async fn enqueue_by_priority(client: &Client) -> Result<Vec<JobHandle<Print>>, Box<dyn Error>> {
    let mut pages = Vec::new();
    for (page, priority) in [("letter", 0), ("flyer", 0), ("invoice", 10)] {
        let job = Print { page: page.into() };
        pages.push(client.enqueue(job).priority(priority).await?);
    }
    Ok(pages)
}

async fn check_priority(pages: Vec<JobHandle<Print>>) -> Result<(), Box<dyn Error>> {
    let mut before = Vec::new();
    for page in pages {
        before.push(output(&page).await?);
    }
    assert_eq!(before, [1, 2, 0]);
    println!("Priority: the invoice was enqueued last and printed first.");
    Ok(())
}

/// `execute` enqueues and waits: what the handler returned comes back typed.
async fn await_typed_result(client: &Client) -> Result<(), Box<dyn Error>> {
    let email = SendEmail {
        to: "ada@example.org".into(),
    };
    let Outcome::Completed(message) = client.execute(email).await? else {
        return Err("the email was not sent".into());
    };
    assert_eq!(message, MessageId("message-for-ada@example.org".into()));
    println!("\nResult: the email was sent as {:?}.", message.0);
    Ok(())
}

/// A failed run is tried again as long as attempts are left; the ledger keeps
/// what became of each.
async fn retry_with_backoff(client: &Client) -> Result<(), Box<dyn Error>> {
    let email = SendEmail {
        to: "busy@example.org".into(),
    };
    let job = client.enqueue(email).await?;
    output(&job).await?;

    let ledger = job.attempts().await?;
    let outcomes: Vec<_> = ledger.iter().map(|entry| entry.outcome).collect();
    assert_eq!(
        outcomes,
        [
            AttemptOutcome::Retried,
            AttemptOutcome::Retried,
            AttemptOutcome::Completed
        ]
    );
    println!("\nRetry: the third attempt was the first to go well. Its ledger:");
    let mut ended: Option<Timestamp> = None;
    for (entry, backoff) in ledger.iter().zip([0, 100, 200]) {
        let started = entry.started_at.ok_or("a run has no start")?;
        let waited = ended.map_or(Duration::ZERO, |ended| started.since(ended));
        assert!(
            waited >= Duration::from_millis(backoff),
            "waited {waited:?}"
        );
        let exit = entry.exit.as_ref().map_or("", |exit| exit.get());
        println!(
            "  {} after {:>3} ms: {:<9} {exit}",
            entry.attempt,
            waited.as_millis(),
            entry.outcome.as_str()
        );
        ended = Some(entry.finished_at);
    }
    Ok(())
}

/// An error that no other attempt would mend ends the job, and comes back
/// typed, too.
async fn fail_for_good(client: &Client) -> Result<(), Box<dyn Error>> {
    let email = SendEmail {
        to: "nobody@example.org".into(),
    };
    let job = client.enqueue(email).await?;
    let Outcome::Failed(error) = job.result().await? else {
        return Err("the email was sent to nobody".into());
    };
    assert_eq!(error, MailError::NoSuchMailbox);
    assert_eq!(job.attempts().await?.len(), 1);
    println!("\nFailure: {error:?} is not worth another attempt, so there was one.");
    Ok(())
}

/// A job can be put off; the store's clock decides.
async fn delay(client: &Client) -> Result<(), Box<dyn Error>> {
    let delay = Duration::from_millis(300);
    let page = Print {
        page: "reminder".into(),
    };
    let job = client.enqueue(page).delay(delay).await?;
    output(&job).await?;
    let record = job.record().await?.ok_or("the reminder is gone")?;
    let started = record.processed_at.ok_or("the reminder never ran")?;
    let waited = started.since(record.enqueued_at);
    assert!(waited >= delay, "waited {waited:?}");
    println!("\nDelay: the reminder was to wait {delay:?}, and ran after {waited:?}.");
    Ok(())
}

/// Of two jobs under one dedupe key the first stands for both.
async fn deduplicate(client: &Client) -> Result<(), Box<dyn Error>> {
    let site = || Reindex {
        site: "example.org".into(),
    };
    let first = client
        .enqueue(site())
        .delay(Duration::from_secs(3600))
        .await?;
    let second = client.enqueue(site()).await?;
    assert!(second.is_duplicate());
    assert_eq!(first.id(), second.id());
    // No need to wait for the hour to end.
    first.promote().await?;
    output(&second).await?;
    assert_eq!(first.attempts().await?.len(), 1);
    println!("\nDedupe: the site was asked to be indexed twice, and was once.");
    Ok(())
}

/// A schedule enqueues a job for each of its slots, on the grid of the first.
async fn follow_schedule(
    client: &Client,
    first: Timestamp,
    every: Duration,
    mut slots: mpsc::UnboundedReceiver<Option<Timestamp>>,
) -> Result<(), Box<dyn Error>> {
    println!("\nSchedule: every {every:?}, so it ran for the slots");
    let mut expected = first;
    for _ in 0..3 {
        let slot = slots.recv().await.flatten().ok_or("a run without a slot")?;
        // Slots that nobody was there for would come as one.
        assert!(slot >= expected);
        assert_eq!(slot.since(first).as_millis() % every.as_millis(), 0);
        println!("  {slot}");
        expected = slot.saturating_add(every);
    }
    assert!(client.unschedule::<RollUp>("all-sites").await?);
    Ok(())
}

/// A job can be called off while it runs.
async fn cancel_running(client: &Client) -> Result<(), Box<dyn Error>> {
    let job = client.enqueue(Import { rows: 1_000_000 }).await?;
    while job
        .record()
        .await?
        .is_some_and(|record| record.progress.is_none())
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    job.cancel().await?;
    assert!(matches!(job.result().await?, Outcome::Cancelled));
    let record = job.record().await?.ok_or("the import is gone")?;
    assert_eq!(record.state, JobState::Cancelled);
    let row = record.progress.ok_or("the import reported nothing")?;
    println!("\nCancel: the import was called off at row {row} of a million.");
    Ok(())
}

/// What a job's handler returned, once the job has ended well.
async fn output<J: Job>(job: &JobHandle<J>) -> Result<J::Output, Box<dyn Error>> {
    let completed = job.result().await?.completed();
    completed.map_err(|_| format!("{job:?} did not complete").into())
}
