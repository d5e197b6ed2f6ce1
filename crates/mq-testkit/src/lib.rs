//! Tools for testing stores, and code that uses them.

mod faults;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(all(unix, feature = "servers"))]
pub mod servers;

pub use faults::{Fault, Faults, FaultyStore, Hold};
