//! Sweeping: finished jobs past their own age or the store's ceiling, and dead
//! dedupe entries.

use mq_core::{JobId, JobState, Swept};

use crate::enqueue::millis;
use crate::pool::{Failure, Transaction};
use crate::rows::{read_all, read_one};
use crate::statement::clock;
use crate::store::Inner;
use crate::terminal::{is_spared, removable, remove};

/// Locks finished jobs that the sweep has to look at, the longest due first,
/// and tells whether each is spared, and whether it is past its age.
const DUE: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT f.job_id, ",
    is_spared!(),
    ", coalesce(f.finished_at <= (SELECT now FROM clock)
            - least(k.age, 60000000000000) / 1000 * interval '1 second'
            - least(k.age, 60000000000000) % 1000 * interval '1 millisecond', false)
    FROM $mq_finished f JOIN $mq_job j ON j.id = f.job_id
        CROSS JOIN LATERAL (SELECT (j.keep -> f.state ->> 'age')::bigint AS age) AS k
    WHERE f.sweep_at <= (SELECT now FROM clock)
    ORDER BY f.sweep_at, f.seq
    LIMIT $2
    FOR UPDATE OF f SKIP LOCKED"
);

/// Deletes jobs that are locked.
const DELETE: &str = concat!(
    "WITH ",
    clock!(),
    ", doomed AS MATERIALIZED (SELECT i.id AS job_id FROM unnest($2::text[]) AS i(id)),
    ",
    remove!(),
    " SELECT count(*) FROM removed"
);

/// Decides when jobs that were looked at come up again: spared ones in a
/// minute, others when they are past their age, if they have one.
const LATER: &str = concat!(
    "WITH ",
    clock!(),
    " UPDATE $mq_finished f SET sweep_at = CASE
            WHEN f.job_id = ANY ($3::text[]) THEN (SELECT now FROM clock) + interval '60 seconds'
            ELSE least(f.finished_at + k.age / 1000 * interval '1 second'
                + k.age % 1000 * interval '1 millisecond',
                '9999-12-31 23:59:59.999Z'::timestamptz)
        END
    FROM (
        SELECT s.job_id, (j.keep -> s.state ->> 'age')::bigint AS age
        FROM $mq_finished s JOIN $mq_job j ON j.id = s.job_id
        WHERE s.job_id = ANY ($2::text[])
    ) AS k
    WHERE f.job_id = k.job_id"
);

/// Deletes `$2` jobs past the store's ceiling: `$3`, `$4` and `$5` for
/// completed, failed and cancelled ones. Names and states are found by
/// skipping from one to the next in the history index.
const CEILING: &str = concat!(
    "WITH RECURSIVE ",
    clock!(),
    ", groups AS (
        (SELECT name, state FROM $mq_finished ORDER BY name, state LIMIT 1)
        UNION ALL
        SELECT n.name, n.state FROM groups g CROSS JOIN LATERAL (
            SELECT f.name, f.state FROM $mq_finished f WHERE (f.name, f.state) > (g.name, g.state)
            ORDER BY f.name, f.state LIMIT 1
        ) AS n
    ),
    past AS MATERIALIZED (
        SELECT old.job_id
        FROM (
            SELECT g.*, CASE g.state WHEN 'completed' THEN $3::bigint WHEN 'failed' THEN $4::bigint
                ELSE $5::bigint END AS ceiling
            FROM groups g
        ) AS g
            CROSS JOIN LATERAL (
                SELECT f.job_id, f.finished_at, f.seq FROM $mq_finished f
                WHERE f.name = g.name AND f.state = g.state
                    AND f.finished_at <= (SELECT now FROM clock)
                        - least(g.ceiling, 60000000000000) / 1000 * interval '1 second'
                        - least(g.ceiling, 60000000000000) % 1000 * interval '1 millisecond'
                    AND NOT ",
    is_spared!(),
    "
                ORDER BY f.finished_at, f.seq
                LIMIT $2 + 1
            ) AS old
        WHERE g.ceiling IS NOT NULL
        ORDER BY old.finished_at, old.seq
        LIMIT $2 + 1
    ),
    ",
    removable!("(SELECT job_id FROM past LIMIT $2)"),
    ",
    ",
    remove!(),
    " SELECT count(*), (SELECT count(*) FROM past) > $2 FROM removed"
);

const DEAD_KEYS: &str = concat!(
    "WITH ",
    clock!(),
    ", dead AS MATERIALIZED (
        SELECT name, key FROM $mq_dedupe
        WHERE orphaned_until <= (SELECT now FROM clock)
        ORDER BY orphaned_until LIMIT $2
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM $mq_dedupe k USING dead d WHERE k.name = d.name AND k.key = d.key"
);

const ANY_DUE: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT EXISTS (SELECT FROM $mq_finished WHERE sweep_at <= (SELECT now FROM clock))"
);

impl Inner {
    /// Deletes a page of what is past its time.
    pub(super) async fn sweep_page(&self, limit: u32) -> Result<Swept, Failure> {
        let mut transaction = self.begin().await?;
        let mut deleted = self.sweep_own_ages(&mut transaction, limit).await?;
        let mut more = false;
        if let Some(ceiling) = self.ceiling {
            let of = |state| ceiling.of(state).map(millis);
            let statement = self
                .timed(CEILING)
                .bind(limit.saturating_sub(deleted))
                .bind(of(JobState::Completed))
                .bind(of(JobState::Failed))
                .bind(of(JobState::Cancelled));
            let rows = transaction.rows(&statement).await?;
            let (removed, beyond) = read_one(&rows, |columns| {
                Ok((u32::try_from(columns.number()?)?, columns.flag()?))
            })?;
            deleted += removed;
            more = beyond;
        }
        let dead = self.timed(DEAD_KEYS).bind(limit);
        transaction.rows(&dead).await?;
        let due = transaction.rows(&self.timed(ANY_DUE)).await?;
        more |= read_one(&due, |columns| columns.flag())?;
        transaction.commit().await?;
        Ok(Swept {
            deleted: u64::from(deleted),
            more,
        })
    }

    async fn sweep_own_ages(
        &self,
        transaction: &mut Transaction<'_>,
        limit: u32,
    ) -> Result<u32, Failure> {
        let rows = transaction.rows(&self.timed(DUE).bind(limit)).await?;
        let due = read_all(&rows, |columns| {
            let id = JobId::from(columns.text()?);
            Ok((id, columns.flag()?, columns.flag()?))
        })?;
        if due.is_empty() {
            return Ok(0);
        }
        let (mut past, mut spared, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (id, is_spared, is_past) in &due {
            match (is_spared, is_past) {
                (true, _) => spared.push(id),
                (false, true) => past.push(id),
                (false, false) => others.push(id),
            }
        }
        let mut deleted = 0;
        if !past.is_empty() {
            let ids: Vec<&str> = past.iter().map(|id| id.as_str()).collect();
            let rows = transaction.rows(&self.timed(DELETE).bind(ids)).await?;
            deleted += u32::try_from(read_one(&rows, |columns| columns.number())?).unwrap_or(0);
        }
        // They were spared at their end, so their keep has yet to act.
        if !others.is_empty() && deleted < limit {
            deleted += self.prune(transaction, &others, limit - deleted).await?;
        }
        // If the page is full, the keep has more to do: the next sweep comes back.
        let later: Vec<&str> = if deleted < limit {
            spared.iter().chain(&others).map(|id| id.as_str()).collect()
        } else {
            spared.iter().map(|id| id.as_str()).collect()
        };
        let spared: Vec<&str> = spared.iter().map(|id| id.as_str()).collect();
        let statement = self.timed(LATER).bind(later).bind(spared);
        transaction.rows(&statement).await?;
        Ok(deleted)
    }
}
