//! A Redis Cluster.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Redis, ServerError, Settings, port};

/// How many hash slots a cluster has.
const SLOTS: u32 = 16_384;

/// How many masters share them.
const MASTERS: u32 = 3;

/// How long the nodes may take to know each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// A throw-away Redis Cluster of three masters, without replicas.
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts one with each node's data in a folder of its own below this one.
    ///
    /// # Errors
    /// If a node does not become ready, or the nodes do not find together.
    pub fn start(folder: impl AsRef<Path>, settings: Settings) -> Result<Self, ServerError> {
        let mut nodes = Vec::new();
        for number in 0..MASTERS {
            let settings = settings
                .clone()
                .with("cluster-enabled", "yes")
                .with("cluster-announce-ip", "127.0.0.1");
            nodes.push(start_node(folder.as_ref(), number, settings)?);
        }
        let cluster = Self { nodes };
        cluster.join()?;
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// The URLs of its nodes, with commas between them.
    pub fn url(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(Redis::url).collect();
        urls.join(",")
    }

    /// Its nodes.
    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    /// Its nodes, to be had one by one.
    pub fn into_nodes(self) -> Vec<Redis> {
        self.nodes
    }

    /// Waits until every node can reach every slot.
    ///
    /// # Errors
    /// If they do not within a minute.
    pub fn wait_until_whole(&self) -> Result<(), ServerError> {
        let deadline = Instant::now() + PATIENCE;
        for node in &self.nodes {
            loop {
                let info = node.ask("CLUSTER INFO")?;
                if is_whole(&info) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(ServerError::new(format!(
                        "the cluster is not whole after {PATIENCE:?}; {} says:\n{info}",
                        node.url()
                    )));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Gives each node its share of the slots and introduces it to the first one.
    fn join(&self) -> Result<(), ServerError> {
        let share = SLOTS / MASTERS;
        let first = &self.nodes[0];
        for (number, node) in (0..MASTERS).zip(&self.nodes) {
            let start = number * share;
            let last_of_all = number + 1 == MASTERS;
            let end = if last_of_all { SLOTS } else { start + share } - 1;
            order(node, &format!("CLUSTER ADDSLOTSRANGE {start} {end}"))?;
            // Nodes of the same epoch would have to settle which is the newer.
            order(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1))?;
        }
        for node in &self.nodes[1..] {
            let (port, bus) = (node.port(), bus_port(node)?);
            order(first, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"))?;
        }
        Ok(())
    }
}

fn start_node(folder: &Path, number: u32, settings: Settings) -> Result<Redis, ServerError> {
    let bus = port::free()?;
    let settings = settings.with("cluster-port", bus.to_string());
    Redis::start(folder.join(format!("node-{number}")), settings)
}

fn bus_port(node: &Redis) -> Result<String, ServerError> {
    // `<id> 127.0.0.1:<port>@<bus port> myself,…`
    let nodes = node.ask("CLUSTER NODES")?;
    nodes
        .split_whitespace()
        .find_map(|word| word.split_once('@'))
        .map(|(_, bus)| bus.split(',').next().unwrap_or(bus).to_owned())
        .ok_or_else(|| ServerError::new(format!("cannot find the bus port in {nodes:?}")))
}

fn is_whole(info: &str) -> bool {
    let says = |line: String| info.lines().any(|of| of == line);
    says("cluster_state:ok".to_owned())
        && says(format!("cluster_known_nodes:{MASTERS}"))
        && says(format!("cluster_slots_ok:{SLOTS}"))
        && says(format!("cluster_size:{MASTERS}"))
}

fn order(node: &Redis, command: &str) -> Result<(), ServerError> {
    let answer = node.ask(command)?;
    if answer == "+OK" {
        return Ok(());
    }
    Err(ServerError::new(format!(
        "{} answers {command} with {answer}",
        node.url()
    )))
}
