//! How a server is to run.

/// What of its acknowledged writes a server keeps when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Whatever the server keeps at least: Redis forgets all; Postgres relies on
    /// the operating system (`fsync` off).
    Volatile,
    /// Every write is on disk before it is acknowledged: `appendfsync always`,
    /// `fsync` on.
    Durable,
}

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) durability: Durability,
    pub(super) lines: Vec<(String, String)>,
}

impl Settings {
    /// Fast, and nothing is flushed.
    pub fn volatile() -> Self {
        Self::of(Durability::Volatile)
    }

    /// Every acknowledged write survives a kill.
    pub fn durable() -> Self {
        Self::of(Durability::Durable)
    }

    /// The server's default settings, but for how durable its writes are.
    pub fn of(durability: Durability) -> Self {
        Self {
            durability,
            lines: Vec::new(),
        }
    }

    /// Sets one more setting of the server's configuration file, such as
    /// `maxmemory` to `10mb`. The last one of a name wins.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.lines.push((name.into(), value.into()));
        self
    }
}
