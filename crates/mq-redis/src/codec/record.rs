//! Job records, put together from the texts that hold their parts.

use mq_core::{
    AttemptRecord, Backoff, DedupeKey, FlowCounts, FlowState, JobId, JobRecord, JobSpec, JobState,
    Keep, Metadata, ParentEnvelope, RawJson, Retention, TraceContext,
};

use super::job::{CHILD, KEYED, TERMINAL, part};
use super::{Broken, Reader, ledger};

/// The texts that together are a job.
#[derive(Clone, Copy, Default)]
pub(crate) struct StoredJob<'a> {
    /// `P:job:<id>`.
    pub(crate) job: &'a [u8],
    /// Its field in `P:live`.
    pub(crate) live: Option<&'a [u8]>,
    /// `P:end:<id>`.
    pub(crate) end: Option<&'a [u8]>,
    /// Its field in `P:progress`.
    pub(crate) progress: Option<&'a [u8]>,
    /// Its field in `P:flows`.
    pub(crate) flow: Option<&'a [u8]>,
}

/// Reads a job; the second part is its last ledger entry, if the job is over.
pub(crate) fn record(
    id: &JobId,
    stored: StoredJob<'_>,
) -> Result<(JobRecord, Option<AttemptRecord>), Broken> {
    let mut record = head_and_tail(id, stored.job)?;
    let mut last = None;
    match (stored.live, stored.end) {
        (Some([letter]), _) => record.state = state(*letter)?,
        (Some(live), _) => read_live(&mut record, live)?,
        (None, Some(end)) => last = Some(read_end(&mut record, end)?),
        (None, None) => {}
    }
    record.progress = stored
        .progress
        .map(utf8)
        .transpose()?
        .map(json)
        .transpose()?;
    record.flow = stored.flow.map(flow).transpose()?;
    Ok((record, last))
}

pub(super) fn json(text: &str) -> Result<RawJson, Broken> {
    RawJson::parse(text).map_err(|_| Broken("a text that should be JSON is not"))
}

fn utf8(bytes: &[u8]) -> Result<&str, Broken> {
    Reader::new(bytes).rest()
}

/// The state that a letter stands for.
pub(crate) fn state(letter: u8) -> Result<JobState, Broken> {
    Ok(match letter {
        b'w' => JobState::Waiting,
        b'd' => JobState::Delayed,
        b'a' => JobState::Active,
        b'p' => JobState::WaitingChildren,
        b'c' => JobState::Completed,
        b'f' => JobState::Failed,
        b'x' => JobState::Cancelled,
        _ => return Err(Broken("its state is unknown")),
    })
}

fn head_and_tail(id: &JobId, bytes: &[u8]) -> Result<JobRecord, Broken> {
    let mut reader = Reader::new(bytes);
    let _seq = reader.u48()?;
    let enqueued_at = reader.instant()?;
    let run_at = reader.instant()?;
    let _nonce = reader.u48()?;
    let mut kind = reader.nested()?;
    let priority = (kind.u32()? ^ (1 << 31)).cast_signed();
    let (queue, name) = (kind.text()?, kind.text()?);
    let keep = keep(&mut kind)?;
    let (dedupe_key, parent) = extra(reader.nested()?)?;
    let attempts_max = reader.u32()?;
    let parts = reader.u8()?;
    let has = |bit| parts & bit != 0;
    let backoff = backoff(&mut reader, parts)?;
    let timeout = has(part::TIMEOUT).then(|| reader.duration()).transpose()?;
    let trace = has(part::TRACE).then(|| trace(&mut reader)).transpose()?;
    let metadata = match has(part::METADATA) {
        true => metadata(&mut reader)?,
        false => Metadata::new(),
    };
    Ok(JobRecord {
        id: id.clone(),
        spec: JobSpec {
            name: name.into(),
            queue: queue.into(),
            payload: json(reader.rest()?)?,
            metadata,
            priority,
            attempts_max,
            backoff,
            keep,
            timeout,
        },
        state: match run_at > enqueued_at {
            true => JobState::Delayed,
            false => JobState::Waiting,
        },
        attempts_made: 0,
        attempts_recorded: 0,
        stalled_count: 0,
        cancel_requested: false,
        dedupe_key,
        trace,
        parent,
        flow: None,
        run_at,
        enqueued_at,
        processed_at: None,
        finished_at: None,
        exit: None,
        failed_reason: None,
        progress: None,
    })
}

fn keep(kind: &mut Reader<'_>) -> Result<Option<Keep>, Broken> {
    let bits = kind.u8()?;
    if bits & 64 == 0 {
        return Ok(None);
    }
    let mut retentions = [None; 3];
    for (place, retention) in retentions.iter_mut().enumerate() {
        let mask = bits >> (2 * place) & 3;
        let count = (mask & 1 != 0).then(|| kind.u32()).transpose()?;
        let age = (mask & 2 != 0).then(|| kind.duration()).transpose()?;
        if mask != 0 {
            *retention = Some(Retention { count, age });
        }
    }
    debug_assert_eq!(TERMINAL[0], JobState::Completed);
    let [completed, failed, cancelled] = retentions;
    Ok(Some(Keep {
        completed,
        failed,
        cancelled,
    }))
}

pub(super) fn extra(
    mut reader: Reader<'_>,
) -> Result<(Option<DedupeKey>, Option<ParentEnvelope>), Broken> {
    if reader.is_empty() {
        return Ok((None, None));
    }
    let bits = reader.u8()?;
    let key = (bits & KEYED != 0).then(|| reader.text()).transpose()?;
    let parent = (bits & CHILD != 0)
        .then(|| parent(&mut reader))
        .transpose()?;
    Ok((key.map(DedupeKey::from), parent))
}

fn parent(reader: &mut Reader<'_>) -> Result<ParentEnvelope, Broken> {
    Ok(ParentEnvelope {
        flow_name: reader.text()?.into(),
        flow_id: reader.text()?.into(),
        manifest: reader.text()?.into(),
        child_key: reader.text()?.into(),
        parent_store: reader.text()?.into(),
        depth: reader.u32()?,
    })
}

fn backoff(reader: &mut Reader<'_>, parts: u8) -> Result<Option<Backoff>, Broken> {
    let has = |bit| parts & bit != 0;
    if has(part::FIXED) {
        let delay = reader.duration()?;
        return Ok(Some(Backoff::Fixed { delay }));
    }
    if !has(part::EXPONENTIAL) {
        return Ok(None);
    }
    Ok(Some(Backoff::Exponential {
        delay: reader.duration()?,
        factor: reader.f64()?,
        max: has(part::LONGEST).then(|| reader.duration()).transpose()?,
        jitter: has(part::JITTER).then(|| reader.f64()).transpose()?,
    }))
}

fn trace(reader: &mut Reader<'_>) -> Result<TraceContext, Broken> {
    let (trace_id, span_id) = (reader.long_text()?.into(), reader.long_text()?.into());
    let flags = reader.u8()?;
    Ok(TraceContext {
        trace_id,
        span_id,
        sampled: flags & 1 != 0,
        delayed: flags & 2 != 0,
    })
}

fn metadata(reader: &mut Reader<'_>) -> Result<Metadata, Broken> {
    let mut metadata = Metadata::new();
    for _ in 0..reader.u32()? {
        metadata.insert(reader.long_text()?.into(), reader.long_text()?.into());
    }
    Ok(metadata)
}

fn read_live(record: &mut JobRecord, bytes: &[u8]) -> Result<(), Broken> {
    let mut reader = Reader::new(bytes);
    record.state = state(reader.u8()?)?;
    let _seq = reader.u48()?;
    record.run_at = reader.instant()?;
    record.processed_at = reader.optional_instant()?;
    record.attempts_made = reader.u32()?;
    record.attempts_recorded = reader.u32()?;
    record.stalled_count = reader.u32()?;
    record.cancel_requested = reader.u8()? & 1 != 0;
    Ok(())
}

fn read_end(record: &mut JobRecord, bytes: &[u8]) -> Result<AttemptRecord, Broken> {
    let mut reader = Reader::new(bytes);
    record.state = state(reader.u8()?)?;
    let _seq = reader.u48()?;
    record.run_at = reader.instant()?;
    record.processed_at = reader.optional_instant()?;
    let finished_at = reader.instant()?;
    record.finished_at = Some(finished_at);
    record.attempts_made = reader.u32()?;
    record.attempts_recorded = reader.u32()?;
    record.stalled_count = reader.u32()?;
    let _last_acked = reader.text()?;
    let outcome = ledger::outcome(reader.u8()?)?;
    let flags = reader.u8()?;
    let has = |bit| flags & bit != 0;
    let reason = reader.text()?;
    record.failed_reason = has(8).then(|| reason.to_owned());
    let exit = has(2).then(|| json(reader.rest()?)).transpose()?;
    record.exit = exit.clone().filter(|_| has(1));
    Ok(AttemptRecord {
        attempt: record.attempts_recorded,
        started_at: record.processed_at.filter(|_| has(4)),
        finished_at,
        outcome,
        exit,
    })
}

fn flow(bytes: &[u8]) -> Result<FlowState, Broken> {
    let mut reader = Reader::new(bytes);
    let manifest = reader.text()?.into();
    let fail_fast = reader.u8()? & 1 != 0;
    let mut count = || reader.u48();
    Ok(FlowState {
        manifest,
        fail_fast,
        counts: FlowCounts {
            pending: count()?,
            completed: count()?,
            failed: count()?,
            cancelled: count()?,
        },
    })
}

#[cfg(test)]
mod tests;
