//! `cargo xtask ci`: all that a change must pass before it lands.

use clap::builder::PossibleValuesParser;
use xshell::{Shell, cmd};

use crate::step::{self, Step};
use crate::{features, manifest, package, test};

/// Quick and frequent failures first; the tests last, so that the output ends
/// with the test runner's own summary.
fn steps() -> Vec<Step> {
    let before = [
        Step {
            name: "format",
            run: format,
        },
        Step {
            name: "manifests",
            run: manifest::check,
        },
        Step {
            name: "clippy",
            run: clippy,
        },
        Step {
            name: "features",
            run: features::check,
        },
        Step {
            name: "docs",
            run: docs,
        },
        Step {
            name: "package",
            run: package::check,
        },
        Step {
            name: "quickstart",
            run: quickstart,
        },
    ];
    [&before, test::STEPS].concat()
}

/// The names of the steps, for the command line to accept and list.
pub(crate) fn step_names() -> PossibleValuesParser {
    steps()
        .iter()
        .map(|step| step.name)
        .collect::<Vec<_>>()
        .into()
}

/// Runs the steps of these names, or all of them if there is none.
pub(crate) fn run(shell: &Shell, names: &[String]) -> anyhow::Result<()> {
    let mut steps = steps();
    if !names.is_empty() {
        steps.retain(|step| names.iter().any(|name| name == step.name));
    }
    step::run(shell, &steps)
}

fn format(shell: &Shell) -> anyhow::Result<()> {
    cmd!(shell, "cargo fmt --all --check").run()?;
    Ok(())
}

fn clippy(shell: &Shell) -> anyhow::Result<()> {
    cmd!(
        shell,
        "cargo clippy --workspace --all-targets --all-features -- -D warnings"
    )
    .run()?;
    Ok(())
}

fn docs(shell: &Shell) -> anyhow::Result<()> {
    cmd!(shell, "cargo doc --workspace --no-deps --all-features")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok(())
}

/// The command of the README's first lines, to the letter.
fn quickstart(shell: &Shell) -> anyhow::Result<()> {
    cmd!(shell, "cargo run --example quickstart").run()?;
    Ok(())
}
