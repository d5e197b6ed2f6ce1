//! `cargo xtask services` where servers cannot be started: tests use the
//! contributor's own.

use anyhow::ensure;
use clap::Subcommand;
use xshell::Shell;

/// The variables that tests find servers by.
const VARIABLES: [&str; 4] = [
    "MQ_TEST_REDIS_URL",
    "MQ_TEST_REDIS_DURABLE_URL",
    "MQ_TEST_REDIS_CLUSTER_URL",
    "MQ_TEST_PG_URL",
];

/// There is nothing to do here.
#[derive(Subcommand)]
pub(crate) enum Action {}

pub(crate) fn run(_: &Shell, action: &Action) -> anyhow::Result<()> {
    match *action {}
}

/// The servers that were started: none.
pub(crate) struct Servers;

/// Checks that every service is at hand.
pub(crate) fn provide(_: &Shell) -> anyhow::Result<Servers> {
    for variable in VARIABLES {
        ensure!(
            std::env::var_os(variable).is_some(),
            "{variable} is not set, and servers are started on Unix only: \
             name one of your own, or see compose.yaml"
        );
    }
    Ok(Servers)
}
