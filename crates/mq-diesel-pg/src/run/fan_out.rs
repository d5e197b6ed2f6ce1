//! Fan-outs: a parent writes its children's rows and parks.

use std::sync::Arc;

use mq_core::validate::MAX_BATCH;
use mq_core::{Ack, AckOutcome, Acked, FlowChild, Lock, Result, StoreError};

use super::{MISSES, Miss};
use crate::enqueue::to_json;
use crate::pool::Failure;
use crate::rows::{Columns, Read, Row, read_all, read_one};
use crate::statement::{Statement, clock};
use crate::store::Inner;
use crate::terminal::finish;
use crate::wake::Topic;

/// How many bytes of specs travel in one statement, unless one alone has more.
const PAGE_BYTES: usize = 1024 * 1024;

/// Writes a page of rows under the mark of a lock that holds; nobody sees them
/// before the parent parks under that mark.
///
/// The share of the lock's row keeps it from being recovered before the rows
/// are there to be purged.
const STAGE: &str = concat!(
    "WITH ",
    clock!(),
    ", held AS MATERIALIZED (
        SELECT job_id FROM $mq_active WHERE job_id = $2 AND token = $3 FOR KEY SHARE
    ),
    noted AS (
        INSERT INTO $mq_flow_purge (flow_id, manifest, since)
        SELECT $2, $3, (SELECT now FROM clock) FROM held
        ON CONFLICT DO NOTHING
    ),
    staged AS (
        INSERT INTO $mq_flow_children (flow_id, manifest, child_key, name, store, child_job_id,
            spec, payload_bytes, look_at)
        SELECT $2, $3, i.child_key, i.name, i.store, i.child_job_id, i.spec::json,
            i.payload_bytes, (SELECT now FROM clock)
        FROM held CROSS JOIN unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::bigint[]) AS i(child_key, name, store, child_job_id, spec, payload_bytes)
        ON CONFLICT DO NOTHING
    )
    SELECT EXISTS (SELECT FROM held)"
);

/// Writes the last page of rows and the flow's state, and parks the parent: or
/// lets it go on, if no child is pending, or ends it, if a cancel is.
///
/// A flow that the parent already has is kept, and locked before the parent.
/// `$12`: whether also to end a job with a `keep`, which the transaction must
/// apply.
const PARK: &str = concat!(
    "WITH ",
    clock!(),
    ", had AS MATERIALIZED (SELECT pending FROM $mq_flow WHERE flow_id = $2 FOR UPDATE),
    gone AS (
        DELETE FROM $mq_active a
        WHERE a.job_id = $2 AND a.token = $3
            AND ($12 OR NOT (a.has_keep AND a.cancel_requested))
            AND (SELECT count(*) FROM had) <= 1
        RETURNING a.*
    ),
    turned AS MATERIALIZED (
        SELECT g.*, CASE
                WHEN g.cancel_requested THEN 'cancelled'
                WHEN coalesce((SELECT pending FROM had), $11) = 0 THEN 'waiting'
                ELSE 'waiting-children'
            END AS next_state
        FROM gone g
    ),
    made AS (
        INSERT INTO $mq_flow (flow_id, manifest, fail_fast, pending, completed, failed, cancelled,
            owed, closed_at, reconcile_at, cascade_at)
        SELECT job_id, $3, $10, CASE WHEN cancel_requested THEN 0 ELSE $11 END, 0, 0,
            CASE WHEN cancel_requested THEN $11 ELSE 0 END,
            CASE WHEN cancel_requested THEN $11 ELSE 0 END,
            CASE WHEN cancel_requested AND $11 > 0 THEN (SELECT now FROM clock) END,
            CASE WHEN NOT cancel_requested AND $11 > 0 THEN (SELECT now FROM clock) END,
            CASE WHEN cancel_requested AND $11 > 0 THEN (SELECT now FROM clock) END
        FROM gone WHERE NOT EXISTS (SELECT FROM had)
    ),
    children AS (
        INSERT INTO $mq_flow_children (flow_id, manifest, child_key, name, store, child_job_id,
            spec, payload_bytes, look_at)
        SELECT g.job_id, $3, i.child_key, i.name, i.store, i.child_job_id, i.spec::json,
            i.payload_bytes, (SELECT now FROM clock)
        FROM gone g CROSS JOIN unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                $9::bigint[]) AS i(child_key, name, store, child_job_id, spec, payload_bytes)
        WHERE NOT EXISTS (SELECT FROM had)
        ON CONFLICT DO NOTHING
    ),
    visible AS (
        DELETE FROM $mq_flow_purge p USING gone g
        WHERE p.flow_id = g.job_id AND p.manifest = $3 AND NOT EXISTS (SELECT FROM had)
    ),
    noted AS (
        INSERT INTO $mq_attempt (job_id, attempt, started_at, finished_at, outcome)
        SELECT job_id, attempts_recorded + 1, processed_at, (SELECT now FROM clock), 'fanned-out'
        FROM gone
    ),
    ended AS MATERIALIZED (
        SELECT job_id, queue, name, 'cancelled' AS state, 'cancelled' AS outcome,
            NULL::json AS exit, NULL::json AS run_exit, NULL::text AS failed_reason, run_at,
            attempts_made, attempts_recorded + 2 AS attempts_recorded, stalled_count, processed_at,
            false AS closed_run, token AS last_acked, progress, watched, true AS has_flow,
            has_keep, has_parent, 1 AS place
        FROM turned WHERE next_state = 'cancelled'
    ),
    ",
    finish!(),
    ",
    waits AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, (SELECT now FROM clock), attempts_made,
            attempts_recorded + 1, stalled_count, processed_at, token, progress, watched, true
        FROM turned WHERE next_state = 'waiting'
    ),
    parks AS (
        INSERT INTO $mq_parked (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, run_at, attempts_made, attempts_recorded + 1,
            stalled_count, processed_at, token, progress, watched, true
        FROM turned WHERE next_state = 'waiting-children'
    ),
    forgotten AS (
        DELETE FROM $mq_attempt t USING turned g
        WHERE g.next_state <> 'cancelled' AND g.attempts_recorded >= 200 AND t.job_id = g.job_id
            AND t.attempt <= g.attempts_recorded - 199
    )
    SELECT t.next_state, t.queue, t.watched, t.has_keep, EXISTS (
        SELECT FROM $mq_queue_control c WHERE c.queue = t.queue AND c.max_active IS NOT NULL
    )
    FROM turned t"
);

/// What became of a parent.
struct Parked {
    ends: bool,
    waits: bool,
    queue: String,
    watched: bool,
    has_keep: bool,
    frees_a_slot: bool,
}

impl Parked {
    fn read(columns: &mut Columns<'_>) -> Read<Self> {
        let state = columns.text()?;
        Ok(Self {
            ends: state == "cancelled",
            waits: state == "waiting",
            queue: columns.text()?,
            watched: columns.flag()?,
            has_keep: columns.flag()?,
            frees_a_slot: columns.flag()?,
        })
    }
}

/// A child and its spec as it is stored.
type Child<'a> = (&'a FlowChild, String);

/// The children of a fan-out, by key.
struct Children<'a>(Vec<Child<'a>>);

impl<'a> Children<'a> {
    fn of(children: &'a [FlowChild]) -> Result<Self, Failure> {
        let with_spec = |child: &'a FlowChild| Ok((child, to_json(&child.job)?));
        let mut all: Vec<_> = children
            .iter()
            .map(with_spec)
            .collect::<Result<_, Failure>>()?;
        all.sort_unstable_by(|(one, _), (other, _)| one.key.cmp(&other.key));
        Ok(Self(all))
    }

    /// All pages but the last, and the last.
    fn pages(&self) -> (Vec<&[Child<'a>]>, &[Child<'a>]) {
        let mut pages = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (at, (_, spec)) in self.0.iter().enumerate() {
            let is_full = at - start == MAX_BATCH as usize || bytes + spec.len() > PAGE_BYTES;
            if is_full && at > start {
                pages.push(&self.0[start..at]);
                (start, bytes) = (at, 0);
            }
            bytes += spec.len();
        }
        (pages, &self.0[start..])
    }
}

impl Inner {
    pub(super) async fn fan_out(self: &Arc<Self>, ack: &Ack) -> Result<Acked> {
        let AckOutcome::FanOut {
            fail_fast,
            children,
        } = &ack.outcome
        else {
            return Ok(Acked { applied: false });
        };
        let children = Children::of(children).map_err(|f| self.connections.store_error(f))?;
        let (staged, last) = children.pages();
        for page in staged {
            let statement = with_children(self.timed(STAGE), &ack.lock, page);
            let rows = self.query(&statement).await?;
            if !read_one(&rows, |columns| columns.flag())? {
                return self.explain_fan_out(&ack.lock).await;
            }
        }
        let count = i64::try_from(children.0.len()).unwrap_or(i64::MAX);
        let park = |with_keeps: bool| {
            with_children(self.timed(PARK), &ack.lock, last)
                .bind(*fail_fast)
                .bind(count)
                .bind(with_keeps)
        };
        let mut parked = read_parked(&self.query(&park(false)).await?)?;
        if parked.is_none() {
            // It may hold its lock, and have a keep that its cancel must apply.
            let statement = park(true);
            parked = self
                .repeatedly(|| self.park_with_keep(&statement, &ack.lock))
                .await?;
        }
        let Some(parked) = parked else {
            return self.explain_fan_out(&ack.lock).await;
        };
        let mut topics = Vec::new();
        if parked.ends && parked.watched {
            topics.push(Topic::Job(ack.lock.id.clone()));
        }
        if parked.waits || parked.frees_a_slot {
            topics.push(Topic::Queue(parked.queue.into()));
        }
        self.announce(topics);
        Ok(Acked { applied: true })
    }

    async fn park_with_keep(
        &self,
        statement: &Statement<'_>,
        lock: &Lock,
    ) -> Result<Option<Parked>, Failure> {
        let mut transaction = self.begin().await?;
        let parked = read_parked(&transaction.rows(statement).await?)?;
        if parked
            .as_ref()
            .is_some_and(|parked| parked.ends && parked.has_keep)
        {
            self.prune(&mut transaction, &[&lock.id], MAX_BATCH).await?;
        }
        transaction.commit().await?;
        Ok(parked)
    }

    /// Says why a fan-out met no lock.
    async fn explain_fan_out(&self, lock: &Lock) -> Result<Acked> {
        let statement = self
            .statement(MISSES)
            .bind(vec![lock.id.as_str()])
            .bind(vec![lock.token.as_str()]);
        let id = lock.id.clone();
        match read_one(&self.query(&statement).await?, Miss::read)? {
            Miss::Gone => Err(StoreError::NotFound { id }),
            Miss::AckedBefore => Ok(Acked { applied: false }),
            Miss::Held | Miss::Lost => Err(StoreError::LockLost { id }),
        }
    }
}

fn read_parked(rows: &[Row]) -> Result<Option<Parked>> {
    Ok(read_all(rows, Parked::read)?.pop())
}

fn with_children<'a>(
    statement: Statement<'a>,
    lock: &'a Lock,
    children: &'a [Child<'a>],
) -> Statement<'a> {
    let texts = |of: fn(&'a FlowChild) -> &'a str| -> Vec<&'a str> {
        children.iter().map(|(child, _)| of(child)).collect()
    };
    statement
        .bind(&*lock.id)
        .bind(&*lock.token)
        .bind(texts(|child| &child.key))
        .bind(texts(|child| &child.job.spec.name))
        .bind(texts(|child| &child.store))
        .bind(texts(|child| child.job.id.as_deref().unwrap_or_default()))
        .bind(
            children
                .iter()
                .map(|(_, spec)| spec.as_str())
                .collect::<Vec<_>>(),
        )
        .bind(
            children
                .iter()
                .map(|(child, _)| {
                    i64::try_from(child.job.spec.payload.get().len()).unwrap_or(i64::MAX)
                })
                .collect::<Vec<i64>>(),
        )
}
