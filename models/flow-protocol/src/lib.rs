//! The protocol of flows over two stores, as a model that a checker explores
//! to the end.
//!
//! A parent in one store fans out into children in the other. Workers,
//! relays and sweepers carry the work between the two, each step of theirs
//! one atomic operation of one store; any of them may die between two steps,
//! and the network may lose, repeat and delay what they send. The model has
//! all of that and nothing else: no payloads, no clocks.
//!
//! [`config`] says what one exploration covers, [`step`] what can happen,
//! [`model`] what must hold. `docs/flow-protocol.md` tells the protocol in
//! words, with what the checker found.

pub mod config;
pub mod docs;
pub mod drain;
pub mod explore;
pub mod id;
pub mod model;
pub mod operator;
pub mod process;
pub mod record;
pub mod relay;
pub mod request;
pub mod runs;
pub mod step;
pub mod stores;
pub mod suite;
pub mod sweeper;
pub mod trace;
pub mod worker;
pub mod world;
