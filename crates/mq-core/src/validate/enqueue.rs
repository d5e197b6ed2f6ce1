//! What may be enqueued.

use super::job::{dedupe, job_spec, parent, trace};
use super::number::duration;
use super::{Limits, Validated, job_id};
use crate::error::InvalidInput;
use crate::record::{NewJob, When};

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
