//! Checks that every published crate can be packaged.

use anyhow::ensure;
use xshell::{Shell, cmd};

use crate::workspace;

/// What each package holds besides its code.
const HELD: [&str; 3] = ["Cargo.toml", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packages all published crates together, as if each could be had from the
/// registry already, and looks into what came out.
pub(crate) fn check(shell: &Shell) -> anyhow::Result<()> {
    let members = workspace::packages(shell)?.members;
    let published: Vec<_> = members
        .iter()
        .filter(|package| package.is_published())
        .collect();
    let chosen = published
        .iter()
        .flat_map(|package| ["--package", &package.name]);
    // A contributor's uncommitted work is what is to be checked.
    cmd!(shell, "cargo package --no-verify --allow-dirty {chosen...}").run()?;
    for package in published {
        let name = &package.name;
        let listed = cmd!(shell, "cargo package --list --allow-dirty --package {name}")
            .quiet()
            .read()?;
        let listed: Vec<&str> = listed.lines().collect();
        for file in HELD {
            ensure!(listed.contains(&file), "the package of {name} lacks {file}");
        }
        ensure!(
            listed.contains(&"src/lib.rs"),
            "the package of {name} lacks its code"
        );
    }
    Ok(())
}
