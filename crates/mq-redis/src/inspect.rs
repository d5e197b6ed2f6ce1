//! Inspect: what is there.

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{
    AttemptRecord, InspectOps, JobId, JobRecord, JobState, ListFilter, ListPage,
    MAX_ATTEMPT_RECORDS, QueueInfo, QueueName, Result, StateCounts, StoreError, Timestamp,
    async_trait,
};
use redis::Value;

use crate::RedisStore;
use crate::codec::{Broken, StoredJob, ledger_entry, record, state};
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
        validate::list(&filter)?;
        Err(StoreError::Unsupported {
            operation: "list",
            remedy: "this version of the Redis store does not serve it yet",
        })
    }

    async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts> {
        queue.map_or(Ok(()), validate::queue_name)?;
        let mut sum = StateCounts::default();
        let call = self.call(&script::COUNTS).repeat(Repeat::Safely);
        let mut fields = self.run_list(&call).await?.list()?;
        while !fields.is_empty() {
            let (field, number) = (fields.text()?, fields.number()?);
            if let Some((of, state)) = counted(&field)
                && queue.is_none_or(|queue| *queue == of)
            {
                *sum.of_mut(state) += number;
            }
        }
        Ok(sum)
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>> {
        Err(StoreError::Unsupported {
            operation: "queues",
            remedy: "this version of the Redis store does not serve it yet",
        })
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

/// The queue and the state that a field of the counts is of.
fn counted(field: &str) -> Option<(&str, JobState)> {
    let (queue, letter) = field.rsplit_once('\0')?;
    let state = letter
        .bytes()
        .next()
        .and_then(|letter| state(letter).ok())?;
    Some((queue, state))
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
            let [job, live, end, progress, flow] = texts;
            answers.push(Ok(None));
            let (Some(job), Some(place)) = (&job, answers.last_mut()) else {
                continue;
            };
            let stored = StoredJob {
                job,
                live: live.as_deref(),
                end: end.as_deref(),
                progress: progress.as_deref(),
                flow: flow.as_deref(),
            };
            *place = record(id, stored)
                .map(|(record, _)| Some(record))
                .map_err(|broken| corrupt(id, broken));
        }
        Ok(())
    }
}
