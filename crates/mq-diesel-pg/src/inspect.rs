//! Inspect: what is there.

use async_trait::async_trait;
use mq_core::{
    AttemptRecord, InspectOps, JobId, JobRecord, ListFilter, ListPage, QueueInfo, QueueName,
    Result, StateCounts, Timestamp, validate,
};

use crate::rows::{maybe_record, read_all, read_one, record_columns};
use crate::statement::clock;
use crate::store::{PgStore, unsupported};

const NOW: &str = concat!("WITH ", clock!(), " SELECT now FROM clock");

const GET_JOBS: &str = concat!(
    "SELECT i.place, j.* FROM unnest($1::text[]) WITH ORDINALITY AS i(wanted, place)
    JOIN LATERAL (SELECT ",
    record_columns!(),
    " FROM $mq_jobs v WHERE v.id = i.wanted) AS j ON true"
);

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

    async fn get_attempts(&self, _id: &JobId) -> Result<Vec<AttemptRecord>> {
        Err(unsupported("get_attempts"))
    }

    async fn list(&self, _filter: ListFilter) -> Result<ListPage> {
        Err(unsupported("list"))
    }

    async fn counts(&self, _queue: Option<&QueueName>) -> Result<StateCounts> {
        Err(unsupported("counts"))
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        Err(unsupported("queues"))
    }

    async fn now(&self) -> Result<Timestamp> {
        let rows = self.inner.query(&self.inner.timed(NOW)).await?;
        read_one(&rows, |columns| columns.instant())
    }
}
