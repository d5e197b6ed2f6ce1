//! What goes wrong with servers.

use std::fmt::Display;
use std::io;

/// A server could not be started, stopped or asked. The message says which, why,
/// and what the server's log ends with.
#[derive(Debug)]
pub struct ServerError(String);

impl ServerError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// For `map_err`: says what was attempted before the cause.
    pub(super) fn during(attempt: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self(format!("{attempt}: {cause}"))
    }
}

impl Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerError {}
