//! Completing a run inside a transaction of the program's own.

use diesel_async::AsyncPgConnection;
use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Ack, AckOutcome, Lock, RawJson, Result, StoreError};

use super::ack::Placed;
use super::{Ended, MISSES, Miss, read_ended};
use crate::pool::{self, Failure};
use crate::rows::{Row, read_one};
use crate::statement::Statement;
use crate::store::{Inner, PgStore};
use crate::wake::Topic;
use crate::wake::notify::{NOTIFY, word};

impl PgStore {
    /// Completes a run on a connection of the program's own, inside the
    /// transaction it has open: what the handler wrote there and the end of
    /// its job are committed together, or not at all. `exit` is
    /// `{"ok": value}`; see [`PgClient::complete_in`](crate::PgClient::complete_in)
    /// for the typed form.
    ///
    /// Whoever waits for the job is woken by the commit. The worker's own ack
    /// then finds the run settled, whatever the handler returns.
    ///
    /// Until the transaction ends the job can neither be recovered nor be
    /// called off, and [`set_progress`](mq_core::RunOps::set_progress) waits
    /// for it: make this the last statement but for the commit.
    ///
    /// # Errors
    /// `LockLost` if the lock does not hold the job, or if its run has ended
    /// already, by an earlier try of this transaction for instance; `NotFound`
    /// if the job is gone. Roll the transaction back then: what it wrote was
    /// written by another run, or will be. `InvalidInput` if the exit is larger
    /// than the store takes. After a server's error the transaction can only
    /// be rolled back.
    pub async fn complete_in(
        &self,
        connection: &mut AsyncPgConnection,
        lock: &Lock,
        exit: Option<RawJson>,
    ) -> Result<()> {
        let ack = Ack {
            lock: lock.clone(),
            outcome: AckOutcome::Complete { exit },
        };
        validate::ack(&ack, &self.inner.limits)?;
        self.inner
            .complete_on(connection, &ack)
            .await
            .map_err(|failure| self.inner.connections.store_error(failure))
    }
}

impl Inner {
    async fn complete_on(
        &self,
        connection: &mut AsyncPgConnection,
        ack: &Ack,
    ) -> Result<(), Failure> {
        let placed = Placed { place: 0, ack };
        let ended = read_ended(&run(connection, &self.ack_statement(&[&placed], true)).await?)?;
        let Some(ended) = ended.first() else {
            return Err(self.why_not(connection, &ack.lock).await?.into());
        };
        if ended.has_keep {
            let ids = vec![ended.id.as_str()];
            run(connection, &self.prune_statement(ids, MAX_BATCH)).await?;
        }
        let words = words(ended);
        if !words.is_empty() {
            let notify = self
                .statement(NOTIFY)
                .bind(&*self.channel)
                .bind(words.iter().map(String::as_str).collect::<Vec<_>>());
            run(connection, &notify).await?;
        }
        Ok(())
    }

    /// Why a lock did not let its run end.
    async fn why_not(
        &self,
        connection: &mut AsyncPgConnection,
        lock: &Lock,
    ) -> Result<StoreError, Failure> {
        let statement = self
            .statement(MISSES)
            .bind(vec![lock.id.as_str()])
            .bind(vec![lock.token.as_str()]);
        let id = lock.id.clone();
        let miss = read_one(&run(connection, &statement).await?, Miss::read)?;
        Ok(match miss {
            Miss::Gone => StoreError::NotFound { id },
            Miss::Held | Miss::AckedBefore | Miss::Lost => StoreError::LockLost { id },
        })
    }
}

/// What those who wait are told once it is committed, this handle's own, too.
fn words(ended: &Ended) -> Vec<String> {
    let job = ended.watched.then(|| Topic::Job(ended.id.clone()));
    let slot = ended
        .frees_a_slot
        .then(|| Topic::Queue(ended.queue.clone()));
    let topics = job.into_iter().chain(slot);
    topics.map(|topic| word("-", &topic)).collect()
}

async fn run(
    connection: &mut AsyncPgConnection,
    statement: &Statement<'_>,
) -> Result<Vec<Row>, Failure> {
    pool::rows(connection, statement)
        .await
        .map_err(Failure::Statement)
}
