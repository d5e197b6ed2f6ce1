//! Connections: where they come from, and how statements run on them.

use std::time::Duration;

use diesel::QueryResult;
use diesel::result::{ConnectionError, Error};
use diesel_async::pooled_connection::bb8::{Pool, PooledConnection, RunError};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, PoolableConnection, RecyclingMethod,
};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncConnectionCore, AsyncPgConnection,
    SimpleAsyncConnection, TransactionManager,
};
use futures::{FutureExt, TryStreamExt};
use mq_core::{Cause, Result, StoreError};

use crate::error;
use crate::rows::Row;
use crate::statement::Statement;

/// How much longer than the server's own limit an answer may take before the
/// connection counts as dead.
const GRACE: Duration = Duration::from_secs(5);

/// A pool, and what is said of its server in errors.
pub(crate) struct Connections {
    pool: Pool<AsyncPgConnection>,
    /// The server's address, without the password.
    server: String,
    /// How long one statement may take.
    time_out: Option<Duration>,
    connection_time_out: Duration,
}

/// What a pool of the store's own is made with.
#[derive(Clone, Debug)]
pub(crate) struct PoolOptions {
    pub(crate) size: u32,
    pub(crate) connection_time_out: Duration,
    pub(crate) statement_time_out: Option<Duration>,
}

impl Connections {
    /// A pool of the store's own.
    pub(crate) async fn to(url: &str, options: &PoolOptions) -> Result<Self> {
        let server = address(url)?;
        let statement_time_out = options.statement_time_out;
        let mut config = ManagerConfig::<AsyncPgConnection>::default();
        // The connection knows whether it is closed; asking the server each
        // time would double the round trips.
        config.recycling_method = RecyclingMethod::CustomFunction(Box::new(|connection| {
            let broken = connection.is_broken();
            async move {
                if broken {
                    return Err(Error::BrokenTransactionManager);
                }
                Ok(())
            }
            .boxed()
        }));
        config.custom_setup = Box::new(move |url| {
            let url = url.to_owned();
            async move {
                let mut connection = connect(&url).await?;
                connection
                    .batch_execute(&session(statement_time_out))
                    .await
                    .map_err(ConnectionError::CouldntSetupConfiguration)?;
                Ok(connection)
            }
            .boxed()
        });
        let manager = AsyncDieselConnectionManager::new_with_config(url, config);
        let pool = Pool::builder()
            .max_size(options.size)
            .connection_timeout(options.connection_time_out)
            .test_on_check_out(true)
            .build(manager)
            .await
            .map_err(|error| error::of_connection(error, &server))?;
        Ok(Self {
            pool,
            server,
            time_out: statement_time_out,
            connection_time_out: options.connection_time_out,
        })
    }

    /// The user's own pool.
    pub(crate) fn of(pool: Pool<AsyncPgConnection>, options: &PoolOptions) -> Self {
        Self {
            pool,
            server: "the given pool's server".into(),
            time_out: options.statement_time_out,
            connection_time_out: options.connection_time_out,
        }
    }

    /// A connection that the pool does not manage.
    pub(crate) async fn dedicated(&self) -> Result<AsyncPgConnection> {
        let connecting = self.pool.dedicated_connection();
        match tokio::time::timeout(self.connection_time_out, connecting).await {
            Ok(connected) => connected.map_err(|error| error::of_connection(error, &self.server)),
            Err(_) => Err(error::no_answer(&self.server, self.connection_time_out)),
        }
    }

    /// A connection of the pool's.
    pub(crate) async fn get(&self) -> Result<Connection<'_>> {
        let waiting = self.pool.get();
        let got = match tokio::time::timeout(self.connection_time_out, waiting).await {
            Ok(got) => got,
            Err(_) => Err(RunError::TimedOut),
        };
        match got {
            Ok(inner) => Ok(Connection {
                inner,
                connections: self,
            }),
            Err(RunError::User(error)) => Err(error::of_connection(error, &self.server)),
            Err(RunError::TimedOut) => Err(self.why_none().await),
        }
    }

    /// Why the pool has no connection: none is free, or none can be made.
    async fn why_none(&self) -> StoreError {
        let connections = self.pool.state().connections;
        if connections == 0
            && let Err(error) = self.dedicated().await
        {
            return error;
        }
        error::pool_exhausted(&self.server, connections, self.connection_time_out)
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn store_error(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Store(error) => error,
            Failure::Statement(error) => error::of_statement(error, &self.server, self.time_out),
        }
    }
}

/// Why a statement did not run.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server refused it.
    Statement(Error),
    /// It is decided what to answer.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A connection of the pool's, to run statements on.
pub(crate) struct Connection<'a> {
    inner: PooledConnection<'a, AsyncPgConnection>,
    connections: &'a Connections,
}

impl<'a> Connection<'a> {
    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(&mut self, statement: &Statement<'_>) -> Result<Vec<Row>, Failure> {
        let answer = rows(&mut self.inner, statement);
        let Some(limit) = self.connections.time_out else {
            return answer.await.map_err(Failure::Statement);
        };
        match tokio::time::timeout(limit + GRACE, answer).await {
            Ok(answer) => answer.map_err(Failure::Statement),
            Err(_) => {
                self.discard();
                let server = &self.connections.server;
                Err(error::no_answer(server, limit + GRACE).into())
            }
        }
    }

    /// Runs a command that has no values and no rows.
    pub(crate) async fn execute(&mut self, command: &str) -> QueryResult<()> {
        self.inner.batch_execute(command).await
    }

    /// Begins a transaction.
    pub(crate) async fn begin(mut self) -> Result<Transaction<'a>, Failure> {
        // Whoever drops this future may leave one open.
        self.discard();
        self.inner
            .batch_execute("BEGIN")
            .await
            .map_err(Failure::Statement)?;
        Ok(Transaction { connection: self })
    }

    /// Has the pool close it instead of lending it out again.
    fn discard(&mut self) {
        AnsiTransactionManager::transaction_manager_status_mut(&mut *self.inner).set_in_error();
    }

    fn keep(&mut self) {
        *AnsiTransactionManager::transaction_manager_status_mut(&mut *self.inner) =
            diesel::connection::TransactionManagerStatus::default();
    }
}

/// A transaction. Dropped before its end, it takes its connection along: a
/// connection with an open transaction must not go back to the pool.
pub(crate) struct Transaction<'a> {
    connection: Connection<'a>,
}

impl Transaction<'_> {
    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(&mut self, statement: &Statement<'_>) -> Result<Vec<Row>, Failure> {
        self.connection.rows(statement).await
    }

    pub(crate) async fn commit(self) -> Result<(), Failure> {
        self.end("COMMIT").await
    }

    pub(crate) async fn roll_back(self) -> Result<(), Failure> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, how: &str) -> Result<(), Failure> {
        let connection = &mut self.connection;
        connection
            .inner
            .batch_execute(how)
            .await
            .map_err(Failure::Statement)?;
        connection.keep();
        Ok(())
    }
}

/// Runs a statement on a connection and returns its rows.
pub(crate) async fn rows(
    connection: &mut AsyncPgConnection,
    statement: &Statement<'_>,
) -> QueryResult<Vec<Row>> {
    let stream = AsyncConnectionCore::load(connection, statement).await?;
    stream.try_collect().await
}

/// What a session of the store's own is set to. The tables are empty one
/// minute and hold millions the next: a plan made for an empty one must be
/// that for a full one.
fn session(statement_time_out: Option<Duration>) -> String {
    let limit = statement_time_out.map_or(0, |limit| limit.as_millis().max(1));
    format!(
        "SET statement_timeout = {limit}; SET enable_seqscan = off; SET enable_hashjoin = off; \
         SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off"
    )
}

/// Connects to a server.
pub(crate) async fn connect(url: &str) -> Result<AsyncPgConnection, ConnectionError> {
    <AsyncPgConnection as AsyncConnection>::establish(url).await
}

/// Where a URL leads, without what is secret in it.
pub(crate) fn address(url: &str) -> Result<String> {
    let config: tokio_postgres::Config = url.parse().map_err(|error| StoreError::Backend {
        message: "the Postgres URL cannot be read: it should look like \
                  postgres://user:password@host:5432/database"
            .into(),
        source: Some(Cause::new(error)),
    })?;
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(number, host)| {
            let port = config
                .get_ports()
                .get(number)
                .or(config.get_ports().first());
            let port = port.copied().unwrap_or(5432);
            match host {
                tokio_postgres::config::Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                tokio_postgres::config::Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        })
        .collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("");
    Ok(format!("{}/{database}", hosts.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_holds_no_password() {
        let address = address("postgres://me:secret@db.example:6000/jobs").unwrap();
        assert_eq!(address, "db.example:6000/jobs");
    }
}
