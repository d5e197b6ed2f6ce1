//! Run: claim jobs under a lock, keep the lock, and say how the run ended.

mod ack;
mod claim;
mod complete;
mod corrupt;
mod fan_out;
mod limits;
mod locks;
mod release;
mod stalls;
mod watch;

use std::time::Duration;

use async_trait::async_trait;
use mq_core::{
    Ack, Acked, Claim, ClaimRequest, Extended, JobId, Lock, QueueName, RawJson, Recovered, Result,
    RunOps, WakeCursor, Watch, WatchCursor, validate,
};

use crate::rows::{Columns, Read, Row, read_all};
use crate::store::PgStore;
use crate::wake::Topic;

#[async_trait]
impl RunOps for PgStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let limit = validate::claim(&request)?;
        self.inner.claim(&request, limit).await
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        self.inner.ack_many(&acks).await
    }

    async fn ack(&self, ack: Ack) -> Result<Acked> {
        validate::ack(&ack, &self.inner.limits)?;
        self.acks.call(ack).await
    }

    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        self.inner.release_many(&locks).await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        validate::extend_locks(&locks, lock_for)?;
        self.inner.extend_locks(&locks, lock_for).await
    }

    async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()> {
        validate::set_progress(&lock, &progress, &self.inner.limits)?;
        self.inner.set_progress(&lock, &progress).await
    }

    async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered> {
        let limit = validate::batch_limit(limit)?;
        self.inner.recover_stalled(max_stalled_count, limit).await
    }

    async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()> {
        validate::queues(queues)?;
        let topics: Vec<Topic> = queues.iter().cloned().map(Topic::Queue).collect();
        self.inner.wait(&topics, wake.0).await;
        Ok(())
    }

    async fn watch(&self, ids: &[JobId]) -> Result<Watch> {
        validate::job_ids(ids)?;
        self.inner.listen_first().await;
        // The place before the marks, so that no end in between is missed.
        let cursor = WatchCursor(self.inner.wakes.watch(ids));
        let finished = self.inner.mark_watched(ids).await?;
        Ok(Watch { finished, cursor })
    }

    async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()> {
        validate::job_ids(ids)?;
        let topics: Vec<Topic> = ids.iter().cloned().map(Topic::Job).collect();
        self.inner.wait(&topics, cursor.0).await;
        Ok(())
    }
}

/// A run that ended, and what of it matters to others.
struct Ended {
    place: usize,
    id: JobId,
    queue: QueueName,
    /// Whether the job ended with it.
    ends: bool,
    watched: bool,
    has_keep: bool,
    /// Whether its queue counts its active jobs.
    frees_a_slot: bool,
}

impl Ended {
    fn read(columns: &mut Columns<'_>) -> Read<Self> {
        Ok(Self {
            place: usize::try_from(columns.number()?)?,
            id: columns.text()?.into(),
            queue: columns.text()?.into(),
            ends: columns.flag()?,
            watched: columns.flag()?,
            has_keep: columns.flag()?,
            frees_a_slot: columns.flag()?,
        })
    }
}

fn read_ended(rows: &[Row]) -> Result<Vec<Ended>> {
    read_all(rows, Ended::read)
}

/// Tells of the jobs of `$1` how they stand to the tokens `$2`.
const MISSES: &str = "SELECT j.id IS NOT NULL, coalesce(a.token = i.token, false),
        coalesce(coalesce(r.last_acked, d.last_acked, a.last_acked, p.last_acked, f.last_acked)
            = i.token, false)
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS i(id, token, place)
        LEFT JOIN $mq_job j ON j.id = i.id
        LEFT JOIN $mq_ready r ON r.job_id = i.id
        LEFT JOIN $mq_delayed d ON d.job_id = i.id
        LEFT JOIN $mq_active a ON a.job_id = i.id
        LEFT JOIN $mq_parked p ON p.job_id = i.id
        LEFT JOIN $mq_finished f ON f.job_id = i.id
    ORDER BY i.place";

/// How a job stands to a token that was said to hold it.
enum Miss {
    /// It holds it.
    Held,
    /// There is no such job.
    Gone,
    /// The run under this token was the last to be acked.
    AckedBefore,
    /// It does not hold it.
    Lost,
}

impl Miss {
    fn read(columns: &mut Columns<'_>) -> Read<Self> {
        let (exists, held, acked) = (columns.flag()?, columns.flag()?, columns.flag()?);
        Ok(match (exists, held, acked) {
            (false, ..) => Self::Gone,
            (_, true, _) => Self::Held,
            (_, _, true) => Self::AckedBefore,
            _ => Self::Lost,
        })
    }
}
