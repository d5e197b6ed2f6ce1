//! Stalls: locks that nobody extended, and what becomes of their jobs.

use std::sync::Arc;

use mq_core::{Recovered, Result, StallOutcome, Stalled};

use super::Ended;
use crate::pool::Failure;
use crate::rows::{read_all, read_one};
use crate::statement::clock;
use crate::store::Inner;
use crate::terminal::finish;

const ANY_EXPIRED: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT EXISTS (
        SELECT FROM $mq_active WHERE lock_expires_at <= (SELECT now FROM clock)
    )"
);

/// Takes back `$3` jobs whose locks have expired, the longest expired first;
/// `$2` stalls are allowed. Rows that another transaction holds are left to it.
const RECOVER: &str = concat!(
    "WITH ",
    clock!(),
    ", expired AS MATERIALIZED (
        SELECT job_id FROM $mq_active
        WHERE lock_expires_at <= (SELECT now FROM clock)
        ORDER BY lock_expires_at, job_id
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ),
    gone AS (
        DELETE FROM $mq_active a USING expired e WHERE a.job_id = e.job_id
        RETURNING a.*, a.stalled_count + 1 AS stalls,
            a.cancel_requested OR a.stalled_count + 1 > $2 AS ends
    ),
    ended AS MATERIALIZED (
        SELECT job_id, queue, name,
            CASE WHEN cancel_requested THEN 'cancelled' ELSE 'failed' END AS state,
            CASE WHEN cancel_requested THEN 'cancelled' ELSE 'stalled' END AS outcome,
            NULL::json AS exit, NULL::json AS run_exit,
            CASE WHEN NOT cancel_requested THEN 'stalled ' || stalls || ' times, at most ' || $2
                || ' allowed: its worker died or lost touch with the store each time'
            END AS failed_reason,
            run_at, attempts_made, attempts_recorded + 1 AS attempts_recorded,
            CASE WHEN cancel_requested THEN stalled_count ELSE stalls END AS stalled_count,
            processed_at, true AS closed_run, last_acked, progress, watched, has_flow, has_keep,
            has_parent, row_number() OVER (ORDER BY lock_expires_at, job_id) AS place
        FROM gone WHERE ends
    ),
    ",
    finish!(),
    ",
    back AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, run_at, attempts_made, attempts_recorded + 1,
            stalls, processed_at, last_acked, progress, watched, has_flow
        FROM gone WHERE NOT ends
    ),
    noted AS (
        INSERT INTO $mq_attempt (job_id, attempt, started_at, finished_at, outcome)
        SELECT job_id, attempts_recorded + 1, processed_at, (SELECT now FROM clock), 'stalled'
        FROM gone WHERE NOT ends
    ),
    forgotten AS (
        DELETE FROM $mq_attempt t USING gone g
        WHERE NOT g.ends AND g.attempts_recorded >= 200 AND t.job_id = g.job_id
            AND t.attempt <= g.attempts_recorded - 199
    )
    SELECT row_number() OVER (ORDER BY g.lock_expires_at, g.job_id), g.job_id, g.queue, g.ends,
        g.watched, g.has_keep, EXISTS (
            SELECT FROM $mq_queue_control c WHERE c.queue = g.queue AND c.max_active IS NOT NULL
        ), g.name, g.cancel_requested
    FROM gone g
    ORDER BY g.lock_expires_at, g.job_id"
);

impl Inner {
    pub(super) async fn recover_stalled(
        self: &Arc<Self>,
        max_stalled_count: u32,
        limit: u32,
    ) -> Result<Recovered> {
        let any = self.query(&self.timed(ANY_EXPIRED)).await?;
        if !read_one(&any, |columns| columns.flag())? {
            return Ok(Recovered::default());
        }
        let (runs, recovered) = self
            .repeatedly(|| self.recover_page(max_stalled_count, limit))
            .await?;
        self.announce_runs(&runs);
        Ok(recovered)
    }

    async fn recover_page(
        &self,
        max_stalled_count: u32,
        limit: u32,
    ) -> Result<(Vec<Ended>, Recovered), Failure> {
        let mut transaction = self.begin().await?;
        let statement = self.timed(RECOVER).bind(max_stalled_count).bind(limit);
        let rows = transaction.rows(&statement).await?;
        let runs = super::read_ended(&rows)?;
        let stalled = read_all(&rows, |columns| {
            let run = Ended::read(columns)?;
            let name = columns.text()?;
            let cancelled = columns.flag()?;
            let outcome = if run.ends {
                StallOutcome::Failed
            } else {
                StallOutcome::Requeued
            };
            Ok((!cancelled).then(|| Stalled {
                id: run.id,
                name: name.into(),
                queue: run.queue,
                outcome,
            }))
        })?;
        self.apply_keeps(&mut transaction, &runs).await?;
        let more = transaction.rows(&self.timed(ANY_EXPIRED)).await?;
        let more = read_one(&more, |columns| columns.flag())?;
        transaction.commit().await?;
        let recovered = Recovered {
            stalled: stalled.into_iter().flatten().collect(),
            more,
        };
        Ok((runs, recovered))
    }
}
