//! Release.

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Lock, Result};

use super::lock_answer;
use crate::RedisStore;
use crate::script;

impl RedisStore {
    pub(super) async fn release_jobs(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        let mut answers = Vec::with_capacity(locks.len());
        for page in locks.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::RELEASE);
            let refused: Vec<_> = page.iter().map(|lock| validate::lock(lock).err()).collect();
            for (lock, _) in page.iter().zip(&refused).filter(|(_, no)| no.is_none()) {
                call.arg(&*lock.id).arg(&*lock.token);
            }
            let mut released = match refused.iter().all(Option::is_some) {
                true => None,
                false => Some(self.run_list(&call).await?),
            };
            for (lock, refused) in page.iter().zip(refused) {
                answers.push(match (refused, &mut released) {
                    (None, Some(released)) => {
                        lock_answer("release", &lock.id, released.next()?).map(drop)
                    }
                    (Some(error), _) => Err(error.into()),
                    (None, None) => Ok(()),
                });
            }
        }
        Ok(answers)
    }
}
