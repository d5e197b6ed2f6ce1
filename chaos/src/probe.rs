//! A layer that writes down what a worker asks its store, and what it is told.

use std::sync::Arc;
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, AckOutcome, Acked, Claim, ClaimRequest, Extended, Lock, Result, Store, StoreError,
};

use crate::clock::Instant;
use crate::event::{Answer, Event, Held, Outcome};
use crate::log::Writer;

/// A store whose run room is watched.
pub(crate) struct Probe {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) log: Writer,
}

pub(crate) fn held(lock: &Lock) -> Held {
    Held {
        id: lock.id.to_string(),
        token: lock.token.to_string(),
    }
}

fn outcome(of: &AckOutcome) -> Outcome {
    match of {
        AckOutcome::Complete { .. } | AckOutcome::Fail { .. } | AckOutcome::Cancelled => {
            Outcome::Final
        }
        AckOutcome::Retry { .. } | AckOutcome::Snooze { .. } | AckOutcome::FanOut { .. } => {
            Outcome::Again
        }
    }
}

fn answer(to: &Result<Acked>) -> Answer {
    match to {
        Ok(Acked { applied: true }) => Answer::Applied,
        Ok(Acked { applied: false }) => Answer::Repeated,
        Err(StoreError::LockLost { .. } | StoreError::NotFound { .. }) => Answer::Refused,
        Err(_) => Answer::InDoubt,
    }
}

#[mq_core::async_trait]
impl StoreLayer for Probe {
    type Inner = dyn Store;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let (token, lock_for) = (request.token.to_string(), request.lock_for);
        let asked = Instant::now();
        let claim = self.inner.claim(request).await?;
        if !claim.jobs.is_empty() {
            self.log.write(&Event::Claimed {
                asked,
                at: Instant::now(),
                lock_for,
                token,
                ids: claim.jobs.iter().map(|job| job.id.to_string()).collect(),
            });
        }
        Ok(claim)
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        let asked: Vec<Held> = acks.iter().map(|ack| held(&ack.lock)).collect();
        let at = Instant::now();
        for (held, ack) in asked.iter().zip(&acks) {
            self.log.write(&Event::Acking {
                at,
                held: held.clone(),
                outcome: outcome(&ack.outcome),
            });
        }
        let answers = self.inner.ack_many(acks).await;
        let at = Instant::now();
        for (place, held) in asked.into_iter().enumerate() {
            let answer = match &answers {
                Ok(answers) => answers.get(place).map_or(Answer::InDoubt, answer),
                Err(_) => Answer::InDoubt,
            };
            self.log.write(&Event::Acked { at, held, answer });
        }
        answers
    }

    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        let at = Instant::now();
        for lock in &locks {
            let held = held(lock);
            self.log.write(&Event::Releasing { at, held });
        }
        self.inner.release_many(locks).await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        let asked = Instant::now();
        let extended = self.inner.extend_locks(locks.clone(), lock_for).await?;
        let at = Instant::now();
        let (lost, others): (Vec<&Lock>, _) = locks
            .iter()
            .partition(|lock| extended.lost.contains(&lock.id));
        let kept = others
            .into_iter()
            .filter(|lock: &&Lock| !extended.cancel_requested.contains(&lock.id));
        self.log.write(&Event::Extended {
            asked,
            at,
            lock_for,
            held: kept.map(held).collect(),
        });
        if !lost.is_empty() {
            let held = lost.into_iter().map(held).collect();
            self.log.write(&Event::Lost { at, held });
        }
        Ok(extended)
    }
}
