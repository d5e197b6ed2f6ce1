//! Tools for testing stores, and code that uses them.

mod faults;

pub use faults::{Fault, Faults, FaultyStore, Hold};
