//! A PgBouncer before a Postgres.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::account::{self, Account};
use super::postgres::prepare;
use super::process::{End, Process};
use super::{ServerError, port, programs};

/// How many ports are tried: another process may take one just before.
const TRIES: usize = 5;

/// How long a session with the server lasts that serves a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// As long as the client is connected.
    Session,
    /// As long as a transaction of the client's.
    Transaction,
}

impl Display for PoolMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
        })
    }
}

/// Where the Postgres is that connections lead to, and as whom they go there.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whom all become, without a password.
    pub user: String,
}

/// A throw-away PgBouncer, which lets in whoever asks.
pub struct PgBouncer {
    process: Option<Process>,
    program: PathBuf,
    folder: PathBuf,
    _elsewhere: Option<TempDir>,
    account: Option<Account>,
    port: u16,
}

impl PgBouncer {
    /// Starts one with its files in the folder, which is created if need be.
    /// Run by root, it changes to an account without privileges, as Postgres
    /// does.
    ///
    /// # Errors
    /// If no `pgbouncer` is installed, or it does not become ready.
    pub fn start(
        folder: impl AsRef<Path>,
        upstream: &Upstream,
        mode: PoolMode,
    ) -> Result<Self, ServerError> {
        let program = programs::pgbouncer()?;
        let account = account::unprivileged()?;
        let (folder, elsewhere) = prepare(folder.as_ref(), account)?;
        let mut bouncer = Self {
            process: None,
            program,
            folder,
            _elsewhere: elsewhere,
            account,
            port: port::free()?,
        };
        for _ in 1..TRIES {
            bouncer.configure(upstream, mode)?;
            if bouncer.restart().is_ok() {
                return Ok(bouncer);
            }
            bouncer.port = port::free()?;
        }
        bouncer.configure(upstream, mode)?;
        bouncer.restart().map(|()| bouncer)
    }

    /// The URL of a database of the Postgres behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://anybody@127.0.0.1:{}/{database}", self.port)
    }

    /// Ends it on the spot (`SIGKILL`), and all that goes through it.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<(), ServerError> {
        match self.process.take() {
            Some(mut process) => process.kill9(),
            None => Ok(()),
        }
    }

    /// Starts it again on the same port; ends it first if it runs.
    ///
    /// # Errors
    /// If it does not become ready.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.kill9()?;
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).arg("pgbouncer.ini");
        if let Some(account) = self.account {
            account.run(&mut command);
        }
        let log = self.folder.join("pgbouncer.log");
        let mut process = Process::start(&mut command, log, End::Kill)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        process.until(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    fn configure(&self, upstream: &Upstream, mode: PoolMode) -> Result<(), ServerError> {
        let Upstream { host, port, user } = upstream;
        let text = format!(
            "[databases]\n* = host={host} port={port} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\nmax_client_conn = 200\n\
             default_pool_size = 40\n",
            self.port
        );
        let file = self.folder.join("pgbouncer.ini");
        std::fs::write(&file, text).map_err(ServerError::during(format_args!(
            "cannot write {}",
            file.display()
        )))
    }
}
