//! Jobs that a claim has locked, and that nobody can run: their stored data
//! cannot be decoded.

use std::sync::Arc;

use mq_core::{JobId, LockToken, StoreError};

use crate::rows::Read;
use crate::statement::clock;
use crate::store::Inner;
use crate::terminal::finish;

/// A job that cannot be decoded.
pub(super) struct Undecoded {
    id: JobId,
    /// What is wrong with it.
    detail: String,
}

impl Undecoded {
    pub(super) fn of(error: StoreError) -> Read<Self> {
        match error {
            StoreError::Corrupt { id, detail } => Ok(Self { id, detail }),
            other => Err(other.into()),
        }
    }
}

/// Fails the jobs of `$2`, as long as the token `$4` holds them, for the
/// reasons `$3`. Of their own policies nothing is trusted: they stay until
/// they are removed, and report to a parent only if they say to which.
const FAIL: &str = concat!(
    "WITH ",
    clock!(),
    ", held AS MATERIALIZED (
        SELECT a.job_id, i.reason, i.place
        FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS i(id, reason, place)
            JOIN $mq_active a ON a.job_id = i.id
        WHERE a.token = $4
        ORDER BY a.job_id
        FOR UPDATE OF a
    ),
    gone AS (
        DELETE FROM $mq_active a USING held h WHERE a.job_id = h.job_id AND a.token = $4
        RETURNING a.*, h.reason, h.place
    ),
    ended AS MATERIALIZED (
        SELECT g.job_id, g.queue, g.name, 'failed' AS state, 'failed' AS outcome,
            NULL::json AS exit, NULL::json AS run_exit, g.reason AS failed_reason, g.run_at,
            g.attempts_made, g.attempts_recorded + 1 AS attempts_recorded, g.stalled_count,
            g.processed_at, true AS closed_run, g.last_acked, g.progress, g.watched,
            g.has_flow, false AS has_keep,
            coalesce(num_nulls(j.parent ->> 'flow_name', j.parent ->> 'parent_store',
                j.parent ->> 'flow_id', j.parent ->> 'manifest', j.parent ->> 'child_key') = 0,
                false) AS has_parent,
            g.place
        FROM gone g JOIN $mq_job j ON j.id = g.job_id
    ),
    ",
    finish!(),
    "
    SELECT g.place, g.job_id, g.queue, true, g.watched, false, EXISTS (
            SELECT FROM $mq_queue_control c WHERE c.queue = g.queue AND c.max_active IS NOT NULL
        )
    FROM gone g
    ORDER BY g.place"
);

impl Inner {
    /// Fails jobs that a claim has locked and cannot hand out. If that cannot
    /// be done now, their locks expire: they stall, and are met again.
    pub(super) async fn fail_undecoded(
        self: &Arc<Self>,
        token: &LockToken,
        undecoded: &[Undecoded],
    ) {
        if undecoded.is_empty() {
            return;
        }
        let ids: Vec<&str> = undecoded.iter().map(|job| job.id.as_str()).collect();
        let reasons: Vec<String> = undecoded
            .iter()
            .map(|job| format!("the stored job cannot be decoded: {}", job.detail))
            // Postgres has no text with this character.
            .map(|reason| reason.replace('\0', "\u{fffd}"))
            .collect();
        let statement = self
            .timed(FAIL)
            .bind(ids)
            .bind(reasons.iter().map(String::as_str).collect::<Vec<_>>())
            .bind(&**token);
        let answer = self.query(&statement).await;
        match answer.and_then(|rows| super::read_ended(&rows)) {
            Ok(runs) => self.announce_runs(&runs),
            Err(error) => tracing::warn!(%error, "could not fail jobs that cannot be decoded"),
        }
        for job in undecoded {
            tracing::error!(id = %job.id, detail = job.detail, "a stored job cannot be decoded");
        }
    }
}
