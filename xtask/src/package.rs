//! Checks that every published crate can be packaged.

use std::path::Path;

use anyhow::ensure;
use xshell::{Shell, cmd};

use crate::workspace;

/// What each package holds.
const HELD: [&str; 4] = ["Cargo.toml", "src/lib.rs", "LICENSE-MIT", "LICENSE-APACHE"];

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
        for included in included(shell, package.folder())? {
            ensure!(
                listed.contains(&included.as_str()),
                "the package of {name} lacks {included}, which its documentation includes"
            );
        }
    }
    Ok(())
}

/// The texts that a crate's modules take into their documentation, by their
/// path in the package. They are links out of it, so packing might lose them.
fn included(shell: &Shell, folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for source in shell.read_dir(folder.join("src"))? {
        if source.extension().is_some_and(|kind| kind == "rs") {
            let code = shell.read_file(source)?;
            let paths = code.split("include_str!(\"../").skip(1);
            texts.extend(paths.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
    }
    Ok(texts)
}
