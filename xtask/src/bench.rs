//! `cargo xtask bench`: the benchmarks of all crates.

use anyhow::ensure;
use xshell::{Shell, cmd};

use crate::workspace;

/// How long to measure.
#[derive(Clone, Copy)]
pub(crate) enum Length {
    /// As long as the figures need.
    Full,
    /// Long enough to see that it works.
    Quick,
}

impl From<bool> for Length {
    fn from(quick: bool) -> Self {
        if quick { Self::Quick } else { Self::Full }
    }
}

/// Runs the benchmarks of these names, or all of them if there is none.
pub(crate) fn run(shell: &Shell, length: Length, names: &[String]) -> anyhow::Result<()> {
    let members = workspace::packages(shell)?.members;
    let benches: Vec<(&str, &str)> = members
        .iter()
        .flat_map(|package| {
            let benches = package.targets.iter().filter(|target| target.is("bench"));
            benches.map(|target| (package.name.as_str(), target.name.as_str()))
        })
        .collect();
    let known: Vec<&str> = benches.iter().map(|(_, bench)| *bench).collect();
    for name in names {
        ensure!(
            known.contains(&name.as_str()),
            "there is no benchmark {name:?}, only these: {}",
            known.join(", ")
        );
    }
    let arguments: &[&str] = match length {
        Length::Full => &[],
        Length::Quick => &["--quick"],
    };
    for (package, bench) in benches {
        if names.is_empty() || names.iter().any(|name| name == bench) {
            eprintln!("\n── {package}: {bench}");
            cmd!(
                shell,
                "cargo bench --package {package} --bench {bench} -- {arguments...}"
            )
            .run()?;
        }
    }
    Ok(())
}
