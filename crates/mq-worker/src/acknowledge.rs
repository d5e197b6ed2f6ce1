//! Tells the store how runs ended, in batches that form while the batch before
//! is on its way, and repeats itself until it has an answer for each.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mq_core::{
    Ack, AckOutcome, Acked, Defect, DefectKind, InvalidInput, Result, Rule, StoreError,
    validate::MAX_BATCH,
};
use tokio::sync::mpsc;
use tracing::{debug, error};

use crate::backoff::Backoff;
use crate::extension::SettledRun;
use crate::failure::FailedRun;
use crate::outcome::defect_exit;
use crate::panic;
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
        }
    }

    pub(crate) fn is_fan_out(&self) -> bool {
        matches!(self.say, Say::Ack(AckOutcome::FanOut { .. }))
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
        let mut backoff = Backoff::within(self.shared.options.lock_duration);
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
            self.waiting = deliver(&self.shared, batch).await;
            let all_answered = self.waiting.is_empty();
            self.waiting.extend(later);
            match all_answered {
                true => backoff.reset(),
                false => backoff.wait().await,
            }
        }
    }
}

/// Acknowledges one run by itself.
pub(crate) async fn alone(shared: &Arc<Shared>, pending: Pending) {
    let mut backoff = Backoff::within(shared.options.lock_duration);
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
            Ok(answers) => unanswered.extend(note(shared, batch, answers)),
            Err(error) if error.is_transient() => unanswered.extend(batch),
            Err(_) if batch.len() > 1 => {
                // One of them may be the reason: each is told by itself.
                for pending in batch {
                    let one = std::slice::from_ref(&pending);
                    let answers = match tell(shared, kind, one).await {
                        Ok(answers) => answers,
                        Err(error) => vec![Err(error)],
                    };
                    unanswered.extend(note(shared, vec![pending], answers));
                }
            }
            Err(error) => unanswered.extend(note(shared, batch, vec![Err(error)])),
        }
    }
    unanswered
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
                [one] if one.is_fan_out() => link.call_at_leisure("ack_many", call).await,
                _ => link.call("ack_many", call).await,
            }
        }
    }
}

/// Notes the answers, and returns what has none, or another thing to say.
fn note(shared: &Arc<Shared>, batch: Vec<Pending>, answers: Vec<Result<Acked>>) -> Vec<Pending> {
    let mut settled = Vec::with_capacity(batch.len());
    let mut unanswered = Vec::new();
    let mut answers = answers.into_iter();
    for mut pending in batch {
        let Some(answer) = answers.next() else {
            unanswered.push(pending);
            continue;
        };
        let run = &pending.run;
        match (answer, &pending.say) {
            (Ok(acked), Say::Ack(outcome)) => landed(shared, run, outcome, acked),
            (Ok(_), Say::Release) => shared.counters.released.one(),
            (Err(StoreError::NotFound { id }), _) => {
                debug!(job_id = %id, "the job was removed while it ran");
            }
            (Err(StoreError::LockLost { id }), Say::Release) => {
                debug!(job_id = %id, "the job had gone back already");
            }
            (Err(StoreError::LockLost { .. }), Say::Ack(_)) => shared.lock_lost(run),
            (Err(error), _) if error.is_transient() => {
                unanswered.push(pending);
                continue;
            }
            (Err(StoreError::InvalidInput(reason)), Say::Ack(outcome)) => {
                if let Some(instead) = instead_of(outcome, &reason, pending.refusals) {
                    pending.say = Say::Ack(instead);
                    pending.refusals += 1;
                    unanswered.push(pending);
                    continue;
                }
                refused(shared, run, &reason.into());
            }
            (Err(error), _) => refused(shared, run, &error),
        }
        settled.push(pending.run);
    }
    shared.held.let_go(&settled);
    unanswered
}

fn landed(shared: &Arc<Shared>, run: &Run, outcome: &AckOutcome, acked: Acked) {
    shared.counters.ended(outcome);
    let settled = SettledRun::new(&run.job, &run.lock, outcome, acked);
    for hook in &shared.after_ack {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| hook(&settled))) {
            let message = panic::message(payload);
            error!(job_id = %run.job.id, panic = message, "an after-ack hook panicked");
        }
    }
    if !shared.failures.is_unheard()
        && let Some(failed) = FailedRun::of(&run.job, run.attempt(), outcome)
    {
        shared.failures.tell(&failed);
    }
}

fn refused(shared: &Shared, run: &Run, error: &StoreError) {
    shared.counters.refused.one();
    error!(
        job_id = %run.job.id,
        job_name = %run.job.spec.name,
        queue = %run.job.spec.queue,
        %error,
        "the store does not take the end of this run; its lock will expire"
    );
}

/// What to say instead of what the store does not take: the same without the
/// value that is at fault. A result that is not taken fails its job, as its
/// side effects must not happen again.
fn instead_of(outcome: &AckOutcome, reason: &InvalidInput, refusals: u8) -> Option<AckOutcome> {
    let exit = match refusals {
        0 => Some(defect_exit(&Defect::new(
            kind_of(&reason.rule),
            format!("the store does not take what the run ended with: {reason}"),
        ))),
        1 => None,
        _ => return None,
    };
    match outcome {
        AckOutcome::Complete { .. } | AckOutcome::Fail { .. } | AckOutcome::FanOut { .. } => {
            Some(AckOutcome::Fail { exit })
        }
        AckOutcome::Retry { delay, .. } => Some(AckOutcome::Retry {
            delay: *delay,
            exit,
        }),
        AckOutcome::Cancelled | AckOutcome::Snooze { .. } => None,
    }
}

fn kind_of(rule: &Rule) -> DefectKind {
    match rule {
        Rule::TooLong { .. } => DefectKind::TooLarge,
        _ => DefectKind::Encode,
    }
}
