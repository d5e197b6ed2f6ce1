//! An enqueued job, decoded.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use mq_core::Job;

use super::log::LoggedJob;

/// A job that was enqueued, with its payload decoded. The rest of what was
/// asked for is that of the [`LoggedJob`], to which this dereferences.
#[derive(Clone)]
pub struct EnqueuedJob<J> {
    /// The job.
    pub job: J,
    logged: LoggedJob,
}

impl<J: Job> EnqueuedJob<J> {
    /// Decodes a logged job of this kind.
    ///
    /// # Panics
    /// If the payload is none of `J`'s.
    #[track_caller]
    pub(super) fn decode(logged: LoggedJob) -> Self {
        match logged.spec.payload.decode() {
            Ok(job) => Self { job, logged },
            Err(error) => panic!(
                "the job {:?} is named {:?}, but its payload is no {}: {error}\n{}",
                logged.id,
                J::NAME,
                std::any::type_name::<J>(),
                logged.pretty()
            ),
        }
    }
}

impl<J> EnqueuedJob<J> {
    /// How long it was put off; zero if it may run at once.
    pub fn delay(&self) -> Duration {
        self.logged.run_at.since(self.logged.enqueued_at)
    }
}

impl<J> Deref for EnqueuedJob<J> {
    type Target = LoggedJob;

    fn deref(&self) -> &LoggedJob {
        &self.logged
    }
}

impl<J> fmt::Debug for EnqueuedJob<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.logged.fmt(f)
    }
}
