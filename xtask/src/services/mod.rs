//! `cargo xtask services`: throw-away servers for the tests that need one.

mod install;
mod server;
mod state;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use tempfile::TempDir;
use xshell::Shell;

use crate::workspace;
use server::{Server, Service};
use state::State;

/// What to do with the servers that stay.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Start those that do not run, and let them run on.
    Up,
    /// Stop them, and remove their data.
    Down,
    /// Print what a shell has to evaluate for tests to find them.
    Env,
}

pub(crate) fn run(shell: &Shell, action: &Action) -> anyhow::Result<()> {
    match action {
        Action::Up => up(shell),
        Action::Down => down(),
        Action::Env => env(),
    }
}

fn up(shell: &Shell) -> anyhow::Result<()> {
    let mut state = State::load()?;
    state.forget_what_is_gone();
    for service in Service::ALL {
        if state.url(service).is_none() {
            install::ensure(shell, service)?;
            let server = Server::start(service, &folder().join(service.folder()))?;
            state.add(server);
            state.save()?;
        }
    }
    eprintln!("they run; to have tests use them: eval \"$(cargo xtask services env)\"");
    env()
}

fn down() -> anyhow::Result<()> {
    let mut state = State::load()?;
    state.stop_all()?;
    State::remove()
}

fn env() -> anyhow::Result<()> {
    let mut state = State::load()?;
    state.forget_what_is_gone();
    for service in Service::ALL {
        if let Some(url) = state.url(service) {
            println!("export {}='{url}'", service.variable());
        }
    }
    Ok(())
}

/// Where the servers that stay have their data.
fn folder() -> PathBuf {
    workspace::root().join("target/services")
}

/// How the folders of servers begin that end with a process; its id follows.
const PREFIX: &str = "test-";

/// Removes the data of runs that were cut short, where the system tells which
/// processes there are.
fn remove_leftovers() {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in std::fs::read_dir(folder()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process = rest.and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Servers that run as long as this lives.
pub(crate) struct Servers {
    // Ended before their data goes.
    _servers: Vec<Server>,
    _folder: Option<TempDir>,
}

/// Has every service at hand: one whose variable is set is the caller's own, one
/// that `up` has started is used, and the others are started. Commands of this
/// shell find them by their variables.
pub(crate) fn provide(shell: &Shell) -> anyhow::Result<Servers> {
    let mut state = State::load()?;
    state.forget_what_is_gone();
    let mut missing = Vec::new();
    for service in Service::ALL {
        let variable = service.variable();
        if std::env::var_os(variable).is_some() {
            eprintln!("{variable} is set");
        } else if let Some(url) = state.url(service) {
            shell.set_var(variable, url);
        } else {
            missing.push(service);
        }
    }
    if missing.is_empty() {
        return Ok(Servers {
            _servers: Vec::new(),
            _folder: None,
        });
    }
    std::fs::create_dir_all(folder())?;
    remove_leftovers();
    // Postgres may run under an account of its own, and must get at its data.
    let data = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .tempdir_in(folder())
        .context("no folder for the servers' data")?;
    let mut servers = Vec::new();
    for service in missing {
        install::ensure(shell, service)?;
        let server = Server::start(service, &data.path().join(service.folder()))?;
        shell.set_var(service.variable(), server.url());
        servers.push(server);
    }
    Ok(Servers {
        _servers: servers,
        _folder: Some(data),
    })
}
