//! What went wrong at the server, in the store's terms.
//!
//! Diesel passes on a kind and a message, not the code of an error; where the
//! kind says nothing the message does, in the server's usual language.

use std::time::Duration;

use diesel::result::{ConnectionError, DatabaseErrorKind, Error};
use diesel_async::pooled_connection::PoolError;
use mq_core::{Cause, StoreError};
use tokio_postgres::error::SqlState;

/// What to make of a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server rolled it back: it may be repeated at once.
    RolledBack,
    /// The connection is gone: whether it took effect is unknown.
    Unknown,
    /// It fails again.
    Final,
}

/// What to make of an error.
pub(crate) fn fate(error: &Error) -> Fate {
    match error {
        Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Fate::RolledBack,
        Error::DatabaseError(
            DatabaseErrorKind::UnableToSendCommand | DatabaseErrorKind::ClosedConnection,
            _,
        ) => Fate::Unknown,
        Error::DatabaseError(DatabaseErrorKind::Unknown, info) => match info.message() {
            "deadlock detected" => Fate::RolledBack,
            message if is_shutdown(message) => Fate::Unknown,
            _ => Fate::Final,
        },
        Error::BrokenTransactionManager => Fate::Unknown,
        _ => Fate::Final,
    }
}

/// Whether an error says that a row of this key is there already.
pub(crate) fn is_unique_violation(error: &Error) -> bool {
    matches!(
        error,
        Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)
    )
}

/// Whether an error says that a statement was prepared in another session, or
/// another statement in this one.
pub(crate) fn is_of_another_session(error: &Error) -> bool {
    let Error::DatabaseError(_, info) = error else {
        return false;
    };
    let message = info.message();
    message.starts_with("prepared statement \"")
        || message.starts_with("bind message supplies")
        || message.contains("not allowed in statement pooling mode")
}

/// Connections do not keep their sessions.
pub(crate) fn no_sessions(server: &str, source: Option<Error>) -> StoreError {
    StoreError::Backend {
        message: format!(
            "Postgres at {server} is behind a pooler in transaction mode, where a session's \
             settings, its prepared statements and LISTEN do not last: use the pooler in session \
             mode (pool_mode = session in PgBouncer), or a URL that leads past it"
        ),
        source: source.map(Cause::new),
    }
}

fn is_shutdown(message: &str) -> bool {
    const SHUTDOWNS: [&str; 4] = [
        "terminating connection",
        "the database system is",
        "canceling statement due to conflict with recovery",
        "server closed the connection",
    ];
    SHUTDOWNS.iter().any(|start| message.starts_with(start))
}

/// The store's error for a statement that failed.
pub(crate) fn of_statement(error: Error, server: &str, time_out: Option<Duration>) -> StoreError {
    let message = match &error {
        Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _) => {
            return permanent(
                format!(
                    "Postgres at {server} takes no writes (25006): it is a standby, or set to \
                     read only. Connect to the primary, for example with \
                     target_session_attrs=read-write in the URL"
                ),
                error,
            );
        }
        Error::DatabaseError(_, info) => info.message().to_owned(),
        other => other.to_string(),
    };
    if is_of_another_session(&error) {
        return no_sessions(server, Some(error));
    }
    if fate(&error) != Fate::Final {
        return transient(format!("Postgres at {server}: {message}"), error);
    }
    if message.starts_with("canceling statement due to statement timeout") {
        let limit = time_out.map_or_else(
            || "the session's own statement_timeout".to_owned(),
            |limit| format!("{limit:?}"),
        );
        return transient(
            format!(
                "Postgres at {server} stopped a statement that took longer than {limit} (57014): \
                 the server is overloaded or a lock is held, or raise the store's \
                 statement_timeout"
            ),
            error,
        );
    }
    if message.starts_with("sorry, too many clients")
        || message.starts_with("remaining connection slots")
    {
        return too_many(server, error);
    }
    if message.starts_with("relation \"") && message.ends_with("does not exist") {
        return permanent(
            format!(
                "Postgres at {server}: {message}. The tables of mq are missing: run \
                 PgStore::builder(url).schema(..).migrate()"
            ),
            error,
        );
    }
    permanent(format!("Postgres at {server}: {message}"), error)
}

/// The store's error for a connection that could not be made.
pub(crate) fn of_connection(error: PoolError, server: &str) -> StoreError {
    let error = match error {
        PoolError::ConnectionError(error) => error,
        PoolError::QueryError(error) => return of_statement(error, server, None),
    };
    let code = code(&error);
    let message = match &error {
        ConnectionError::CouldntSetupConfiguration(Error::DatabaseError(_, info)) => {
            info.message().to_owned()
        }
        other => other.to_string(),
    };
    if code == Some(&SqlState::TOO_MANY_CONNECTIONS)
        || message.starts_with("sorry, too many clients")
        || message.starts_with("remaining connection slots")
    {
        return too_many(server, error);
    }
    let is_refusal = ["password authentication failed", "no pg_hba.conf entry"]
        .iter()
        .any(|start| message.starts_with(start));
    let unknown = (message.starts_with("database \"") || message.starts_with("role \""))
        && message.ends_with("does not exist");
    let message = format!("cannot connect to Postgres at {server}: {message}");
    if is_refusal || unknown || matches!(error, ConnectionError::InvalidConnectionUrl(_)) {
        return permanent(message, error);
    }
    transient(message, error)
}

fn code(error: &ConnectionError) -> Option<&SqlState> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
            return error.code();
        }
        cause = error.source();
    }
    None
}

fn too_many(
    server: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    transient(
        format!(
            "Postgres at {server} has no connection left to give (53300): lower the pool sizes \
             of the programs that share it, or raise its max_connections"
        ),
        error,
    )
}

/// The pool had no connection to give.
pub(crate) fn pool_exhausted(server: &str, connections: u32, waited: Duration) -> StoreError {
    StoreError::unavailable(format!(
        "none of the pool's {connections} connections to Postgres at {server} came free in \
         {waited:?}: raise the pool size, or see what holds them"
    ))
}

/// No answer came in time.
pub(crate) fn no_answer(server: &str, waited: Duration) -> StoreError {
    StoreError::unavailable(format!(
        "Postgres at {server} has not answered for {waited:?}: it is overloaded, or the \
         connection is dead"
    ))
}

fn transient(
    message: String,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Unavailable {
        message,
        source: Some(Cause::new(source)),
    }
}

fn permanent(
    message: String,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Backend {
        message,
        source: Some(Cause::new(source)),
    }
}
