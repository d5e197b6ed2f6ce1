//! Inserting jobs, a chunk in one statement.

use std::collections::HashSet;

use mq_core::validate::MAX_BATCH;
use mq_core::{Enqueued, JobId, QueueName, Result, Timestamp, When, ceil_millis};
use serde::Serialize;

use super::{Executor, Request};
use crate::pool::Failure;
use crate::rows::read_all;
use crate::statement::{Statement, after, clock};
use crate::store::Inner;

/// How many bytes of payloads one chunk holds, unless a single one is larger.
const MOST_BYTES: usize = 512 * 1_024;

/// Inserts jobs whose ids are free, and tells of each whether it was and, if
/// not, the name of the job that has the id, where that can be seen already.
///
/// Ids are inserted in their order, so that two batches that share some wait
/// for each other instead of deadlocking; places in the queue are drawn in the
/// order of the batch.
const INSERT: &str = concat!(
    "WITH ",
    clock!(),
    ", input AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.at IS NULL THEN ",
    after!("(SELECT now FROM clock)", "i.delay_ms"),
    " ELSE greatest(i.at, (SELECT now FROM clock)) END AS run_at
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[],
            $8::bigint[], $9::text[], $10::text[], $11::bigint[], $12::text[], $13::text[],
            $14::text[], $15::bigint[], $16::timestamptz[])
            WITH ORDINALITY AS i(id, name, queue, payload, metadata, priority, attempts_max,
                backoff, keep, timeout_ms, dedupe_key, trace, parent, delay_ms, at, place)
    ),
    inserted AS (
        INSERT INTO $mq_job (id, name, queue, payload, metadata, priority, attempts_max, backoff,
            keep, timeout_ms, dedupe_key, trace, parent, enqueued_at)
        SELECT id, name, queue, payload::json, metadata::jsonb, priority, attempts_max,
            backoff::json, keep::json, timeout_ms, dedupe_key, trace::json, parent::json,
            (SELECT now FROM clock)
        FROM input
        ORDER BY id COLLATE \"C\"
        ON CONFLICT (id) DO NOTHING
        RETURNING id
    ),
    -- Not as a join, which would compare each with each.
    tried AS MATERIALIZED (
        SELECT i.id, i.queue, i.name, i.priority, i.run_at, i.place,
            i.id IN (SELECT id FROM inserted) AS is_new
        FROM input i
    ),
    arrived AS MATERIALIZED (
        SELECT id, queue, name, priority, nextval('$mq_seq') AS seq, run_at
        FROM (SELECT * FROM tried WHERE is_new ORDER BY place) AS n
    ),
    ready AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at)
        SELECT id, queue, name, priority, seq, run_at FROM arrived
        WHERE run_at <= (SELECT now FROM clock)
    ),
    delayed AS (
        INSERT INTO $mq_delayed (job_id, queue, name, priority, seq, run_at)
        SELECT id, queue, name, priority, seq, run_at FROM arrived
        WHERE run_at > (SELECT now FROM clock)
    )
    SELECT is_new,
        CASE WHEN NOT is_new THEN (
            SELECT j.name FROM $mq_job j WHERE j.id = t.id COLLATE \"C\"
        ) END
    FROM tried t
    ORDER BY place"
);

/// The name of the job that has an id.
const NAME_OF: &str = "SELECT name FROM $mq_job WHERE id = $1";

/// A queue that a request concerns.
pub(super) struct Told {
    pub(super) queue: QueueName,
    /// Whether it is to be told even if another job stands for the request,
    /// which may have been replaced.
    pub(super) even_if_duplicate: bool,
}

pub(super) fn queues(chunk: &[Request]) -> Vec<Told> {
    let told = |request: &Request| Told {
        queue: request.job.spec.queue.clone(),
        even_if_duplicate: request
            .job
            .dedupe
            .as_ref()
            .is_some_and(|dedupe| dedupe.replace),
    };
    chunk.iter().map(told).collect()
}

/// Cuts a batch into chunks: of plain requests with ids of their own, so many
/// and of so many bytes at the most, and single ones with a dedupe key.
pub(super) fn chunks(requests: Vec<Request>) -> Vec<Vec<Request>> {
    let mut chunks: Vec<Vec<Request>> = Vec::new();
    let mut ids: HashSet<JobId> = HashSet::new();
    let mut bytes = 0;
    let mut open = false;
    for request in requests {
        let size = request.job.spec.payload.get().len();
        let keyed = request.job.dedupe.is_some();
        let fits = open
            && !keyed
            && bytes + size <= MOST_BYTES
            && ids.len() < MAX_BATCH as usize
            && !ids.contains(&request.id);
        if !fits {
            ids.clear();
            bytes = 0;
            chunks.push(Vec::new());
        }
        open = !keyed;
        bytes += size;
        ids.insert(request.id.clone());
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(request);
        }
    }
    chunks
}

/// The columns of a chunk that are written as text.
struct Texts {
    metadata: Vec<String>,
    backoff: Vec<Option<String>>,
    keep: Vec<Option<String>>,
    trace: Vec<Option<String>>,
    parent: Vec<Option<String>>,
}

impl Texts {
    fn of(chunk: &[&Request]) -> Result<Self, Failure> {
        fn texts<'a, T: Serialize + 'a>(
            values: impl Iterator<Item = Option<&'a T>>,
        ) -> Result<Vec<Option<String>>, Failure> {
            values.map(|value| value.map(to_json).transpose()).collect()
        }
        let jobs = || chunk.iter().map(|request| &request.job);
        Ok(Self {
            metadata: jobs()
                .map(|job| to_json(&job.spec.metadata))
                .collect::<Result<_, _>>()?,
            backoff: texts(jobs().map(|job| job.spec.backoff.as_ref()))?,
            keep: texts(jobs().map(|job| job.spec.keep.as_ref()))?,
            trace: texts(jobs().map(|job| job.trace.as_ref()))?,
            parent: texts(jobs().map(|job| job.parent.as_ref()))?,
        })
    }
}

/// A value of ours as JSON.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| {
        Failure::Store(mq_core::StoreError::Backend {
            message: format!("a policy cannot be encoded: {error}"),
            source: None,
        })
    })
}

/// Milliseconds as Postgres takes them.
pub(crate) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(ceil_millis(duration)).unwrap_or(i64::MAX)
}

fn refs(texts: &[Option<String>]) -> Vec<Option<&str>> {
    texts.iter().map(Option::as_deref).collect()
}

impl Inner {
    /// Inserts the requests of a chunk, those whose drawn id is taken again
    /// under another.
    pub(super) async fn insert_chunk(
        &self,
        executor: &mut Executor<'_, '_>,
        chunk: &mut [Request],
    ) -> Result<Vec<Enqueued>, Failure> {
        let mut answers: Vec<Option<Enqueued>> = vec![None; chunk.len()];
        loop {
            let open: Vec<usize> = (0..chunk.len())
                .filter(|at| answers[*at].is_none())
                .collect();
            if open.is_empty() {
                return Ok(answers.into_iter().flatten().collect());
            }
            let requests: Vec<&Request> = open.iter().map(|at| &chunk[*at]).collect();
            let found = self.insert(executor, &requests).await?;
            for (at, (inserted, name)) in open.into_iter().zip(found) {
                let request = &mut chunk[at];
                if inserted {
                    answers[at] = Some(request.inserted());
                } else if request.was_given_its_id() {
                    let name = match name {
                        Some(name) => Some(name),
                        None => self.name_of(executor, &request.id).await?,
                    };
                    // Without a name it was removed meanwhile: the id is free.
                    answers[at] = name.map(|name| Enqueued {
                        id: request.id.clone(),
                        name: name.into(),
                        duplicate: true,
                    });
                } else if request.doubtful {
                    answers[at] = Some(request.inserted());
                } else {
                    self.draw_again(request)?;
                }
            }
        }
    }

    async fn name_of(
        &self,
        executor: &mut Executor<'_, '_>,
        id: &JobId,
    ) -> Result<Option<String>, Failure> {
        let statement = self.statement(NAME_OF).bind(id.as_str());
        let rows = executor.rows(&statement).await?;
        Ok(read_all(&rows, |columns| columns.text())?.pop())
    }

    /// Inserts each whose id is free; for the others the name of the job that
    /// has it, if it can be seen.
    pub(crate) async fn insert(
        &self,
        executor: &mut Executor<'_, '_>,
        requests: &[&Request],
    ) -> Result<Vec<(bool, Option<String>)>, Failure> {
        let texts = Texts::of(requests)?;
        let statement = self.insert_statement(requests, &texts);
        let rows = executor.rows(&statement).await?;
        Ok(read_all(&rows, |columns| {
            Ok((columns.flag()?, columns.maybe_text()?))
        })?)
    }

    fn insert_statement<'a>(&'a self, chunk: &[&'a Request], texts: &'a Texts) -> Statement<'a> {
        let specs = || chunk.iter().map(|request| &request.job.spec);
        let delay = |request: &&Request| match request.job.when {
            When::After(delay) => Some(millis(delay)),
            When::At(_) => None,
        };
        let at = |request: &&Request| -> Option<Timestamp> {
            match request.job.when {
                When::After(_) => None,
                When::At(instant) => Some(instant),
            }
        };
        let key = |request: &&'a Request| {
            let dedupe = request.job.dedupe.as_ref();
            dedupe.map(|dedupe| dedupe.key.as_str())
        };
        self.timed(INSERT)
            .bind(
                chunk
                    .iter()
                    .map(|request| request.id.as_str())
                    .collect::<Vec<_>>(),
            )
            .bind(specs().map(|spec| spec.name.as_str()).collect::<Vec<_>>())
            .bind(specs().map(|spec| spec.queue.as_str()).collect::<Vec<_>>())
            .bind(specs().map(|spec| spec.payload.get()).collect::<Vec<_>>())
            .bind(
                texts
                    .metadata
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>(),
            )
            .bind(specs().map(|spec| spec.priority).collect::<Vec<_>>())
            .bind(
                specs()
                    .map(|spec| i64::from(spec.attempts_max))
                    .collect::<Vec<_>>(),
            )
            .bind(refs(&texts.backoff))
            .bind(refs(&texts.keep))
            .bind(
                specs()
                    .map(|spec| spec.timeout.map(millis))
                    .collect::<Vec<_>>(),
            )
            .bind(chunk.iter().map(key).collect::<Vec<_>>())
            .bind(refs(&texts.trace))
            .bind(refs(&texts.parent))
            .bind(chunk.iter().map(delay).collect::<Vec<_>>())
            .bind(chunk.iter().map(at).collect::<Vec<_>>())
    }
}
