//! The store contract: six small traits, one per room, that every driver
//! implements, and [`Store`], their sum.
//!
//! Each operation is atomic: a crash at any instant leaves the state before it
//! or the state after it. Operations that work in pages are atomic per page.
//! Each begins with the validation function of its name in [`crate::validate`].
//! What an operation promises is written at its method; the cases in
//! `mq_core::contract` (feature `contract`) decide whether a store keeps it.

mod admin;
mod enqueue;
mod flow;
mod handle;
mod inspect;
pub mod layer;
mod run;
mod schedule;

pub use admin::{AdminOps, Cancelled, Change, QueueSettings, Swept};
pub use enqueue::{EnqueueOps, Enqueued};
pub use flow::{
    CascadeRow, FlowOps, FlowSweepWork, OutboxPage, ReconcileRow, ReportApplied, ResultPage,
};
pub use handle::{DefaultStore, StoreHandle, StoreName};
pub use inspect::{
    Direction, InspectOps, ListCursor, ListFilter, ListPage, OrderBy, QueueInfo, StateCounts,
};
pub use run::{
    Ack, AckOutcome, Acked, Claim, ClaimRequest, Extended, Lock, Recovered, RunOps, StallOutcome,
    Stalled, WakeCursor, Watch, WatchCursor,
};
pub use schedule::{DueSchedules, ScheduleFilter, ScheduleOps, Tick};

use crate::error::StoreError;

/// What an operation answers. With a second parameter it is the standard
/// `Result`, so a glob import gets in nobody's way:
///
/// ```
/// use mq_core::*;
///
/// fn parse(text: &str) -> Result<u8, std::num::ParseIntError> {
///     text.parse()
/// }
/// assert!(parse("x").is_err());
/// ```
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A place where jobs live: the six rooms together.
pub trait Store: EnqueueOps + RunOps + InspectOps + AdminOps + ScheduleOps + FlowOps {}

impl<T> Store for T where
    T: EnqueueOps + RunOps + InspectOps + AdminOps + ScheduleOps + FlowOps + ?Sized
{
}

/// The answer to a batch of one.
fn only<T>(answers: Vec<T>) -> Result<T> {
    let count = answers.len();
    let mut answers = answers.into_iter();
    match (answers.next(), count) {
        (Some(answer), 1) => Ok(answer),
        _ => Err(StoreError::Backend {
            message: format!("the store gave {count} answers to a batch of one"),
            source: None,
        }),
    }
}
