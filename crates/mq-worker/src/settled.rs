//! Runs whose ends the store knows already, as their handlers told it: inside
//! transactions of their own, together with what they wrote.

use std::collections::HashSet;
use std::sync::Arc;

use mq_core::{JobId, JobRecord, JobState, Result};
use tracing::debug;

use crate::run::Run;
use crate::runtime::Shared;

/// Which of these runs, that hold no lock any more, completed their jobs.
///
/// # Errors
/// As the store's.
pub(crate) async fn completed(shared: &Shared, runs: &[&Arc<Run>]) -> Result<HashSet<JobId>> {
    let ids: Vec<JobId> = runs.iter().map(|run| run.job.id.clone()).collect();
    let link = &shared.link;
    let records = link.call("get_jobs", link.store.get_jobs(&ids)).await?;
    let ended = runs.iter().zip(records).filter(|(run, record)| {
        let completed = record.as_ref().is_ok_and(|record| {
            let record = record.as_ref();
            record.is_some_and(|record| is_end_of(record, run))
        });
        if completed {
            debug!(job_id = %run.job.id, "the handler had completed the job itself");
        }
        completed
    });
    Ok(ended.map(|(run, _)| run.job.id.clone()).collect())
}

/// Whether a job has completed, and by this very run.
fn is_end_of(record: &JobRecord, run: &Run) -> bool {
    record.state == JobState::Completed
        && record.processed_at == run.job.processed_at
        && record.attempts_recorded == run.job.attempts_recorded.saturating_add(1)
}
