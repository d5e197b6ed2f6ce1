//! What every store refuses, in the same words.
//!
//! There is one function per operation, and each driver method begins with its
//! own. They check and clamp; none of them reads or writes a store.

use std::time::Duration;

use crate::error::{InvalidInput, Rule};
use crate::id::{
    ChildKey, DedupeKey, JobId, JobName, LockToken, OutboxId, QueueName, ScheduleKey, StoreKey,
};
use crate::json::RawJson;
use crate::record::{
    Backoff, Cadence, Dedupe, FlowChild, JobSpec, Keep, Metadata, NewJob, NewSchedule,
    ParentEnvelope, Rate, Report, Retention, TraceContext, When, WorkerRecord,
};
use crate::store::{
    Ack, AckOutcome, Change, ClaimRequest, ListFilter, Lock, QueueSettings, ScheduleFilter, Tick,
};
use crate::time::LONGEST;

/// The longest job id, in bytes.
pub const MAX_ID: usize = 1_024;
/// The longest name, queue or key, in bytes.
pub const MAX_NAME: usize = 256;
/// All keys and values of a job's metadata together, in bytes.
pub const MAX_METADATA: usize = 64 * 1_024;
/// How deep arrays and objects may nest in a payload: as deep as the usual
/// decoders accept.
pub const MAX_DEPTH: usize = 100;
/// How many jobs one claim, recovery or sweep handles, and the size of pages
/// in which batches are written.
pub const MAX_BATCH: u32 = 250;
/// How many records one page of a listing holds.
pub const MAX_PAGE: u32 = 1_000;
/// How many records a listing's page holds unless asked otherwise.
pub const DEFAULT_LIST: u32 = 50;
/// How many bytes of raw JSON one page holds, or one item if that is larger.
pub const MAX_PAGE_BYTES: usize = 8 * 1_024 * 1_024;
/// How deep flows nest.
pub const MAX_FLOW_DEPTH: u32 = 8;
/// Job names that ids are built with: `sched/…` and `flow/…`.
pub const RESERVED_NAMES: [&str; 2] = ["sched", "flow"];

/// What validates, or does not.
pub type Validated<T = ()> = Result<T, InvalidInput>;

/// The limits that a store is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest payload, result or progress value, in bytes of JSON.
    pub max_payload: usize,
}

impl Default for Limits {
    /// One MiB.
    fn default() -> Self {
        Self {
            max_payload: 1_024 * 1_024,
        }
    }
}

// ---- enqueue

/// `enqueue_many`: refuses the batch if one of its items breaks a rule.
pub fn enqueue_many(jobs: &[NewJob], limits: &Limits) -> Validated {
    if let [job] = jobs {
        return new_job(job, limits);
    }
    for (index, job) in jobs.iter().enumerate() {
        new_job(job, limits).map_err(|error| InvalidInput {
            field: format!("job {index} of {}: {}", jobs.len(), error.field),
            ..error
        })?;
    }
    Ok(())
}

/// One request to enqueue.
pub fn new_job(job: &NewJob, limits: &Limits) -> Validated {
    if let Some(id) = &job.id {
        job_id(id)?;
    }
    job_spec(&job.spec, limits)?;
    if let When::After(delay) = job.when {
        duration("delay", delay)?;
    }
    job.dedupe.as_ref().map_or(Ok(()), dedupe)?;
    job.trace.as_ref().map_or(Ok(()), trace)?;
    job.parent.as_ref().map_or(Ok(()), parent)
}

// ---- run

/// `claim`: answers the clamped limit.
pub fn claim(request: &ClaimRequest) -> Validated<u32> {
    queue_name(&request.queue)?;
    request.names.iter().try_for_each(job_name)?;
    lock_token(&request.token)?;
    lock_for(request.lock_for)?;
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
    self::lock_for(lock_for)
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

// ---- inspect

/// `list`, but for its cursor, which is the driver's own: answers the page's size.
pub fn list(filter: &ListFilter) -> Validated<u32> {
    filter.queue.as_ref().map_or(Ok(()), queue_name)?;
    filter.name.as_ref().map_or(Ok(()), job_name)?;
    metadata(&filter.metadata)?;
    page_limit(filter.limit.unwrap_or(DEFAULT_LIST))
}

/// `peek_outbox` and other pages of records: answers the clamped limit.
pub fn page_limit(limit: u32) -> Validated<u32> {
    nonzero("limit", limit, "1").map(|limit| limit.min(MAX_PAGE))
}

// ---- admin

/// `cancel_by_dedupe`.
pub fn cancel_by_dedupe(name: &JobName, key: &DedupeKey) -> Validated {
    job_name(name)?;
    self::name("dedupe key", key)
}

/// `set_queue`.
pub fn set_queue(queue: &QueueName, settings: &QueueSettings) -> Validated {
    queue_name(queue)?;
    if let Change::Set(most) = settings.max_active {
        nonzero(
            "max_active",
            most,
            "1 (pause the queue to hold it altogether)",
        )?;
    }
    if let Change::Set(rate) = settings.rate {
        self::rate(rate)?;
    }
    Ok(())
}

/// `report_worker`.
pub fn worker(record: &WorkerRecord) -> Validated {
    name("worker id", &record.id)?;
    no_nul("worker host", &record.host)?;
    no_nul("worker version", &record.version)?;
    queues(&record.queues)
}

/// `bind_name`.
pub fn store_key(key: &StoreKey) -> Validated {
    name("store name", key)
}

// ---- schedule

/// `upsert_schedule`.
pub fn upsert_schedule(schedule: &NewSchedule, limits: &Limits) -> Validated {
    schedule_key(&schedule.key)?;
    cadence(&schedule.cadence)?;
    job_spec(&schedule.spec, limits)?;
    schedule.group.as_deref().map_or(Ok(()), group)
}

/// `list_schedules`.
pub fn list_schedules(filter: &ScheduleFilter) -> Validated {
    filter.job_name.as_ref().map_or(Ok(()), job_name)?;
    filter.queue.as_ref().map_or(Ok(()), queue_name)?;
    filter.group.as_deref().map_or(Ok(()), group)
}

/// `tick_schedule`.
pub fn tick_schedule(tick: &Tick, limits: &Limits) -> Validated {
    schedule_key(&tick.key)?;
    let Some(job) = &tick.job else {
        return Ok(());
    };
    if job.id.is_none() {
        return Err(InvalidInput::new(
            "tick of schedule",
            &*tick.key,
            Rule::Other("has a job without an id: give it the slot's, sched/<key>/<millis>".into()),
        ));
    }
    new_job(job, limits)
}

/// The key of a schedule.
pub fn schedule_key(key: &ScheduleKey) -> Validated {
    name("schedule key", key)
}

/// When a schedule's slots fall: a cadence that parses and has slots.
pub fn cadence(cadence: &Cadence) -> Validated {
    crate::occurrence::Occurrences::parse(cadence).map(drop)
}

// ---- flow

/// The children of a fan-out.
pub fn fan_out(children: &[FlowChild], limits: &Limits) -> Validated {
    let mut keys = std::collections::HashSet::with_capacity(children.len());
    for child in children {
        child_key(&child.key)?;
        store_key(&child.store)?;
        if !keys.insert(&child.key) {
            return Err(InvalidInput::new(
                "child key",
                &*child.key,
                Rule::Other("is used by two children of one fan-out: give each its own".into()),
            ));
        }
        if child.job.id.is_none() {
            return Err(InvalidInput::new(
                "child",
                &*child.key,
                Rule::Other("has no job id: a fan-out names the id of each child".into()),
            ));
        }
        new_job(&child.job, limits)?;
    }
    Ok(())
}

/// `record_child_results`.
pub fn record_child_results(reports: &[Report], limits: &Limits) -> Validated {
    for report in reports {
        job_id(&report.flow_id)?;
        lock_token(&report.manifest)?;
        child_key(&report.child_key)?;
        exit(report.exit.as_ref(), limits)?;
        report
            .failed_reason
            .as_deref()
            .map_or(Ok(()), |reason| no_nul("failed reason", reason))?;
    }
    Ok(())
}

/// `pending_children`, `mark_children_cascaded` and `undelivered_reports`.
pub fn flow_children(flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Validated {
    job_id(flow_id)?;
    lock_token(manifest)?;
    keys.iter().try_for_each(child_key)
}

/// `flow_sweep_work`: answers the clamped limit.
pub fn flow_sweep_work(pending_age: Duration, limit: u32) -> Validated<u32> {
    duration("pending age", pending_age)?;
    batch_limit(limit)
}

/// An outbox entry's id: any text without NUL, since one that was never issued
/// is merely unknown.
pub fn outbox_id(id: &OutboxId) -> Validated {
    no_nul("outbox id", id)
}

// ---- fields

/// A job id.
pub fn job_id(id: &JobId) -> Validated {
    text("job id", id, MAX_ID)
}

/// A job id that a caller chose: none of those that schedules and flows build.
pub fn chosen_job_id(id: &JobId) -> Validated {
    job_id(id)?;
    match RESERVED_NAMES.iter().find(|reserved| {
        id.strip_prefix(**reserved)
            .is_some_and(|rest| rest.starts_with('/'))
    }) {
        None => Ok(()),
        Some(reserved) => Err(InvalidInput::new(
            "job id",
            &**id,
            Rule::Other(format!(
                "begins with {reserved}/, which is kept for ids that the library builds: choose another"
            )),
        )),
    }
}

/// A job name.
pub fn job_name(name: &JobName) -> Validated {
    self::name("job name", name)?;
    if name.contains('/') {
        return Err(InvalidInput::new(
            "job name",
            &**name,
            Rule::Other(
                "holds a slash, which separates the parts of job ids: use another sign".into(),
            ),
        ));
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        return Err(InvalidInput::new(
            "job name",
            &**name,
            Rule::Other("is kept for ids that the library builds: choose another".into()),
        ));
    }
    Ok(())
}

/// A queue name.
pub fn queue_name(queue: &QueueName) -> Validated {
    name("queue name", queue)
}

/// A child's key.
pub fn child_key(key: &ChildKey) -> Validated {
    name("child key", key)
}

/// A lock token.
pub fn lock_token(token: &LockToken) -> Validated {
    name("lock token", token)
}

fn job_spec(spec: &JobSpec, limits: &Limits) -> Validated {
    job_name(&spec.name)?;
    queue_name(&spec.queue)?;
    json("payload", &spec.payload, limits)?;
    metadata(&spec.metadata)?;
    nonzero("attempts_max", spec.attempts_max, "1")?;
    spec.backoff.as_ref().map_or(Ok(()), backoff)?;
    spec.keep.as_ref().map_or(Ok(()), keep)?;
    spec.timeout.map_or(Ok(()), |limit| {
        if limit.is_zero() {
            return Err(InvalidInput::new(
                "timeout",
                limit,
                Rule::Zero {
                    least: "1 ms (leave it out for none)",
                },
            ));
        }
        duration("timeout", limit)
    })
}

fn metadata(labels: &Metadata) -> Validated {
    let mut bytes = 0;
    for (key, value) in labels {
        if key.is_empty() {
            return Err(InvalidInput::new("metadata key", key, Rule::Empty));
        }
        no_nul("metadata key", key)?;
        if value.contains('\0') {
            return Err(InvalidInput::new(
                format!("metadata {key:?}"),
                value,
                Rule::Nul,
            ));
        }
        bytes += key.len() + value.len();
    }
    if bytes > MAX_METADATA {
        let rule = Rule::TooLong {
            bytes,
            most: MAX_METADATA,
        };
        let keys: Vec<_> = labels.keys().collect();
        return Err(InvalidInput::new("metadata with keys", keys, rule));
    }
    Ok(())
}

fn backoff(policy: &Backoff) -> Validated {
    match *policy {
        Backoff::Fixed { delay } => duration("backoff delay", delay),
        Backoff::Exponential {
            delay,
            factor,
            max,
            jitter,
        } => {
            duration("backoff delay", delay)?;
            max.map_or(Ok(()), |max| duration("backoff max", max))?;
            if !(factor.is_finite() && factor >= 1.0) {
                return Err(InvalidInput::new(
                    "backoff factor",
                    factor,
                    Rule::OutOfRange {
                        range: "a finite number of at least 1",
                    },
                ));
            }
            match jitter {
                Some(share) if !(0.0..=1.0).contains(&share) => Err(InvalidInput::new(
                    "backoff jitter",
                    share,
                    Rule::OutOfRange {
                        range: "from 0 to 1",
                    },
                )),
                _ => Ok(()),
            }
        }
    }
}

fn keep(policy: &Keep) -> Validated {
    [policy.completed, policy.failed, policy.cancelled]
        .into_iter()
        .flatten()
        .try_for_each(|Retention { age, .. }| age.map_or(Ok(()), |age| duration("keep age", age)))
}

fn dedupe(policy: &Dedupe) -> Validated {
    name("dedupe key", &policy.key)?;
    match policy.ttl {
        Some(ttl) => duration("dedupe ttl", ttl),
        None if policy.extend => Err(InvalidInput::new(
            "dedupe of key",
            &*policy.key,
            Rule::Other("extends a window without a ttl: give it one".into()),
        )),
        None => Ok(()),
    }
}

fn trace(context: &TraceContext) -> Validated {
    no_nul("trace id", &context.trace_id)?;
    no_nul("span id", &context.span_id)
}

fn parent(envelope: &ParentEnvelope) -> Validated {
    name("flow name", &envelope.flow_name)?;
    job_id(&envelope.flow_id)?;
    lock_token(&envelope.manifest)?;
    child_key(&envelope.child_key)?;
    store_key(&envelope.parent_store)
}

fn rate(rate: Rate) -> Validated {
    nonzero(
        "rate count",
        rate.count,
        "1 (pause the queue to hold it altogether)",
    )?;
    if rate.per.is_zero() {
        return Err(InvalidInput::new(
            "rate per",
            rate.per,
            Rule::Zero { least: "1 ms" },
        ));
    }
    duration("rate per", rate.per)
}

fn group(group: &str) -> Validated {
    name("schedule group", group)
}

fn exit(exit: Option<&RawJson>, limits: &Limits) -> Validated {
    exit.map_or(Ok(()), |exit| json("exit", exit, limits))
}

fn json(field: &str, value: &RawJson, limits: &Limits) -> Validated {
    let text = value.get();
    if text.len() > limits.max_payload {
        let rule = Rule::TooLong {
            bytes: text.len(),
            most: limits.max_payload,
        };
        return Err(InvalidInput::new(field, text, rule));
    }
    // A text of n bytes nests at most n/2 deep: most payloads need no look.
    if text.len() > 2 * MAX_DEPTH && depth(text) > MAX_DEPTH {
        return Err(InvalidInput::new(
            field,
            text,
            Rule::TooDeep { most: MAX_DEPTH },
        ));
    }
    Ok(())
}

/// How deep the arrays and objects of a well-formed JSON text nest.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth -= 1,
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

fn lock_for(duration: Duration) -> Validated {
    if duration.is_zero() {
        return Err(InvalidInput::new(
            "lock_for",
            duration,
            Rule::Zero { least: "1 ms" },
        ));
    }
    self::duration("lock_for", duration)
}

/// A duration that an instant can be moved by.
fn duration(field: &str, duration: Duration) -> Validated {
    if duration > LONGEST {
        return Err(InvalidInput::new(
            field,
            duration,
            Rule::OutOfRange {
                range: "at most 253,402,300,799,999 ms, the span from 1970 to 9999",
            },
        ));
    }
    Ok(())
}

fn nonzero(field: &str, number: u32, least: &'static str) -> Validated<u32> {
    match number {
        0 => Err(InvalidInput::new(field, number, Rule::Zero { least })),
        number => Ok(number),
    }
}

fn name(field: &str, value: &str) -> Validated {
    text(field, value, MAX_NAME)
}

fn text(field: &str, value: &str, most: usize) -> Validated {
    if value.is_empty() {
        return Err(InvalidInput::new(field, value, Rule::Empty));
    }
    if value.len() > most {
        let rule = Rule::TooLong {
            bytes: value.len(),
            most,
        };
        return Err(InvalidInput::new(field, value, rule));
    }
    no_nul(field, value)
}

fn no_nul(field: &str, value: &str) -> Validated {
    if value.contains('\0') {
        return Err(InvalidInput::new(field, value, Rule::Nul));
    }
    Ok(())
}
