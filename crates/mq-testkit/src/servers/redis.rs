//! A single Redis.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::process::{End, Process};
use super::{Durability, ServerError, Settings, port, programs, resp};

/// How many ports are tried: another process may take one just before.
const TRIES: usize = 5;

/// A throw-away Redis.
pub struct Redis {
    process: Option<Process>,
    folder: PathBuf,
    port: u16,
}

impl Redis {
    /// Starts one with its data in the folder, which is created if need be.
    ///
    /// # Errors
    /// If no `redis-server` is installed, or it does not become ready.
    pub fn start(folder: impl AsRef<Path>, settings: Settings) -> Result<Self, ServerError> {
        let folder = folder.as_ref();
        let mut tries = 0;
        loop {
            tries += 1;
            let mut redis = Self::prepare(folder, &settings)?;
            match redis.restart() {
                Ok(()) => return Ok(redis),
                Err(_) if tries < TRIES && redis.port_was_taken() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn prepare(folder: &Path, settings: &Settings) -> Result<Self, ServerError> {
        let failed = || ServerError::during(format!("cannot prepare {}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed())?;
        let folder = folder.canonicalize().map_err(failed())?;
        let port = port::free()?;
        let mut file = std::fs::File::create(folder.join("redis.conf")).map_err(failed())?;
        let append = match settings.durability {
            Durability::Volatile => "no",
            Durability::Durable => "yes",
        };
        let own = [
            ("bind", "127.0.0.1"),
            ("port", &port.to_string()),
            ("save", "\"\""),
            ("appendonly", append),
            ("appendfsync", "always"),
        ];
        let chosen = settings
            .lines
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.into_iter().chain(chosen) {
            writeln!(file, "{name} {value}").map_err(failed())?;
        }
        Ok(Self {
            process: None,
            folder,
            port,
        })
    }

    /// Where it listens: `redis://127.0.0.1:…`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process, if it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Sends one command whose words hold no spaces, and answers with the reply's
    /// text; an error's begins with `-`.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub fn ask(&self, command: &str) -> Result<String, ServerError> {
        resp::ask(self.port, command).map_err(ServerError::during(format_args!(
            "cannot ask Redis at {}",
            self.url()
        )))
    }

    /// Ends it in order (`SIGTERM`).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        self.end_by(Signal::TERM)
    }

    /// Ends it on the spot (`SIGKILL`).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<(), ServerError> {
        self.end_by(Signal::KILL)
    }

    fn end_by(&mut self, signal: Signal) -> Result<(), ServerError> {
        match self.process.take() {
            Some(mut process) => process.end_by(signal),
            None => Ok(()),
        }
    }

    /// Starts it again on the same port and data; stops it first if it runs.
    ///
    /// # Errors
    /// If it does not become ready.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop()?;
        let mut command = Command::new(programs::redis()?);
        command.arg("redis.conf").current_dir(&self.folder);
        let mut process = Process::start(&mut command, self.log(), End::Kill)?;
        let id = process.id();
        process.until(|| resp::is_served_by(self.port, id))?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops its process where it is (`SIGSTOP`): connections stay, nothing is
    /// answered.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Redis::pause`].
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        match &self.process {
            Some(process) => process.signal(signal),
            None => Err(ServerError::new(format!(
                "Redis at {} does not run",
                self.url()
            ))),
        }
    }

    /// Lets it run on when this process ends; the id of its process.
    pub fn detach(mut self) -> Option<u32> {
        self.process.take().map(Process::detach)
    }

    /// Stops the Redis on a port, if it is the process of this id, and waits for
    /// its end; whether it was that one.
    ///
    /// # Errors
    /// If the signal cannot be sent, or it does not end.
    pub fn stop_detached(port: u16, process_id: u32) -> Result<bool, ServerError> {
        let is_it = resp::is_served_by(port, process_id);
        if is_it {
            super::process::send(process_id, Signal::TERM).map_err(ServerError::during(
                format_args!("cannot stop Redis {process_id}"),
            ))?;
            super::process::until_gone("Redis", || resp::ask(port, "PING").is_err())?;
        }
        Ok(is_it)
    }

    /// Whether the Redis on a port is the process of this id, and serves.
    pub fn runs_detached(port: u16, process_id: u32) -> bool {
        resp::is_served_by(port, process_id)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("redis.log")
    }

    fn port_was_taken(&self) -> bool {
        Process::log(&self.log()).contains("Address already in use")
    }
}
