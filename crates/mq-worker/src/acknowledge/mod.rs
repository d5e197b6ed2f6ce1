//! Tells the store how runs ended, in batches that form while the batch before
//! is on its way, and repeats itself until it has an answer for each.

mod answers;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mq_core::{Ack, AckOutcome, Acked, Result, StoreError, validate::MAX_BATCH};
use tokio::sync::mpsc;
use tokio::time::Instant;

use answers::note;

use crate::backoff::Backoff;
use crate::run::Run;
use crate::runtime::Shared;

/// How many ended runs may wait to be acknowledged before handlers wait, too.
pub(crate) const MOST_PENDING: usize = 4 * MAX_BATCH as usize;

/// An ended run that the store has not heard of yet.
pub(crate) struct Pending {
    run: Arc<Run>,
    say: Say,
    /// How often the store refused what it was told.
    refusals: u8,
    /// Whether an earlier try may have taken effect without an answer.
    in_doubt: bool,
    /// When the run ended.
    since: Instant,
}

/// What the store is to be told.
pub(crate) enum Say {
    /// How the run ended.
    Ack(AckOutcome),
    /// That the job goes back.
    Release,
}

impl Pending {
    pub(crate) fn new(run: Arc<Run>, say: Say) -> Self {
        Self {
            run,
            say,
            refusals: 0,
            in_doubt: false,
            since: Instant::now(),
        }
    }

    pub(crate) fn is_fan_out(&self) -> bool {
        matches!(self.say, Say::Ack(AckOutcome::FanOut { .. }))
    }

    /// In how many pages a store may write this.
    fn pages(&self) -> u32 {
        let children = match &self.say {
            Say::Ack(AckOutcome::FanOut { children, .. }) => children.len(),
            _ => 0,
        };
        let pages = children / MAX_BATCH as usize;
        u32::try_from(pages).map_or(u32::MAX, |pages| pages.saturating_add(1))
    }
}

/// Acknowledges what comes through the queue.
pub(crate) struct Acknowledger {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Pending>,
    /// What has no answer yet, in the order it came.
    waiting: Vec<Pending>,
}

impl Acknowledger {
    pub(crate) fn new(shared: Arc<Shared>, queue: mpsc::Receiver<Pending>) -> Self {
        Self {
            shared,
            queue,
            waiting: Vec::new(),
        }
    }

    /// Goes on until the task is aborted.
    pub(crate) async fn run(&mut self) {
        const MOST: usize = MAX_BATCH as usize;
        let mut backoff = backoff(&self.shared);
        loop {
            if self.waiting.is_empty() {
                self.queue.recv_many(&mut self.waiting, MOST).await;
                // Lets the runs that are just ending join in; idle, it costs nothing.
                tokio::task::yield_now().await;
            }
            while self.waiting.len() < MOST
                && let Ok(pending) = self.queue.try_recv()
            {
                self.waiting.push(pending);
            }
            let later = distinct(&mut self.waiting);
            let batch = std::mem::take(&mut self.waiting);
            let told = batch.len();
            self.waiting = deliver(&self.shared, batch).await;
            let unanswered = self.waiting.len();
            self.waiting.extend(later);
            if unanswered < told {
                backoff.reset();
            }
            if unanswered > 0 {
                backoff.wait().await;
            }
        }
    }
}

/// The waits between tries: short, as a shutdown leaves little time.
fn backoff(shared: &Shared) -> Backoff {
    const LONGEST: Duration = Duration::from_secs(1);
    Backoff::up_to(LONGEST, shared.options.lock_duration)
}

/// Acknowledges one run by itself.
pub(crate) async fn alone(shared: &Arc<Shared>, pending: Pending) {
    let mut backoff = backoff(shared);
    let mut waiting = vec![pending];
    loop {
        waiting = deliver(shared, waiting).await;
        if waiting.is_empty() {
            return;
        }
        backoff.wait().await;
    }
}

/// Takes out all but the first entry for each job: a store answers a second
/// one in a call with `LockLost`, though its run may hold the lock.
fn distinct(batch: &mut Vec<Pending>) -> Vec<Pending> {
    let mut jobs = HashSet::with_capacity(batch.len());
    let firsts: Vec<bool> = batch
        .iter()
        .map(|pending| jobs.insert(&pending.run.job.id))
        .collect();
    if firsts.iter().all(|&first| first) {
        return Vec::new();
    }
    let mut firsts = firsts.into_iter();
    batch
        .extract_if(.., |_| firsts.next() == Some(false))
        .collect()
}

/// Tells the store, and returns what has no answer yet.
async fn deliver(shared: &Arc<Shared>, batch: Vec<Pending>) -> Vec<Pending> {
    let (acks, releases): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .partition(|pending| matches!(pending.say, Say::Ack(_)));
    let mut unanswered = Vec::new();
    for (kind, batch) in [(Kind::Ack, acks), (Kind::Release, releases)] {
        if batch.is_empty() {
            continue;
        }
        match tell(shared, kind, &batch).await {
            Ok(answers) => unanswered.extend(note(shared, batch, answers).await),
            Err(error) if error.is_transient() => unanswered.extend(in_doubt(batch)),
            Err(error) if batch.len() == 1 => {
                unanswered.extend(failed(shared, batch, error).await);
            }
            Err(_) => {
                // One of them may be the reason: each is told by itself.
                for pending in batch {
                    let one = vec![pending];
                    unanswered.extend(match tell(shared, kind, &one).await {
                        Ok(answers) => note(shared, one, answers).await,
                        Err(error) if error.is_transient() => in_doubt(one),
                        Err(error) => failed(shared, one, error).await,
                    });
                }
            }
        }
    }
    unanswered
}

/// Remembers that a try may have taken effect.
fn in_doubt(mut batch: Vec<Pending>) -> Vec<Pending> {
    for pending in &mut batch {
        pending.in_doubt = true;
    }
    batch
}

/// What to do with a run whose end made a call for it alone fail. If the store
/// itself failed, that may pass: it is told again for as long as a lock.
async fn failed(shared: &Arc<Shared>, alone: Vec<Pending>, error: StoreError) -> Vec<Pending> {
    let is_recent = |pending: &Pending| pending.since.elapsed() < shared.options.lock_duration;
    match error {
        StoreError::Backend { .. } if alone.iter().all(is_recent) => alone,
        error => note(shared, alone, vec![Err(error)]).await,
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Ack,
    Release,
}

async fn tell(shared: &Shared, kind: Kind, batch: &[Pending]) -> Result<Vec<Result<Acked>>> {
    let link = &shared.link;
    let lock = |pending: &Pending| pending.run.lock.clone();
    match kind {
        Kind::Release => {
            let locks = batch.iter().map(lock).collect();
            let answers = link
                .call("release_many", link.store.release_many(locks))
                .await?;
            let released = Acked { applied: true };
            Ok(answers
                .into_iter()
                .map(|answer| answer.map(|()| released))
                .collect())
        }
        Kind::Ack => {
            let acks = batch
                .iter()
                .filter_map(|pending| match &pending.say {
                    Say::Ack(outcome) => Some(Ack {
                        lock: lock(pending),
                        outcome: outcome.clone(),
                    }),
                    Say::Release => None,
                })
                .collect();
            let call = link.store.ack_many(acks);
            match batch {
                // A large manifest is written in pages, and takes its time.
                [one] if one.is_fan_out() => {
                    let patience = shared.options.lock_duration.saturating_mul(one.pages());
                    link.call_within(patience, "ack_many", call).await
                }
                _ => link.call("ack_many", call).await,
            }
        }
    }
}
