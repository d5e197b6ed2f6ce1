//! What a job is enqueued with.

use mq_core::{Backoff, JobSpec, JobState, Keep, NewJob, ParentEnvelope};

use super::Writer;

/// The terminal states in the order in which a kind names them.
pub(super) const TERMINAL: [JobState; 3] =
    [JobState::Completed, JobState::Failed, JobState::Cancelled];

pub(super) const KEYED: u8 = 1;
pub(super) const CHILD: u8 = 2;

/// Which optional parts a record's tail has.
pub(super) mod part {
    pub(crate) const FIXED: u8 = 1;
    pub(crate) const EXPONENTIAL: u8 = 2;
    pub(crate) const LONGEST: u8 = 4;
    pub(crate) const JITTER: u8 = 8;
    pub(crate) const TIMEOUT: u8 = 16;
    pub(crate) const TRACE: u8 = 32;
    pub(crate) const METADATA: u8 = 64;
}

/// A job's record but for its arrival number and its instants, which the
/// script writes. `nonce` tells the tries of one request from another's.
pub(crate) fn job_body(job: &NewJob, nonce: u64) -> Vec<u8> {
    let mut writer = Writer::with_capacity(96 + job.spec.payload.get().len());
    writer.u48(nonce);
    writer.nested(|writer| kind(writer, &job.spec));
    writer.nested(|writer| extra(writer, job));
    tail(&mut writer, job);
    writer.finish()
}

/// What scripts need to know of a job at every step: jobs alike share the text.
pub(crate) fn kind(writer: &mut Writer, spec: &JobSpec) {
    writer.u32(biased(spec.priority));
    writer.text(&spec.queue);
    writer.text(&spec.name);
    keep(writer, spec.keep);
}

/// A priority as a number whose byte order is its order.
fn biased(priority: i32) -> u32 {
    priority.cast_unsigned() ^ (1 << 31)
}

fn keep(writer: &mut Writer, keep: Option<Keep>) {
    let Some(keep) = keep else {
        return writer.u8(0);
    };
    let retentions = TERMINAL.map(|state| keep.of(state).map(|r| (r.count, r.age)));
    let mut bits = 64;
    for (place, retention) in retentions.iter().enumerate() {
        if let Some((count, age)) = retention {
            let mask = u8::from(count.is_some()) | u8::from(age.is_some()) << 1;
            bits |= mask << (2 * place);
        }
    }
    writer.u8(bits);
    for (count, age) in retentions.into_iter().flatten() {
        if let Some(count) = count {
            writer.u32(count);
        }
        if let Some(age) = age {
            writer.duration(age);
        }
    }
}

/// What few jobs have and scripts need at their end: dedupe key and parent.
fn extra(writer: &mut Writer, job: &NewJob) {
    let keyed = job.dedupe.as_ref().map_or(0, |_| KEYED);
    let child = job.parent.as_ref().map_or(0, |_| CHILD);
    if keyed | child == 0 {
        return;
    }
    writer.u8(keyed | child);
    if let Some(dedupe) = &job.dedupe {
        writer.text(&dedupe.key);
    }
    if let Some(parent) = &job.parent {
        self::parent(writer, parent);
    }
}

fn parent(writer: &mut Writer, parent: &ParentEnvelope) {
    writer.text(&parent.flow_name);
    writer.text(&parent.flow_id);
    writer.text(&parent.manifest);
    writer.text(&parent.child_key);
    writer.text(&parent.parent_store);
    writer.u32(parent.depth);
}

/// What no script looks at.
fn tail(writer: &mut Writer, job: &NewJob) {
    let spec = &job.spec;
    writer.u32(spec.attempts_max);
    let mut parts = match spec.backoff {
        None => 0,
        Some(Backoff::Fixed { .. }) => part::FIXED,
        Some(Backoff::Exponential { max, jitter, .. }) => {
            part::EXPONENTIAL
                | max.map_or(0, |_| part::LONGEST)
                | jitter.map_or(0, |_| part::JITTER)
        }
    };
    parts |= spec.timeout.map_or(0, |_| part::TIMEOUT);
    parts |= job.trace.as_ref().map_or(0, |_| part::TRACE);
    if !spec.metadata.is_empty() {
        parts |= part::METADATA;
    }
    writer.u8(parts);
    match spec.backoff {
        None => {}
        Some(Backoff::Fixed { delay }) => writer.duration(delay),
        Some(Backoff::Exponential {
            delay,
            factor,
            max,
            jitter,
        }) => {
            writer.duration(delay);
            writer.f64(factor);
            if let Some(max) = max {
                writer.duration(max);
            }
            if let Some(jitter) = jitter {
                writer.f64(jitter);
            }
        }
    }
    if let Some(timeout) = spec.timeout {
        writer.duration(timeout);
    }
    if let Some(trace) = &job.trace {
        writer.long_text(&trace.trace_id);
        writer.long_text(&trace.span_id);
        writer.u8(u8::from(trace.sampled) | u8::from(trace.delayed) << 1);
    }
    if !spec.metadata.is_empty() {
        writer.u32(spec.metadata.len() as u32);
        for (key, value) in &spec.metadata {
            writer.long_text(key);
            writer.long_text(value);
        }
    }
    writer.rest(spec.payload.get());
}
