//! Stores around stores.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::id::{
    ChildKey, DedupeKey, JobId, JobName, LockToken, OutboxId, QueueName, ScheduleKey, StoreKey,
};
use crate::json::RawJson;
use crate::record::{
    AttemptRecord, JobRecord, NewJob, NewSchedule, OutboxEntry, Report, ScheduleRecord,
    WorkerRecord,
};
use crate::time::Timestamp;

/// Declares each operation twice: as a method of [`StoreLayer`] that forwards
/// to the inner store, and as the room's implementation for every layer.
macro_rules! layer {
    ($(
        impl $room:ident {
            $(async fn $operation:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*
        }
    )*) => {
        /// A store that forwards to another one, operation by operation.
        ///
        /// Name the store inside, and override what shall differ; the rest is
        /// forwarded. Single operations (`enqueue`, `ack`, …) go through their
        /// batch form, so overriding that is enough.
        ///
        /// ```
        /// use std::sync::atomic::{AtomicUsize, Ordering};
        /// use mq_core::{Ack, Acked, Result, Store, StoreLayer};
        ///
        /// struct CountAcks<S> { inner: S, acks: AtomicUsize }
        ///
        /// #[mq_core::async_trait]
        /// impl<S: Store> StoreLayer for CountAcks<S> {
        ///     type Inner = S;
        ///     fn inner(&self) -> &S { &self.inner }
        ///
        ///     async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        ///         self.acks.fetch_add(acks.len(), Ordering::Relaxed);
        ///         self.inner.ack_many(acks).await
        ///     }
        /// }
        /// ```
        #[async_trait]
        pub trait StoreLayer: Send + Sync {
            /// The store inside.
            type Inner: Store + ?Sized;

            /// The store inside.
            fn inner(&self) -> &Self::Inner;

            $($(
                #[doc = concat!("Forwards to [`", stringify!($room), "::", stringify!($operation), "`].")]
                async fn $operation(&self $(, $argument: $type)*) -> $answer {
                    self.inner().$operation($($argument),*).await
                }
            )*)*
        }

        $(
            #[async_trait]
            impl<L: StoreLayer + ?Sized> $room for L {
                $(
                    async fn $operation(&self $(, $argument: $type)*) -> $answer {
                        StoreLayer::$operation(self $(, $argument)*).await
                    }
                )*
            }
        )*
    };
}

layer! {
    impl EnqueueOps {
        async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>>;
    }
    impl RunOps {
        async fn claim(&self, request: ClaimRequest) -> Result<Claim>;
        async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>>;
        async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>>;
        async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended>;
        async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()>;
        async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered>;
        async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()>;
        async fn watch(&self, ids: &[JobId]) -> Result<Watch>;
        async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()>;
    }
    impl InspectOps {
        async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>>;
        async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>>;
        async fn list(&self, filter: ListFilter) -> Result<ListPage>;
        async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts>;
        async fn queues(&self) -> Result<Vec<QueueInfo>>;
        async fn now(&self) -> Result<Timestamp>;
    }
    impl AdminOps {
        async fn retry(&self, id: &JobId) -> Result<()>;
        async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>>;
        async fn cancel_by_dedupe(&self, name: &JobName, key: &DedupeKey) -> Result<bool>;
        async fn promote(&self, id: &JobId) -> Result<()>;
        async fn remove(&self, id: &JobId) -> Result<bool>;
        async fn set_queue(&self, queue: &QueueName, settings: QueueSettings) -> Result<()>;
        async fn sweep_history(&self, limit: u32) -> Result<Swept>;
        async fn report_worker(&self, record: WorkerRecord) -> Result<()>;
        async fn workers(&self) -> Result<Vec<WorkerRecord>>;
        async fn bind_name(&self, name: &StoreKey) -> Result<()>;
    }
    impl ScheduleOps {
        async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord>;
        async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool>;
        async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>>;
        async fn due_schedules(&self, limit: u32) -> Result<DueSchedules>;
        async fn tick_schedule(&self, tick: Tick) -> Result<bool>;
    }
    impl FlowOps {
        async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>>;
        async fn list_child_results(&self, flow_id: &JobId, cursor: Option<&ChildKey>, limit: Option<u32>) -> Result<ResultPage>;
        async fn pending_children(&self, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<Vec<ChildKey>>;
        async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork>;
        async fn mark_children_cascaded(&self, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<()>;
        async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage>;
        async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()>;
        async fn undelivered_reports(&self, parent_store: &StoreKey, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<Vec<OutboxEntry>>;
    }
}

#[async_trait]
impl<S: Store + ?Sized> StoreLayer for Arc<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        self
    }
}
