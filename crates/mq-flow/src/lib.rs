//! Flows of mq: a job that fans out into children, on its own store or on
//! others, waits for all of them, and collects what they came to.
//!
//! Most programs use the facade crate `mq` with its feature `flow`. What a
//! flow is, is a [`Flow`]; a worker runs it once it is
//! [registered](FlowWorker::flow). The steps between two stores are those of
//! the protocol that is checked in `docs/flow-protocol.md`, under their names.

mod cascade;
mod children;
mod enqueue;
mod fan_out;
mod flow;
mod hub;
mod id;
mod members;
mod patience;
mod phases;
mod reconcile;
mod record;
mod register;
mod relay;
mod results;
mod sweep;

pub use children::{Child, Children, IntoChild};
pub use flow::{Flow, OnChildFailure};
pub use members::{At, HasMember, HasStore, Members, StoresFor};
pub use register::FlowWorker;
pub use results::{ChildResults, ResultStream, ResultsError, SettledChild};
