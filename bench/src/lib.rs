//! How fast mq is, from `enqueue` to the acknowledged run, on throw-away servers.
//!
//! Each row of the table is measured three ways in the same run, in turn, so
//! that a busy machine slows all alike:
//!
//! - mq through its public interface, as a program uses it;
//! - the limit: the least that any queue could do on that server, written out
//!   in this crate;
//! - the replay: the bytes that mq sent in the same work, recorded once and sent
//!   to the server in one piece, so that only the server works.
//!
//! `cargo xtask bench table` runs it.

pub mod figures;
pub mod postgres;
pub mod redis;
pub mod replay;
pub mod store;
pub mod work;
