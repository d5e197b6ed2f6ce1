//! The core of mq: records, the store traits, typed jobs, the client and the
//! in-memory store. It needs no server and no runtime of its own.
//!
//! Most programs use the facade crate `mq`; this one is for those who write a
//! store, or want nothing but the in-memory one.

pub mod client;
pub mod coalesce;
#[cfg(feature = "contract")]
pub mod contract;
mod error;
mod exit;
mod id;
mod job;
mod json;
#[cfg(feature = "memory")]
mod memory;
pub mod occurrence;
pub mod record;
pub mod store;
mod time;
pub mod validate;

pub use async_trait::async_trait;
pub use client::{Client, ClientError, JobHandle, Outcome, Request, Schedule, Schedules};
pub use error::{Cause, InvalidInput, Rule, StoreError};
pub use exit::{Defect, DefectKind, Exit, Failure, HandlerError};
pub use id::{
    ChildKey, DedupeKey, FlowName, IdGenerator, JobId, JobName, LockToken, OutboxId, QueueName,
    ScheduleKey, StoreKey, WorkerId, uuid_v7,
};
pub use job::{Job, JobDefaults, SameStoreAs};
pub use json::RawJson;
#[cfg(feature = "memory")]
pub use memory::{MemoryStore, MemoryStoreBuilder};
#[cfg(feature = "derive")]
pub use mq_macros::Job;
pub use record::*;
pub use store::*;
pub use time::{Clock, LONGEST, ManualClock, TimeSource, Timestamp, ceil_millis};
