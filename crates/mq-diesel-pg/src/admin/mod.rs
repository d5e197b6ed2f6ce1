//! Admin: what operators and producers do to jobs and queues afterwards.

mod cancel;
mod queue;
mod sweep;

use async_trait::async_trait;
use mq_core::{
    AdminOps, Cancelled, DedupeKey, JobId, JobName, JobState, QueueName, QueueSettings, Result,
    StoreError, StoreKey, Swept, WorkerRecord, validate,
};

use crate::rows::{Row, read_all, read_one};
use crate::statement::clock;
use crate::store::{Inner, PgStore};
use crate::terminal::remove;
use crate::wake::Topic;

/// Lets a failed job wait again; its ledger's last entry moves to the others.
const RETRY: &str = concat!(
    "WITH ",
    clock!(),
    ", gone AS (
        DELETE FROM $mq_finished WHERE job_id = $2 AND state = 'failed' RETURNING *
    ),
    back AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_recorded,
            last_acked, progress, watched, has_flow)
        SELECT g.job_id, g.queue, g.name, j.priority, nextval('$mq_seq'), (SELECT now FROM clock),
            g.attempts_recorded, g.last_acked, g.progress, g.watched, g.has_flow
        FROM gone g JOIN $mq_job j ON j.id = g.job_id
    ),
    noted AS (
        INSERT INTO $mq_attempt (job_id, attempt, started_at, finished_at, outcome, exit)
        SELECT job_id, attempts_recorded, CASE WHEN closed_run THEN processed_at END,
            finished_at, outcome, coalesce(run_exit, exit)
        FROM gone
    )
    SELECT queue FROM gone"
);

const PROMOTE: &str = concat!(
    "WITH ",
    clock!(),
    ", gone AS (DELETE FROM $mq_delayed WHERE job_id = $2 RETURNING *),
    back AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, (SELECT now FROM clock), attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow
        FROM gone
    )
    SELECT queue FROM gone"
);

/// Removes a job in a state in which it may be, and tells whether it was watched.
///
/// The entry of its dedupe key is locked first, as by an enqueue under the key
/// that replaces the job.
const REMOVE: &str = concat!(
    "WITH ",
    clock!(),
    ", entry AS MATERIALIZED (
        SELECT FROM $mq_job j JOIN $mq_dedupe k
            ON k.name = j.name AND k.key = j.dedupe_key AND k.job_id = j.id
        WHERE j.id = $2
        FOR UPDATE OF k
    ),
    ready AS (
        SELECT job_id, watched FROM $mq_ready
        WHERE job_id = $2 AND (SELECT count(*) FROM entry) >= 0 FOR UPDATE
    ),
    delayed AS (
        SELECT job_id, watched FROM $mq_delayed
        WHERE job_id = $2 AND (SELECT count(*) FROM entry) >= 0 FOR UPDATE
    ),
    finished AS (
        SELECT job_id, watched FROM $mq_finished
        WHERE job_id = $2 AND (SELECT count(*) FROM entry) >= 0 FOR UPDATE
    ),
    doomed AS MATERIALIZED (
        SELECT * FROM ready UNION ALL SELECT * FROM delayed UNION ALL SELECT * FROM finished
    ),
    ",
    remove!(),
    " SELECT d.watched FROM doomed d"
);

const STATE: &str = "SELECT state FROM $mq_jobs WHERE id = $1";

const KEYED_JOB: &str = "SELECT j.id FROM $mq_dedupe k
    JOIN $mq_job j ON j.id = k.job_id AND j.name = k.name AND j.dedupe_key = k.key
    WHERE k.name = $1 AND k.key = $2";

const REPORT_WORKER: &str = concat!(
    "WITH ",
    clock!(),
    ", gone AS (
        DELETE FROM $mq_workers
        WHERE last_seen_at <= (SELECT now FROM clock) - interval '60 seconds' AND id <> $2
    )
    INSERT INTO $mq_workers (id, host, version, queues, in_flight, started_at, last_seen_at)
    VALUES ($2, $3, $4, $5, $6, $7, (SELECT now FROM clock))
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, version = excluded.version,
        queues = excluded.queues, in_flight = excluded.in_flight,
        started_at = excluded.started_at, last_seen_at = excluded.last_seen_at"
);

const WORKERS: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT id, host, version, to_json(queues), in_flight, started_at, last_seen_at
    FROM $mq_workers
    WHERE last_seen_at > (SELECT now FROM clock) - interval '60 seconds'
    ORDER BY id"
);

const BIND_NAME: &str = "UPDATE $mq_meta SET store_name = coalesce(store_name, $1)
    RETURNING store_name";

#[async_trait]
impl AdminOps for PgStore {
    async fn retry(&self, id: &JobId) -> Result<()> {
        validate::job_id(id)?;
        self.inner
            .revive(RETRY, "retry", id, JobState::Failed)
            .await
    }

    async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>> {
        validate::job_ids(ids)?;
        self.inner.cancel_many(ids).await
    }

    async fn cancel_by_dedupe(&self, name: &JobName, key: &DedupeKey) -> Result<bool> {
        validate::cancel_by_dedupe(name, key)?;
        let statement = self.inner.statement(KEYED_JOB).bind(&**name).bind(&**key);
        let rows = self.inner.query(&statement).await?;
        let Some(id) = read_all(&rows, |columns| columns.text())?.pop() else {
            return Ok(false);
        };
        match self.cancel(&id.into()).await {
            Ok(_) => Ok(true),
            Err(StoreError::IllegalState { .. } | StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn promote(&self, id: &JobId) -> Result<()> {
        validate::job_id(id)?;
        self.inner
            .revive(PROMOTE, "promote", id, JobState::Delayed)
            .await
    }

    async fn remove(&self, id: &JobId) -> Result<bool> {
        validate::job_id(id)?;
        loop {
            let statement = self.inner.timed(REMOVE).bind(&**id);
            let removed = self.inner.query(&statement).await?;
            if let Some(watched) = read_all(&removed, |columns| columns.flag())?.pop() {
                if watched {
                    self.inner.announce(vec![Topic::Job(id.clone())]);
                }
                return Ok(true);
            }
            match self.inner.state_of(id).await? {
                None => return Ok(false),
                Some(state @ (JobState::Active | JobState::WaitingChildren)) => {
                    return Err(StoreError::IllegalState {
                        operation: "remove",
                        id: id.clone(),
                        state,
                        required: "waiting, delayed or terminal (cancel it first)",
                    });
                }
                // It moved between the two statements.
                Some(_) => {}
            }
        }
    }

    async fn set_queue(&self, queue: &QueueName, settings: QueueSettings) -> Result<()> {
        validate::set_queue(queue, &settings)?;
        self.inner.set_queue(queue, settings).await
    }

    async fn sweep_history(&self, limit: u32) -> Result<Swept> {
        let limit = validate::batch_limit(limit)?;
        self.inner.repeatedly(|| self.inner.sweep_page(limit)).await
    }

    async fn report_worker(&self, record: WorkerRecord) -> Result<()> {
        validate::worker(&record)?;
        let queues: Vec<&str> = record.queues.iter().map(QueueName::as_str).collect();
        let statement = self
            .inner
            .timed(REPORT_WORKER)
            .bind(&*record.id)
            .bind(&*record.host)
            .bind(&*record.version)
            .bind(queues)
            .bind(record.in_flight)
            .bind(record.started_at);
        self.inner.query(&statement).await.map(drop)
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        let rows = self.inner.query(&self.inner.timed(WORKERS)).await?;
        read_all(&rows, |columns| {
            Ok(WorkerRecord {
                id: columns.text()?.into(),
                host: columns.text()?,
                version: columns.text()?,
                queues: columns.maybe_value()?.unwrap_or_default(),
                in_flight: u32::try_from(columns.number()?)?,
                started_at: columns.instant()?,
                last_seen_at: columns.instant()?,
            })
        })
    }

    async fn bind_name(&self, name: &StoreKey) -> Result<()> {
        validate::store_key(name)?;
        let statement = self.inner.statement(BIND_NAME).bind(&**name);
        let rows = self.inner.query(&statement).await?;
        let bound = StoreKey::from(read_one(&rows, |columns| columns.text())?);
        if bound == *name {
            return Ok(());
        }
        Err(StoreError::NameMismatch {
            bound,
            asked: name.clone(),
        })
    }
}

impl Inner {
    pub(crate) async fn state_of(&self, id: &JobId) -> Result<Option<JobState>> {
        let statement = self.statement(STATE).bind(&**id);
        let rows = self.query(&statement).await?;
        Ok(read_all(&rows, |columns| columns.state())?.pop())
    }

    /// Moves a job from the one state it must be in to `waiting`.
    async fn revive(
        self: &std::sync::Arc<Self>,
        template: &'static str,
        operation: &'static str,
        id: &JobId,
        required: JobState,
    ) -> Result<()> {
        loop {
            let statement = self.timed(template).bind(&**id);
            let rows: Vec<Row> = self.query(&statement).await?;
            if let Some(queue) = read_all(&rows, |columns| columns.text())?.pop() {
                self.announce(vec![Topic::Queue(queue.into())]);
                return Ok(());
            }
            match self.state_of(id).await? {
                None => return Err(StoreError::NotFound { id: id.clone() }),
                // It got there between the two statements.
                Some(state) if state == required => {}
                Some(state) => {
                    return Err(StoreError::IllegalState {
                        operation,
                        id: id.clone(),
                        state,
                        required: required.as_str(),
                    });
                }
            }
        }
    }
}
