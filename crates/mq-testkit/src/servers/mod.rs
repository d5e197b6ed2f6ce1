//! Throw-away servers for tests: Redis, a Redis Cluster, Postgres, and a
//! PgBouncer before one.
//!
//! Each runs on a free port of the loopback interface, with its data in a folder
//! of the caller's choice, and is ready when `start` returns. It ends when it is
//! dropped, and also when the process that started it ends in any way, be it
//! killed. The folder stays.
//!
//! ```no_run
//! use mq_testkit::servers::{Redis, Settings};
//!
//! # fn main() -> Result<(), mq_testkit::servers::ServerError> {
//! let mut redis = Redis::start("target/crash-test", Settings::durable())?;
//! println!("listens at {}", redis.url());
//! redis.kill9()?;
//! redis.restart()?; // the same port, the same data
//! # Ok(()) }
//! ```

mod account;
mod cluster;
mod error;
mod pgbouncer;
mod port;
mod postgres;
mod process;
pub mod programs;
mod redis;
mod resp;
mod settings;

pub use cluster::RedisCluster;
pub use error::ServerError;
pub use pgbouncer::{PgBouncer, PoolMode, Upstream};
pub use postgres::Postgres;
pub use process::{End, Process};
pub use redis::Redis;
pub use settings::{Durability, Settings};
