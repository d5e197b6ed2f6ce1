//! `cargo xtask chaos`: jobs through worker processes, while workers and servers
//! are killed.

use xshell::{Shell, cmd};

/// Runs the harness with these arguments; `--help` lists them.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> anyhow::Result<()> {
    cmd!(
        shell,
        "cargo run --quiet --release --package mq-chaos -- {arguments...}"
    )
    .run()?;
    Ok(())
}
