//! What the two stores hold of a job, a flow, a child and a report. Fields
//! named `origin` and `life` and the [`Ends`] exist for the checks alone: no
//! step of the protocol depends on them.

use std::fmt;

use crate::id::{Child, Store, Token};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Well.
    Completed,
    /// Badly.
    Failed,
    /// It was called off.
    Cancelled,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// It may be claimed.
    Waiting,
    /// It runs under this token; a plain child's token does not matter.
    Active(Token),
    /// It waits for its children.
    Parked,
    /// It is terminal.
    Ended(Outcome),
}

/// Which life of its job a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// Nobody by this id has ended before.
    First,
    /// One has, but only after its enqueuer had decided.
    Excused,
    /// One has, and an operator wants it to run again.
    Retried,
    /// One has, and its enqueuer should have known.
    Again,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    /// Its state.
    pub state: JobState,
    /// Whether its run is to be called off.
    pub cancel_requested: bool,
    /// How often it stalled.
    pub stalled_count: u8,
    /// The token of its last acked run.
    pub last_acked: Token,
    /// Present once it has fanned out.
    pub flow: Option<Flow>,
    /// The fan-out run it was spawned by.
    pub origin: Token,
    /// Which life this is.
    pub life: Life,
    /// What its worker has told its parent's store before the ack: only in
    /// [`ReportBeforeAck`](crate::config::Variant::ReportBeforeAck).
    pub told: Option<Outcome>,
}

/// The state of a flow, on its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The mark of the manifest that landed.
    pub manifest: Token,
    /// The run whose manifest it is.
    pub origin: Token,
    /// How many children the manifest names; for the checks alone.
    pub size: u8,
    /// Not settled yet.
    pub pending: u8,
    /// Ended well.
    pub completed: u8,
    /// Ended badly.
    pub failed: u8,
    /// Called off.
    pub cancelled: u8,
    /// Whether rows still stored as pending count as cancelled.
    pub closed: bool,
    /// How many cancels are due in the children's store.
    pub owed: u8,
    /// How often this manifest was decided: all reports in, or closed.
    pub settled: u8,
}

/// How a child is doing, as stored in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Nothing is recorded.
    Pending,
    /// A report was recorded.
    Recorded(Outcome),
}

/// A child's row, in its parent's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The child.
    pub child: Child,
    /// The fan-out run that wrote it.
    pub origin: Token,
    /// How the child is doing.
    pub status: Status,
    /// Whether no cancel is owed any more.
    pub cascaded: bool,
    /// Whether a cancel has been owed for a whole flow interval.
    pub owed_long: bool,
}

/// A child's end, on its way to its parent's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Report {
    /// The child.
    pub child: Child,
    /// The fan-out run that spawned it.
    pub origin: Token,
    /// How it ended.
    pub outcome: Outcome,
}

/// A report in the outbox of the child's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Its place in the outbox; never used again.
    pub id: u8,
    /// The report.
    pub report: Report,
}

/// How a child has ended so far, in all its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    /// The child.
    pub child: Child,
    /// The fan-out run that spawned it.
    pub origin: Token,
    outcomes: u8,
}

impl Job {
    /// A job that waits for its first run.
    pub fn waiting(origin: Token, life: Life) -> Self {
        Self {
            state: JobState::Waiting,
            cancel_requested: false,
            stalled_count: 0,
            last_acked: Token::default(),
            flow: None,
            origin,
            life,
            told: None,
        }
    }

    /// Whether it is terminal.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, JobState::Ended(_))
    }

    /// Whether this token holds its lock.
    pub fn is_locked_by(&self, token: Token) -> bool {
        self.state == JobState::Active(token)
    }

    /// Whether retention must spare it.
    pub fn owes_cancels(&self) -> bool {
        self.flow.is_some_and(|flow| flow.owed > 0)
    }
}

impl Flow {
    /// The state after a fan-out of so many children.
    pub fn new(manifest: Token, origin: Token, children: u8) -> Self {
        Self {
            manifest,
            origin,
            size: children,
            pending: children,
            completed: 0,
            failed: 0,
            cancelled: 0,
            closed: false,
            owed: 0,
            settled: 0,
        }
    }

    /// Settles it without its pending children.
    pub fn close(&mut self) {
        self.cancelled += self.pending;
        self.owed += self.pending;
        self.pending = 0;
        self.closed = true;
        self.settled += 1;
    }

    /// Moves one child from pending.
    pub fn count(&mut self, outcome: Outcome) {
        self.pending = self.pending.saturating_sub(1);
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Cancelled => self.cancelled += 1,
        }
    }
}

impl Row {
    /// A row of a manifest that is being staged.
    pub fn pending(child: Child, origin: Token) -> Self {
        Self {
            child,
            origin,
            status: Status::Pending,
            cascaded: false,
            owed_long: false,
        }
    }
}

impl Ends {
    /// None yet.
    pub fn new(child: Child, origin: Token) -> Self {
        Self {
            child,
            origin,
            outcomes: 0,
        }
    }

    /// Adds one.
    pub fn add(&mut self, outcome: Outcome) {
        self.outcomes |= 1 << outcome as u8;
    }

    /// Whether it has ended so.
    pub fn has(&self, outcome: Outcome) -> bool {
        self.outcomes & (1 << outcome as u8) != 0
    }
}

impl Report {
    /// The store it is to be recorded in.
    pub fn parent_store(&self) -> Store {
        self.child.flow.store()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}
