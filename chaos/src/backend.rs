//! The stores that a run can be on: how to open them, and their servers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use mq_core::Store;
use mq_diesel_pg::PgStore;
use mq_redis::RedisStore;
use mq_testkit::servers::{Postgres, Redis, ServerError, Settings};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Redis,
    Pg,
}

impl Backend {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Pg => "pg",
        }
    }

    /// Opens a store on a server.
    pub(crate) async fn open(self, url: &str) -> mq_core::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Redis => Arc::new(RedisStore::connect(url).await?),
            Self::Pg => Arc::new(PgStore::connect(url).await?),
        })
    }

    /// Opens a store on a server that may be down at the moment.
    pub(crate) async fn open_patiently(self, url: &str) -> Arc<dyn Store> {
        loop {
            match self.open(url).await {
                Ok(store) => return store,
                Err(error) => eprintln!("cannot open the store yet: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has a new server ready for stores.
    pub(crate) async fn prepare(self, url: &str) -> mq_core::Result<()> {
        match self {
            Self::Redis => Ok(()),
            Self::Pg => PgStore::migrate(url).await,
        }
    }
}

/// A server of a run.
pub(crate) enum Server {
    Redis(Redis),
    Pg(Postgres),
}

impl Server {
    /// Starts one that keeps what it acknowledges.
    pub(crate) fn start(backend: Backend, folder: &Path) -> Result<Self, ServerError> {
        let settings = Settings::durable();
        Ok(match backend {
            Backend::Redis => Self::Redis(Redis::start(folder, settings)?),
            Backend::Pg => Self::Pg(Postgres::start(folder, settings)?),
        })
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        let port = match self {
            Self::Redis(redis) => redis.port(),
            Self::Pg(postgres) => postgres.port(),
        };
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Its URL for somebody who reaches it at this address.
    pub(crate) fn url_at(&self, address: SocketAddr) -> String {
        match self {
            Self::Redis(_) => format!("redis://{address}"),
            Self::Pg(_) => format!("postgres://postgres@{address}/postgres"),
        }
    }

    pub(crate) fn kill9(&mut self) -> Result<(), ServerError> {
        match self {
            Self::Redis(redis) => redis.kill9(),
            Self::Pg(postgres) => postgres.kill9(),
        }
    }

    pub(crate) fn restart(&mut self) -> Result<(), ServerError> {
        match self {
            Self::Redis(redis) => redis.restart(),
            Self::Pg(postgres) => postgres.restart(),
        }
    }

    /// Has it forget what clients expect it to remember, where there is such a
    /// thing: the scripts that they call by their hash.
    pub(crate) fn forget(&self) -> Result<(), ServerError> {
        match self {
            Self::Redis(redis) => redis.ask("SCRIPT FLUSH").map(drop),
            Self::Pg(_) => Ok(()),
        }
    }
}
