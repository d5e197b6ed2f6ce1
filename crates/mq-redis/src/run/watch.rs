//! Waiting: for work in a queue, and for the end of a job.

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{JobId, QueueName, Result, WakeCursor, Watch, WatchCursor};

use crate::RedisStore;
use crate::connection::Repeat;
use crate::script;
use crate::wake::Event;

impl RedisStore {
    pub(super) async fn wait_for_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()> {
        validate::queues(queues)?;
        let events: Vec<Event> = queues.iter().cloned().map(Event::Wake).collect();
        self.shared.wakes.wait(&events, wake.0).await;
        Ok(())
    }

    pub(super) async fn watch_jobs(&self, ids: &[JobId]) -> Result<Watch> {
        validate::job_ids(ids)?;
        // Taken before the first page, so that no end in between is missed.
        let cursor = WatchCursor(self.shared.wakes.subscribed_cursor().await);
        let mut finished = Vec::new();
        for page in ids.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::WATCH).repeat(Repeat::Safely);
            for id in page {
                call.arg(&**id);
            }
            let mut places = self.run_list(&call).await?;
            while !places.is_empty() {
                let place = places.number()? as usize;
                finished.extend(page.get(place.saturating_sub(1)).cloned());
            }
        }
        Ok(Watch { finished, cursor })
    }

    pub(super) async fn wait_for_end(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()> {
        validate::job_ids(ids)?;
        let events: Vec<Event> = ids.iter().cloned().map(Event::End).collect();
        self.shared.wakes.wait(&events, cursor.0).await;
        Ok(())
    }
}
