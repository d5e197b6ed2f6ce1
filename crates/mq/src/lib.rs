// In the rustdoc, the README's links lead to the pages here: of two definitions
// of a link, the first counts.
//! [jobs]: guide::jobs
//! [worker]: guide::worker
//! [schedules]: guide::schedules
//! [redis]: guide::redis
//! [postgres]: guide::postgres
//! [transactions]: guide::transactions
//! [flows]: guide::flows
//! [architecture]: guide::architecture
#![doc = include_str!("../README.md")]

#[cfg(any(doc, doctest))]
pub mod guide;

#[doc(inline)]
pub use mq_core::*;
#[cfg(feature = "diesel-pg")]
#[doc(inline)]
pub use mq_diesel_pg as diesel_pg;
#[cfg(feature = "flow")]
#[doc(inline)]
pub use mq_flow::*;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use mq_redis as redis;
#[cfg(feature = "worker")]
#[doc(inline)]
pub use mq_worker::*;
