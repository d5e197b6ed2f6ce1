//! Telling whether statements go through a pooler that gives each transaction
//! another session of the server's.
//!
//! The store's sessions have settings of their own and remember their
//! statements, so there they would fail now and then, and spoil the settings
//! of others. Such a pooler is found by leaving a mark in a session, and
//! looking where it turns up.

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use mq_core::Result;

use crate::error;
use crate::pool::{self, Connection, Failure};
use crate::rows::read_one;
use crate::store::Inner;

/// Leaves a mark in a session.
const MARK: &str = "SELECT set_config('mq.session', $1, false) IS NOT NULL";

/// Whether a session has that mark.
const IS_MARKED: &str = "SELECT coalesce(current_setting('mq.session', true) = $1, false)";

impl Inner {
    /// Refuses a pooler in transaction mode.
    pub(crate) async fn check_sessions(&self) -> Result<()> {
        let server = self.connections.server();
        let mut other = match self.connections.dedicated().await {
            Ok(other) => other,
            Err(error) => {
                tracing::debug!(%error, "cannot tell whether there is a pooler");
                return Ok(());
            }
        };
        let mut one = self.connections.get().await?;
        let refused = match self.keeps_sessions(&mut one, &mut other).await {
            Ok(true) => return Ok(()),
            Ok(false) => error::no_sessions(server, None),
            Err(Failure::Statement(error)) if error::is_of_another_session(&error) => {
                error::no_sessions(server, Some(error))
            }
            Err(failure) => return Err(self.connections.store_error(failure)),
        };
        // The pooler lends these sessions to others next.
        for clean in ["ROLLBACK", "DISCARD ALL"] {
            let _ = other.batch_execute(clean).await;
            let _ = one.execute(clean).await;
        }
        Err(refused)
    }

    /// Whether two connections are two sessions, and stay what they are.
    async fn keeps_sessions(
        &self,
        one: &mut Connection<'_>,
        other: &mut AsyncPgConnection,
    ) -> Result<bool, Failure> {
        let mark = format!("{:016x}", fastrand::u64(..));
        let is_marked = self.statement(IS_MARKED).bind(mark.as_str());
        one.rows(&self.statement(MARK).bind(mark.as_str())).await?;
        // In a transaction, it is served by one session, be it the first one's.
        let begun = other.batch_execute("BEGIN").await;
        begun.map_err(Failure::Statement)?;
        let shared = pool::rows(other, &is_marked).await;
        let shared = shared.map_err(Failure::Statement)?;
        let shared = read_one(&shared, |columns| columns.flag())?;
        let stayed = read_one(&one.rows(&is_marked).await?, |columns| columns.flag())?;
        one.rows(&self.statement(MARK).bind("")).await?;
        Ok(stayed && !shared)
    }
}
