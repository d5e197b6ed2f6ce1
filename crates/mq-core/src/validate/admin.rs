//! What operators change.

use super::number::{duration, nonzero};
use super::text::{name, no_nul};
use super::{Validated, job_name, queue_name, queues};
use crate::error::{InvalidInput, Rule};
use crate::id::{DedupeKey, JobName, QueueName, StoreKey};
use crate::record::{Rate, WorkerRecord};
use crate::store::{Change, QueueSettings};

/// `cancel_by_dedupe`.
pub fn cancel_by_dedupe(job: &JobName, key: &DedupeKey) -> Validated {
    job_name(job)?;
    name("dedupe key", key)
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
    if let Change::Set(most) = settings.rate {
        rate(most)?;
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
