//! Admin: what operators and producers do to jobs and queues afterwards.

use mq_core::{
    AdminOps, Cancelled, DedupeKey, JobId, JobName, QueueName, QueueSettings, Result, StoreError,
    StoreKey, Swept, WorkerRecord, async_trait,
};

use crate::RedisStore;

fn unsupported(operation: &'static str) -> StoreError {
    StoreError::Unsupported {
        operation,
        remedy: "this version of the Redis store does not serve it yet",
    }
}

#[async_trait]
impl AdminOps for RedisStore {
    async fn retry(&self, _id: &JobId) -> Result<()> {
        Err(unsupported("retry"))
    }

    async fn cancel_many(&self, _ids: &[JobId]) -> Result<Vec<Result<Cancelled>>> {
        Err(unsupported("cancel_many"))
    }

    async fn cancel_by_dedupe(&self, _name: &JobName, _key: &DedupeKey) -> Result<bool> {
        Err(unsupported("cancel_by_dedupe"))
    }

    async fn promote(&self, _id: &JobId) -> Result<()> {
        Err(unsupported("promote"))
    }

    async fn remove(&self, _id: &JobId) -> Result<bool> {
        Err(unsupported("remove"))
    }

    async fn set_queue(&self, _queue: &QueueName, _settings: QueueSettings) -> Result<()> {
        Err(unsupported("set_queue"))
    }

    async fn sweep_history(&self, _limit: u32) -> Result<Swept> {
        Err(unsupported("sweep_history"))
    }

    async fn report_worker(&self, _record: WorkerRecord) -> Result<()> {
        Err(unsupported("report_worker"))
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        Err(unsupported("workers"))
    }

    async fn bind_name(&self, _name: &StoreKey) -> Result<()> {
        Err(unsupported("bind_name"))
    }
}
