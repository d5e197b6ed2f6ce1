//! The contract cases as a program: run against a store, with a report.
//!
//! Tests use [`conformance!`](crate::conformance!), which makes a test of each
//! case. A program, such as a check of a server that users bring, runs them
//! all, or some of them:
//!
//! ```
//! # use mq_core::MemoryStore;
//! use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
//! use mq_testkit::conformance::Suite;
//!
//! struct Memory;
//!
//! #[mq_core::async_trait]
//! impl StoreFactory for Memory {
//!     async fn open(&self, options: StoreOptions) -> Opened {
//!         let mut builder = MemoryStore::builder()
//!             .time(options.time)
//!             .max_payload(options.max_payload);
//!         if let Some(ceiling) = options.history_ceiling {
//!             builder = builder.history_ceiling(ceiling);
//!         }
//!         if let Some(draw) = options.id_generator {
//!             builder = builder.id_generator(draw);
//!         }
//!         let store = builder.build();
//!         Opened::new(store.clone(), move || std::future::ready(store.clone()))
//!     }
//!
//!     fn capabilities(&self) -> &[Capability] {
//!         &[]
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() {
//! let report = Suite::new(Memory).only("enqueue::").run().await;
//! assert!(report.is_kept(), "{report}");
//! # }
//! ```

mod report;
mod suite;

pub use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
pub use report::{CaseReport, Report, Verdict};
pub use suite::Suite;
