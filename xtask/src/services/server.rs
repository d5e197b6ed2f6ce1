//! The kinds of servers that tests need.

use std::path::{Path, PathBuf};

use mq_testkit::servers::{Postgres, Redis, RedisCluster, ServerError, Settings};
use serde::{Deserialize, Serialize};

/// A kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Service {
    Redis,
    RedisDurable,
    RedisCluster,
    Postgres,
}

impl Service {
    pub(super) const ALL: [Self; 4] = [
        Self::Redis,
        Self::RedisDurable,
        Self::RedisCluster,
        Self::Postgres,
    ];

    /// The variable that tests find its URL in.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Redis => "MQ_TEST_REDIS_URL",
            Self::RedisDurable => "MQ_TEST_REDIS_DURABLE_URL",
            Self::RedisCluster => "MQ_TEST_REDIS_CLUSTER_URL",
            Self::Postgres => "MQ_TEST_PG_URL",
        }
    }

    /// The name of the folder for its data.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::RedisDurable => "redis-durable",
            Self::RedisCluster => "redis-cluster",
            Self::Postgres => "postgres",
        }
    }
}

/// One that was started here.
pub(super) struct Server {
    service: Service,
    running: Running,
}

enum Running {
    Redis(Redis),
    Cluster(RedisCluster),
    Postgres(Box<Postgres>),
}

impl Server {
    pub(super) fn start(service: Service, folder: &Path) -> Result<Self, ServerError> {
        let running = match service {
            Service::Redis => Running::Redis(Redis::start(folder, redis(Settings::volatile()))?),
            Service::RedisDurable => {
                Running::Redis(Redis::start(folder, redis(Settings::durable()))?)
            }
            Service::RedisCluster => {
                Running::Cluster(RedisCluster::start(folder, redis(Settings::volatile()))?)
            }
            Service::Postgres => {
                Running::Postgres(Box::new(Postgres::start(folder, Settings::volatile())?))
            }
        };
        let server = Self { service, running };
        eprintln!("{} is {}", service.variable(), server.url());
        Ok(server)
    }

    pub(super) fn service(&self) -> Service {
        self.service
    }

    pub(super) fn url(&self) -> String {
        match &self.running {
            Running::Redis(redis) => redis.url(),
            Running::Cluster(cluster) => cluster.url(),
            Running::Postgres(postgres) => postgres.url(),
        }
    }

    /// Lets it run on; what it takes to stop it later.
    pub(super) fn detach(self) -> Vec<Detached> {
        match self.running {
            Running::Redis(redis) => detach_redis(redis).into_iter().collect(),
            Running::Cluster(cluster) => {
                let nodes = cluster.into_nodes();
                nodes.into_iter().filter_map(detach_redis).collect()
            }
            Running::Postgres(postgres) => {
                let (port, folder) = (postgres.port(), postgres.folder().to_owned());
                let process = postgres.detach();
                let detached = process.map(|process| Detached::Postgres {
                    process,
                    port,
                    folder,
                });
                detached.into_iter().collect()
            }
        }
    }
}

/// Tests have it busy on purpose.
fn redis(settings: Settings) -> Settings {
    settings.with("enable-debug-command", "local")
}

fn detach_redis(redis: Redis) -> Option<Detached> {
    let port = redis.port();
    let process = redis.detach()?;
    Some(Detached::Redis { process, port })
}

/// A process that runs on.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Detached {
    Redis {
        process: u32,
        port: u16,
    },
    Postgres {
        process: u32,
        port: u16,
        folder: PathBuf,
    },
}

impl Detached {
    pub(super) fn runs(&self) -> bool {
        match self {
            Self::Redis { process, port } => Redis::runs_detached(*port, *process),
            Self::Postgres {
                process,
                port,
                folder,
            } => Postgres::runs_detached(folder, *port, *process),
        }
    }

    pub(super) fn stop(&self) -> anyhow::Result<()> {
        match self {
            Self::Redis { process, port } => {
                Redis::stop_detached(*port, *process)?;
            }
            Self::Postgres {
                process,
                port,
                folder,
            } => {
                Postgres::stop_detached(folder, *port, *process)?;
                // It may be outside the folder of all others.
                if folder.exists() {
                    std::fs::remove_dir_all(folder)?;
                }
            }
        }
        Ok(())
    }
}
