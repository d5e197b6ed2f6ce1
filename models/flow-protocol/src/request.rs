//! What processes ask of a store, and what it answers. Each request is one
//! atomic step of one store.

use std::fmt;

use crate::id::{Child, JobId, Keys, Store, Token};
use crate::record::{Outcome, Report};

/// A manifest, as those who ask about its children name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manifest {
    /// The parent.
    pub flow: JobId,
    /// Its mark.
    pub mark: Token,
    /// The run that wrote it; for the checks alone.
    pub origin: Token,
}

/// A request to a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// One page of a fan-out ack; the last one parks the parent.
    StagePage {
        /// The parent.
        job: JobId,
        /// The token of the fan-out run.
        token: Token,
        /// Which page.
        page: u8,
    },
    /// The ack of any other run of a parent.
    Ack {
        /// The parent.
        job: JobId,
        /// The token of the run.
        token: Token,
        /// How it ended.
        outcome: Outcome,
    },
    /// Whether the parent is parked under this manifest: only in the design
    /// as it was first written.
    ReadParent(Manifest),
    /// Which of the children have a report in the outbox of their store.
    UndeliveredReports(Manifest, Keys),
    /// Which of the children are pending under a parked parent.
    PendingChildren(Manifest, Keys),
    /// What the children's store knows of a child.
    GetChild(Child),
    /// Enqueue a child under its id.
    EnqueueChild {
        /// The child.
        child: Child,
        /// The run that spawned it.
        origin: Token,
        /// Whether the child had ended when its enqueuer decided; for the
        /// checks alone.
        had_ended: bool,
    },
    /// Cancel a child.
    CancelChild(Child),
    /// Record reports.
    Record(Vec<Report>),
    /// Mark an owed row cascaded.
    MarkCascaded(Child),
    /// Delete reports from an outbox.
    DeleteReports(Store, Vec<u8>),
}

/// An answer of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done, or was done before.
    Done,
    /// The job is gone, or its lock is lost.
    LockLost,
    /// These children are pending.
    Pending(Keys),
    /// These reports wait in the outbox.
    Reports {
        /// The reports.
        found: Vec<Report>,
        /// Which of the children have ended by now; for the checks alone.
        ended: Keys,
    },
    /// There is no such child.
    Missing,
    /// The child has not ended.
    InFlight,
    /// The child has ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// The run that spawned it; for the checks alone.
        origin: Token,
    },
}

impl Manifest {
    /// One of its children.
    pub fn child(self, key: crate::id::Key) -> Child {
        Child {
            flow: self.flow,
            mark: self.mark,
            key,
        }
    }
}

impl Request {
    /// The store that is asked.
    pub fn store(&self) -> Store {
        match self {
            Self::StagePage { job, .. } | Self::Ack { job, .. } => job.store(),
            Self::ReadParent(manifest) | Self::PendingChildren(manifest, _) => {
                manifest.flow.store()
            }
            // All children of one parent live in one store in this model.
            Self::UndeliveredReports(manifest, _) => {
                manifest.child(crate::id::Key(0)).job().store()
            }
            Self::GetChild(child) | Self::CancelChild(child) => child.job().store(),
            Self::EnqueueChild { child, .. } => child.job().store(),
            Self::Record(reports) => reports.first().map_or(Store::Durable, Report::parent_store),
            Self::MarkCascaded(child) => child.flow.store(),
            Self::DeleteReports(store, _) => *store,
        }
    }

    /// Whether it may change anything: losing the answer to one that does not
    /// is the same as not asking.
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Self::ReadParent(_)
                | Self::UndeliveredReports(..)
                | Self::PendingChildren(..)
                | Self::GetChild(_)
        )
    }

    /// The child it would enqueue.
    pub fn enqueues(&self) -> Option<Child> {
        match self {
            Self::EnqueueChild { child, .. } => Some(*child),
            _ => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StagePage { job, page, token } => {
                write!(f, "fan-out ack of {job} under {token}, page {}", page + 1)
            }
            Self::Ack {
                job,
                token,
                outcome,
            } => write!(f, "ack of {job} under {token}: {outcome}"),
            Self::ReadParent(Manifest { flow, mark, .. }) => {
                write!(f, "is {flow} parked under {mark}?")
            }
            Self::UndeliveredReports(_, keys) => write!(f, "undelivered reports of {keys}?"),
            Self::PendingChildren(Manifest { flow, mark, .. }, keys) => {
                write!(f, "which of {keys} are pending under {flow}, {mark}?")
            }
            Self::GetChild(child) => write!(f, "how is {child}?"),
            Self::EnqueueChild { child, .. } => write!(f, "enqueue {child}"),
            Self::CancelChild(child) => write!(f, "cancel {child}"),
            Self::Record(reports) => {
                f.write_str("record")?;
                for Report { child, outcome, .. } in reports {
                    write!(f, " {child} {outcome}")?;
                }
                Ok(())
            }
            Self::MarkCascaded(child) => write!(f, "mark {child} cascaded"),
            Self::DeleteReports(store, ids) => {
                let ids: Vec<_> = ids.iter().map(|id| format!("#{id}")).collect();
                write!(f, "delete {} from the {store} outbox", ids.join(", "))
            }
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::LockLost => f.write_str("lock lost"),
            Self::Pending(keys) => write!(f, "{keys}"),
            Self::Reports { found, .. } => {
                let keys: Keys = found.iter().map(|report| report.child.key).collect();
                write!(f, "{keys}")
            }
            Self::Missing => f.write_str("missing"),
            Self::InFlight => f.write_str("in flight"),
            Self::Ended { outcome, .. } => write!(f, "ended {outcome}"),
        }
    }
}
