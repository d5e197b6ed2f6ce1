//! The in-memory store.

/// The in-memory store.
#[derive(Debug)]
pub struct MemoryStore;
