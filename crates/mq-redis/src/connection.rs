//! The connection to a server or a cluster, and calls of scripts over it.

use std::time::Duration;

use mq_core::StoreError;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, RedisError, RedisResult, Value};

use crate::error::classify;
use crate::script::Script;

/// How often a script that the server forgot is loaded within one call.
const LOADS: usize = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const RECONNECTS: usize = 2;

#[derive(Clone)]
enum Link {
    Single(ConnectionManager),
    #[cfg(feature = "cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

/// A connection that mends itself. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    link: Link,
    /// The servers, without passwords, for messages.
    server: String,
    response_timeout: Duration,
}

/// Whether a call whose answer was lost with its connection may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Repeating it answers what the first try would have.
    Safely,
    /// Its caller must know that its outcome is unknown.
    Never,
}

/// A call of a script.
pub(crate) struct Call {
    script: &'static Script,
    repeat: Repeat,
    command: Cmd,
}

impl Call {
    /// A call whose only key is `key`.
    pub(crate) fn new(script: &'static Script, key: &str) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.sha).arg(1).arg(key);
        Self {
            script,
            repeat: Repeat::Never,
            command,
        }
    }

    pub(crate) fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(&mut self, argument: impl AsRef<[u8]>) -> &mut Self {
        self.command.arg(argument.as_ref());
        self
    }

    /// Adds a number as an argument.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.command.arg(number);
        self
    }

    /// The name of the script, for messages.
    pub(crate) fn name(&self) -> &'static str {
        self.script.name
    }
}

impl Connection {
    /// Connects to one server, or to a cluster if there are several addresses.
    pub(crate) async fn open(
        urls: &[String],
        response_timeout: Duration,
    ) -> Result<(Self, Vec<Client>), StoreError> {
        let mut clients = Vec::with_capacity(urls.len());
        for url in urls {
            // The error of a URL may name it, and with it a password.
            let client = Client::open(url.as_str()).map_err(|error| StoreError::Backend {
                message: format!("the URL of the Redis server cannot be used: {error}"),
                source: None,
            })?;
            clients.push(client);
        }
        let servers: Vec<String> = clients
            .iter()
            .map(|client| client.get_connection_info().addr().to_string())
            .collect();
        let server = servers.join(",");
        let failed = |error: RedisError| classify(error, &server, "connecting", response_timeout);
        let link = match clients.as_slice() {
            [client] => {
                let config = ConnectionManagerConfig::new()
                    .set_response_timeout(Some(response_timeout))
                    .set_connection_timeout(Some(response_timeout))
                    .set_number_of_retries(RECONNECTS)
                    .set_min_delay(SHORTEST_PAUSE)
                    .set_max_delay(LONGEST_PAUSE);
                let manager = client.get_connection_manager_with_config(config);
                Link::Single(manager.await.map_err(failed)?)
            }
            #[cfg(feature = "cluster")]
            [_, _, ..] => {
                let client =
                    redis::cluster::ClusterClient::builder(urls.iter().map(String::as_str))
                        .response_timeout(response_timeout)
                        .connection_timeout(response_timeout)
                        .build()
                        .map_err(failed)?;
                Link::Cluster(client.get_async_connection().await.map_err(failed)?)
            }
            _ => {
                return Err(StoreError::Backend {
                    message: "give one address, or, with the feature `cluster`, several nodes of \
                              one cluster"
                        .into(),
                    source: None,
                });
            }
        };
        let connection = Self {
            link,
            server,
            response_timeout,
        };
        Ok((connection, clients))
    }

    /// The servers, without passwords.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Sends a plain command.
    pub(crate) async fn command(&self, name: &str, command: &Cmd) -> Result<Value, StoreError> {
        self.send(command)
            .await
            .map_err(|error| classify(error, &self.server, name, self.response_timeout))
    }

    /// Calls a script.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, StoreError> {
        let mut loads = 0;
        let mut repeats = usize::from(call.repeat == Repeat::Safely);
        loop {
            let error = match self.send(&call.command).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if error.code() == Some("NOSCRIPT") && loads < LOADS {
                loads += 1;
                let mut load = redis::cmd("SCRIPT");
                load.arg("LOAD").arg(&call.script.text);
                self.command("loading a script", &load).await?;
            } else if repeats > 0 && error.is_connection_dropped() {
                repeats -= 1;
            } else {
                let name = call.script.name;
                return Err(classify(error, &self.server, name, self.response_timeout));
            }
        }
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let answer = match self.link.clone() {
            Link::Single(mut manager) => manager.req_packed_command(command).await,
            #[cfg(feature = "cluster")]
            Link::Cluster(mut cluster) => cluster.req_packed_command(command).await,
        };
        match answer? {
            Value::ServerError(error) => Err(error.into()),
            answer => Ok(answer),
        }
    }
}
