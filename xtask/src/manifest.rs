//! Checks what the manifests promise, and what cargo itself does not look at.

use std::cmp::Reverse;

use anyhow::{Context, bail, ensure};
use xshell::Shell;

use crate::workspace::{self, Package, root};

/// The licence files that each published crate carries along.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// One Rust version, the same in every manifest and in the README, and no
/// dependency that needs a newer one; licence texts beside every manifest.
pub(crate) fn check(shell: &Shell) -> anyhow::Result<()> {
    let packages = workspace::packages(shell)?;
    let stated = rust_version(&packages.members)?;
    let readme = shell.read_file("README.md")?;
    ensure!(
        readme.contains(&format!("Rust {stated}")),
        "README.md does not say \"Rust {stated}\", which is the rust-version of the crates"
    );

    let newest = packages
        .dependencies
        .iter()
        .filter_map(|package| {
            package
                .rust_version
                .as_deref()
                .map(|needs| (needs, package))
        })
        .min_by_key(|(needs, _)| Reverse(version(needs)));
    if let Some((needs, package)) = newest {
        let Package {
            name, version: of, ..
        } = package;
        ensure!(
            version(needs) <= version(&stated),
            "{name} {of} needs Rust {needs}, but the crates promise {stated}: \
             use an older {name}, or raise rust-version and say so in CHANGELOG.md"
        );
        eprintln!("Rust {stated} is stated; the dependencies need {needs} ({name} {of})");
    }

    for package in packages
        .members
        .iter()
        .filter(|package| package.is_published())
    {
        let name = &package.name;
        ensure!(
            package.license.as_deref() == Some("MIT OR Apache-2.0"),
            "{name} has the licence {:?}, not MIT OR Apache-2.0",
            package.license
        );
        ensure!(package.description.is_some(), "{name} has no description");
        for licence in LICENCES {
            let beside = std::fs::read(package.folder().join(licence)).with_context(|| {
                format!("{name} has no {licence}: link it to the one in the root")
            })?;
            ensure!(
                beside == std::fs::read(root().join(licence))?,
                "{licence} of {name} is not the one in the root: make it a link"
            );
        }
    }
    Ok(())
}

/// The version that all members state.
fn rust_version(members: &[Package]) -> anyhow::Result<String> {
    let mut stated: Vec<_> = members
        .iter()
        .map(|package| package.rust_version.as_deref())
        .collect();
    stated.dedup();
    match stated[..] {
        [Some(version)] => Ok(version.to_owned()),
        _ => bail!("the crates state different rust-versions, or none: {stated:?}"),
    }
}

/// A version as numbers, to compare.
fn version(text: &str) -> Vec<u64> {
    let numbers = text.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.resize(3, 0);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("1.9") < version("1.89.0"));
        assert_eq!(version("1.89"), version("1.89.0"));
        assert!(version("1.89.1") > version("1.89"));
    }
}
