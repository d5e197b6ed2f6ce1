//! Locks: kept alive by heartbeats; and what a handler reports under one.

use std::time::Duration;

use mq_core::validate::MAX_BATCH;
use mq_core::{Extended, Lock, RawJson, Result, StoreError};

use super::{MISSES, Miss};
use crate::enqueue::millis;
use crate::rows::{read_all, read_one};
use crate::statement::{after, clock};
use crate::store::Inner;

/// Extends the locks of `$2` under the tokens `$3` by `$4`, and tells of each
/// whether it is lost, and whether its job is to be cancelled. Rows that
/// another transaction holds are left alone: a long one must not make the
/// worker's other locks expire.
const EXTEND: &str = concat!(
    "WITH ",
    clock!(),
    ", free AS MATERIALIZED (
        SELECT a.job_id
        FROM unnest($2::text[], $3::text[]) AS i(id, held_token)
            JOIN $mq_active a ON a.job_id = i.id AND a.token = i.held_token
        WHERE NOT a.cancel_requested
        FOR UPDATE OF a SKIP LOCKED
    ),
    extended AS (
        UPDATE $mq_active a SET lock_expires_at = ",
    after!("(SELECT now FROM clock)", "$4::bigint"),
    "   FROM free f WHERE a.job_id = f.job_id
    )
    SELECT a.job_id IS NULL, coalesce(a.cancel_requested, false)
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS i(id, held_token, place)
        LEFT JOIN $mq_active a ON a.job_id = i.id AND a.token = i.held_token
    ORDER BY i.place"
);

const SET_PROGRESS: &str = "WITH stored AS (
        UPDATE $mq_active SET progress = $3::json WHERE job_id = $1 AND token = $2 RETURNING 1
    )
    SELECT EXISTS (SELECT FROM stored)";

impl Inner {
    pub(super) async fn extend_locks(
        &self,
        locks: &[Lock],
        lock_for: Duration,
    ) -> Result<Extended> {
        let mut extended = Extended::default();
        for page in locks.chunks(MAX_BATCH as usize) {
            let statement = self
                .timed(EXTEND)
                .bind(page.iter().map(|lock| lock.id.as_str()).collect::<Vec<_>>())
                .bind(
                    page.iter()
                        .map(|lock| lock.token.as_str())
                        .collect::<Vec<_>>(),
                )
                .bind(millis(lock_for));
            let rows = self.query(&statement).await?;
            let found = read_all(&rows, |columns| Ok((columns.flag()?, columns.flag()?)))?;
            for (lock, (lost, cancel_requested)) in page.iter().zip(found) {
                if lost {
                    extended.lost.push(lock.id.clone());
                } else if cancel_requested {
                    extended.cancel_requested.push(lock.id.clone());
                }
            }
        }
        Ok(extended)
    }

    pub(super) async fn set_progress(&self, lock: &Lock, progress: &RawJson) -> Result<()> {
        let statement = self
            .statement(SET_PROGRESS)
            .bind(&*lock.id)
            .bind(&*lock.token)
            .bind(progress.get());
        if read_one(&self.query(&statement).await?, |columns| columns.flag())? {
            return Ok(());
        }
        let statement = self
            .statement(MISSES)
            .bind(vec![&*lock.id])
            .bind(vec![&*lock.token]);
        let id = lock.id.clone();
        Err(
            match read_one(&self.query(&statement).await?, Miss::read)? {
                Miss::Gone => StoreError::NotFound { id },
                Miss::Held | Miss::AckedBefore | Miss::Lost => StoreError::LockLost { id },
            },
        )
    }
}
