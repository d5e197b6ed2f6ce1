//! What the answers to acks and releases mean.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mq_core::{
    AckOutcome, Acked, AttemptOutcome, Defect, DefectKind, InvalidInput, Result, Rule, StoreError,
};
use tracing::{debug, error};

use super::{Pending, Say};
use crate::extension::SettledRun;
use crate::failure::FailedRun;
use crate::outcome::defect_exit;
use crate::panic;
use crate::run::Run;
use crate::runtime::Shared;
use crate::settled;

/// Notes the answers, and returns what has none, or another thing to say.
pub(super) async fn note(
    shared: &Arc<Shared>,
    batch: Vec<Pending>,
    answers: Vec<Result<Acked>>,
) -> Vec<Pending> {
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
            (Ok(acked), Say::Ack(outcome)) if !acked.applied && !completes(outcome) => {
                let ended = settled::completed(shared, &[run]).await;
                // What counts is what the handler told the store, whatever it
                // came to afterwards.
                if ended.is_ok_and(|ended| !ended.is_empty()) {
                    landed(shared, run, &AckOutcome::Complete { exit: None }, acked);
                } else {
                    landed(shared, run, outcome, acked);
                }
            }
            (Ok(acked), Say::Ack(outcome)) => landed(shared, run, outcome, acked),
            (Ok(_), Say::Release) => shared.counters.released.one(),
            // No job is removed while it runs: it ended first, and by this ack
            // unless its lock had expired.
            (Err(StoreError::NotFound { .. }), Say::Ack(outcome)) if pending.in_doubt => {
                landed(shared, run, outcome, Acked { applied: false });
            }
            (Err(StoreError::NotFound { id }), _) => {
                debug!(job_id = %id, "the job was removed while it ran");
            }
            (Err(StoreError::LockLost { id }), Say::Release) => {
                debug!(job_id = %id, "the job had gone back already");
            }
            (Err(StoreError::LockLost { .. }), Say::Ack(outcome)) if pending.in_doubt => {
                match had_landed(shared, run, outcome).await {
                    Ok(true) => landed(shared, run, outcome, Acked { applied: false }),
                    Err(error) if error.is_transient() => {
                        unanswered.push(pending);
                        continue;
                    }
                    Ok(false) | Err(_) => shared.lock_lost(run),
                }
            }
            (Err(StoreError::LockLost { .. }), Say::Ack(_)) => shared.lock_lost(run),
            (Err(error), _) if error.is_transient() => {
                pending.in_doubt = true;
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

/// Whether an earlier try of this ack took effect: the job has run again since,
/// so its lock is another's, but its ledger knows.
async fn had_landed(shared: &Shared, run: &Run, outcome: &AckOutcome) -> Result<bool> {
    let link = &shared.link;
    let read = || link.call("get_attempts", link.store.get_attempts(&run.job.id));
    // Once more at once: beginning anew means to be told of the lost lock again.
    let attempts = match read().await {
        Err(error) if error.is_transient() => read().await?,
        answer => answer?,
    };
    let number = run.job.attempts_recorded.saturating_add(1);
    Ok(attempts.iter().any(|attempt| {
        attempt.attempt == number
            && attempt.started_at == run.job.processed_at
            && attempt.outcome == recorded_as(outcome)
    }))
}

fn completes(outcome: &AckOutcome) -> bool {
    matches!(outcome, AckOutcome::Complete { .. })
}

/// What an ack is called in the ledger.
fn recorded_as(outcome: &AckOutcome) -> AttemptOutcome {
    match outcome {
        AckOutcome::Complete { .. } => AttemptOutcome::Completed,
        AckOutcome::Fail { .. } => AttemptOutcome::Failed,
        AckOutcome::Retry { .. } => AttemptOutcome::Retried,
        AckOutcome::Cancelled => AttemptOutcome::Cancelled,
        AckOutcome::Snooze { .. } => AttemptOutcome::Snoozed,
        AckOutcome::FanOut { .. } => AttemptOutcome::FannedOut,
    }
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
