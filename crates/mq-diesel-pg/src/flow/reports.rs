//! Reports: children's ends, as their parents learn of them.

use std::sync::Arc;

use mq_core::validate::MAX_BATCH;
use mq_core::{JobId, Report, ReportApplied, ReportOutcome, Result};

use crate::pool::Failure;
use crate::rows::{Columns, Read, read_all};
use crate::statement::{Statement, clock};
use crate::store::Inner;
use crate::terminal::finish;
use crate::wake::Topic;

/// Records a page of reports: of each flow first all rows, then at the most
/// one settle.
///
/// Flows are locked first, in the order of their ids; only who holds a flow's
/// lock changes its rows or takes its parent from where it is parked. `$8`:
/// whether the transaction applies the `keep` of parents that end; without,
/// a page that could end one with a `keep` does nothing and says so.
const RECORD: &str = concat!(
    "WITH ",
    clock!(),
    ", reports AS MATERIALIZED (
        SELECT i.flow_id COLLATE \"C\" AS flow_id, i.manifest COLLATE \"C\" AS manifest,
            i.child_key COLLATE \"C\" AS child_key, i.outcome, i.exit, i.reason, i.place
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
            WITH ORDINALITY AS i(flow_id, manifest, child_key, outcome, exit, reason, place)
    ),
    flows AS MATERIALIZED (
        SELECT w.flow_id, w.manifest, w.fail_fast, w.closed_at
        FROM $mq_flow w
        WHERE w.flow_id = ANY ($2::text[])
        ORDER BY w.flow_id
        FOR UPDATE
    ),
    may AS MATERIALIZED (
        SELECT $8 OR NOT EXISTS (
            SELECT FROM flows w JOIN $mq_job j ON j.id = w.flow_id
            WHERE w.fail_fast AND w.closed_at IS NULL AND j.keep IS NOT NULL
        ) AS go_on
    ),
    first AS MATERIALIZED (
        SELECT DISTINCT ON (r.flow_id, r.child_key) r.*
        FROM reports r JOIN flows w ON w.flow_id = r.flow_id AND w.manifest = r.manifest
        WHERE w.closed_at IS NULL AND (SELECT go_on FROM may)
        ORDER BY r.flow_id, r.child_key, r.place
    ),
    applied AS (
        UPDATE $mq_flow_children c SET status = r.outcome, exit = r.exit::json,
            failed_reason = r.reason, cascaded = true
        FROM first r
        WHERE c.flow_id = r.flow_id AND c.manifest = r.manifest AND c.child_key = r.child_key
            AND c.status = 'pending'
        RETURNING c.flow_id, c.child_key, c.status, r.place
    ),
    tallied AS MATERIALIZED (
        SELECT flow_id, count(*) AS reported,
            count(*) FILTER (WHERE status = 'completed') AS completed,
            count(*) FILTER (WHERE status = 'failed') AS failed,
            count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
            min(place) FILTER (WHERE status = 'failed') AS failure,
            max(place) AS last
        FROM applied GROUP BY flow_id
    ),
    counted AS (
        UPDATE $mq_flow w SET
            pending = CASE WHEN w.fail_fast AND t.failure IS NOT NULL THEN 0
                ELSE w.pending - t.reported END,
            completed = w.completed + t.completed,
            failed = w.failed + t.failed,
            cancelled = w.cancelled + t.cancelled
                + CASE WHEN w.fail_fast AND t.failure IS NOT NULL THEN w.pending - t.reported
                    ELSE 0 END,
            owed = w.owed
                + CASE WHEN w.fail_fast AND t.failure IS NOT NULL THEN w.pending - t.reported
                    ELSE 0 END,
            closed_at = CASE WHEN w.fail_fast AND t.failure IS NOT NULL AND w.pending > t.reported
                THEN (SELECT now FROM clock) END,
            cascade_at = CASE WHEN w.fail_fast AND t.failure IS NOT NULL AND w.pending > t.reported
                THEN (SELECT now FROM clock) END,
            reconcile_at = CASE WHEN w.pending > t.reported
                AND NOT (w.fail_fast AND t.failure IS NOT NULL) THEN w.reconcile_at END
        FROM tallied t WHERE w.flow_id = t.flow_id
        RETURNING w.flow_id, w.pending, CASE WHEN w.fail_fast THEN t.failure END AS failure,
            t.last
    ),
    settled AS MATERIALIZED (
        SELECT flow_id, failure, coalesce(failure, last) AS place FROM counted WHERE pending = 0
    ),
    freed AS (
        DELETE FROM $mq_parked s USING settled d WHERE s.job_id = d.flow_id
        RETURNING s.*, d.failure, d.place
    ),
    resumed AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, (SELECT now FROM clock), attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow
        FROM freed WHERE failure IS NULL
    ),
    ended AS MATERIALIZED (
        SELECT s.job_id, s.queue, s.name, 'failed' AS state, 'failed' AS outcome,
            NULL::json AS exit, NULL::json AS run_exit,
            'flow child \"' || r.child_key || '\" failed' AS failed_reason, s.run_at,
            s.attempts_made, s.attempts_recorded + 1 AS attempts_recorded, s.stalled_count,
            s.processed_at, false AS closed_run, s.last_acked, s.progress, s.watched, s.has_flow,
            j.keep IS NOT NULL AS has_keep, j.parent IS NOT NULL AS has_parent, s.place
        FROM freed s JOIN reports r ON r.place = s.failure JOIN $mq_job j ON j.id = s.job_id
    ),
    ",
    finish!(),
    "
    SELECT (SELECT go_on FROM may), a.place IS NOT NULL, s.place IS NOT NULL, r.flow_id, s.queue,
        s.failure IS NOT NULL, coalesce(s.watched, false), coalesce(e.has_keep, false)
    FROM reports r
        LEFT JOIN applied a ON a.place = r.place
        LEFT JOIN freed s ON s.place = r.place
        LEFT JOIN ended e ON e.place = r.place
    ORDER BY r.place"
);

/// What a report did.
struct Done {
    went_on: bool,
    answer: ReportApplied,
    flow_id: JobId,
    /// The parent's, if the report settled it.
    queue: Option<String>,
    ends: bool,
    watched: bool,
    has_keep: bool,
}

impl Done {
    fn read(columns: &mut Columns<'_>) -> Read<Self> {
        Ok(Self {
            went_on: columns.flag()?,
            answer: ReportApplied {
                applied: columns.flag()?,
                parent_settled: columns.flag()?,
            },
            flow_id: columns.text()?.into(),
            queue: columns.maybe_text()?,
            ends: columns.flag()?,
            watched: columns.flag()?,
            has_keep: columns.flag()?,
        })
    }

    /// Who is to be told.
    fn topic(self) -> Option<Topic> {
        match (self.queue, self.ends) {
            (Some(queue), false) => Some(Topic::Queue(queue.into())),
            (Some(_), true) if self.watched => Some(Topic::Job(self.flow_id)),
            _ => None,
        }
    }
}

impl Inner {
    pub(super) async fn record_reports(
        self: &Arc<Self>,
        reports: &[Report],
    ) -> Result<Vec<ReportApplied>> {
        let mut answers = Vec::with_capacity(reports.len());
        for page in reports.chunks(MAX_BATCH as usize) {
            let rows = self.query(&self.record_statement(page, false)).await?;
            let mut done = read_all(&rows, Done::read)?;
            if done.iter().any(|report| !report.went_on) {
                done = self.repeatedly(|| self.record_with_keeps(page)).await?;
            }
            answers.extend(done.iter().map(|report| report.answer));
            self.announce(done.into_iter().filter_map(Done::topic).collect());
        }
        Ok(answers)
    }

    async fn record_with_keeps(&self, page: &[Report]) -> Result<Vec<Done>, Failure> {
        let mut transaction = self.begin().await?;
        let rows = transaction.rows(&self.record_statement(page, true)).await?;
        let done = read_all(&rows, Done::read)?;
        let with_keep = done.iter().filter(|report| report.has_keep);
        let with_keep: Vec<&JobId> = with_keep.map(|report| &report.flow_id).collect();
        if !with_keep.is_empty() {
            self.prune(&mut transaction, &with_keep, MAX_BATCH).await?;
        }
        transaction.commit().await?;
        Ok(done)
    }

    fn record_statement<'a>(&'a self, page: &'a [Report], with_keeps: bool) -> Statement<'a> {
        let outcome = |report: &Report| match report.outcome {
            ReportOutcome::Completed => "completed",
            ReportOutcome::Failed => "failed",
            ReportOutcome::Cancelled => "cancelled",
        };
        let texts = |of: fn(&'a Report) -> &'a str| page.iter().map(of).collect::<Vec<_>>();
        let maybe = |of: fn(&'a Report) -> Option<&'a str>| page.iter().map(of).collect::<Vec<_>>();
        self.timed(RECORD)
            .bind(texts(|report| &report.flow_id))
            .bind(texts(|report| &report.manifest))
            .bind(texts(|report| &report.child_key))
            .bind(page.iter().map(outcome).collect::<Vec<_>>())
            .bind(maybe(|report| {
                report.exit.as_ref().map(mq_core::RawJson::get)
            }))
            .bind(maybe(|report| report.failed_reason.as_deref()))
            .bind(with_keeps)
    }
}
