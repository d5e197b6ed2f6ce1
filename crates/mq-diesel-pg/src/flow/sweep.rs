//! What sweepers have to look after, flow by flow in turn, so that no flow
//! waits behind a giant.

use std::time::Duration;

use mq_core::{CascadeRow, FlowChild, FlowSweepWork, NewJob, ReconcileRow, Result};

use super::PAGE_BYTES;
use crate::enqueue::millis;
use crate::rows::{Columns, Read, read_all};
use crate::statement::{after, clock};
use crate::store::Inner;

/// How many left-over rows a sweep deletes.
const PURGED_AT_ONCE: u32 = 1_000;

/// A page of one kind of work: `$due` is up to when a flow's or a row's instant
/// means that it is due, `$rearmed` what it becomes then.
///
/// It takes flows in line, and of each the rows that were not looked at for
/// the longest, `$3` in all. A flow that it cannot serve to the end goes to the
/// end of the line. Flows that somebody else holds are left to them.
///
/// An instant on a flow may be earlier than its rows' (they were reported
/// since): such a flow is visited in vain, once.
macro_rules! look_after {
    ($kind:literal, $at:literal, $due:literal, $rearmed:expr) => {
        concat!(
            $kind,
            "_locked AS MATERIALIZED (
                SELECT flow_id, manifest, closed_at FROM $mq_flow
                WHERE ", $at, " <= ", $due, "
                ORDER BY ", $at, ", turn, flow_id
                LIMIT $3 + 1
                FOR UPDATE SKIP LOCKED
            ),
            ", $kind, "_flow AS MATERIALIZED (
                SELECT *, row_number() OVER () AS line FROM ", $kind, "_locked
            ),
            ", $kind, "_found AS MATERIALIZED (
                SELECT w.line, w.flow_id, w.manifest, c.child_key, c.look_at, c.bytes
                FROM ", $kind, "_flow w CROSS JOIN LATERAL (
                    SELECT c.child_key, c.look_at,
                        c.payload_bytes AS bytes
                    FROM $mq_flow_children c
                    WHERE c.flow_id = w.flow_id AND c.manifest = w.manifest
                        AND c.status = 'pending' AND NOT c.cascaded AND c.look_at <= ", $due, "
                    ORDER BY c.look_at, c.child_key
                    LIMIT $3 + 1
                ) AS c
                LIMIT $3 + 1
            ),
            ", $kind, "_taken AS MATERIALIZED (
                SELECT * FROM (
                    SELECT *, row_number() OVER in_line AS place, sum(bytes) OVER in_line AS total
                    FROM ", $kind, "_found
                    WINDOW in_line AS (ORDER BY line, look_at, child_key)
                ) AS f
                WHERE place <= $3 AND (place = 1 OR total <= $4 OR '", $kind, "' = 'cascade')
            ),
            ", $kind, "_armed AS (
                UPDATE $mq_flow_children c SET look_at = ", $rearmed, "
                FROM ", $kind, "_taken t
                WHERE c.flow_id = t.flow_id AND c.manifest = t.manifest
                    AND c.child_key = t.child_key AND c.status = 'pending' AND NOT c.cascaded
                    -- Another sweep may have had it since this one looked.
                    AND c.look_at = t.look_at
                RETURNING t.line, c.flow_id, c.manifest, c.child_key, c.store, c.child_job_id,
                    c.spec
            ),
            ", $kind, "_left AS MATERIALIZED (
                SELECT (SELECT count(*) FROM ", $kind, "_found) > (SELECT count(*) FROM ",
                $kind, "_taken) AS rows, (SELECT count(*) FROM ", $kind, "_flow) > $3 AS flows
            ),
            ", $kind, "_rest AS MATERIALIZED (
                SELECT w.flow_id, t.taken, (
                    SELECT c.look_at FROM $mq_flow_children c
                    WHERE c.flow_id = w.flow_id AND c.manifest = w.manifest
                        AND c.status = 'pending' AND NOT c.cascaded
                    ORDER BY c.look_at, c.child_key
                    OFFSET t.taken LIMIT 1
                ) AS next_look
                FROM ", $kind, "_flow w CROSS JOIN LATERAL (
                    SELECT count(*) AS taken FROM ", $kind, "_taken t WHERE t.flow_id = w.flow_id
                ) AS t
                WHERE NOT (SELECT rows FROM ", $kind, "_left)
                    OR w.line <= (SELECT max(line) FROM ", $kind, "_taken)
            ),
            ", $kind, "_again AS (
                UPDATE $mq_flow w SET
                    ", $at, " = CASE
                        WHEN r.next_look <= ", $due, " THEN ", $due, "
                        WHEN r.taken > 0 THEN least(r.next_look, ", $rearmed, ")
                        ELSE r.next_look
                    END,
                    turn = CASE WHEN r.next_look <= ", $due, " THEN nextval('$mq_seq')
                        ELSE w.turn END
                FROM ", $kind, "_rest r WHERE w.flow_id = r.flow_id
            )"
        )
    };
}

/// `$2` is the age in milliseconds, up to which rows rest.
const SWEEP: &str = concat!(
    "WITH ",
    clock!(),
    ", since AS MATERIALIZED (
        SELECT (SELECT now FROM clock) - least($2, 60000000000000) / 1000 * interval '1 second'
            - least($2, 60000000000000) % 1000 * interval '1 millisecond' AS old
    ),
    ",
    look_after!(
        "reconcile",
        "reconcile_at",
        "(SELECT old FROM since)",
        "(SELECT now FROM clock)"
    ),
    ",
    ",
    look_after!(
        "cascade",
        "cascade_at",
        "(SELECT now FROM clock)",
        after!("(SELECT now FROM clock)", "$2")
    ),
    "
    SELECT r.rows OR r.flows OR c.rows OR c.flows, EXISTS (SELECT FROM $mq_flow_purge),
        (SELECT now FROM clock), work.flow_id, work.manifest, work.child_key, work.store,
        work.child_job_id, work.spec, work.closed_at
    FROM reconcile_left r CROSS JOIN cascade_left c
        LEFT JOIN (
            SELECT line, flow_id, manifest, child_key, store, child_job_id, spec,
                NULL::timestamptz AS closed_at
            FROM reconcile_armed
            UNION ALL
            SELECT a.line, a.flow_id, a.manifest, a.child_key, a.store, a.child_job_id, NULL::json,
                w.closed_at
            FROM cascade_armed a JOIN cascade_flow w ON w.line = a.line
        ) AS work ON true
    ORDER BY work.line, work.child_key"
);

/// Deletes rows whose mark is neither their parent's manifest nor that of a
/// live lock on it, `$1` at the most.
const PURGE: &str = "WITH mark AS MATERIALIZED (
        SELECT p.flow_id, p.manifest FROM $mq_flow_purge p
        WHERE NOT EXISTS (
                SELECT FROM $mq_flow w WHERE w.flow_id = p.flow_id AND w.manifest = p.manifest
            ) AND NOT EXISTS (
                SELECT FROM $mq_active a WHERE a.job_id = p.flow_id AND a.token = p.manifest
            )
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ),
    doomed AS MATERIALIZED (
        SELECT c.flow_id, c.manifest, c.child_key
        FROM mark m CROSS JOIN LATERAL (
            SELECT c.flow_id, c.manifest, c.child_key FROM $mq_flow_children c
            WHERE c.flow_id = m.flow_id AND c.manifest = m.manifest
            ORDER BY c.child_key LIMIT $1
        ) AS c
        LIMIT $1
    ),
    deleted AS (
        DELETE FROM $mq_flow_children c USING doomed d
        WHERE c.flow_id = d.flow_id AND c.manifest = d.manifest AND c.child_key = d.child_key
    )
    DELETE FROM $mq_flow_purge p USING mark m
    WHERE p.flow_id = m.flow_id AND p.manifest = m.manifest AND NOT EXISTS (
        SELECT FROM $mq_flow_children c
        WHERE c.flow_id = m.flow_id AND c.manifest = m.manifest AND c.child_key > coalesce((
            SELECT max(d.child_key) FROM doomed d
            WHERE d.flow_id = m.flow_id AND d.manifest = m.manifest
        ), '')
    )";

/// What to look after.
enum Work {
    Reconcile(Box<ReconcileRow>),
    Cascade(CascadeRow),
}

impl Work {
    fn read(columns: &mut Columns<'_>) -> Read<Option<Self>> {
        let now = columns.instant()?;
        if columns.is_null() {
            return Ok(None);
        }
        let (flow_id, manifest) = (columns.text()?.into(), columns.text()?.into());
        let (key, store) = (columns.text()?.into(), columns.text()?.into());
        let job_id = columns.text()?.into();
        let job: Option<NewJob> = columns.maybe_value()?;
        Ok(Some(match job {
            Some(job) => Self::Reconcile(Box::new(ReconcileRow {
                flow_id,
                manifest,
                child: FlowChild { key, store, job },
            })),
            None => Self::Cascade(CascadeRow {
                flow_id,
                manifest,
                child_key: key,
                store,
                job_id,
                owed_for: now.since(columns.instant()?),
            }),
        }))
    }
}

impl Inner {
    pub(super) async fn flow_sweep_work(
        &self,
        pending_age: Duration,
        limit: u32,
    ) -> Result<FlowSweepWork> {
        let statement = self
            .timed(SWEEP)
            .bind(millis(pending_age))
            .bind(limit)
            .bind(PAGE_BYTES);
        let rows = self.query(&statement).await?;
        let mut left_over = false;
        let mut answer = FlowSweepWork::default();
        let work = read_all(&rows, |columns| {
            answer.more = columns.flag()?;
            left_over = columns.flag()?;
            Work::read(columns)
        })?;
        for row in work.into_iter().flatten() {
            match row {
                Work::Reconcile(row) => answer.reconcile.push(*row),
                Work::Cascade(row) => answer.cascade.push(row),
            }
        }
        if left_over {
            self.query(&self.statement(PURGE).bind(PURGED_AT_ONCE))
                .await?;
        }
        Ok(answer)
    }
}
