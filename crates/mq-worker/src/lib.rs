//! The worker of mq: it claims jobs from a store, runs their handlers, and
//! says how each run ended.
//!
//! Most programs use the facade crate `mq`; this one depends on no store.
//!
//! A worker begins with [`Worker::builder`]. Who wants more of it than to run
//! handlers finds a [`PhaseRunner`], [`MaintenanceTask`]s and an
//! [after-ack hook](WorkerBuilder::after_ack). Tests drive one
//! [by hand](Worker::run_until_idle).

mod acknowledge;
mod backoff;
mod builder;
mod by_hand;
mod contact;
mod context;
mod error;
mod execute;
mod extension;
mod failure;
mod fetch;
mod handler;
mod heartbeat;
mod held;
mod link;
mod maintenance;
mod options;
mod outcome;
mod panic;
mod registry;
mod run;
mod runtime;
mod settled;
mod shutdown;
mod slots;
mod stats;
mod verdict;
mod worker;

pub use builder::WorkerBuilder;
pub use by_hand::{ByHand, Idle};
pub use context::JobContext;
pub use error::{DurationRule, ProgressError, StartError};
pub use extension::{MaintenanceTask, PhaseRunner, Pulse, SettledRun};
pub use failure::{FailedRun, FailureCause, FailureOutcome};
pub use options::OnLockLost;
pub use outcome::{Retry, RunEnd};
pub use run::StopReason;
pub use shutdown::ShutdownReport;
pub use stats::WorkerStats;
pub use worker::{ByItself, Worker};
