//! Admin: what operators and producers do to jobs and queues afterwards.

mod history;
mod queue;
mod verbs;
mod workers;

use mq_core::{
    AdminOps, Cancelled, DedupeKey, JobId, JobName, QueueName, QueueSettings, Result, StoreError,
    StoreKey, Swept, WorkerRecord, async_trait, validate,
};
use redis::Value;

use crate::RedisStore;
use crate::connection::Repeat;
use crate::reply::{Reply, unexpected};
use crate::script;

#[async_trait]
impl AdminOps for RedisStore {
    async fn retry(&self, id: &JobId) -> Result<()> {
        self.retry_job(id).await
    }

    async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>> {
        self.cancel_jobs(ids).await
    }

    async fn cancel_by_dedupe(&self, name: &JobName, key: &DedupeKey) -> Result<bool> {
        self.cancel_keyed(name, key).await
    }

    async fn promote(&self, id: &JobId) -> Result<()> {
        self.promote_job(id).await
    }

    async fn remove(&self, id: &JobId) -> Result<bool> {
        self.remove_job(id).await
    }

    async fn set_queue(&self, queue: &QueueName, settings: QueueSettings) -> Result<()> {
        self.change_queue(queue, settings).await
    }

    async fn sweep_history(&self, limit: u32) -> Result<Swept> {
        self.sweep(limit).await
    }

    async fn report_worker(&self, record: WorkerRecord) -> Result<()> {
        self.store_worker(record).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        self.read_workers().await
    }

    async fn bind_name(&self, name: &StoreKey) -> Result<()> {
        validate::store_key(name)?;
        let mut call = self.call(&script::BIND_NAME).repeat(Repeat::Safely);
        call.arg(&**name);
        let answer = self.run(&call).await?;
        let bound = Reply::new("bind_name", Value::Array(vec![answer]))?.text()?;
        if bound == **name {
            return Ok(());
        }
        Err(StoreError::NameMismatch {
            bound: bound.into(),
            asked: name.clone(),
        })
    }
}

/// A word that a script answered.
fn word(script: &'static str, answer: &Value) -> Result<String> {
    match answer {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Ok(text.clone()),
        other => Err(unexpected(script, "a word", other)),
    }
}
