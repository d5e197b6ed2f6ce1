//! Claims, acks, locks and waits.

use std::time::Duration;

use super::json::{exit, json};
use super::number::{self, duration, nonzero};
use super::{Limits, MAX_BATCH, Validated, fan_out, job_id, job_name, lock_token, queue_name};
use crate::id::{JobId, QueueName};
use crate::json::RawJson;
use crate::store::{Ack, AckOutcome, ClaimRequest, Lock};

/// `claim`: answers the clamped limit.
pub fn claim(request: &ClaimRequest) -> Validated<u32> {
    queue_name(&request.queue)?;
    request.names.iter().try_for_each(job_name)?;
    lock_token(&request.token)?;
    number::lock_for(request.lock_for)?;
    batch_limit(request.limit)
}

/// One ack of `ack_many`.
pub fn ack(ack: &Ack, limits: &Limits) -> Validated {
    lock(&ack.lock)?;
    match &ack.outcome {
        AckOutcome::Complete { exit: result } | AckOutcome::Fail { exit: result } => {
            exit(result.as_ref(), limits)
        }
        AckOutcome::Retry {
            delay,
            exit: result,
        } => {
            duration("retry delay", *delay)?;
            exit(result.as_ref(), limits)
        }
        AckOutcome::Snooze { delay } => duration("snooze delay", *delay),
        AckOutcome::Cancelled => Ok(()),
        AckOutcome::FanOut { children, .. } => fan_out(children, limits),
    }
}

/// One lock of `release_many`.
pub fn lock(lock: &Lock) -> Validated {
    job_id(&lock.id)?;
    lock_token(&lock.token)
}

/// `extend_locks`.
pub fn extend_locks(locks: &[Lock], lock_for: Duration) -> Validated {
    locks.iter().try_for_each(lock)?;
    number::lock_for(lock_for)
}

/// `set_progress`.
pub fn set_progress(held: &Lock, progress: &RawJson, limits: &Limits) -> Validated {
    lock(held)?;
    json("progress", progress, limits)
}

/// `recover_stalled`, `sweep_history` and `due_schedules`: answers the clamped limit.
pub fn batch_limit(limit: u32) -> Validated<u32> {
    nonzero("limit", limit, "1").map(|limit| limit.min(MAX_BATCH))
}

/// `await_wake`.
pub fn queues(queues: &[QueueName]) -> Validated {
    queues.iter().try_for_each(queue_name)
}

/// `watch`, `await_finished` and reads of several jobs.
pub fn job_ids(ids: &[JobId]) -> Validated {
    ids.iter().try_for_each(job_id)
}
