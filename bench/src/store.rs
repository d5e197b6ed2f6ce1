//! What a worker and a producer ask of a store, without them: the rows of how
//! cost grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use mq_core::{
    Ack, AckOutcome, ClaimRequest, JobName, JobSpec, Lock, LockToken, NewJob, RawJson, Store,
    StoreHandle, When,
};

use crate::work::{BULK, payload};

/// How many jobs a worker holds at once.
const SLOTS: u32 = 100;
/// The one queue.
const QUEUE: &str = "queue";
/// How many names the jobs that a store holds besides are spread over.
const OTHERS: usize = 100;

/// What a store holds besides the jobs that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Jobs of other names that wait in the same queue.
    Waiting,
    /// Jobs of the same name that are due tomorrow.
    Delayed,
    /// Jobs of the same name that are completed.
    Finished,
}

impl Held {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Delayed, Self::Finished];

    /// The words of a row.
    pub fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting jobs of other names",
            Self::Delayed => "delayed jobs",
            Self::Finished => "finished jobs",
        }
    }

    /// Makes the store hold so many more.
    ///
    /// # Errors
    /// The store's own.
    pub async fn hold(self, store: &StoreHandle, jobs: usize) -> anyhow::Result<()> {
        let names: Vec<JobName> = (0..OTHERS)
            .map(|number| JobName::from(format!("other-{number}")))
            .collect();
        let mut left = jobs;
        while left > 0 {
            let count = left.min(BULK);
            let batch = (0..count).map(|number| {
                let name = match self {
                    Self::Waiting => names[number % OTHERS].clone(),
                    Self::Delayed | Self::Finished => measured(),
                };
                let mut job = job(name);
                if self == Self::Delayed {
                    job.when = When::After(Duration::from_secs(24 * 3600));
                }
                job
            });
            store.store().enqueue_many(batch.collect()).await?;
            if self == Self::Finished {
                drain(store).await?;
            }
            left -= count;
        }
        Ok(())
    }
}

fn measured() -> JobName {
    JobName::from("measured")
}

fn job(name: JobName) -> NewJob {
    let payload = RawJson::parse(payload()).expect("it is JSON");
    NewJob::new(JobSpec::new(name, QUEUE, payload))
}

/// Brings so many jobs in bulk, one call after the other.
///
/// # Errors
/// The store's own.
pub async fn enqueue(store: &StoreHandle, jobs: usize) -> anyhow::Result<Duration> {
    let job = job(measured());
    let begun = Instant::now();
    for _ in 0..jobs / BULK {
        store.store().enqueue_many(vec![job.clone(); BULK]).await?;
    }
    Ok(begun.elapsed())
}

/// Claims and completes all measured jobs, 100 at a time, one call after the
/// other.
///
/// # Errors
/// The store's own.
pub async fn drain(store: &StoreHandle) -> anyhow::Result<Duration> {
    let names: Arc<[JobName]> = [measured()].into();
    let begun = Instant::now();
    while cycle(&**store.store(), &names).await? {}
    Ok(begun.elapsed())
}

async fn cycle(store: &dyn Store, names: &Arc<[JobName]>) -> anyhow::Result<bool> {
    let token = LockToken::random();
    let claim = store
        .claim(ClaimRequest {
            queue: QUEUE.into(),
            names: Arc::clone(names),
            token: token.clone(),
            lock_for: Duration::from_secs(30),
            limit: SLOTS,
        })
        .await?;
    let exit = RawJson::parse(r#"{"ok":null}"#)?;
    let acks: Vec<Ack> = claim
        .jobs
        .into_iter()
        .map(|job| Ack {
            lock: Lock {
                id: job.id,
                token: token.clone(),
            },
            outcome: AckOutcome::Complete {
                exit: Some(exit.clone()),
            },
        })
        .collect();
    if acks.is_empty() {
        return Ok(false);
    }
    for acked in store.ack_many(acks).await? {
        ensure!(acked?.applied, "an ack of a held lock did not apply");
    }
    Ok(true)
}
