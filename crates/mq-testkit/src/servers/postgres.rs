//! A single Postgres.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::account::{self, Account};
use super::process::{self, End, Process};
use super::{Durability, ServerError, Settings, port, programs};

/// How many ports are tried: another process may take one just before.
const TRIES: usize = 5;

/// How often a start is repeated while processes of a killed server still hold
/// its memory.
const RESTARTS: usize = 100;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A throw-away Postgres, with a superuser `postgres` who needs no password.
pub struct Postgres {
    process: Option<Process>,
    programs: PathBuf,
    folder: PathBuf,
    elsewhere: Option<TempDir>,
    account: Option<Account>,
    settings: Vec<(String, String)>,
    port: u16,
}

impl Postgres {
    /// Starts one with its data in the folder, which is created if need be. Run
    /// by root, it changes to an account without privileges; if that account
    /// cannot reach the folder, the data lies in the system's folder for
    /// temporary files, until this is dropped.
    ///
    /// # Errors
    /// If no Postgres server is installed, or it does not become ready.
    pub fn start(folder: impl AsRef<Path>, settings: Settings) -> Result<Self, ServerError> {
        let programs = programs::postgres()?;
        let account = account::unprivileged()?;
        let (folder, elsewhere) = prepare(folder.as_ref(), account)?;
        let mut postgres = Self {
            process: None,
            programs,
            folder,
            elsewhere,
            account,
            settings: chosen(&settings),
            port: port::free()?,
        };
        postgres.initialise()?;
        for _ in 1..TRIES {
            match postgres.restart() {
                Err(_) if postgres.log_says("Address already in use") => {
                    postgres.port = port::free()?;
                }
                outcome => return outcome.map(|()| postgres),
            }
        }
        postgres.restart().map(|()| postgres)
    }

    /// Where it listens: `postgres://postgres@127.0.0.1:…/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its first process, if it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The folder that its data really lies in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it in order, without waiting for its clients (`SIGINT`).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        match self.process.take() {
            Some(mut process) => process.end_by(Signal::INT),
            None => Ok(()),
        }
    }

    /// Ends all its processes on the spot (`SIGKILL`).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<(), ServerError> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        // Once it is stopped, the first process starts no others.
        process.signal(Signal::STOP)?;
        for child in children(process.id()) {
            process::send(child, Signal::KILL).ok();
        }
        process.end_by(Signal::KILL)
    }

    /// Starts it again on the same port and data; stops it first if it runs.
    ///
    /// # Errors
    /// If it does not become ready.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop()?;
        for _ in 1..RESTARTS {
            match self.run() {
                Err(_) if self.log_says("is still in use") => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                outcome => return outcome,
            }
        }
        self.run()
    }

    fn run(&mut self) -> Result<(), ServerError> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        command.args(["-p", &self.port.to_string()]);
        for (name, value) in &self.settings {
            command.args(["-c", &format!("{name}={value}")]);
        }
        let mut process = Process::start(&mut command, self.log(), End::Quit)?;
        let id = process.id();
        process.until(|| is_run_by(&self.data(), id) && serves(self.port))?;
        self.process = Some(process);
        Ok(())
    }

    /// Lets it run on when this process ends; the id of its first process.
    pub fn detach(mut self) -> Option<u32> {
        self.elsewhere.take().map(TempDir::keep);
        self.process.take().map(Process::detach)
    }

    /// Stops the Postgres of a folder, as [`Postgres::folder`] said, if its first
    /// process has this id, and waits for its end; whether it was that one.
    ///
    /// # Errors
    /// If the signal cannot be sent, or it does not end.
    pub fn stop_detached(folder: &Path, port: u16, process_id: u32) -> Result<bool, ServerError> {
        let is_it = Self::runs_detached(folder, port, process_id);
        if is_it {
            process::send(process_id, Signal::INT).map_err(ServerError::during(format_args!(
                "cannot stop Postgres {process_id}"
            )))?;
            // Its last act is to remove this file.
            let file = folder.join("data/postmaster.pid");
            process::until_gone("Postgres", || !file.exists())?;
        }
        Ok(is_it)
    }

    /// Whether the Postgres of a folder runs under this process id, and serves.
    pub fn runs_detached(folder: &Path, port: u16, process_id: u32) -> bool {
        is_run_by(&folder.join("data"), process_id) && serves(port)
    }

    fn initialise(&self) -> Result<(), ServerError> {
        let mut command = self.command("initdb");
        command.arg("-D").arg(self.data()).args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        let output = command
            .output()
            .map_err(ServerError::during("cannot start initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(ServerError::new(format!(
            "initdb ended with {}: {message}",
            output.status
        )))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder);
        // Variables such as PGDATA or a locale that is not there would mislead it.
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C");
        if let Some(account) = self.account {
            account.run(&mut command);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    fn log_says(&self, what: &str) -> bool {
        Process::log(&self.log()).contains(what)
    }
}

/// A folder for the data that the account can reach: this one, or a temporary one.
pub(super) fn prepare(
    folder: &Path,
    account: Option<Account>,
) -> Result<(PathBuf, Option<TempDir>), ServerError> {
    let failed = || ServerError::during(format!("cannot prepare {}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed())?;
    let folder = folder.canonicalize().map_err(failed())?;
    let Some(account) = account else {
        return Ok((folder, None));
    };
    if account.take(&folder)? {
        return Ok((folder, None));
    }
    let elsewhere = tempfile::Builder::new()
        .prefix("mq-postgres-")
        .tempdir()
        .map_err(failed())?;
    if account.take(elsewhere.path())? {
        return Ok((elsewhere.path().to_owned(), Some(elsewhere)));
    }
    Err(ServerError::new(format!(
        "the account that servers run under can reach neither {} nor {}",
        folder.display(),
        elsewhere.path().display()
    )))
}

/// What to set: for tests, then for the durability, then what the caller says.
fn chosen(settings: &Settings) -> Vec<(String, String)> {
    let flush = match settings.durability {
        Durability::Volatile => "off",
        Durability::Durable => "on",
    };
    let own = [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("max_connections", "300"),
        ("fsync", flush),
        ("synchronous_commit", flush),
        ("full_page_writes", flush),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    own.into_iter()
        .chain(settings.lines.iter().cloned())
        .collect()
}

/// Whether the server of this data is the process, and says that it is ready.
fn is_run_by(data: &Path, process: u32) -> bool {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines();
    let first = lines.next().and_then(|line| line.trim().parse().ok());
    first == Some(process) && lines.any(|line| line.trim() == "ready")
}

/// Whether a session can be begun.
fn serves(port: u16) -> bool {
    begin_session(port).is_ok_and(|answer| answer == b'R')
}

/// Asks for a session and gives it up; how the answer begins: `R` if the session
/// was granted, `E` if not.
fn begin_session(port: u16) -> io::Result<u8> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let version_3 = [0, 3, 0, 0];
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(8 + parameters.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &version_3[..], parameters].concat())?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

/// The processes that a process has started, on systems that list processes
/// under `/proc`.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes
        .filter(|process| parent_of(*process) == Some(parent))
        .collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // `<id> (<name>) <state> <parent> …`, and the name may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
