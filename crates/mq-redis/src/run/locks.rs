//! What a held lock allows: to be extended, and to report progress under it.

use std::time::Duration;

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Extended, JobId, Lock, RawJson, Result, ceil_millis};

use super::lock_answer;
use crate::RedisStore;
use crate::connection::Repeat;
use crate::reply::Reply;
use crate::script;

impl RedisStore {
    pub(super) async fn extend(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        validate::extend_locks(&locks, lock_for)?;
        let mut extended = Extended::default();
        for page in locks.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::EXTEND).repeat(Repeat::Safely);
            call.number(ceil_millis(lock_for));
            for lock in page {
                call.arg(&*lock.id).arg(&*lock.token);
            }
            let mut answer = self.run_list(&call).await?;
            at_places(&mut answer.list()?, page, &mut extended.lost)?;
            at_places(&mut answer.list()?, page, &mut extended.cancel_requested)?;
        }
        Ok(extended)
    }

    pub(super) async fn store_progress(&self, lock: Lock, progress: RawJson) -> Result<()> {
        validate::set_progress(&lock, &progress, self.limits())?;
        let mut call = self.call(&script::PROGRESS).repeat(Repeat::Safely);
        call.arg(&*lock.id).arg(&*lock.token).arg(progress.get());
        lock_answer("progress", &lock.id, self.run(&call).await?).map(drop)
    }
}

/// Adds the ids of the locks at the places that a script named.
fn at_places(places: &mut Reply, page: &[Lock], into: &mut Vec<JobId>) -> Result<()> {
    while !places.is_empty() {
        let place = places.number()? as usize;
        into.extend(
            page.get(place.saturating_sub(1))
                .map(|lock| lock.id.clone()),
        );
    }
    Ok(())
}
