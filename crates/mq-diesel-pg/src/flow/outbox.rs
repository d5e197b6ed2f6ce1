//! The outbox: reports of this store's flow children that nobody has fetched
//! for good yet.

use mq_core::validate::MAX_BATCH;
use mq_core::{
    ChildKey, JobId, LockToken, OutboxEntry, OutboxId, OutboxPage, Report, Result, StoreKey,
};

use super::PAGE_BYTES;
use crate::rows::{Columns, Read, read_all};
use crate::store::Inner;

/// The entries past `$1`, `$2` of them and `$3` bytes at the most, each with
/// whether it is the last there is. A number that was never issued is none.
const PEEK: &str = "WITH found AS MATERIALIZED (
        SELECT * FROM $mq_flow_outbox
        WHERE id > CASE
            WHEN $1 <= (SELECT last_value FROM $mq_flow_outbox_id_seq WHERE is_called) THEN $1
            ELSE 0
        END
        ORDER BY id
        LIMIT $2 + 1
    ),
    measured AS (
        SELECT *, row_number() OVER by_age AS place,
            sum(coalesce(octet_length(exit::text), 0)) OVER by_age AS bytes
        FROM found WINDOW by_age AS (ORDER BY id)
    )
    SELECT id, flow_name, parent_store, flow_id, manifest, child_key, outcome, exit,
        failed_reason, place < (SELECT count(*) FROM found)
    FROM measured
    WHERE place <= $2 AND (place = 1 OR bytes <= $3)
    ORDER BY id";

const DELETE: &str = "WITH doomed AS MATERIALIZED (
        SELECT id FROM $mq_flow_outbox WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
    )
    DELETE FROM $mq_flow_outbox o USING doomed d WHERE o.id = d.id";

const OF_CHILDREN: &str = "SELECT id, flow_name, parent_store, flow_id, manifest, child_key,
        outcome, exit, failed_reason
    FROM $mq_flow_outbox
    WHERE flow_id = $1 AND child_key = ANY ($2::text[]) AND manifest = $3 AND parent_store = $4
    ORDER BY child_key, id";

fn entry(columns: &mut Columns<'_>) -> Read<OutboxEntry> {
    Ok(OutboxEntry {
        id: columns.number()?.to_string().into(),
        flow_name: columns.text()?.into(),
        parent_store: columns.text()?.into(),
        report: Report {
            flow_id: columns.text()?.into(),
            manifest: columns.text()?.into(),
            child_key: columns.text()?.into(),
            outcome: serde_json::from_value(columns.text()?.into())?,
            exit: columns.maybe_json()?,
            failed_reason: columns.maybe_text()?,
        },
    })
}

/// An entry's number, if this is the one spelling of it.
fn number(id: &OutboxId) -> Option<i64> {
    let number: i64 = id.parse().ok()?;
    (number > 0 && number.to_string() == **id).then_some(number)
}

impl Inner {
    pub(super) async fn peek_outbox(
        &self,
        after: Option<&OutboxId>,
        limit: u32,
    ) -> Result<OutboxPage> {
        let statement = self
            .statement(PEEK)
            .bind(after.and_then(number).unwrap_or(0))
            .bind(limit)
            .bind(PAGE_BYTES);
        let rows = self.query(&statement).await?;
        let mut more = false;
        let entries = read_all(&rows, |columns| {
            let entry = entry(columns)?;
            more = columns.flag()?;
            Ok(entry)
        })?;
        Ok(OutboxPage { entries, more })
    }

    pub(super) async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()> {
        for page in ids.chunks(MAX_BATCH as usize) {
            let numbers: Vec<i64> = page.iter().filter_map(number).collect();
            if !numbers.is_empty() {
                self.query(&self.statement(DELETE).bind(numbers)).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn undelivered_reports(
        &self,
        parent_store: &StoreKey,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>> {
        let mut keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut entries = Vec::new();
        for page in keys.chunks(MAX_BATCH as usize) {
            let statement = self
                .statement(OF_CHILDREN)
                .bind(&**flow_id)
                .bind(page.to_vec())
                .bind(&**manifest)
                .bind(&**parent_store);
            entries.extend(read_all(&self.query(&statement).await?, entry)?);
        }
        Ok(entries)
    }
}
