//! What every store refuses, in the same words.
//!
//! There is one function per operation, and each driver method begins with its
//! own. They check and clamp; none of them reads or writes a store.
//!
//! One file per room, and one for each kind of field that they share.

mod admin;
mod enqueue;
mod flow;
mod inspect;
mod job;
mod json;
mod number;
mod run;
mod schedule;
#[cfg(test)]
mod tests;
mod text;

pub use admin::{cancel_by_dedupe, set_queue, store_key, worker};
pub use enqueue::{enqueue_many, new_job};
pub use flow::{fan_out, flow_children, flow_sweep_work, outbox_id, record_child_results};
pub use inspect::{list, page_limit};
pub use run::{ack, batch_limit, claim, extend_locks, job_ids, lock, queues, set_progress};
pub use schedule::{cadence, list_schedules, schedule_key, tick_schedule, upsert_schedule};
pub use text::{child_key, chosen_job_id, job_id, job_name, lock_token, queue_name};

use crate::error::InvalidInput;

/// The longest job id, in bytes.
pub const MAX_ID: usize = 1_024;
/// The longest name, queue or key, in bytes.
pub const MAX_NAME: usize = 256;
/// All keys and values of a job's metadata together, in bytes.
pub const MAX_METADATA: usize = 64 * 1_024;
/// How deep arrays and objects may nest in a payload: as deep as the usual
/// decoders accept.
pub const MAX_DEPTH: usize = 100;
/// How many jobs one claim, recovery or sweep handles, and the size of pages
/// in which batches are written.
pub const MAX_BATCH: u32 = 250;
/// How many records one page of a listing holds.
pub const MAX_PAGE: u32 = 1_000;
/// How many records a listing's page holds unless asked otherwise.
pub const DEFAULT_LIST: u32 = 50;
/// How many bytes of raw JSON one page holds, or one item if that is larger.
pub const MAX_PAGE_BYTES: usize = 8 * 1_024 * 1_024;
/// How deep flows nest.
pub const MAX_FLOW_DEPTH: u32 = 8;
/// Job names that ids are built with: `sched/…` and `flow/…`.
pub const RESERVED_NAMES: [&str; 2] = ["sched", "flow"];

/// What validates, or does not.
pub type Validated<T = ()> = Result<T, InvalidInput>;

/// The limits that a store is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest payload, result or progress value, in bytes of JSON.
    pub max_payload: usize,
}

impl Default for Limits {
    /// One MiB.
    fn default() -> Self {
        Self {
            max_payload: 1_024 * 1_024,
        }
    }
}
