//! Flows: a parent's rows and the reports that settle it.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::id::{ChildKey, JobId, LockToken, OutboxId, StoreKey};
use crate::record::{ChildResult, FlowChild, OutboxEntry, Report};

/// What a parent's store knows of its children, and what a child's store has
/// to report.
#[async_trait]
pub trait FlowOps: Send + Sync {
    /// Applies reports, each answered in its place. Idempotent: a duplicate,
    /// late, foreign or unknown report is not applied and changes nothing.
    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>>;

    /// Reads a flow's children in byte order of their keys, from after
    /// `cursor`; `limit` is 1,000 if absent, and clamped to it.
    async fn list_child_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage>;

    /// Which of these children are pending under a parked parent.
    async fn pending_children(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>>;

    /// What a sweeper has to look after: children that have been pending for
    /// at least `pending_age` and children whose cancel is still owed, up to
    /// `limit` (clamped to 250) of each. What is returned comes again only
    /// after another `pending_age`. The children to look for end at 8 MiB of
    /// payloads, too.
    async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork>;

    /// Says that no cancel is owed to these children any more. Idempotent.
    async fn mark_children_cascaded(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()>;

    /// Reads undelivered reports, oldest first, from past the entry `after`
    /// (which need not exist any more); `limit` is clamped to 1,000.
    async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage>;

    /// Deletes delivered reports; unknown ids are ignored.
    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()>;

    /// The reports for these children that are still in this store's outbox.
    async fn undelivered_reports(
        &self,
        parent_store: &StoreKey,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>>;
}

/// What a report did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportApplied {
    /// Whether it moved a child from pending.
    pub applied: bool,
    /// Whether it was the one that decided its flow.
    pub parent_settled: bool,
}

/// A page of a flow's children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultPage {
    /// The children, by key.
    pub items: Vec<ChildResult>,
    /// The last key of this page, if there are more.
    pub cursor: Option<ChildKey>,
}

/// A child to look for in its store.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconcileRow {
    /// The parent job's id.
    pub flow_id: JobId,
    /// The manifest the row belongs to.
    pub manifest: LockToken,
    /// The child, with all that is needed to enqueue it again.
    pub child: FlowChild,
}

/// A child to cancel in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadeRow {
    /// The parent job's id.
    pub flow_id: JobId,
    /// The manifest the row belongs to.
    pub manifest: LockToken,
    /// The child's key.
    pub child_key: ChildKey,
    /// The store it runs on.
    pub store: StoreKey,
    /// Its job's id there.
    pub job_id: JobId,
    /// How long the cancel has been owed.
    pub owed_for: Duration,
}

/// What a sweeper has to look after.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSweepWork {
    /// Children to look for.
    pub reconcile: Vec<ReconcileRow>,
    /// Children to cancel.
    pub cascade: Vec<CascadeRow>,
    /// Whether there is more.
    pub more: bool,
}

/// A page of undelivered reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboxPage {
    /// The reports, oldest first.
    pub entries: Vec<OutboxEntry>,
    /// Whether there are more after them.
    pub more: bool,
}
