//! The guide, which in the repository lies under `docs/`. It is here only in
//! the documentation, and its examples are run as tests.

/// [schedules]: crate::guide::schedules
#[doc = include_str!("../docs/jobs.md")]
pub mod jobs {}

#[cfg(feature = "worker")]
#[doc = include_str!("../docs/worker.md")]
pub mod worker {}

#[doc = include_str!("../docs/schedules.md")]
pub mod schedules {}

#[cfg(feature = "flow")]
#[doc = include_str!("../docs/flows.md")]
pub mod flows {}

#[cfg(feature = "redis")]
#[doc = include_str!("../docs/redis.md")]
pub mod redis {}

#[cfg(feature = "diesel-pg")]
#[doc = include_str!("../docs/postgres.md")]
pub mod postgres {}

#[cfg(feature = "diesel-pg")]
#[doc = include_str!("../docs/transactions.md")]
pub mod transactions {}

#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}
