//! Cancelling: what waits ends at once, what runs is told by its heartbeat.

use std::collections::HashSet;
use std::sync::Arc;

use mq_core::validate::MAX_BATCH;
use mq_core::{Cancelled, JobId, JobState, Result, StoreError};

use crate::pool::Failure;
use crate::rows::{Columns, Read, read_all, state};
use crate::statement::clock;
use crate::store::Inner;
use crate::terminal::finish;
use crate::wake::Topic;

/// Cancels the jobs of `$2`, and tells of each what became of it: `ended`,
/// `requested`, `unknown`, its state if that is terminal, or `moved` if it has
/// to be looked for again.
///
/// A parked parent's flow is locked before the parent, as for reports, and
/// closed: what is still pending is cancelled, and owed.
const CANCEL: &str = concat!(
    "WITH ",
    clock!(),
    ", ready AS (
        DELETE FROM $mq_ready s USING unnest($2::text[]) AS i(id) WHERE s.job_id = i.id
        RETURNING s.*
    ),
    delayed AS (
        DELETE FROM $mq_delayed s USING unnest($2::text[]) AS i(id) WHERE s.job_id = i.id
        RETURNING s.*
    ),
    flows AS MATERIALIZED (
        SELECT w.flow_id FROM unnest($2::text[]) AS i(id) JOIN $mq_flow w ON w.flow_id = i.id
        ORDER BY w.flow_id
        FOR UPDATE OF w
    ),
    parked AS (
        DELETE FROM $mq_parked s USING flows w WHERE s.job_id = w.flow_id RETURNING s.*
    ),
    closed AS (
        UPDATE $mq_flow w SET cancelled = w.cancelled + w.pending, owed = w.owed + w.pending,
            pending = 0, closed_at = (SELECT now FROM clock), reconcile_at = NULL,
            cascade_at = CASE WHEN w.owed + w.pending > 0 THEN (SELECT now FROM clock) END
        FROM parked p WHERE w.flow_id = p.job_id
    ),
    flagged AS (
        UPDATE $mq_active s SET cancel_requested = true FROM unnest($2::text[]) AS i(id)
        WHERE s.job_id = i.id
        RETURNING s.job_id
    ),
    ended AS MATERIALIZED (
        SELECT s.job_id, s.queue, s.name, 'cancelled' AS state, 'cancelled' AS outcome,
            NULL::json AS exit, NULL::json AS run_exit, NULL::text AS failed_reason, s.run_at,
            s.attempts_made, s.attempts_recorded + 1 AS attempts_recorded, s.stalled_count,
            s.processed_at, false AS closed_run, s.last_acked, s.progress, s.watched, s.has_flow,
            j.keep IS NOT NULL AS has_keep, j.parent IS NOT NULL AS has_parent,
            array_position($2::text[], s.job_id) AS place
        FROM (
            SELECT * FROM ready UNION ALL SELECT * FROM delayed UNION ALL SELECT * FROM parked
        ) AS s JOIN $mq_job j ON j.id = s.job_id
    ),
    ",
    finish!(),
    "
    SELECT CASE
            WHEN e.job_id IS NOT NULL THEN 'ended'
            WHEN i.id IN (SELECT job_id FROM flagged) THEN 'requested'
            WHEN f.job_id IS NOT NULL THEN f.state
            WHEN j.id IS NULL THEN 'unknown'
            ELSE 'moved'
        END,
        coalesce(e.watched, false), coalesce(e.has_keep, false)
    FROM unnest($2::text[]) WITH ORDINALITY AS i(id, place)
        LEFT JOIN ended e ON e.place = i.place
        LEFT JOIN $mq_job j ON j.id = i.id
        LEFT JOIN $mq_finished f ON f.job_id = i.id
    ORDER BY i.place"
);

/// What became of a cancel.
enum Outcome {
    Ended { watched: bool, has_keep: bool },
    Requested,
    Over(JobState),
    Unknown,
    Moved,
}

impl Outcome {
    fn read(columns: &mut Columns<'_>) -> Read<Self> {
        let what = columns.text()?;
        let (watched, has_keep) = (columns.flag()?, columns.flag()?);
        Ok(match what.as_str() {
            "ended" => Self::Ended { watched, has_keep },
            "requested" => Self::Requested,
            "unknown" => Self::Unknown,
            "moved" => Self::Moved,
            other => Self::Over(state(other)?),
        })
    }
}

impl Inner {
    pub(super) async fn cancel_many(
        self: &Arc<Self>,
        ids: &[JobId],
    ) -> Result<Vec<Result<Cancelled>>> {
        let mut answers = Vec::with_capacity(ids.len());
        for page in pages(ids) {
            let mut page_answers: Vec<Option<Result<Cancelled>>> = vec![None; page.len()];
            loop {
                let open: Vec<usize> = (0..page.len())
                    .filter(|place| page_answers[*place].is_none())
                    .collect();
                if open.is_empty() {
                    break;
                }
                let ids: Vec<&JobId> = open.iter().map(|place| &page[*place]).collect();
                let outcomes = self.repeatedly(|| self.cancel_page(&ids)).await?;
                let mut ends = Vec::new();
                for (place, outcome) in open.into_iter().zip(outcomes) {
                    let id = page[place].clone();
                    page_answers[place] = match outcome {
                        Outcome::Ended { watched, .. } => {
                            if watched {
                                ends.push(Topic::Job(id));
                            }
                            Some(Ok(Cancelled::Ended))
                        }
                        Outcome::Requested => Some(Ok(Cancelled::Requested)),
                        Outcome::Unknown => Some(Err(StoreError::NotFound { id })),
                        Outcome::Over(state) => Some(Err(StoreError::IllegalState {
                            operation: "cancel",
                            id,
                            state,
                            required: "waiting, delayed, active or waiting-children",
                        })),
                        Outcome::Moved => None,
                    };
                }
                self.announce(ends);
            }
            answers.extend(page_answers.into_iter().flatten());
        }
        Ok(answers)
    }

    async fn cancel_page(&self, ids: &[&JobId]) -> Result<Vec<Outcome>, Failure> {
        let mut transaction = self.begin().await?;
        let texts: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let rows = transaction.rows(&self.timed(CANCEL).bind(texts)).await?;
        let outcomes = read_all(&rows, Outcome::read)?;
        let with_keep = ids.iter().zip(&outcomes).filter_map(|(id, outcome)| {
            matches!(outcome, Outcome::Ended { has_keep: true, .. }).then_some(*id)
        });
        let with_keep: Vec<&JobId> = with_keep.collect();
        if !with_keep.is_empty() {
            self.prune(&mut transaction, &with_keep, MAX_BATCH).await?;
        }
        transaction.commit().await?;
        Ok(outcomes)
    }
}

/// Cuts ids into pages in which none comes twice: the second is a cancel of its own.
fn pages(ids: &[JobId]) -> Vec<&[JobId]> {
    let mut pages = Vec::new();
    let mut seen: HashSet<&JobId> = HashSet::new();
    let mut start = 0;
    for (at, id) in ids.iter().enumerate() {
        if seen.len() == MAX_BATCH as usize || seen.contains(id) {
            pages.push(&ids[start..at]);
            start = at;
            seen.clear();
        }
        seen.insert(id);
    }
    if start < ids.len() {
        pages.push(&ids[start..]);
    }
    pages
}
