//! Inspect: what is there.

mod list;

use std::collections::BTreeMap;

use async_trait::async_trait;
use mq_core::{
    AttemptRecord, InspectOps, JobId, JobRecord, JobState, ListFilter, ListPage, QueueInfo,
    QueueName, Rate, Result, StateCounts, Timestamp, validate,
};

use crate::rows::{Columns, Read, maybe_record, millis, read_all, read_one, record_columns};
use crate::statement::clock;
use crate::store::PgStore;

const NOW: &str = concat!("WITH ", clock!(), " SELECT now FROM clock");

const GET_JOBS: &str = concat!(
    "SELECT i.place, j.* FROM unnest($1::text[]) WITH ORDINALITY AS i(wanted, place)
    JOIN LATERAL (SELECT ",
    record_columns!(),
    " FROM $mq_jobs v WHERE v.id = i.wanted) AS j ON true"
);

const GET_ATTEMPTS: &str = "SELECT attempt, started_at, finished_at, outcome, exit
    FROM $mq_job_attempts WHERE job_id = $1 ORDER BY attempt";

/// Jobs by queue and state, of one queue or of all.
const COUNTS: &str = "SELECT queue, 'waiting', count(*) FROM $mq_ready
        WHERE $1::text IS NULL OR queue = $1 GROUP BY queue
    UNION ALL SELECT queue, 'delayed', count(*) FROM $mq_delayed
        WHERE $1::text IS NULL OR queue = $1 GROUP BY queue
    UNION ALL SELECT queue, 'active', count(*) FROM $mq_active
        WHERE $1::text IS NULL OR queue = $1 GROUP BY queue
    UNION ALL SELECT queue, 'waiting-children', count(*) FROM $mq_parked
        WHERE $1::text IS NULL OR queue = $1 GROUP BY queue
    UNION ALL SELECT queue, state, count(*) FROM $mq_finished
        WHERE $1::text IS NULL OR queue = $1 GROUP BY queue, state";

const CONTROLS: &str = "SELECT queue, paused, max_active, rate_count, rate_per_ms
    FROM $mq_queue_control";

fn count(columns: &mut Columns<'_>) -> Read<(String, JobState, u64)> {
    Ok((
        columns.text()?,
        columns.state()?,
        u64::try_from(columns.number()?)?,
    ))
}

fn control(columns: &mut Columns<'_>) -> Read<(String, bool, Option<u32>, Option<Rate>)> {
    Ok((
        columns.text()?,
        columns.flag()?,
        columns.maybe_number()?.map(u32::try_from).transpose()?,
        match (columns.maybe_number()?, columns.maybe_number()?) {
            (Some(count), Some(per)) => Some(Rate {
                count: u32::try_from(count)?,
                per: millis(per)?,
            }),
            _ => None,
        },
    ))
}

#[async_trait]
impl InspectOps for PgStore {
    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>> {
        validate::job_ids(ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for page in ids.chunks(validate::MAX_BATCH as usize) {
            let wanted: Vec<&str> = page.iter().map(JobId::as_str).collect();
            let statement = self.inner.statement(GET_JOBS).bind(wanted);
            let rows = self.inner.query(&statement).await?;
            let mut found: Vec<Result<Option<JobRecord>>> = vec![Ok(None); page.len()];
            let read = read_all(&rows, |columns| {
                let place = usize::try_from(columns.number()?)?;
                Ok((place - 1, maybe_record(columns)?))
            })?;
            for (place, record) in read {
                if let (Some(answer), Some(record)) = (found.get_mut(place), record) {
                    *answer = record.map(Some);
                }
            }
            answers.extend(found);
        }
        Ok(answers)
    }

    async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>> {
        validate::job_id(id)?;
        let statement = self.inner.statement(GET_ATTEMPTS).bind(&**id);
        let rows = self.inner.query(&statement).await?;
        read_all(&rows, |columns| {
            Ok(AttemptRecord {
                attempt: columns.count()?,
                started_at: columns.maybe_instant()?,
                finished_at: columns.instant()?,
                outcome: serde_json::from_value(columns.text()?.into())?,
                exit: columns.maybe_json()?,
            })
        })
    }

    async fn list(&self, filter: ListFilter) -> Result<ListPage> {
        let limit = validate::list(&filter)?;
        self.inner.list(&filter, limit).await
    }

    async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts> {
        queue.map_or(Ok(()), validate::queue_name)?;
        let statement = self
            .inner
            .statement(COUNTS)
            .bind(queue.map(|queue| &**queue));
        let rows = self.inner.query(&statement).await?;
        let mut counts = StateCounts::default();
        for (_, state, count) in read_all(&rows, count)? {
            *counts.of_mut(state) += count;
        }
        Ok(counts)
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        let mut queues: BTreeMap<String, QueueInfo> = BTreeMap::new();
        let entry = |queues: &mut BTreeMap<String, QueueInfo>, queue: &str| {
            if !queues.contains_key(queue) {
                let info = QueueInfo {
                    queue: queue.into(),
                    counts: StateCounts::default(),
                    paused: false,
                    max_active: None,
                    rate: None,
                };
                queues.insert(queue.to_owned(), info);
            }
        };
        let statement = self.inner.statement(COUNTS).bind(None::<&str>);
        let rows = self.inner.query(&statement).await?;
        for (queue, state, count) in read_all(&rows, count)? {
            entry(&mut queues, &queue);
            if let Some(info) = queues.get_mut(&queue) {
                *info.counts.of_mut(state) += count;
            }
        }
        let rows = self.inner.query(&self.inner.statement(CONTROLS)).await?;
        for (queue, paused, max_active, rate) in read_all(&rows, control)? {
            entry(&mut queues, &queue);
            if let Some(info) = queues.get_mut(&queue) {
                (info.paused, info.max_active, info.rate) = (paused, max_active, rate);
            }
        }
        Ok(queues.into_values().collect())
    }

    async fn now(&self) -> Result<Timestamp> {
        let rows = self.inner.query(&self.inner.timed(NOW)).await?;
        read_one(&rows, |columns| columns.instant())
    }
}
