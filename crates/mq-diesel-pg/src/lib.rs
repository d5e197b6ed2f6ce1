//! The Postgres store of mq, on diesel-async.
//!
//! Jobs live beside the program's own data: [`PgClient`] enqueues and completes
//! jobs inside the program's own transactions, and [`schema`] lets it read and
//! join jobs with the diesel DSL.
//!
//! ```no_run
//! use mq_core::{EnqueueOps, JobSpec, NewJob, RawJson};
//! use mq_diesel_pg::PgStore;
//!
//! # async fn open() -> mq_core::Result<()> {
//! let url = "postgres://localhost/app";
//! PgStore::migrate(url).await?;
//! let store = PgStore::connect(url).await?;
//! store.enqueue(NewJob::new(JobSpec::new("greet", "default", RawJson::null()))).await?;
//! # Ok(())
//! # }
//! ```

mod admin;
mod client;
mod enqueue;
mod error;
mod flow;
mod inspect;
mod migrate;
mod pool;
mod pooler;
mod rows;
mod run;
mod schedule;
pub mod schema;
mod statement;
mod store;
mod terminal;
mod wake;

pub use client::PgClient;
pub use migrate::MIGRATIONS;
pub use store::{PgStore, PgStoreBuilder, Wake};
