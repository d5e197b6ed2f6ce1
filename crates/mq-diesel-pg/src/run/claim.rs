//! Claiming: due jobs are promoted, the best waiting ones locked.

use std::collections::BTreeSet;
use std::time::Duration;

use mq_core::validate::MAX_BATCH;
use mq_core::{Claim, ClaimRequest, JobRecord, Result, StoreError, Timestamp, WakeCursor};

use super::corrupt::Undecoded;
use super::limits::{Room, Settings};
use crate::enqueue::millis;
use crate::error;
use crate::pool::Failure;
use crate::rows::{Columns, Read, Row, maybe_record, read_all};
use crate::statement::{after, clock};
use crate::store::Inner;
use crate::wake::Topic;

/// How often a claim that got nothing looks again because others held the
/// best jobs for a moment.
const LOOKS: u32 = 3;

/// The state of a flow, as the record of parent `$job` shows it.
macro_rules! flow_of {
    ($row:literal) => {
        concat!(
            "CASE WHEN ",
            $row,
            ".has_flow THEN (
                SELECT json_build_object('manifest', w.manifest, 'fail_fast', w.fail_fast,
                    'counts', json_build_object('pending', w.pending, 'completed', w.completed,
                        'failed', w.failed, 'cancelled', w.cancelled))
                FROM $mq_flow w WHERE w.flow_id = ",
            $row,
            ".job_id
            ) END"
        )
    };
}

/// The columns of a job record whose small row is `t` and whose immutable one
/// is `j`, as [`maybe_record`] reads them, for a job that is active.
macro_rules! active_record {
    ($cancel_requested:literal, $processed_at:literal) => {
        concat!(
            "j.id, j.name, j.queue, j.payload, j.metadata::text AS metadata, j.priority,
            j.attempts_max, j.backoff, j.keep, j.timeout_ms, j.dedupe_key, j.trace, j.parent,
            j.enqueued_at, 'active'::text AS state, t.attempts_made, t.attempts_recorded,
            t.stalled_count, ",
            $cancel_requested,
            " AS cancel_requested, ",
            flow_of!("t"),
            " AS flow, t.run_at, ",
            $processed_at,
            " AS processed_at,
            NULL::timestamptz AS finished_at, NULL::json AS exit, NULL::text AS failed_reason,
            t.progress"
        )
    };
}

/// The earliest run time of the asked names (`$3`) in the queue (`$2`) that is
/// yet to come.
macro_rules! next_delayed {
    () => {
        "(SELECT min(d.run_at) FROM unnest($3::text[]) AS n(name) CROSS JOIN LATERAL (
            SELECT d.run_at FROM $mq_delayed d
            WHERE d.queue = $2 AND d.name = n.name AND d.run_at > (SELECT now FROM clock)
            ORDER BY d.run_at LIMIT 1
        ) AS d)"
    };
}

/// Claims jobs: `$2` queue, `$3` names, `$4` token, `$5` how long the lock
/// holds, `$6` how many at the most, `$7` whether the queue's limits are in
/// that number already. A queue with limits yields nothing otherwise, nor does
/// a token that was used.
///
/// All parts see the same snapshot: jobs that are due and jobs that wait are
/// ranked together, the best are locked, due ones that are not among them
/// begin to wait.
macro_rules! claim {
    ($best:expr) => {
        concat!(
            "WITH ",
            clock!(),
            ", gate AS MATERIALIZED (
                SELECT coalesce(c.paused, false) AS paused,
                    coalesce(c.max_active IS NOT NULL OR c.rate_count IS NOT NULL, false) AS limited,
                    EXISTS (SELECT FROM $mq_claim WHERE token = $4) AS known
                FROM (SELECT) AS one LEFT JOIN $mq_queue_control c ON c.queue = $2
            ),
            room AS MATERIALIZED (
                SELECT opens, CASE WHEN opens AND NOT paused THEN $6::bigint ELSE 0 END AS jobs
                FROM (SELECT *, NOT known AND ($7 OR NOT limited) AS opens FROM gate) AS gate
            ),
            due_keys AS MATERIALIZED (
                SELECT d.job_id, d.run_at, d.seq
                FROM room CROSS JOIN unnest($3::text[]) AS n(name) CROSS JOIN LATERAL (
                    SELECT d.job_id, d.run_at, d.seq FROM $mq_delayed d
                    WHERE d.queue = $2 AND d.name = n.name AND d.run_at <= (SELECT now FROM clock)
                    ORDER BY d.run_at, d.seq LIMIT 251
                ) AS d
                WHERE room.opens
                ORDER BY d.run_at, d.seq LIMIT 251
            ),
            due AS (
                DELETE FROM $mq_delayed d USING (
                    SELECT l.job_id
                    FROM (SELECT job_id FROM due_keys ORDER BY run_at, seq LIMIT 250) AS k
                        JOIN $mq_delayed l ON l.job_id = k.job_id
                    WHERE l.run_at <= (SELECT now FROM clock)
                    ORDER BY l.job_id
                    FOR UPDATE OF l SKIP LOCKED
                ) AS k
                WHERE d.job_id = k.job_id
                RETURNING d.*
            ),
            best AS MATERIALIZED (",
            $best,
            "),
            ranked AS MATERIALIZED (
                SELECT a.*, row_number() OVER (ORDER BY priority DESC, seq)
                    <= (SELECT jobs FROM room) AS picked
                FROM (
                    SELECT *, true AS was_due FROM due UNION ALL SELECT *, false FROM best
                ) AS a
            ),
            taken_ready AS (
                DELETE FROM $mq_ready r USING ranked k
                WHERE k.picked AND NOT k.was_due AND r.job_id = k.job_id
                RETURNING r.*
            ),
            held AS MATERIALIZED (
                SELECT t.job_id, t.place_priority, t.seq, t.last_acked, t.watched, t.has_flow,
                    j.keep IS NOT NULL AS has_keep, j.parent IS NOT NULL AS has_parent, ",
            active_record!("false", "(SELECT now FROM clock)"),
            "   FROM (
                    SELECT job_id, priority AS place_priority, seq, run_at, attempts_made,
                        attempts_recorded, stalled_count, last_acked, progress, watched, has_flow
                    FROM taken_ready
                    UNION ALL
                    SELECT job_id, priority, seq, run_at, attempts_made, attempts_recorded,
                        stalled_count, last_acked, progress, watched, has_flow
                    FROM ranked WHERE picked AND was_due
                ) AS t JOIN $mq_job j ON j.id = t.job_id
            ),
            locked AS (
                INSERT INTO $mq_active (job_id, queue, name, priority, seq, run_at, attempts_made,
                    attempts_recorded, stalled_count, processed_at, last_acked, progress, watched,
                    has_flow, token, lock_expires_at, has_keep, has_parent)
                SELECT h.job_id, h.queue, h.name, h.place_priority, h.seq, h.run_at,
                    h.attempts_made, h.attempts_recorded, h.stalled_count, h.processed_at,
                    h.last_acked, h.progress, h.watched, h.has_flow, $4, ",
            after!("(SELECT now FROM clock)", "$5::bigint"),
            "       , h.has_keep, h.has_parent
                FROM held h
            ),
            waits AS (
                INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
                    attempts_recorded, stalled_count, processed_at, last_acked, progress, watched,
                    has_flow)
                SELECT job_id, queue, name, priority, seq, run_at, attempts_made,
                    attempts_recorded, stalled_count, processed_at, last_acked, progress, watched,
                    has_flow
                FROM ranked WHERE was_due AND NOT picked
                RETURNING 1
            ),
            noted AS (
                INSERT INTO $mq_claim (token, claimed_at, job_ids)
                SELECT $4, (SELECT now FROM clock),
                    array_agg(job_id ORDER BY place_priority DESC, seq)
                FROM held HAVING count(*) > 0
            ),
            meta AS (
                SELECT (SELECT now FROM clock) AS now,
                    CASE WHEN (SELECT count(*) FROM due_keys) > 250 THEN (SELECT now FROM clock)
                        ELSE ", next_delayed!(), " END AS next_run_at,
                    g.known, g.limited AND NOT $7 AS needs_limits,
                    EXISTS (SELECT FROM waits) AS promoted,
                    -- Whether others wait that this claim did not get.
                    CASE WHEN $7 OR (SELECT count(*) FROM held) < (SELECT jobs FROM room) THEN (
                        SELECT count(*) FROM (
                            SELECT FROM unnest($3::text[]) AS n(name) CROSS JOIN LATERAL (
                                SELECT FROM $mq_ready r WHERE r.queue = $2 AND r.name = n.name
                                LIMIT (SELECT jobs + 1 FROM room)
                            ) AS r
                            LIMIT (SELECT jobs + 1 FROM room)
                        ) AS seen
                    ) > (SELECT count(*) FROM taken_ready) ELSE false END AS others_wait
                FROM gate g
            )
            SELECT m.now, m.next_run_at, m.known, m.needs_limits, m.promoted, m.others_wait,
                h.id, h.name, h.queue, h.payload, h.metadata, h.priority, h.attempts_max,
                h.backoff, h.keep, h.timeout_ms, h.dedupe_key, h.trace, h.parent, h.enqueued_at,
                h.state, h.attempts_made, h.attempts_recorded, h.stalled_count,
                h.cancel_requested, h.flow, h.run_at, h.processed_at, h.finished_at, h.exit,
                h.failed_reason, h.progress
            FROM meta m LEFT JOIN held h ON true
            ORDER BY h.place_priority DESC, h.seq"
        )
    };
}

/// For one name the index has the order: only what is taken is locked.
const CLAIM_ONE_NAME: &str = claim!(
    "SELECT r.* FROM $mq_ready r
    WHERE r.queue = $2 AND r.name = ($3::text[])[1]
    ORDER BY r.priority DESC, r.seq
    LIMIT (SELECT jobs FROM room)
    FOR UPDATE SKIP LOCKED"
);

/// For several, the best of each name are looked at, then the best of these
/// locked. Twice as many as asked for, since others may hold some.
const CLAIM_NAMES: &str = claim!(
    "SELECT r.*
    FROM (
        SELECT b.job_id, b.priority, b.seq
        FROM unnest($3::text[]) AS n(name) CROSS JOIN LATERAL (
            SELECT r.job_id, r.priority, r.seq FROM $mq_ready r
            WHERE r.queue = $2 AND r.name = n.name
            ORDER BY r.priority DESC, r.seq
            LIMIT (SELECT 2 * jobs FROM room)
        ) AS b
        ORDER BY b.priority DESC, b.seq
        LIMIT (SELECT 2 * jobs FROM room)
    ) AS b JOIN $mq_ready r ON r.job_id = b.job_id
    ORDER BY b.priority DESC, b.seq
    LIMIT (SELECT jobs FROM room)
    FOR UPDATE OF r SKIP LOCKED"
);

/// Answers a claim again: arms what is still locked under the token anew.
const CLAIM_AGAIN: &str = concat!(
    "WITH ",
    clock!(),
    ", t AS (
        UPDATE $mq_active a SET lock_expires_at = ",
    after!("(SELECT now FROM clock)", "$5::bigint"),
    "   FROM $mq_claim c CROSS JOIN LATERAL unnest(c.job_ids) WITH ORDINALITY AS i(id, place)
        WHERE c.token = $4 AND a.job_id = i.id AND a.token = $4
        RETURNING a.*, i.place
    ),
    held AS (
        SELECT t.place, ",
    active_record!("t.cancel_requested", "t.processed_at"),
    "   FROM t JOIN $mq_job j ON j.id = t.job_id
    ),
    meta AS (
        SELECT (SELECT now FROM clock) AS now, ",
    next_delayed!(),
    " AS next_run_at, true AS known, false AS needs_limits, false AS promoted,
        EXISTS (SELECT FROM unnest($3::text[]) AS n(name) CROSS JOIN LATERAL (
            SELECT FROM $mq_ready r WHERE r.queue = $2 AND r.name = n.name LIMIT 1
        ) AS r) AS others_wait
    )
    SELECT m.now, m.next_run_at, m.known, m.needs_limits, m.promoted, m.others_wait,
        h.id, h.name, h.queue, h.payload, h.metadata, h.priority, h.attempts_max,
        h.backoff, h.keep, h.timeout_ms, h.dedupe_key, h.trace, h.parent, h.enqueued_at,
        h.state, h.attempts_made, h.attempts_recorded, h.stalled_count,
        h.cancel_requested, h.flow, h.run_at, h.processed_at, h.finished_at, h.exit,
        h.failed_reason, h.progress
    FROM meta m LEFT JOIN held h ON true
    ORDER BY h.place"
);

/// Forgets the tokens of old claims that hold nothing any more.
const FORGET: &str = concat!(
    "WITH ",
    clock!(),
    ", old AS MATERIALIZED (
        SELECT c.token FROM $mq_claim c
        WHERE c.claimed_at <= (SELECT now FROM clock) - interval '60 seconds'
            AND NOT EXISTS (
                SELECT FROM unnest(c.job_ids) AS i(id) JOIN $mq_active a ON a.job_id = i.id
                WHERE a.token = c.token
            )
        ORDER BY c.claimed_at LIMIT 1000
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM $mq_claim c USING old WHERE c.token = old.token"
);

/// How many claims go by until old tokens are forgotten.
const FORGOTTEN_EVERY: u32 = 256;

/// A claim's answer, before it is decided whether to ask again.
struct Answer {
    jobs: Vec<JobRecord>,
    /// Jobs that were locked too, but cannot be run.
    undecoded: Vec<Undecoded>,
    now: Timestamp,
    next_run_at: Option<Timestamp>,
    known: bool,
    needs_limits: bool,
    promoted: bool,
    others_wait: bool,
}

struct Asked<'a> {
    request: &'a ClaimRequest,
    names: Vec<&'a str>,
    lock_for: i64,
    limit: u32,
}

impl Inner {
    pub(super) async fn claim(
        self: &std::sync::Arc<Self>,
        request: &ClaimRequest,
        limit: u32,
    ) -> Result<Claim> {
        self.listen_first().await;
        let names: BTreeSet<&str> = request.names.iter().map(|name| name.as_str()).collect();
        let asked = Asked {
            request,
            names: names.into_iter().collect(),
            lock_for: millis(request.lock_for),
            limit,
        };
        let mut looks = 0;
        loop {
            // Taken before: what is woken meanwhile must not be lost.
            let wake = self.wakes.cursor();
            let answer = self.ask(&asked).await?;
            looks += 1;
            let is_beaten = answer.jobs.is_empty() && answer.undecoded.is_empty();
            if is_beaten && answer.others_wait && !answer.known && looks < LOOKS {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=4))).await;
                continue;
            }
            if answer.promoted {
                self.announce(vec![Topic::Queue(request.queue.clone())]);
            }
            self.forget_claims().await;
            // Behind jobs that cannot be run there may be some that can.
            let looks_again = answer.others_wait || !answer.undecoded.is_empty();
            self.fail_undecoded(&request.token, &answer.undecoded).await;
            return Ok(Claim {
                wake: WakeCursor(if looks_again { 0 } else { wake }),
                jobs: answer.jobs,
                next_run_at: answer.next_run_at,
                now: answer.now,
            });
        }
    }

    async fn ask(&self, asked: &Asked<'_>) -> Result<Answer> {
        if asked.names.is_empty() {
            // The statement for one name would compare with nothing.
            return self.ask_again(asked).await;
        }
        let statement = self.claim_statement(asked, asked.limit, false);
        let answer = match self.attempt(&statement).await {
            Ok(rows) => read(&rows)?,
            // Another copy of this very call is quicker.
            Err(Failure::Statement(error)) if error::is_unique_violation(&error) => {
                return self.ask_again(asked).await;
            }
            Err(failure) => return Err(self.connections.store_error(failure)),
        };
        if answer.known {
            self.ask_again(asked).await
        } else if answer.needs_limits {
            self.repeatedly(|| self.ask_within_limits(asked)).await
        } else {
            Ok(answer)
        }
    }

    async fn ask_again(&self, asked: &Asked<'_>) -> Result<Answer> {
        let statement = self
            .timed(CLAIM_AGAIN)
            .bind(&*asked.request.queue)
            .bind(asked.names.clone())
            .bind(&*asked.request.token)
            .bind(asked.lock_for);
        read(&self.query(&statement).await?)
    }

    /// Claims from a queue with limits. Its settings stay locked meanwhile, so
    /// that what they allow is counted once.
    async fn ask_within_limits(&self, asked: &Asked<'_>) -> Result<Answer, Failure> {
        let queue = &asked.request.queue;
        let mut transaction = self.begin().await?;
        let Settings { limiter, free, now } = self
            .lock_settings(&mut transaction, queue, asked.limit)
            .await?;
        let Room { jobs, more_from } = limiter.map_or(
            Room {
                jobs: free,
                more_from: None,
            },
            |limiter| limiter.room(now, free),
        );
        let statement = self.claim_statement(asked, jobs, true);
        let mut answer = read(&transaction.rows(&statement).await?)?;
        if answer.known {
            transaction.roll_back().await?;
            return Ok(self.ask_again(asked).await?);
        }
        if let (Some(mut limiter), false) = (limiter, answer.jobs.is_empty()) {
            limiter.count(now, answer.jobs.len());
            self.store_limiter(&mut transaction, queue, limiter).await?;
        }
        transaction.commit().await?;
        if answer.others_wait || answer.promoted {
            answer.next_run_at = answer.next_run_at.into_iter().chain(more_from).min();
        }
        // They wait for the limits, not for each other.
        answer.others_wait = false;
        Ok(answer)
    }

    fn claim_statement<'a>(
        &'a self,
        asked: &'a Asked<'_>,
        limit: u32,
        within_limits: bool,
    ) -> crate::statement::Statement<'a> {
        let template = match asked.names.as_slice() {
            [_] => CLAIM_ONE_NAME,
            _ => CLAIM_NAMES,
        };
        self.timed(template)
            .bind(&*asked.request.queue)
            .bind(asked.names.clone())
            .bind(&*asked.request.token)
            .bind(asked.lock_for)
            .bind(limit.min(MAX_BATCH))
            .bind(within_limits)
    }

    async fn forget_claims(&self) {
        use std::sync::atomic::Ordering;
        let claims = self.claims.fetch_add(1, Ordering::Relaxed);
        if claims % FORGOTTEN_EVERY == FORGOTTEN_EVERY - 1
            && let Err(error) = self.query(&self.timed(FORGET)).await
        {
            tracing::debug!(%error, "could not forget old claims");
        }
    }
}

fn read(rows: &[Row]) -> Result<Answer> {
    let mut jobs = Vec::with_capacity(rows.len());
    let mut undecoded = Vec::new();
    let read = |columns: &mut Columns<'_>| -> Read<Answer> {
        let answer = Answer {
            now: columns.instant()?,
            next_run_at: columns.maybe_instant()?,
            known: columns.flag()?,
            needs_limits: columns.flag()?,
            promoted: columns.flag()?,
            others_wait: columns.flag()?,
            jobs: Vec::new(),
            undecoded: Vec::new(),
        };
        match maybe_record(columns)? {
            None => {}
            Some(Ok(job)) => jobs.push(job),
            Some(Err(error)) => undecoded.push(Undecoded::of(error)?),
        }
        Ok(answer)
    };
    let answer = read_all(rows, read)?.pop();
    answer
        .map(|answer| Answer {
            jobs,
            undecoded,
            ..answer
        })
        .ok_or_else(|| StoreError::Backend {
            message: "Postgres gave no answer to a claim".into(),
            source: None,
        })
}
