//! Flows whose parents are on one store and whose children on another.

pub(crate) mod jobs;
pub(crate) mod trap;
pub(crate) mod worker;
