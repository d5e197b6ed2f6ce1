//! Enqueueing under a dedupe key: one transaction, in which the key's entry is
//! locked before anything is decided.

use mq_core::{Dedupe, Enqueued, JobId, JobState, When};

use super::insert::{millis, to_json};
use super::{Executor, Request};
use crate::pool::Failure;
use crate::rows::read_all;
use crate::statement::{after, clock};
use crate::store::Inner;

/// Takes a key that nobody has, and tells whether that was so, and the name of
/// the job that has the new one's id.
const TAKE: &str = concat!(
    "WITH ",
    clock!(),
    ", taken AS (
        INSERT INTO $mq_dedupe (name, key, job_id, window_end)
        SELECT $2, $3, $4, CASE WHEN $5::bigint IS NOT NULL THEN ",
    after!("(SELECT now FROM clock)", "$5::bigint"),
    " END
        ON CONFLICT (name, key) DO NOTHING
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM taken), (SELECT name FROM $mq_job WHERE id = $4)"
);

/// Gives back a key that was taken for nothing.
const GIVE_BACK: &str = "DELETE FROM $mq_dedupe WHERE name = $1 AND key = $2 AND job_id = $3";

/// Locks the entry of a key, and tells whose it is and whether its window is
/// open (nothing if it has none).
const LOCK: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT job_id, window_end > (SELECT now FROM clock) FROM $mq_dedupe
    WHERE name = $2 AND key = $3 FOR UPDATE"
);

/// The state of the job that holds a key. Another job may have been enqueued
/// under the same id since.
const STATE: &str = "SELECT state FROM $mq_jobs WHERE id = $1 AND name = $2 AND dedupe_key = $3";

/// Replaces a job that is still delayed, and answers its queue; nothing if it
/// is not delayed any more.
const REPLACE: &str = concat!(
    "WITH ",
    clock!(),
    ", moved AS (
        UPDATE $mq_delayed SET priority = $3::bigint::integer, run_at = CASE WHEN $4::bigint IS NOT NULL THEN ",
    after!("(SELECT now FROM clock)", "$4::bigint"),
    " ELSE greatest($5::timestamptz, (SELECT now FROM clock)) END
        WHERE job_id = $2
        RETURNING job_id, queue
    ),
    job AS (
        UPDATE $mq_job j SET payload = $6::json, metadata = $7::jsonb, priority = $3::bigint::integer,
            attempts_max = $8, backoff = $9::json, keep = $10::json, timeout_ms = $11,
            trace = $12::json
        FROM moved m WHERE j.id = m.job_id
    ),
    held AS (
        UPDATE $mq_dedupe SET window_end = ",
    after!("(SELECT now FROM clock)", "$15::bigint"),
    "   WHERE name = $13 AND key = $14 AND $15::bigint IS NOT NULL AND EXISTS (SELECT FROM moved)
    )
    SELECT queue FROM moved"
);

/// Pushes the end of a window out.
const EXTEND: &str = concat!(
    "WITH ",
    clock!(),
    " UPDATE $mq_dedupe SET
        window_end = greatest(window_end, ",
    after!("(SELECT now FROM clock)", "$4::bigint"),
    "),
        orphaned_until = CASE WHEN orphaned_until IS NOT NULL THEN greatest(window_end, ",
    after!("(SELECT now FROM clock)", "$4::bigint"),
    ") END
    WHERE name = $2 AND key = $3"
);

/// Lets a new job take a dead entry over.
const TAKE_OVER: &str = concat!(
    "WITH ",
    clock!(),
    " UPDATE $mq_dedupe SET job_id = $4, orphaned_until = NULL,
        window_end = CASE WHEN $5::bigint IS NOT NULL THEN ",
    after!("(SELECT now FROM clock)", "$5::bigint"),
    " END
    WHERE name = $2 AND key = $3"
);

/// What the key's entry makes of a request.
enum Verdict {
    /// This job stands for it.
    Stands(JobId),
    /// The new job may have the key.
    Dead,
    /// It was gone or changed while it was looked at.
    Moved,
}

impl Inner {
    /// Enqueues a request with a dedupe key, in the executor's transaction.
    pub(super) async fn enqueue_keyed(
        &self,
        executor: &mut Executor<'_, '_>,
        request: &mut Request,
    ) -> Result<Enqueued, Failure> {
        let Some(dedupe) = request.job.dedupe.clone() else {
            return Ok(request.inserted());
        };
        loop {
            let (taken, same_id) = self.take(executor, request, &dedupe).await?;
            let mut holds = taken;
            if let Some(name) = same_id
                && (request.was_given_its_id() || request.doubtful)
            {
                if taken {
                    self.give_back(executor, request, &dedupe).await?;
                }
                return Ok(Enqueued {
                    id: request.id.clone(),
                    name: name.into(),
                    duplicate: request.was_given_its_id(),
                });
            }
            if !taken {
                match self.judge(executor, request, &dedupe).await? {
                    Verdict::Moved => continue,
                    Verdict::Stands(id) => {
                        return Ok(Enqueued {
                            // A lost answer: the first try landed, and holds the key.
                            duplicate: !(request.doubtful && id == request.id),
                            id,
                            name: request.job.spec.name.clone(),
                        });
                    }
                    Verdict::Dead => {}
                }
            }
            // The entry is this transaction's now, whoever it names.
            loop {
                if !holds {
                    self.take_over(executor, request, &dedupe).await?;
                }
                let (inserted, name) = self
                    .insert(executor, &[&*request])
                    .await?
                    .pop()
                    .unwrap_or((false, None));
                if inserted {
                    return Ok(request.inserted());
                }
                if request.was_given_its_id() {
                    // It appeared just now; the key goes back to be dead.
                    self.give_back(executor, request, &dedupe).await?;
                    let name = name.map_or_else(|| request.job.spec.name.clone(), Into::into);
                    return Ok(Enqueued {
                        id: request.id.clone(),
                        name,
                        duplicate: true,
                    });
                }
                self.draw_again(request)?;
                holds = false;
            }
        }
    }

    async fn take(
        &self,
        executor: &mut Executor<'_, '_>,
        request: &Request,
        dedupe: &Dedupe,
    ) -> Result<(bool, Option<String>), Failure> {
        let statement = self
            .timed(TAKE)
            .bind(&*request.job.spec.name)
            .bind(&*dedupe.key)
            .bind(&*request.id)
            .bind(dedupe.ttl.map(millis));
        let rows = executor.rows(&statement).await?;
        Ok(crate::rows::read_one(&rows, |columns| {
            Ok((columns.flag()?, columns.maybe_text()?))
        })?)
    }

    async fn give_back(
        &self,
        executor: &mut Executor<'_, '_>,
        request: &Request,
        dedupe: &Dedupe,
    ) -> Result<(), Failure> {
        let statement = self
            .statement(GIVE_BACK)
            .bind(&*request.job.spec.name)
            .bind(&*dedupe.key)
            .bind(&*request.id);
        executor.rows(&statement).await.map(drop)
    }

    async fn take_over(
        &self,
        executor: &mut Executor<'_, '_>,
        request: &Request,
        dedupe: &Dedupe,
    ) -> Result<(), Failure> {
        let statement = self
            .timed(TAKE_OVER)
            .bind(&*request.job.spec.name)
            .bind(&*dedupe.key)
            .bind(&*request.id)
            .bind(dedupe.ttl.map(millis));
        executor.rows(&statement).await.map(drop)
    }

    /// Locks the key's entry and decides.
    async fn judge(
        &self,
        executor: &mut Executor<'_, '_>,
        request: &Request,
        dedupe: &Dedupe,
    ) -> Result<Verdict, Failure> {
        let name = &*request.job.spec.name;
        let lock = self.timed(LOCK).bind(name).bind(&*dedupe.key);
        let rows = executor.rows(&lock).await?;
        let entry = read_all(&rows, |columns| {
            Ok((JobId::from(columns.text()?), columns.maybe_flag()?))
        })?
        .pop();
        let Some((id, window)) = entry else {
            return Ok(Verdict::Moved);
        };
        let state = self
            .statement(STATE)
            .bind(&*id)
            .bind(name)
            .bind(&*dedupe.key);
        let rows = executor.rows(&state).await?;
        let state = read_all(&rows, |columns| columns.state())?.pop();
        if dedupe.replace && state == Some(JobState::Delayed) {
            return Ok(if self.replace(executor, &id, request, dedupe).await? {
                Verdict::Stands(id)
            } else {
                Verdict::Moved
            });
        }
        let stands = window.unwrap_or_else(|| state.is_some_and(|state| !state.is_terminal()));
        if !stands {
            return Ok(Verdict::Dead);
        }
        if let (true, Some(_), Some(ttl)) = (dedupe.extend, window, dedupe.ttl) {
            let extend = self
                .timed(EXTEND)
                .bind(name)
                .bind(&*dedupe.key)
                .bind(millis(ttl));
            executor.rows(&extend).await?;
        }
        Ok(Verdict::Stands(id))
    }

    /// Replaces a delayed job; false if it is not delayed any more.
    async fn replace(
        &self,
        executor: &mut Executor<'_, '_>,
        id: &JobId,
        request: &Request,
        dedupe: &Dedupe,
    ) -> Result<bool, Failure> {
        let job = &request.job;
        let (delay, at) = match job.when {
            When::After(delay) => (Some(millis(delay)), None),
            When::At(instant) => (None, Some(instant)),
        };
        let metadata = to_json(&job.spec.metadata)?;
        let backoff = job.spec.backoff.as_ref().map(to_json).transpose()?;
        let keep = job.spec.keep.as_ref().map(to_json).transpose()?;
        let trace = job.trace.as_ref().map(to_json).transpose()?;
        let statement = self
            .timed(REPLACE)
            .bind(&**id)
            .bind(i64::from(job.spec.priority))
            .bind(delay)
            .bind(at)
            .bind(job.spec.payload.get())
            .bind(metadata.as_str())
            .bind(job.spec.attempts_max)
            .bind(backoff.as_deref())
            .bind(keep.as_deref())
            .bind(job.spec.timeout.map(millis))
            .bind(trace.as_deref())
            .bind(&*job.spec.name)
            .bind(&*dedupe.key)
            .bind(dedupe.ttl.map(millis));
        let rows = executor.rows(&statement).await?;
        Ok(!rows.is_empty())
    }
}
