//! The Redis store of mq: one Lua script per operation, all keys of a store in
//! one slot, safe to repeat.
//!
//! It needs Redis 7.0 or Valkey 7.2, or newer. How it lays things out is
//! written in `docs/decisions/0011-redis-layout.md`. There is a file for each
//! room, under its trait's name, here and under `lua/`.

mod admin;
mod codec;
mod connection;
mod enqueue;
mod error;
mod flow;
mod indexes;
mod inspect;
mod keys;
mod reply;
mod run;
mod schedule;
mod script;
mod store;
mod version;
mod wake;

#[doc(hidden)]
pub use script::TAMPER;
pub use store::{RedisStore, RedisStoreBuilder};
