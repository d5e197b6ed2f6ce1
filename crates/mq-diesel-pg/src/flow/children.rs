//! Children's rows: read, and marked as cascaded.

use mq_core::validate::MAX_BATCH;
use mq_core::{ChildKey, ChildResult, JobId, LockToken, Result, ResultPage};

use super::PAGE_BYTES;
use crate::rows::{Columns, Read, read_all};
use crate::statement::clock;
use crate::store::Inner;

/// The children of `$1` past the key `$2`, `$3` of them and `$4` bytes at the
/// most, each with whether there are more.
const RESULTS: &str = "WITH found AS MATERIALIZED (
        SELECT c.*, w.closed_at
        FROM $mq_flow w JOIN $mq_flow_children c
            ON c.flow_id = w.flow_id AND c.manifest = w.manifest
        WHERE w.flow_id = $1 AND c.child_key > coalesce($2, '')
        ORDER BY c.child_key
        LIMIT $3 + 1
    ),
    measured AS (
        SELECT *, row_number() OVER by_key AS place,
            sum(coalesce(octet_length(exit::text), 0)) OVER by_key AS bytes
        FROM found WINDOW by_key AS (ORDER BY child_key)
    )
    SELECT child_key, name, store, child_job_id,
        CASE WHEN closed_at IS NOT NULL AND status = 'pending' THEN 'cancelled' ELSE status END,
        exit, failed_reason, place < (SELECT count(*) FROM found)
    FROM measured
    WHERE place <= $3 AND (place = 1 OR bytes <= $4)
    ORDER BY child_key";

const PENDING: &str = "SELECT c.child_key
    FROM $mq_flow w JOIN $mq_flow_children c ON c.flow_id = w.flow_id AND c.manifest = w.manifest
    WHERE w.flow_id = $1 AND w.manifest = $2 AND w.closed_at IS NULL
        AND c.child_key = ANY ($3::text[]) AND c.status = 'pending'";

/// Marks owed rows. A parent that owes nothing any more is again subject to
/// retention, which may have had to pass it over.
const MARK: &str = concat!(
    "WITH ",
    clock!(),
    ", flow AS MATERIALIZED (
        SELECT flow_id, manifest FROM $mq_flow
        WHERE flow_id = $2 AND manifest = $3 AND closed_at IS NOT NULL
        FOR UPDATE
    ),
    marked AS (
        UPDATE $mq_flow_children c SET cascaded = true FROM flow w
        WHERE c.flow_id = w.flow_id AND c.manifest = w.manifest
            AND c.child_key = ANY ($4::text[]) AND c.status = 'pending' AND NOT c.cascaded
        RETURNING 1
    ),
    total AS MATERIALIZED (SELECT count(*) AS marks FROM marked),
    paid AS (
        UPDATE $mq_flow w SET owed = w.owed - t.marks,
            cascade_at = CASE WHEN w.owed > t.marks THEN w.cascade_at END
        FROM flow f CROSS JOIN total t
        WHERE w.flow_id = f.flow_id AND t.marks > 0
        RETURNING w.flow_id, w.owed
    )
    UPDATE $mq_finished f SET sweep_at = CASE
            WHEN k.count IS NOT NULL THEN (SELECT now FROM clock)
            ELSE least(f.finished_at + k.age / 1000 * interval '1 second'
                + k.age % 1000 * interval '1 millisecond',
                '9999-12-31 23:59:59.999Z'::timestamptz)
        END
    FROM paid p JOIN $mq_job j ON j.id = p.flow_id
        CROSS JOIN LATERAL (
            SELECT (j.keep -> e.state ->> 'count')::bigint AS count,
                (j.keep -> e.state ->> 'age')::bigint AS age
            FROM $mq_finished e WHERE e.job_id = j.id
        ) AS k
    WHERE p.owed = 0 AND f.job_id = p.flow_id AND (k.count IS NOT NULL OR k.age IS NOT NULL)
        AND NOT (f.watched AND f.finished_at > (SELECT now FROM clock) - interval '60 seconds')"
);

fn result(columns: &mut Columns<'_>) -> Read<ChildResult> {
    Ok(ChildResult {
        key: columns.text()?.into(),
        name: columns.text()?.into(),
        store: columns.text()?.into(),
        job_id: columns.text()?.into(),
        status: serde_json::from_value(columns.text()?.into())?,
        exit: columns.maybe_json()?,
        failed_reason: columns.maybe_text()?,
    })
}

impl Inner {
    pub(super) async fn child_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: u32,
    ) -> Result<ResultPage> {
        let statement = self
            .statement(RESULTS)
            .bind(&**flow_id)
            .bind(cursor.map(|key| &**key))
            .bind(limit)
            .bind(PAGE_BYTES);
        let rows = self.query(&statement).await?;
        let mut more = false;
        let items = read_all(&rows, |columns| {
            let item = result(columns)?;
            more = columns.flag()?;
            Ok(item)
        })?;
        let last = items.last().map(|item| item.key.clone());
        Ok(ResultPage {
            items,
            cursor: last.filter(|_| more),
        })
    }

    pub(super) async fn pending_children(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        let mut pending: Vec<ChildKey> = Vec::new();
        for page in keys.chunks(MAX_BATCH as usize) {
            let statement = self
                .statement(PENDING)
                .bind(&**flow_id)
                .bind(&**manifest)
                .bind(texts(page));
            let rows = self.query(&statement).await?;
            pending.extend(read_all(&rows, |columns| Ok(columns.text()?.into()))?);
        }
        pending.sort_unstable();
        pending.dedup();
        Ok(pending)
    }

    pub(super) async fn mark_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        for page in keys.chunks(MAX_BATCH as usize) {
            let statement = self
                .timed(MARK)
                .bind(&**flow_id)
                .bind(&**manifest)
                .bind(texts(page));
            self.query(&statement).await?;
        }
        Ok(())
    }
}

fn texts(keys: &[ChildKey]) -> Vec<&str> {
    keys.iter().map(|key| &**key).collect()
}
