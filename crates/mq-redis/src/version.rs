//! Which server it is, and whether it will do.

use mq_core::{Result, StoreError};
use redis::Value;

use crate::connection::Connection;

/// A server's flavour and version.
#[derive(Debug, PartialEq, Eq)]
struct Server<'a> {
    flavour: Flavour,
    version: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Redis,
    Valkey,
}

impl Flavour {
    /// The oldest version that will do.
    const fn oldest(self) -> (u32, u32) {
        match self {
            Self::Redis => (7, 0),
            Self::Valkey => (7, 2),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
        }
    }
}

/// Refuses servers that are too old, and warns of those that may throw keys away.
pub(crate) async fn check(connection: &Connection) -> Result<()> {
    let info = redis::cmd("INFO");
    let answer = connection.command("asking for the version", &info).await?;
    let mut infos = Vec::new();
    texts(answer, &mut infos);
    for info in infos {
        if let Some(server) = server(&info) {
            accept(&server, connection.server())?;
        }
        if let Some(policy) = field(&info, "maxmemory_policy")
            && policy != "noeviction"
        {
            tracing::warn!(
                server = connection.server(),
                policy,
                "the server may evict keys, and with them jobs, when its memory is full: set \
                 maxmemory-policy to noeviction"
            );
        }
    }
    Ok(())
}

/// The texts in an answer: a cluster gives one for each node.
fn texts(answer: Value, into: &mut Vec<String>) {
    match answer {
        Value::BulkString(bytes) => into.push(String::from_utf8_lossy(&bytes).into_owned()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => into.push(text),
        Value::Array(values) => values.into_iter().for_each(|value| texts(value, into)),
        Value::Map(pairs) => pairs.into_iter().for_each(|(_, value)| texts(value, into)),
        _ => {}
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

fn server(info: &str) -> Option<Server<'_>> {
    if let Some(version) = field(info, "valkey_version") {
        let flavour = Flavour::Valkey;
        return Some(Server { flavour, version });
    }
    let version = field(info, "redis_version")?;
    let flavour = match field(info, "server_name") {
        Some("valkey") => Flavour::Valkey,
        _ => Flavour::Redis,
    };
    Some(Server { flavour, version })
}

fn accept(server: &Server<'_>, address: &str) -> Result<()> {
    let mut numbers = server
        .version
        .split('.')
        .map_while(|part| part.parse().ok());
    let found: (u32, u32) = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    let (major, minor) = server.flavour.oldest();
    if found >= (major, minor) {
        return Ok(());
    }
    Err(StoreError::Backend {
        message: format!(
            "the server at {address} is {} {}: this store needs Redis 7.0 or Valkey 7.2, or newer",
            server.flavour.as_str(),
            server.version
        ),
        source: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(info: &str) -> Result<()> {
        accept(&server(info).unwrap(), "host:6379")
    }

    #[test]
    fn servers_that_are_new_enough_are_accepted() {
        for info in [
            "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n",
            "redis_version:7.0.15\r\n",
            "redis_version:8.2.1\r\n",
            "redis_version:10.0\r\n",
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.5\r\n",
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n",
        ] {
            assert!(verdict(info).is_ok(), "{info}");
        }
    }

    #[test]
    fn older_servers_are_refused_by_name() {
        for (info, named) in [
            ("redis_version:6.2.14\r\n", "Redis 6.2.14"),
            ("redis_version:2.8\r\n", "Redis 2.8"),
            ("redis_version:unheard-of\r\n", "Redis unheard-of"),
            (
                "redis_version:7.0.0\r\nvalkey_version:7.0.0\r\n",
                "Valkey 7.0.0",
            ),
        ] {
            let error = verdict(info).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
            assert!(error.contains("host:6379"), "{error}");
        }
    }

    #[test]
    fn every_node_of_a_cluster_is_asked() {
        let node = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let mut found = Vec::new();
        let answer = Value::Map(vec![(node("a:1"), node("x:1")), (node("b:1"), node("x:2"))]);
        texts(answer, &mut found);
        assert_eq!(found, ["x:1", "x:2"]);
    }
}
