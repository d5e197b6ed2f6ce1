//! What a job carries: its spec, its policies, where it comes from.

use super::json::json;
use super::number::{duration, nonzero};
use super::text::{name, no_nul};
use super::{
    Limits, MAX_METADATA, Validated, child_key, job_id, job_name, lock_token, queue_name, store_key,
};
use crate::error::{InvalidInput, Rule, shortened};
use crate::record::{
    Backoff, Dedupe, JobSpec, Keep, Metadata, ParentEnvelope, Retention, TraceContext,
};

pub(super) fn job_spec(spec: &JobSpec, limits: &Limits) -> Validated {
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

pub(super) fn metadata(labels: &Metadata) -> Validated {
    let mut bytes = 0;
    for (key, value) in labels {
        if key.is_empty() {
            return Err(InvalidInput::new("metadata key", key, Rule::Empty));
        }
        no_nul("metadata key", key)?;
        if value.contains('\0') {
            return Err(InvalidInput::new(
                format!("metadata {}", shortened(&format!("{key:?}"))),
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

pub(super) fn backoff(policy: &Backoff) -> Validated {
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

pub(super) fn keep(policy: &Keep) -> Validated {
    [policy.completed, policy.failed, policy.cancelled]
        .into_iter()
        .flatten()
        .try_for_each(|Retention { age, .. }| age.map_or(Ok(()), |age| duration("keep age", age)))
}

pub(super) fn dedupe(policy: &Dedupe) -> Validated {
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

pub(super) fn trace(context: &TraceContext) -> Validated {
    no_nul("trace id", &context.trace_id)?;
    no_nul("span id", &context.span_id)
}

pub(super) fn parent(envelope: &ParentEnvelope) -> Validated {
    name("flow name", &envelope.flow_name)?;
    job_id(&envelope.flow_id)?;
    lock_token(&envelope.manifest)?;
    child_key(&envelope.child_key)?;
    store_key(&envelope.parent_store)
}
