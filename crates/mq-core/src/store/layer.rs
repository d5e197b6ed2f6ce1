//! Stores around stores.
//!
//! [`StoreLayer`] stands in this module and not at the crate's root: its methods
//! bear the names of the operations they forward, so a file that has both the
//! layer and the rooms in scope must say which it calls. Bring it into scope
//! only where a layer is written.

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

/// Hands the list of all operations, by room, to a macro. The types in it are
/// those at this crate's root, which the caller brings into scope.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_each_operation {
    ($callback:ident) => {
        $callback! {
            impl EnqueueOps {
                EnqueueMany: async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>>;
            }
            impl RunOps {
                Claim: async fn claim(&self, request: ClaimRequest) -> Result<Claim>;
                AckMany: async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>>;
                ReleaseMany: async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>>;
                ExtendLocks: async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended>;
                SetProgress: async fn set_progress(&self, lock: Lock, progress: RawJson) -> Result<()>;
                RecoverStalled: async fn recover_stalled(&self, max_stalled_count: u32, limit: u32) -> Result<Recovered>;
                AwaitWake: async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()>;
                Watch: async fn watch(&self, ids: &[JobId]) -> Result<Watch>;
                AwaitFinished: async fn await_finished(&self, ids: &[JobId], cursor: WatchCursor) -> Result<()>;
            }
            impl InspectOps {
                GetJobs: async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>>;
                GetAttempts: async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>>;
                List: async fn list(&self, filter: ListFilter) -> Result<ListPage>;
                Counts: async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts>;
                Queues: async fn queues(&self) -> Result<Vec<QueueInfo>>;
                Now: async fn now(&self) -> Result<Timestamp>;
            }
            impl AdminOps {
                Retry: async fn retry(&self, id: &JobId) -> Result<()>;
                CancelMany: async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>>;
                CancelByDedupe: async fn cancel_by_dedupe(&self, name: &JobName, key: &DedupeKey) -> Result<bool>;
                Promote: async fn promote(&self, id: &JobId) -> Result<()>;
                Remove: async fn remove(&self, id: &JobId) -> Result<bool>;
                SetQueue: async fn set_queue(&self, queue: &QueueName, settings: QueueSettings) -> Result<()>;
                SweepHistory: async fn sweep_history(&self, limit: u32) -> Result<Swept>;
                ReportWorker: async fn report_worker(&self, record: WorkerRecord) -> Result<()>;
                Workers: async fn workers(&self) -> Result<Vec<WorkerRecord>>;
                BindName: async fn bind_name(&self, name: &StoreKey) -> Result<()>;
            }
            impl ScheduleOps {
                UpsertSchedule: async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord>;
                RemoveSchedule: async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool>;
                ListSchedules: async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>>;
                DueSchedules: async fn due_schedules(&self, limit: u32) -> Result<DueSchedules>;
                TickSchedule: async fn tick_schedule(&self, tick: Tick) -> Result<bool>;
            }
            impl FlowOps {
                RecordChildResults: async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>>;
                ListChildResults: async fn list_child_results(&self, flow_id: &JobId, cursor: Option<&ChildKey>, limit: Option<u32>) -> Result<ResultPage>;
                PendingChildren: async fn pending_children(&self, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<Vec<ChildKey>>;
                FlowSweepWork: async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork>;
                MarkChildrenCascaded: async fn mark_children_cascaded(&self, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<()>;
                PeekOutbox: async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage>;
                DeleteOutbox: async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()>;
                UndeliveredReports: async fn undelivered_reports(&self, parent_store: &StoreKey, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<Vec<OutboxEntry>>;
            }
        }
    };
}

/// Declares each operation three times: as a value of [`Operation`], as a
/// method of [`StoreLayer`] that forwards to the inner store, and as the
/// room's implementation for every layer.
macro_rules! declare {
    ($(
        impl $room:ident {
            $($variant:ident: async fn $operation:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*
        }
    )*) => {
        /// The operations of a store, for layers that treat them alike.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Operation {
            $($(
                #[doc = concat!("[`", stringify!($room), "::", stringify!($operation), "`].")]
                $variant,
            )*)*
        }

        impl Operation {
            /// The operation's name: that of its method.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$variant => stringify!($operation),)*)*
                }
            }
        }

        /// A store that forwards to another one, operation by operation.
        ///
        /// Name the store inside, and override what shall differ; the rest is
        /// forwarded. Single operations (`enqueue`, `ack`, …) go through their
        /// batch form, so overriding that is enough.
        ///
        /// ```
        /// use std::sync::atomic::{AtomicUsize, Ordering};
        /// use mq_core::layer::StoreLayer;
        /// use mq_core::{Ack, Acked, Result, Store};
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

__for_each_operation!(declare);

#[async_trait]
impl<S: Store + ?Sized> StoreLayer for Arc<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        self
    }
}
