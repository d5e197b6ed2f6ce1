//! Tools for testing stores, and code that uses them.

#[cfg(feature = "conformance")]
pub mod conformance;
mod faults;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(all(unix, feature = "servers"))]
pub mod servers;
#[cfg(feature = "test-store")]
mod test_store;

pub use faults::{Fault, Faults, FaultyStore, Hold};
/// Makes one test of each case of the store contract: see
/// [`mq_core::contract`], where it lives.
#[cfg(feature = "conformance")]
pub use mq_core::conformance;
#[cfg(feature = "test-store")]
pub use test_store::{EnqueuedJob, Enqueues, LoggedJob, TestStore};
