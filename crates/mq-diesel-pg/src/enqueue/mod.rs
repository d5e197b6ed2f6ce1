//! Enqueue: where jobs come in.

mod dedupe;
mod insert;

pub(crate) use insert::{millis, to_json};

use std::sync::Arc;

use async_trait::async_trait;
use diesel_async::AsyncPgConnection;
use mq_core::{EnqueueOps, Enqueued, JobId, NewJob, Result, StoreError, validate};

use crate::error::{self, Fate};
use crate::pool::{self, Failure, Transaction};
use crate::rows::Row;
use crate::statement::Statement;
use crate::store::{Inner, PgStore};
use crate::wake::Topic;
use crate::wake::notify::{NOTIFY, word};

/// How often an id is drawn again when it turns out to be taken.
const REDRAWS: u32 = 5;

/// How often an insert is sent again whose answer was lost.
const RESENDS: u32 = 2;

/// A request with its id.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    job: NewJob,
    id: JobId,
    /// How often the id was drawn: 0 if it was given.
    draws: u32,
    /// Whether it was sent before and the answer was lost, so that it may be
    /// there already.
    doubtful: bool,
}

impl Request {
    /// A slot's job, whose dedupe key does not count; none without an id.
    pub(crate) fn of_slot(mut job: NewJob) -> Option<Self> {
        job.dedupe = None;
        Some(Self {
            id: job.id.take()?,
            job,
            draws: 0,
            doubtful: false,
        })
    }

    fn inserted(&self) -> Enqueued {
        Enqueued {
            id: self.id.clone(),
            name: self.job.spec.name.clone(),
            duplicate: false,
        }
    }

    fn was_given_its_id(&self) -> bool {
        self.draws == 0
    }
}

/// What statements run on.
pub(crate) enum Executor<'a, 'c> {
    /// Each by itself, on a connection of the pool's.
    Pool(&'a Inner),
    /// A transaction of the store's.
    Transaction(&'a mut Transaction<'c>),
    /// A connection of the program's, in whatever transaction that is.
    Theirs(&'a mut AsyncPgConnection),
}

impl Executor<'_, '_> {
    async fn rows(&mut self, statement: &Statement<'_>) -> Result<Vec<Row>, Failure> {
        match self {
            Self::Pool(inner) => inner.attempt(statement).await,
            Self::Transaction(transaction) => transaction.rows(statement).await,
            Self::Theirs(connection) => pool::rows(connection, statement)
                .await
                .map_err(Failure::Statement),
        }
    }
}

#[async_trait]
impl EnqueueOps for PgStore {
    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        validate::enqueue_many(&jobs, &self.inner.limits)?;
        self.inner.enqueue_many(jobs).await
    }

    async fn enqueue(&self, job: NewJob) -> Result<Enqueued> {
        validate::new_job(&job, &self.inner.limits)?;
        self.enqueues.call(job).await
    }
}

impl PgStore {
    /// Enqueues a job on a connection of the program's own, inside the
    /// transaction it has open: the job is there exactly if that commits, and
    /// workers are woken then.
    ///
    /// The connection must lead to the store's database. It need not come from
    /// the store's pool.
    ///
    /// # Errors
    /// As [`enqueue`](EnqueueOps::enqueue). After a server's error the
    /// transaction can only be rolled back.
    pub async fn enqueue_in(
        &self,
        connection: &mut AsyncPgConnection,
        job: NewJob,
    ) -> Result<Enqueued> {
        let mut answers = self.enqueue_many_in(connection, vec![job]).await?;
        answers.pop().ok_or_else(|| StoreError::Backend {
            message: "the store gave no answer to a batch of one".into(),
            source: None,
        })
    }

    /// [`enqueue_in`](Self::enqueue_in) for a batch, each answered in its place.
    ///
    /// # Errors
    /// As [`enqueue_many`](EnqueueOps::enqueue_many).
    pub async fn enqueue_many_in(
        &self,
        connection: &mut AsyncPgConnection,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>> {
        validate::enqueue_many(&jobs, &self.inner.limits)?;
        self.inner
            .enqueue_on(connection, jobs)
            .await
            .map_err(|failure| self.inner.connections.store_error(failure))
    }
}

impl Inner {
    /// Enqueues single requests that came together; each is answered on its own.
    pub(crate) async fn enqueue_each(self: &Arc<Self>, jobs: Vec<NewJob>) -> Vec<Result<Enqueued>> {
        let count = jobs.len();
        match self.enqueue_many(jobs).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    pub(crate) async fn enqueue_many(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        let requests = self.requests(jobs)?;
        let mut answers = Vec::with_capacity(requests.len());
        for chunk in insert::chunks(requests) {
            let queues = insert::queues(&chunk);
            let before = answers.len();
            answers.extend(self.enqueue_chunk(chunk).await?);
            // A duplicate may have been replaced; telling costs nothing.
            let told = queues.into_iter().zip(&answers[before..]);
            let topics: std::collections::HashSet<Topic> = told
                .filter(|(told, answer)| told.even_if_duplicate || !answer.duplicate)
                .map(|(told, _)| Topic::Queue(told.queue))
                .collect();
            self.announce(topics.into_iter().collect());
        }
        Ok(answers)
    }

    async fn enqueue_on(
        &self,
        connection: &mut AsyncPgConnection,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>, Failure> {
        let requests = self.requests(jobs)?;
        let mut answers = Vec::with_capacity(requests.len());
        let mut words = std::collections::BTreeSet::new();
        for mut chunk in insert::chunks(requests) {
            let queues = insert::queues(&chunk);
            let before = answers.len();
            let mut executor = Executor::Theirs(connection);
            answers.extend(match chunk.as_mut_slice() {
                [request] if request.job.dedupe.is_some() => {
                    vec![self.enqueue_keyed(&mut executor, request).await?]
                }
                _ => self.insert_chunk(&mut executor, &mut chunk).await?,
            });
            let told = queues.into_iter().zip(&answers[before..]);
            words.extend(
                told.filter(|(told, answer)| told.even_if_duplicate || !answer.duplicate)
                    // Even this handle hears of it only when it is there.
                    .map(|(told, _)| word("-", &Topic::Queue(told.queue))),
            );
        }
        if !words.is_empty() {
            let notify = self
                .statement(NOTIFY)
                .bind(&*self.channel)
                .bind(words.iter().map(String::as_str).collect::<Vec<_>>());
            Executor::Theirs(connection).rows(&notify).await?;
        }
        Ok(answers)
    }

    async fn enqueue_chunk(&self, mut chunk: Vec<Request>) -> Result<Vec<Enqueued>> {
        let mut resends = 0;
        loop {
            let done = match chunk.as_mut_slice() {
                [request] if request.job.dedupe.is_some() => self
                    .in_transaction(request)
                    .await
                    .map(|answer| vec![answer]),
                _ => {
                    self.insert_chunk(&mut Executor::Pool(self), &mut chunk)
                        .await
                }
            };
            match done {
                Err(Failure::Statement(error))
                    if error::fate(&error) == Fate::Unknown && resends < RESENDS =>
                {
                    resends += 1;
                    chunk.iter_mut().for_each(|request| request.doubtful = true);
                }
                done => return done.map_err(|failure| self.connections.store_error(failure)),
            }
        }
    }

    async fn in_transaction(&self, request: &mut Request) -> Result<Enqueued, Failure> {
        let mut repeats = 0;
        loop {
            let mut transaction = self.begin().await?;
            let mut executor = Executor::Transaction(&mut transaction);
            match self.enqueue_keyed(&mut executor, request).await {
                Ok(answer) => {
                    transaction.commit().await?;
                    return Ok(answer);
                }
                Err(Failure::Statement(error))
                    if error::fate(&error) == Fate::RolledBack && repeats < REDRAWS =>
                {
                    transaction.roll_back().await?;
                    repeats += 1;
                }
                Err(failure) => {
                    // Its own error says more than one of the roll-back.
                    let _ = transaction.roll_back().await;
                    return Err(failure);
                }
            }
        }
    }

    fn requests(&self, jobs: Vec<NewJob>) -> Result<Vec<Request>> {
        let settle = |mut job: NewJob| {
            let (id, draws) = match job.id.take() {
                Some(id) => (id, 0),
                None => (self.draw()?, 1),
            };
            Ok(Request {
                job,
                id,
                draws,
                doubtful: false,
            })
        };
        jobs.into_iter().map(settle).collect()
    }

    fn draw(&self) -> Result<JobId> {
        let id = (self.draw_id)();
        validate::job_id(&id)?;
        Ok(id)
    }

    /// Draws another id for a request whose id is taken.
    fn draw_again(&self, request: &mut Request) -> Result<()> {
        if request.draws > REDRAWS {
            return Err(StoreError::IdsTaken {
                tries: request.draws,
                last: request.id.clone(),
            });
        }
        request.id = self.draw().map_err(|error| StoreError::Backend {
            // No refusal: earlier items of the batch may be written.
            message: format!("the id generator is defective: {error}"),
            source: None,
        })?;
        request.draws += 1;
        request.doubtful = false;
        Ok(())
    }
}
