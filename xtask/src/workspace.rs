//! What cargo knows of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use xshell::{Shell, cmd};

/// The folder that the workspace lies in.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// A package, as far as it matters here.
#[derive(Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) targets: Vec<Target>,
    pub(crate) rust_version: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    publish: Option<Vec<String>>,
}

impl Package {
    /// Whether it is meant to be packaged at all.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|to| !to.is_empty())
    }

    /// The folder of its manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(root())
    }
}

/// Something cargo builds of a package.
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    kind: Vec<String>,
}

impl Target {
    /// Whether it is of this kind: `lib`, `bench`, `example`, ….
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|of| of == kind)
    }
}

/// The packages of the workspace, and those they depend on.
pub(crate) struct Packages {
    pub(crate) members: Vec<Package>,
    pub(crate) dependencies: Vec<Package>,
}

/// Asks cargo for all packages that the lock file names.
pub(crate) fn packages(shell: &Shell) -> anyhow::Result<Packages> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
        workspace_members: BTreeSet<String>,
    }
    let json = cmd!(shell, "cargo metadata --format-version 1")
        .quiet()
        .read()?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("cargo metadata printed what cannot be decoded")?;
    let (members, dependencies) = metadata
        .packages
        .into_iter()
        .partition(|package| metadata.workspace_members.contains(&package.id));
    Ok(Packages {
        members,
        dependencies,
    })
}
