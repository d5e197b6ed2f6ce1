//! The producer's side inside transactions of the program's own.

use std::fmt;
use std::ops::Deref;

use diesel_async::AsyncPgConnection;
use mq_core::{
    Client, ClientError, DefaultStore, Exit, Job, JobHandle, JobName, Lock, RawJson, Result,
    SameStoreAs, StoreHandle, StoreName,
    client::{ClientResult, IntoRequest},
};

use crate::store::PgStore;

/// A [`Client`] of a Postgres store that can also work inside the program's
/// own transactions: enqueue jobs, and complete the one that a handler runs.
///
/// The connections must lead to the store's database. They need not come from
/// the store's pool.
///
/// ```no_run
/// use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
/// use mq_core::{Failure, Job, Request};
/// use mq_diesel_pg::{PgClient, PgStore};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(name = "send-invoice")]
/// struct SendInvoice {
///     order: i64,
/// }
///
/// # async fn example(url: &str) -> Result<(), Failure> {
/// let client: PgClient = PgClient::bind(PgStore::connect(url).await?).await?;
/// let mut connection = AsyncPgConnection::establish(url).await?;
/// connection
///     .transaction(async |connection| {
///         diesel::sql_query("INSERT INTO orders (id) VALUES (7)")
///             .execute(connection)
///             .await?;
///         let invoice = Request::new(SendInvoice { order: 7 }).priority(1);
///         client.enqueue_in(connection, invoice).await?;
///         Ok::<_, Failure>(())
///     })
///     .await
/// # }
/// ```
pub struct PgClient<S: StoreName = DefaultStore> {
    store: PgStore,
    handle: StoreHandle<S>,
    client: Client<S>,
}

impl<S: StoreName> PgClient<S> {
    /// Binds a store to the name `S`, as [`StoreHandle::bind`] does, and makes
    /// a client of it.
    ///
    /// # Errors
    /// `NameMismatch` if the store bears another name.
    pub async fn bind(store: PgStore) -> Result<Self> {
        let handle = StoreHandle::bind(store.clone()).await?;
        Ok(Self {
            store,
            client: handle.client(),
            handle,
        })
    }

    /// The store under its name, to build workers from.
    pub fn store_handle(&self) -> &StoreHandle<S> {
        &self.handle
    }

    /// The store itself.
    pub fn pg_store(&self) -> &PgStore {
        &self.store
    }

    /// Enqueues a job, or a [`Request`](mq_core::Request) with options, inside
    /// the transaction that is open on this connection: the job is there
    /// exactly if that commits, and workers are woken then. Until then its
    /// handle finds nothing.
    ///
    /// Of two transactions that enqueue under one id or dedupe key at the same
    /// time the second waits until the first has ended, and goes by what came
    /// of it. Whoever enqueues under several keys should do so in one order
    /// everywhere, or such transactions may deadlock.
    ///
    /// # Errors
    /// As [`Client::enqueue`]. After a server's error the transaction can only
    /// be rolled back; after any other it goes on without the job.
    pub async fn enqueue_in<R: IntoRequest>(
        &self,
        connection: &mut AsyncPgConnection,
        job: R,
    ) -> ClientResult<JobHandle<R::Job>>
    where
        S: SameStoreAs<<R::Job as Job>::Store>,
    {
        let job = job.into_new_job()?;
        self.accepted(self.store.enqueue_in(connection, job).await?)
    }

    /// [`enqueue_in`](Self::enqueue_in) for many jobs of one kind, in their
    /// order, each answered in its place.
    ///
    /// # Errors
    /// As [`Client::enqueue_many`].
    pub async fn enqueue_many_in<R: IntoRequest>(
        &self,
        connection: &mut AsyncPgConnection,
        jobs: impl IntoIterator<Item = R>,
    ) -> ClientResult<Vec<JobHandle<R::Job>>>
    where
        S: SameStoreAs<<R::Job as Job>::Store>,
    {
        let jobs: ClientResult<Vec<_>> = jobs.into_iter().map(R::into_new_job).collect();
        let answers = self.store.enqueue_many_in(connection, jobs?).await?;
        answers
            .into_iter()
            .map(|answer| self.accepted(answer))
            .collect()
    }

    /// Completes the run of a `J` with what its handler will return, inside
    /// the transaction that is open on this connection: what the handler wrote
    /// there and the end of its job are committed together, or not at all.
    /// [`PgStore::complete_in`] says what else there is to know.
    ///
    /// `lock` is the run's, a worker's handler has it from its context.
    ///
    /// # Errors
    /// `Store`, of it `LockLost` and `NotFound`: the run is void, or has ended
    /// already; roll the transaction back. `Encode`.
    ///
    /// ```no_run
    /// use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
    /// use mq_core::{Failure, Job, Lock};
    /// use mq_diesel_pg::PgClient;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(name = "charge", output = i64)]
    /// # struct Charge { order: i64 }
    /// # async fn connect() -> Result<AsyncPgConnection, Failure> { unreachable!() }
    ///
    /// async fn charge(client: &PgClient, job: Charge, lock: &Lock) -> Result<i64, Failure> {
    ///     let mut connection = connect().await?;
    ///     connection
    ///         .transaction(async |connection| {
    ///             diesel::sql_query("UPDATE accounts SET balance = balance - 1")
    ///                 .execute(connection)
    ///                 .await?;
    ///             client.complete_in::<Charge>(connection, lock, &job.order).await?;
    ///             Ok(job.order)
    ///         })
    ///         .await
    /// }
    /// ```
    pub async fn complete_in<J: Job>(
        &self,
        connection: &mut AsyncPgConnection,
        lock: &Lock,
        output: &J::Output,
    ) -> ClientResult<()>
    where
        S: SameStoreAs<J::Store>,
    {
        let exit = RawJson::encode(&Exit::<&J::Output, ()>::Ok(output)).map_err(|source| {
            ClientError::Encode {
                name: JobName::from(J::NAME),
                source,
            }
        })?;
        Ok(self.store.complete_in(connection, lock, Some(exit)).await?)
    }
}

/// Everything else a client does.
impl<S: StoreName> Deref for PgClient<S> {
    type Target = Client<S>;

    fn deref(&self) -> &Client<S> {
        &self.client
    }
}

impl<S: StoreName> Clone for PgClient<S> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            handle: self.handle.clone(),
            client: self.client.clone(),
        }
    }
}

impl<S: StoreName> fmt::Debug for PgClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgClient")
            .field("name", &S::NAME)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
