//! `cargo xtask test`: every test there is.

use xshell::{Shell, cmd};

use crate::services;
use crate::step::Step;

/// The two kinds of tests. Each has servers at hand while it runs.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "doctests",
        run: doctests,
    },
    Step {
        name: "tests",
        run: tests,
    },
];

/// The examples in the documentation, which nextest does not run.
fn doctests(shell: &Shell) -> anyhow::Result<()> {
    let _servers = services::provide(shell)?;
    cmd!(shell, "cargo test --workspace --all-features --doc").run()?;
    Ok(())
}

/// All others; by nextest if it is installed. The runner writes straight to
/// where xtask writes.
fn tests(shell: &Shell) -> anyhow::Result<()> {
    let _servers = services::provide(shell)?;
    let nextest = cmd!(shell, "cargo nextest --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr()
        .run();
    match nextest {
        Ok(()) => cmd!(shell, "cargo nextest run --workspace --all-features").run()?,
        Err(_) => cmd!(
            shell,
            "cargo test --workspace --all-features --no-fail-fast --lib --bins --tests --examples"
        )
        .run()?,
    }
    Ok(())
}
