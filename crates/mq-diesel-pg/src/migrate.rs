//! Tables: how they come to be, and whether they are the right ones.

use diesel_async::SimpleAsyncConnection;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use mq_core::{InvalidInput, Result, Rule, StoreError};

use crate::error;
use crate::pool::{Connections, rows};
use crate::rows::{read_all, read_one};
use crate::statement::Statement;
use crate::store::Inner;

/// The migrations of the store's tables, for a diesel pipeline of the user's
/// own. Their versions begin with `mq`, so that they meet no others in its
/// table of migrations.
///
/// They create the tables in the first schema of the connection's
/// `search_path`. [`PgStore::migrate`](crate::PgStore::migrate) does the same
/// without a pipeline.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations");

/// The layouts in turn: what brings the tables from one to the next.
const LAYOUTS: [&str; 1] = [include_str!("../migrations/mq0001_layout/up.sql")];

/// The oldest server whose Postgres knows all that the statements use.
const OLDEST_SERVER: i32 = 140_000;

/// The layout this version of the crate works with.
fn layout() -> i32 {
    i32::try_from(LAYOUTS.len()).unwrap_or(i32::MAX)
}

/// Refuses a schema name that would have to be escaped where it is used.
pub(crate) fn check_schema(name: &str) -> Result<()> {
    const MOST: usize = 48;
    let plain = name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let rule = if name.is_empty() {
        Rule::Empty
    } else if name.len() > MOST {
        Rule::TooLong {
            bytes: name.len(),
            most: MOST,
        }
    } else if !plain {
        Rule::Other("holds other characters than letters, digits, `_` and `-`".into())
    } else {
        return Ok(());
    };
    Err(InvalidInput::new("Postgres schema", name, rule).into())
}

/// The channel of a store's wake-ups; stores in other schemas have others.
pub(crate) fn channel(schema: &str) -> String {
    format!("mq_wake_{schema}")
}

/// Checks the server and the tables of a store that is being opened.
pub(crate) async fn check(inner: &Inner, schema: &str) -> Result<()> {
    let about_server = inner.statement(
        "SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
            current_setting('server_encoding')",
    );
    let about_server = inner.query(&about_server).await?;
    let (number, version, encoding) = read_one(&about_server, |columns| {
        Ok((columns.small()?, columns.text()?, columns.text()?))
    })?;
    let server = inner.connections.server();
    if number < OLDEST_SERVER {
        return Err(refused(format!(
            "Postgres at {server} is of version {version}: mq needs 14 or newer"
        )));
    }
    if encoding != "UTF8" {
        return Err(refused(format!(
            "the database at {server} is encoded in {encoding}: mq needs one in UTF8 \
             (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)"
        )));
    }
    let name = format!("\"{schema}\".mq_meta");
    let exists = inner
        .statement("SELECT to_regclass($1) IS NOT NULL")
        .bind(name.as_str());
    let there = read_one(&inner.query(&exists).await?, |columns| columns.flag())?;
    if !there {
        return Err(refused(format!(
            "the schema {schema:?} of the database at {server} has no tables of mq: run {}, or \
             apply mq_diesel_pg::MIGRATIONS",
            command(schema)
        )));
    }
    let found = inner
        .query(&inner.statement("SELECT layout FROM $mq_meta"))
        .await?;
    let found = read_one(&found, |columns| columns.small())?;
    compare(found, schema, server)
}

fn compare(found: i32, schema: &str, server: &str) -> Result<()> {
    let wanted = layout();
    if found == wanted {
        return Ok(());
    }
    let what = format!(
        "the mq tables in schema {schema:?} of the database at {server} have layout {found}, \
         and this version of mq-diesel-pg needs {wanted}"
    );
    Err(refused(if found < wanted {
        format!("{what}: run {}", command(schema))
    } else {
        format!("{what}: a newer version has migrated them; update this program")
    }))
}

/// The call that puts tables right.
fn command(schema: &str) -> String {
    format!("PgStore::builder(url).schema({schema:?}).migrate().await")
}

fn refused(message: String) -> StoreError {
    StoreError::Backend {
        message,
        source: None,
    }
}

/// Brings the tables to this version's layout. All who do so at once take
/// turns; the later find nothing left to do.
pub(crate) async fn migrate(connections: &Connections, schema: &str) -> Result<()> {
    let server = connections.server();
    let failed = |error| error::of_statement(error, server, None);
    // Not one of the pool's: it goes when it is done, whatever state it is in.
    let mut connection = connections.dedicated().await?;
    connection
        .batch_execute(&format!(
            "BEGIN;
            SET LOCAL statement_timeout = 0;
            SELECT pg_advisory_xact_lock(hashtextextended('mq migration of {schema}', 0));
            DO $$ BEGIN
                IF to_regnamespace('\"{schema}\"') IS NULL THEN CREATE SCHEMA \"{schema}\"; END IF;
            END $$;
            SET LOCAL search_path TO \"{schema}\";"
        ))
        .await
        .map_err(failed)?;
    let exists = Statement::new("SELECT to_regclass('mq_meta') IS NOT NULL".into());
    let there = rows(&mut connection, &exists).await.map_err(failed)?;
    let mut found = 0;
    if read_one(&there, |columns| columns.flag())? {
        let layout = Statement::new("SELECT layout FROM mq_meta".into());
        let layouts = rows(&mut connection, &layout).await.map_err(failed)?;
        found = read_all(&layouts, |columns| columns.small())?
            .pop()
            .unwrap_or(0);
    }
    if found > layout() {
        return compare(found, schema, server);
    }
    let done = usize::try_from(found).unwrap_or(0);
    for (number, script) in LAYOUTS.iter().enumerate().skip(done) {
        connection.batch_execute(script).await.map_err(failed)?;
        let note = format!("UPDATE mq_meta SET layout = {}", number + 1);
        connection.batch_execute(&note).await.map_err(failed)?;
    }
    connection.batch_execute("COMMIT").await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_that_needs_escaping_is_refused() {
        for name in ["", "a\"b", "a.b", "a'b", "$mq_", &"s".repeat(49)] {
            assert!(check_schema(name).is_err(), "{name:?}");
        }
        for name in ["public", "billing-2", "Größe"] {
            assert!(check_schema(name).is_ok(), "{name:?}");
        }
    }
}
