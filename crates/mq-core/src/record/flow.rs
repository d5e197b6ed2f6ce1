//! Flows: a parent's state, its children's rows, and reports on their way up.

use serde::{Deserialize, Serialize};

use super::NewJob;
use crate::id::{ChildKey, FlowName, JobId, LockToken, OutboxId, StoreKey};
use crate::json::RawJson;

/// What a child knows of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentEnvelope {
    /// The name of the flow.
    pub flow_name: FlowName,
    /// The parent job's id.
    pub flow_id: JobId,
    /// The lock token of the fan-out run that landed.
    pub manifest: LockToken,
    /// The child's key within the flow.
    pub child_key: ChildKey,
    /// The name of the parent's store.
    pub parent_store: StoreKey,
    /// 1 for children of a top-level flow, one more each level down.
    pub depth: u32,
}

/// The state of a flow, on its parent; present once the parent has fanned out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowState {
    /// The lock token of the fan-out run that landed.
    pub manifest: LockToken,
    /// Whether the first failed child fails the parent.
    pub fail_fast: bool,
    /// How many children are in which status; their sum never changes.
    pub counts: FlowCounts,
}

/// How many of a flow's children are in which status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// Not settled yet.
    pub pending: u64,
    /// Ended well.
    pub completed: u64,
    /// Ended badly.
    pub failed: u64,
    /// Called off.
    pub cancelled: u64,
}

/// A child that a fan-out names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowChild {
    /// Its key, unique within the flow.
    pub key: ChildKey,
    /// The store it runs on.
    pub store: StoreKey,
    /// The job to enqueue there, under an explicit id and with its envelope.
    pub job: NewJob,
}

/// How a child is doing, as its parent's store knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildStatus {
    /// Not settled yet.
    Pending,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Called off.
    Cancelled,
}

/// A child's row as its parent reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildResult {
    /// The child's key.
    pub key: ChildKey,
    /// The name of its job.
    pub name: crate::id::JobName,
    /// The store it runs on.
    pub store: StoreKey,
    /// The id of its job there.
    pub job_id: JobId,
    /// How it is doing.
    pub status: ChildStatus,
    /// How it ended.
    pub exit: Option<RawJson>,
    /// Why its store ended it, where no handler did.
    pub failed_reason: Option<String>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportOutcome {
    /// Well.
    Completed,
    /// Badly.
    Failed,
    /// It was called off.
    Cancelled,
}

/// A child's end, reported to its parent's store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The parent job's id.
    pub flow_id: JobId,
    /// The manifest the child belongs to.
    pub manifest: LockToken,
    /// The child's key.
    pub child_key: ChildKey,
    /// How it ended.
    pub outcome: ReportOutcome,
    /// What its handler returned.
    pub exit: Option<RawJson>,
    /// Why its store ended it, where no handler did.
    pub failed_reason: Option<String>,
}

/// A report that waits in a child's store to be delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// The entry's id, issued by the store that holds it.
    pub id: OutboxId,
    /// The name of the flow.
    pub flow_name: FlowName,
    /// The store to deliver it to.
    pub parent_store: StoreKey,
    /// What to deliver.
    pub report: Report,
}
