//! What can be done to a store besides calling it.

use std::fmt;

/// Something that not every store allows; cases that need it do not apply to
/// the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// It can take its time from its own server,
    /// [`TimeSource::Server`](crate::TimeSource::Server).
    ServerTime,
    /// What is stored of a job can be damaged, with
    /// [`Opened::with_corruption`](super::Opened::with_corruption).
    Corruption,
    /// The server under it can be killed and started again, with
    /// [`Opened::with_restart`](super::Opened::with_restart).
    Restart,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerTime => "server time",
            Self::Corruption => "corruption",
            Self::Restart => "restart",
        })
    }
}
