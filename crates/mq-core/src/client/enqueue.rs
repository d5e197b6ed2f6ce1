//! Enqueueing, one job or many.

use std::future::IntoFuture;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::core::positional;
use super::{Client, ClientError, ClientResult, Detached, JobHandle, Outcome, Request};
use crate::job::{Job, SameStoreAs};
use crate::record::NewJob;
use crate::store::{Enqueued, StoreName};

impl<S: StoreName> Client<S> {
    /// Enqueues a job: set what shall differ from its defaults, then await the
    /// handle.
    ///
    /// Its data is encoded at once; what is wrong with it comes with the
    /// `await`. If that is dropped before it answers, the job may be enqueued
    /// or not.
    ///
    /// # Errors
    /// `Store`: `InvalidInput` if something breaks a rule; `Unavailable`, after
    /// which a job with an id of its own (or of its key) may be enqueued again
    /// without becoming two. `Encode`. `IdTaken`.
    pub fn enqueue<J: Job>(&self, job: J) -> Request<J, &Self>
    where
        S: SameStoreAs<J::Store>,
    {
        Request::via(self, &job)
    }

    /// Enqueues many jobs of one kind in their order, and answers each in its
    /// place. Items are jobs, or [`Request`]s where they have options.
    ///
    /// If one of them breaks a rule, none is enqueued. It is not one
    /// transaction: after any other error some of them may have been.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue). `IdTaken` names the first id that
    /// another kind of job has; the other jobs of the batch are enqueued.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mq_core::{Client, ClientError, Job, Request};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(name = "resize")]
    /// # struct Resize { image: u64 }
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// client.enqueue_many((0..100).map(|image| Resize { image })).await?;
    ///
    /// let spread = (0..100).map(|image| {
    ///     Request::new(Resize { image }).delay(Duration::from_secs(image))
    /// });
    /// let jobs = client.enqueue_many(spread).await?;
    /// assert_eq!(jobs.len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_many<R: IntoRequest>(
        &self,
        jobs: impl IntoIterator<Item = R>,
    ) -> ClientResult<Vec<JobHandle<R::Job>>>
    where
        S: SameStoreAs<<R::Job as Job>::Store>,
    {
        let jobs: ClientResult<Vec<_>> = jobs.into_iter().map(R::into_new_job).collect();
        let jobs = jobs?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let count = jobs.len();
        let answers = self.core.store.enqueue_many(jobs).await?;
        positional(count, Ok(answers.into_iter().map(Ok)))
            .into_iter()
            .map(|answer| self.accepted(answer?))
            .collect()
    }

    /// Enqueues a job and waits until it has ended:
    /// [`enqueue`](Self::enqueue) and [`JobHandle::result`] in one.
    ///
    /// The job goes on if this future is dropped.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue); an error while it waits says nothing
    /// about the job. Enqueue it first and keep the handle to wait again.
    pub async fn execute<J: Job>(&self, job: J) -> ClientResult<Outcome<J>>
    where
        S: SameStoreAs<J::Store>,
    {
        self.enqueue(job).await?.result().await
    }

    /// A handle on a job that the store was given past this client, from what
    /// it answered: for stores that take jobs in ways of their own, inside a
    /// transaction for instance.
    ///
    /// # Errors
    /// `IdTaken` if the id belongs to another kind of job.
    pub fn accepted<J: Job>(&self, answer: Enqueued) -> ClientResult<JobHandle<J>>
    where
        S: SameStoreAs<J::Store>,
    {
        self.taken_up(answer)
    }

    fn taken_up<J: Job>(&self, answer: Enqueued) -> ClientResult<JobHandle<J>> {
        let Enqueued {
            id,
            name,
            duplicate,
        } = answer;
        if name.as_str() != J::NAME {
            return Err(ClientError::IdTaken { id, name });
        }
        let core = Arc::clone(&self.core);
        Ok(JobHandle::enqueued(core, id, duplicate))
    }
}

impl<'c, J, S, T> IntoFuture for Request<J, &'c Client<S>, T>
where
    J: Job,
    S: StoreName,
    T: 'static,
{
    type Output = ClientResult<JobHandle<J>>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.via;
        let job = self.checked();
        Box::pin(async move { client.taken_up(client.core.enqueue(job?).await?) })
    }
}

/// What [`Client::enqueue_many`] takes: a job, or a [`Request`] for one.
pub trait IntoRequest: sealed::Sealed {
    /// The kind of job.
    type Job: Job;

    /// The request as stores take it, for those that take jobs in ways of
    /// their own.
    ///
    /// # Errors
    /// `Encode`; `Store` with `InvalidInput` if its id breaks a rule.
    fn into_new_job(self) -> ClientResult<NewJob>;
}

impl<J: Job> IntoRequest for J {
    type Job = J;

    fn into_new_job(self) -> ClientResult<NewJob> {
        Request::new(self).checked()
    }
}

impl<J: Job, T> IntoRequest for Request<J, Detached, T> {
    type Job = J;

    fn into_new_job(self) -> ClientResult<NewJob> {
        self.checked()
    }
}

mod sealed {
    use super::*;

    pub trait Sealed {}

    impl<J: Job> Sealed for J {}

    impl<J: Job, T> Sealed for Request<J, Detached, T> {}
}
