//! Inspect: what is there.

mod list;
mod queues;

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{
    AttemptRecord, InspectOps, JobId, JobRecord, ListFilter, ListPage, MAX_ATTEMPT_RECORDS,
    QueueInfo, QueueName, Result, StateCounts, StoreError, Timestamp, async_trait,
};
use redis::Value;

use crate::RedisStore;
use crate::codec::{Broken, StoredJob, ledger_entry, record};
use crate::connection::Repeat;
use crate::reply::{Reply, unexpected};
use crate::script;

#[async_trait]
impl InspectOps for RedisStore {
    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>> {
        validate::job_ids(ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for page in ids.chunks(MAX_BATCH as usize) {
            self.get_page(page, &mut answers).await?;
        }
        Ok(answers)
    }

    async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>> {
        validate::job_id(id)?;
        let mut call = self.call(&script::ATTEMPTS).repeat(Repeat::Safely);
        call.arg(&**id);
        let mut answer = self.run_list(&call).await?;
        let mut entries = answer.list()?;
        let (job, end) = (answer.optional_bytes()?, answer.optional_bytes()?);
        let mut ledger = Vec::with_capacity(entries.len() + 1);
        while !entries.is_empty() {
            let entry = ledger_entry(&entries.bytes()?);
            ledger.push(entry.map_err(|broken| corrupt(id, broken))?);
        }
        if let (Some(job), Some(_)) = (&job, &end) {
            let stored = StoredJob {
                job,
                end: end.as_deref(),
                ..StoredJob::default()
            };
            let (_, last) = record(id, stored).map_err(|broken| corrupt(id, broken))?;
            ledger.extend(last);
        }
        let surplus = ledger.len().saturating_sub(MAX_ATTEMPT_RECORDS);
        ledger.drain(..surplus);
        Ok(ledger)
    }

    async fn list(&self, filter: ListFilter) -> Result<ListPage> {
        self.list_page(filter).await
    }

    async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts> {
        queue.map_or(Ok(()), validate::queue_name)?;
        self.count_jobs(queue).await
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        self.list_queues().await
    }

    async fn now(&self) -> Result<Timestamp> {
        let call = self.call(&script::NOW).repeat(Repeat::Safely);
        match self.run(&call).await? {
            Value::Int(millis) if millis >= 0 => {
                Ok(Timestamp::saturating_from_millis(millis as u64))
            }
            other => Err(unexpected("now", "a number", &other)),
        }
    }
}

fn corrupt(id: &JobId, broken: Broken) -> StoreError {
    StoreError::Corrupt {
        id: id.clone(),
        detail: broken.0.to_owned(),
    }
}

impl RedisStore {
    async fn get_page(
        &self,
        page: &[JobId],
        answers: &mut Vec<Result<Option<JobRecord>>>,
    ) -> Result<()> {
        let mut call = self.call(&script::GET).repeat(Repeat::Safely);
        for id in page {
            call.arg(&**id);
        }
        let mut answer = self.run_list(&call).await?;
        let mut lists = Vec::with_capacity(5);
        for _ in 0..5 {
            lists.push(answer.list()?);
        }
        for id in page {
            let mut texts = [const { None }; 5];
            for (text, list) in texts.iter_mut().zip(&mut lists) {
                *text = Reply::optional_bytes(list)?;
            }
            answers.push(read_job(id, &texts));
        }
        Ok(())
    }
}

/// A job from its record, live text, end, progress and flow; none without a
/// record.
fn read_job(id: &JobId, texts: &[Option<Vec<u8>>; 5]) -> Result<Option<JobRecord>> {
    let [Some(job), live, end, progress, flow] = texts else {
        return Ok(None);
    };
    let stored = StoredJob {
        job,
        live: live.as_deref(),
        end: end.as_deref(),
        progress: progress.as_deref(),
        flow: flow.as_deref(),
    };
    record(id, stored)
        .map(|(record, _)| Some(record))
        .map_err(|broken| corrupt(id, broken))
}
