//! What may be done to a store.

use std::time::Duration;

use mq_core::{AckOutcome, ListFilter, NewJob, NewSchedule, QueueSettings, RawJson, ReportOutcome};

/// An operation, and through which of the store's handles.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) handle: usize,
    pub(super) op: Op,
}

/// Something known, by its place from the latest one back.
pub(super) type Back = usize;

/// A lock that was given out, or one job's id with another claim's token.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockPick {
    pub(super) of: Back,
    pub(super) token_of: Option<Back>,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Enqueue(Vec<NewJob>),
    Claim {
        queue: &'static str,
        names: Vec<&'static str>,
        lock_for: Duration,
        limit: u32,
    },
    /// One of the last calls, as it was: its reply was lost.
    Repeat(Back),
    Ack(Vec<(LockPick, AckOutcome)>),
    Release(Vec<LockPick>),
    Extend(Vec<LockPick>, Duration),
    Progress(LockPick, RawJson),
    Recover {
        most_stalls: u32,
        limit: u32,
    },
    Watch(Vec<Back>),
    Cancel(Vec<Back>),
    CancelByDedupe(&'static str, &'static str),
    Retry(Back),
    Promote(Back),
    Remove(Back),
    SetQueue(&'static str, QueueSettings),
    /// Sweeps of this limit until one says that there is no more.
    Sweep(u32),
    Upsert(NewSchedule),
    Tick {
        key: &'static str,
        stale_version: bool,
        stale_slot: bool,
        ahead: Duration,
        job: Option<NewJob>,
    },
    Unschedule(&'static str),
    Due(u32),
    /// A whole list, in pages of the filter's limit.
    Walk(ListFilter),
    /// The children that a run names, by key.
    FanOut {
        lock: LockPick,
        fail_fast: bool,
        keys: Vec<&'static str>,
    },
    /// Enqueues a flow's children.
    Spawn(Back),
    Report(Vec<ReportPick>),
    /// Delivers so many reports of the outbox, oldest first.
    Relay(usize),
    DeleteOutbox(Vec<usize>),
    Outbox(u32),
    Children(Back, u32),
    Pending(FlowPick),
    Mark(FlowPick),
    Undelivered(FlowPick),
    FlowSweep(u32),
    Advance(Duration),
}

/// Children of a flow, and whether under another flow's manifest.
#[derive(Clone, Debug)]
pub(super) struct FlowPick {
    pub(super) of: Back,
    pub(super) manifest_of: Option<Back>,
    pub(super) keys: Vec<&'static str>,
}

/// What is reported of each of these children.
#[derive(Clone, Debug)]
pub(super) struct ReportPick {
    pub(super) children: FlowPick,
    pub(super) outcome: ReportOutcome,
    pub(super) exit: Option<RawJson>,
}
