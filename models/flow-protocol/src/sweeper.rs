//! A sweeper: it reconciles rows that have been pending for long, and
//! cascades the cancels that closed flows owe.

use std::fmt;

use crate::config::{Config, Variant};
use crate::id::{Child, Keys, Token};
use crate::record::{Outcome, Report, Row};
use crate::request::{Manifest, Reply, Request};

/// A sweeper with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sweep {
    /// The child.
    pub child: Child,
    /// The run that wrote the row.
    pub origin: Token,
    /// What it does next.
    pub at: At,
}

/// Why a sweeper gets a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It has been pending for long.
    Reconcile,
    /// It owes a cancel.
    Cascade,
}

/// What a sweeper does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// Reconcile: look for the child.
    GetChild,
    /// The child is missing: ask its store for an undelivered report.
    ReadOutbox,
    /// There is none: ask whether the row is still pending.
    ReadParent {
        /// Whether the child had ended when it asked for reports.
        had_ended: bool,
    },
    /// It is: enqueue the child from its row.
    EnqueueChild {
        /// Whether the child had ended when it decided.
        had_ended: bool,
    },
    /// Ask again whether the row is still pending.
    LookAgain,
    /// It is not: cancel what was enqueued.
    CancelChild,
    /// Deliver a report that was found.
    Deliver(Outcome, Token),
    /// Cascade: cancel the child.
    Cascade {
        /// Whether the cancel has been owed for a whole flow interval.
        owed_long: bool,
    },
    /// Mark the row cascaded.
    Mark,
}

impl Sweep {
    /// A sweeper that has just got this row.
    pub fn new(row: &Row, task: Task) -> Self {
        let at = match task {
            Task::Reconcile => At::GetChild,
            Task::Cascade => At::Cascade {
                owed_long: row.owed_long,
            },
        };
        Self {
            child: row.child,
            origin: row.origin,
            at,
        }
    }

    fn manifest(&self) -> Manifest {
        Manifest {
            flow: self.child.flow,
            mark: self.child.mark,
            origin: self.origin,
        }
    }

    fn key(&self) -> Keys {
        [self.child.key].into_iter().collect()
    }

    /// Whether it has decided to enqueue this child.
    pub fn will_enqueue(&self, child: Child) -> bool {
        self.child == child && matches!(self.at, At::EnqueueChild { .. })
    }

    /// What it asks for next.
    pub fn request(&self) -> Request {
        let child = self.child;
        match self.at {
            At::GetChild => Request::GetChild(child),
            At::ReadOutbox => Request::UndeliveredReports(self.manifest(), self.key()),
            At::ReadParent { .. } | At::LookAgain => {
                Request::PendingChildren(self.manifest(), self.key())
            }
            At::EnqueueChild { had_ended } => Request::EnqueueChild {
                child,
                origin: self.origin,
                had_ended,
            },
            At::CancelChild | At::Cascade { .. } => Request::CancelChild(child),
            At::Deliver(outcome, origin) => Request::Record(vec![Report {
                child,
                origin,
                outcome,
            }]),
            At::Mark => Request::MarkCascaded(child),
        }
    }

    /// What it does next after this answer; nothing more if none.
    pub fn receive(&self, reply: &Reply, config: &Config) -> Option<Self> {
        let is_pending = matches!(reply, Reply::Pending(keys) if keys.has(self.child.key));
        let parent_first = config.variant == Variant::ParentBeforeOutbox;
        let at = match (self.at, reply) {
            (At::GetChild, Reply::Missing) if parent_first => At::ReadParent { had_ended: false },
            (At::GetChild, Reply::Missing) => At::ReadOutbox,
            (At::GetChild, Reply::Ended { outcome, origin }) => At::Deliver(*outcome, *origin),
            (At::ReadOutbox, Reply::Reports { found, ended }) => {
                let had_ended = ended.has(self.child.key);
                match found.first() {
                    Some(report) => At::Deliver(report.outcome, report.origin),
                    None if parent_first || config.variant == Variant::SweepWithoutParentCheck => {
                        At::EnqueueChild { had_ended }
                    }
                    None => At::ReadParent { had_ended },
                }
            }
            (At::ReadParent { .. }, _) if is_pending && parent_first => At::ReadOutbox,
            (At::ReadParent { had_ended }, _) if is_pending => At::EnqueueChild { had_ended },
            (At::EnqueueChild { .. }, _) if config.variant != Variant::NoLookAgain => At::LookAgain,
            (At::LookAgain, _) if !is_pending => At::CancelChild,
            (At::Cascade { owed_long }, _) => {
                let marks = match (config.variant, reply) {
                    (Variant::MissingMarkedAtOnce, Reply::Missing) => true,
                    (Variant::EndedMarkedAtOnce, Reply::Missing) => owed_long,
                    (Variant::EndedMarkedAtOnce, _) => true,
                    _ => owed_long,
                };
                if !marks {
                    return None;
                }
                At::Mark
            }
            _ => return None,
        };
        Some(Self { at, ..*self })
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sweeper at {}", self.child)
    }
}
