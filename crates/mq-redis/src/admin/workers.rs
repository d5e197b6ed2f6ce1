//! What workers report of themselves.

use mq_core::{Result, StoreError, Timestamp, WorkerRecord, validate};

use crate::RedisStore;
use crate::connection::Repeat;
use crate::script;

/// How long a worker is remembered after its last report, in milliseconds.
const REMEMBERED_FOR: u64 = 60_000;

impl RedisStore {
    pub(super) async fn store_worker(&self, record: WorkerRecord) -> Result<()> {
        validate::worker(&record)?;
        let json = serde_json::to_vec(&record).map_err(|error| StoreError::Backend {
            message: format!(
                "the record of worker {:?} cannot be written: {error}",
                record.id
            ),
            source: None,
        })?;
        let mut call = self.call(&script::REPORT_WORKER).repeat(Repeat::Safely);
        call.number(REMEMBERED_FOR).arg(&*record.id).arg(json);
        self.run(&call).await?;
        Ok(())
    }

    pub(super) async fn read_workers(&self) -> Result<Vec<WorkerRecord>> {
        let mut call = self.call(&script::WORKERS).repeat(Repeat::Safely);
        call.number(REMEMBERED_FOR);
        let mut answer = self.run_list(&call).await?;
        let mut workers = Vec::with_capacity(answer.len() / 2);
        while !answer.is_empty() {
            let last_seen_at = Timestamp::saturating_from_millis(answer.number()?);
            // A record of another version of this library hides no other.
            match serde_json::from_slice::<WorkerRecord>(&answer.bytes()?) {
                Ok(record) => workers.push(WorkerRecord {
                    last_seen_at,
                    ..record
                }),
                Err(error) => tracing::warn!("a worker's record cannot be read: {error}"),
            }
        }
        workers.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(workers)
    }
}
