//! The end of a job, and what retention does on the way: the SQL that all
//! paths to it share.
//!
//! A statement that ends jobs defines a common table expression `ended`, with
//! the columns that [`finish`] takes, and puts `finish!()` behind it. Jobs with
//! a `keep` need [`PRUNE`] after it, in the same transaction.

use mq_core::{JobId, Result};

use crate::pool::{Failure, Transaction};
use crate::statement::Statement;
use crate::store::Inner;

/// Files the jobs of `ended` as finished, trims their ledgers and reports to
/// parents. They must have been deleted from the table they were in.
///
/// `ended` has the columns `job_id, queue, name, state, outcome, exit,
/// run_exit, failed_reason, run_at, attempts_made, attempts_recorded,
/// stalled_count, processed_at, closed_run, last_acked, progress, watched,
/// has_flow, has_keep, has_parent, place`: counters with the last run in them,
/// `outcome` and `run_exit` (where it differs from `exit`) for the ledger's
/// last entry, `closed_run` if that closes a run, `place` for the order.
macro_rules! finish {
    () => {
        "finished AS (
            INSERT INTO $mq_finished (job_id, queue, name, state, seq, finished_at, run_at,
                attempts_made, attempts_recorded, stalled_count, processed_at, exit,
                failed_reason, last_acked, progress, watched, has_flow, outcome, closed_run,
                run_exit, sweep_at)
            SELECT job_id, queue, name, state, nextval('$mq_seq'), (SELECT now FROM clock), run_at,
                attempts_made, attempts_recorded, stalled_count, processed_at, exit,
                failed_reason, last_acked, progress, watched, has_flow, outcome, closed_run,
                run_exit,
                CASE WHEN has_keep THEN (
                    SELECT CASE
                        -- A keep by count that spares the job has to act then.
                        WHEN e.watched AND k.count IS NOT NULL
                            THEN (SELECT now FROM clock) + interval '60 seconds'
                        WHEN k.age IS NULL THEN NULL
                        WHEN e.watched THEN greatest(k.ends,
                            (SELECT now FROM clock) + interval '60 seconds')
                        ELSE k.ends
                    END
                    FROM $mq_job j CROSS JOIN LATERAL (
                        SELECT age, count, least((SELECT now FROM clock)
                            + age / 1000 * interval '1 second'
                            + age % 1000 * interval '1 millisecond',
                            '9999-12-31 23:59:59.999Z'::timestamptz) AS ends
                        FROM (SELECT (j.keep -> e.state ->> 'age')::bigint AS age,
                            (j.keep -> e.state ->> 'count')::bigint AS count) AS policy
                    ) AS k
                    WHERE j.id = e.job_id
                ) END
            FROM (SELECT * FROM ended ORDER BY place) AS e
        ),
        trimmed AS (
            DELETE FROM $mq_attempt t USING ended e
            WHERE e.attempts_recorded > 200 AND t.job_id = e.job_id
                AND t.attempt <= e.attempts_recorded - 200
        ),
        reported AS (
            INSERT INTO $mq_flow_outbox (flow_name, parent_store, flow_id, manifest, child_key,
                outcome, exit, failed_reason)
            SELECT j.parent ->> 'flow_name', j.parent ->> 'parent_store', j.parent ->> 'flow_id',
                j.parent ->> 'manifest', j.parent ->> 'child_key', e.state, e.exit,
                e.failed_reason
            FROM ended e JOIN $mq_job j ON j.id = e.job_id
            WHERE e.has_parent
            ORDER BY e.place
        )"
    };
}
pub(crate) use finish;

/// Deletes the jobs of `doomed` (a common table expression with a `job_id`):
/// whatever state they are in, with their ledgers and children's rows. Their
/// rows in the table of their state must be locked. `removed` then has their
/// ids.
macro_rules! remove {
    () => {
        "removed AS (
            DELETE FROM $mq_job j USING doomed d WHERE j.id = d.job_id
            RETURNING j.id, j.name, j.dedupe_key
        ),
        removed_ready AS (DELETE FROM $mq_ready s USING doomed d WHERE s.job_id = d.job_id),
        removed_delayed AS (DELETE FROM $mq_delayed s USING doomed d WHERE s.job_id = d.job_id),
        removed_finished AS (DELETE FROM $mq_finished s USING doomed d WHERE s.job_id = d.job_id),
        removed_ledger AS (DELETE FROM $mq_attempt s USING doomed d WHERE s.job_id = d.job_id),
        -- An entry outlives its job as long as its window is open.
        freed AS (
            DELETE FROM $mq_dedupe k USING removed r
            WHERE k.name = r.name AND k.key = r.dedupe_key AND k.job_id = r.id
                AND coalesce(k.window_end <= (SELECT now FROM clock), true)
        ),
        orphaned AS (
            UPDATE $mq_dedupe k SET orphaned_until = k.window_end FROM removed r
            WHERE k.name = r.name AND k.key = r.dedupe_key AND k.job_id = r.id
                AND k.window_end > (SELECT now FROM clock)
        ),
        removed_flow AS (
            DELETE FROM $mq_flow w USING doomed d WHERE w.flow_id = d.job_id
            RETURNING w.flow_id, w.manifest
        ),
        left_over AS (
            INSERT INTO $mq_flow_purge (flow_id, manifest, since)
            SELECT flow_id, manifest, (SELECT now FROM clock) FROM removed_flow
            ON CONFLICT DO NOTHING
        )"
    };
}
pub(crate) use remove;

/// Picks out of finished jobs those that can be deleted without waiting, as
/// `doomed`, and locks them. A dedupe key's entry is locked before its job's
/// row, as an enqueue under the key does, and one that another transaction
/// holds keeps its job for now: a program's transaction may hold it, and wait
/// for this one next.
macro_rules! removable {
    ($jobs:literal) => {
        concat!(
            "freeable AS MATERIALIZED (
                SELECT k.job_id
                FROM ",
            $jobs,
            " c JOIN $mq_job j ON j.id = c.job_id
                    JOIN $mq_dedupe k
                        ON k.name = j.name AND k.key = j.dedupe_key AND k.job_id = j.id
                ORDER BY k.name, k.key
                FOR UPDATE OF k SKIP LOCKED
            ),
            doomed AS MATERIALIZED (
                SELECT f.job_id
                FROM ",
            $jobs,
            " c JOIN $mq_finished f ON f.job_id = c.job_id
                    JOIN $mq_job j ON j.id = c.job_id
                WHERE c.job_id IN (SELECT job_id FROM freeable) OR NOT EXISTS (
                    SELECT FROM $mq_dedupe k
                    WHERE k.name = j.name AND k.key = j.dedupe_key AND k.job_id = j.id)
                ORDER BY f.job_id
                FOR UPDATE OF f SKIP LOCKED
            )"
        )
    };
}
pub(crate) use removable;

/// Whether a finished job `f` is spared by automatic retention: it was watched
/// and ended less than a minute ago, or its children have yet to be cancelled.
macro_rules! is_spared {
    () => {
        "(f.watched AND f.finished_at > (SELECT now FROM clock) - interval '60 seconds'
            OR f.has_flow AND EXISTS (
                SELECT FROM $mq_flow w WHERE w.flow_id = f.job_id AND w.owed > 0))"
    };
}
pub(crate) use is_spared;

/// Applies the `keep` of jobs that have just finished (`$2`), at the most `$3`
/// removals. Each looks at the jobs of its name and state that ended before
/// it. Of those with the same policy the last decides.
///
/// The walk to the last job that a count keeps is the count's length.
const PRUNE: &str = concat!(
    "WITH ",
    crate::statement::clock!(),
    ", ender AS (
        SELECT DISTINCT ON (f.name, f.state, k.count, k.age)
            f.name, f.state, f.finished_at, f.seq, k.count, k.age
        FROM unnest($2::text[]) AS i(id)
            JOIN $mq_finished f ON f.job_id = i.id
            JOIN $mq_job j ON j.id = i.id
            CROSS JOIN LATERAL (SELECT (j.keep -> f.state ->> 'count')::bigint AS count,
                (j.keep -> f.state ->> 'age')::bigint AS age) AS k
        WHERE k.count IS NOT NULL OR k.age IS NOT NULL
        ORDER BY f.name, f.state, k.count, k.age, f.seq DESC
    ),
    beyond_count AS (
        SELECT old.*
        FROM ender e
            CROSS JOIN LATERAL (
                SELECT f.finished_at, f.seq FROM $mq_finished f
                WHERE f.name = e.name AND f.state = e.state
                    AND (f.finished_at, f.seq) <= (e.finished_at, e.seq)
                ORDER BY f.finished_at DESC, f.seq DESC
                OFFSET e.count LIMIT 1
            ) AS newest
            CROSS JOIN LATERAL (
                SELECT f.job_id, f.finished_at, f.seq FROM $mq_finished f
                WHERE f.name = e.name AND f.state = e.state
                    AND (f.finished_at, f.seq) <= (newest.finished_at, newest.seq)
                    AND NOT ",
    is_spared!(),
    "
                ORDER BY f.finished_at, f.seq
                LIMIT $3
            ) AS old
        WHERE e.count IS NOT NULL
    ),
    past_age AS (
        SELECT old.*
        FROM ender e
            CROSS JOIN LATERAL (
                SELECT f.job_id, f.finished_at, f.seq FROM $mq_finished f
                WHERE f.name = e.name AND f.state = e.state
                    AND f.finished_at <= (SELECT now FROM clock)
                        - least(e.age, 60000000000000) / 1000 * interval '1 second'
                        - least(e.age, 60000000000000) % 1000 * interval '1 millisecond'
                    AND NOT ",
    is_spared!(),
    "
                ORDER BY f.finished_at, f.seq
                LIMIT $3
            ) AS old
        WHERE e.age IS NOT NULL
    ),
    candidates AS (
        SELECT job_id FROM (
            SELECT * FROM beyond_count UNION SELECT * FROM past_age
        ) AS either
        ORDER BY finished_at, seq
        LIMIT $3
    ),
    ",
    removable!("candidates"),
    ",
    ",
    remove!(),
    "
    SELECT count(*) FROM removed"
);

impl Inner {
    /// Applies the `keep` of jobs that this transaction has finished; `most`
    /// removals. Answers how many there were.
    pub(crate) async fn prune(
        &self,
        transaction: &mut Transaction<'_>,
        finished: &[&JobId],
        most: u32,
    ) -> Result<u32, Failure> {
        let ids: Vec<&str> = finished.iter().map(|id| id.as_str()).collect();
        let rows = transaction.rows(&self.prune_statement(ids, most)).await?;
        let removed = crate::rows::read_one(&rows, |columns| columns.number())?;
        Ok(u32::try_from(removed).unwrap_or(u32::MAX))
    }

    /// Applies the `keep` of these jobs, which its transaction has finished.
    pub(crate) fn prune_statement<'a>(
        &'a self,
        finished: Vec<&'a str>,
        most: u32,
    ) -> Statement<'a> {
        self.timed(PRUNE).bind(finished).bind(most)
    }
}
