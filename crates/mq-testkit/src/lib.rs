//! Tools for testing stores, and code that uses them.

mod faults;
#[cfg(all(unix, feature = "servers"))]
pub mod servers;

pub use faults::{Fault, Faults, FaultyStore, Hold};
