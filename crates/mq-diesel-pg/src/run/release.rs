//! Release: active jobs go back to their old place, as if never claimed.

use std::collections::HashSet;
use std::sync::Arc;

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Lock, Result, StoreError};

use super::{Ended, MISSES, Miss};
use crate::pool::Failure;
use crate::rows::read_all;
use crate::statement::clock;
use crate::store::Inner;
use crate::terminal::finish;

/// Puts the jobs of `$2` under the tokens `$3` back, or ends them if a cancel
/// is pending.
const RELEASE: &str = concat!(
    "WITH ",
    clock!(),
    ", gone AS (
        DELETE FROM $mq_active a
        USING unnest($2::text[], $3::text[], $4::bigint[]) AS i(id, held_token, place)
        WHERE a.job_id = i.id AND a.token = i.held_token
        RETURNING a.*, i.place
    ),
    ended AS MATERIALIZED (
        SELECT job_id, queue, name, 'cancelled' AS state, 'cancelled' AS outcome,
            NULL::json AS exit, NULL::json AS run_exit, NULL::text AS failed_reason, run_at,
            attempts_made, attempts_recorded + 1 AS attempts_recorded, stalled_count,
            processed_at, true AS closed_run, last_acked, progress, watched, has_flow, has_keep,
            has_parent, place
        FROM gone WHERE cancel_requested
    ),
    ",
    finish!(),
    ",
    back AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, run_at, attempts_made, attempts_recorded,
            stalled_count, processed_at, last_acked, progress, watched, has_flow
        FROM gone WHERE NOT cancel_requested
    )
    SELECT g.place, g.job_id, g.queue, g.cancel_requested, g.watched, g.has_keep, EXISTS (
        SELECT FROM $mq_queue_control c WHERE c.queue = g.queue AND c.max_active IS NOT NULL
    )
    FROM gone g"
);

impl Inner {
    pub(super) async fn release_many(self: &Arc<Self>, locks: &[Lock]) -> Result<Vec<Result<()>>> {
        let mut answers = Vec::with_capacity(locks.len());
        for page in locks.chunks(MAX_BATCH as usize) {
            let mut page_answers: Vec<Option<Result<()>>> = page
                .iter()
                .map(|lock| validate::lock(lock).err().map(|error| Err(error.into())))
                .collect();
            // Of equal ones the first lets go of the lock.
            let mut seen = HashSet::with_capacity(page.len());
            let mut open: Vec<(usize, &Lock)> = page
                .iter()
                .enumerate()
                .filter(|(place, lock)| page_answers[*place].is_none() && seen.insert(*lock))
                .collect();
            open.sort_unstable_by(|one, other| one.1.id.cmp(&other.1.id));
            if !open.is_empty() {
                let ended = self.repeatedly(|| self.release_page(&open)).await?;
                for run in &ended {
                    page_answers[run.place] = Some(Ok(()));
                }
                self.announce_runs(&ended);
                self.explain_losses(page, &mut page_answers).await?;
            }
            answers.extend(page_answers.into_iter().flatten());
        }
        Ok(answers)
    }

    async fn release_page(&self, open: &[(usize, &Lock)]) -> Result<Vec<Ended>, Failure> {
        let mut transaction = self.begin().await?;
        let place = |(place, _): &(usize, &Lock)| i64::try_from(*place).unwrap_or(i64::MAX);
        let statement = self
            .timed(RELEASE)
            .bind(
                open.iter()
                    .map(|(_, lock)| lock.id.as_str())
                    .collect::<Vec<_>>(),
            )
            .bind(
                open.iter()
                    .map(|(_, lock)| lock.token.as_str())
                    .collect::<Vec<_>>(),
            )
            .bind(open.iter().map(place).collect::<Vec<_>>());
        let ended = super::read_ended(&transaction.rows(&statement).await?)?;
        self.apply_keeps(&mut transaction, &ended).await?;
        transaction.commit().await?;
        Ok(ended)
    }

    async fn explain_losses(
        &self,
        page: &[Lock],
        answers: &mut [Option<Result<()>>],
    ) -> Result<()> {
        let missed: Vec<(usize, &Lock)> = page
            .iter()
            .enumerate()
            .filter(|(place, _)| answers[*place].is_none())
            .collect();
        if missed.is_empty() {
            return Ok(());
        }
        let statement = self
            .statement(MISSES)
            .bind(
                missed
                    .iter()
                    .map(|(_, lock)| lock.id.as_str())
                    .collect::<Vec<_>>(),
            )
            .bind(
                missed
                    .iter()
                    .map(|(_, lock)| lock.token.as_str())
                    .collect::<Vec<_>>(),
            );
        let misses = read_all(&self.query(&statement).await?, Miss::read)?;
        for ((place, lock), miss) in missed.into_iter().zip(misses) {
            answers[place] = Some(Err(match miss {
                Miss::Gone => StoreError::NotFound {
                    id: lock.id.clone(),
                },
                Miss::Held | Miss::AckedBefore | Miss::Lost => lost(lock),
            }));
        }
        Ok(())
    }
}

fn lost(lock: &Lock) -> StoreError {
    StoreError::LockLost {
        id: lock.id.clone(),
    }
}
