//! Where the servers' programs are.

use std::path::{Path, PathBuf};

use super::ServerError;

/// Folders that PATH may lack although package managers install there.
const FOLDERS: [&str; 4] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
];

/// Folders that hold a folder per version of Postgres, the beginning of its
/// name, and what leads from there to the programs.
const VERSIONED: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];

/// The program of Redis, or of Valkey where only that is installed.
///
/// # Errors
/// If there is none; the message says how to install it.
pub fn redis() -> Result<PathBuf, ServerError> {
    let names = ["redis-server", "valkey-server"];
    names
        .iter()
        .find_map(|name| {
            folders()
                .map(|folder| folder.join(name))
                .find(|path| path.is_file())
        })
        .ok_or_else(|| {
            ServerError::new(
                "no redis-server in PATH: install it \
                 (apt-get install redis-server, dnf install redis, brew install redis)",
            )
        })
}

/// The program of PgBouncer.
///
/// # Errors
/// If there is none; the message says how to install it.
pub fn pgbouncer() -> Result<PathBuf, ServerError> {
    folders()
        .map(|folder| folder.join("pgbouncer"))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            ServerError::new(
                "no pgbouncer in PATH: install it \
                 (apt-get install pgbouncer, dnf install pgbouncer, brew install pgbouncer)",
            )
        })
}

/// The folder that holds `initdb` and `postgres`, of the newest version unless
/// PATH names another.
///
/// # Errors
/// If there is none; the message says how to install it.
pub fn postgres() -> Result<PathBuf, ServerError> {
    folders()
        .chain(versions())
        .chain([PathBuf::from("/usr/local/pgsql/bin")])
        .find_map(|folder| holds_postgres(&folder))
        .ok_or_else(|| {
            ServerError::new(
                "no Postgres server in PATH, /usr/lib/postgresql or /usr/local/pgsql: install it \
                 (apt-get install postgresql, dnf install postgresql-server, brew install postgresql)",
            )
        })
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&path).collect();
    named.into_iter().chain(FOLDERS.map(PathBuf::from))
}

/// The folders of programs of each version installed, the newest first.
fn versions() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (parent, prefix) in VERSIONED {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix(prefix));
            if let Some(version) = version.and_then(|text| text.parse::<u32>().ok()) {
                found.push((version, entry.path().join("bin")));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The folder where `postgres` really is, as links lead to it, if `initdb` is
/// there, too.
fn holds_postgres(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("postgres").canonicalize().ok()?;
    let folder = program.parent()?;
    folder.join("initdb").is_file().then(|| folder.to_owned())
}
