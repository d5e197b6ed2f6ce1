//! A process of a program: started, watched over, ended.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::ServerError;

/// How long a server may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(10);

/// How much of the end of a log goes into a message, in bytes.
const TAIL: usize = 2000;

/// How a process is told to end on the spot.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// `SIGKILL`: nothing stays behind.
    Kill,
    /// `SIGQUIT`: it ends its children and frees shared memory, no more.
    Quit,
}

impl End {
    fn signal(self) -> Signal {
        match self {
            Self::Kill => Signal::KILL,
            Self::Quit => Signal::QUIT,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Quit => "QUIT",
        }
    }
}

/// A process of a program. It ends when this is dropped, and when the process
/// that holds this ends, be it killed.
pub struct Process {
    child: Child,
    watcher: Child,
    log: PathBuf,
    end: End,
    detached: Detached,
}

#[derive(PartialEq)]
enum Detached {
    No,
    Yes,
}

impl Process {
    /// Starts it, with its output in the log.
    /// Starts it without input, and with its output in a file.
    ///
    /// # Errors
    /// If the file or the process cannot be created.
    pub fn start(command: &mut Command, log: PathBuf, end: End) -> Result<Self, ServerError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = || ServerError::during(format!("cannot start {name}"));
        let output = File::create(&log).map_err(failed())?;
        // A Ctrl-C in the terminal is for the process that holds this.
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed())?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(failed())?;
        match watch(child.id(), end) {
            Ok(watcher) => Ok(Self {
                child,
                watcher,
                log,
                end,
                detached: Detached::No,
            }),
            Err(cause) => {
                end_child(&mut child, end);
                Err(failed()(cause))
            }
        }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended, by itself or not.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Ends it on the spot (`SIGKILL`), and waits for its end.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill9(&mut self) -> Result<(), ServerError> {
        self.end_by(Signal::KILL)
    }

    /// Stops it where it is (`SIGSTOP`).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn pause(&self) -> Result<(), ServerError> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Process::pause`].
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.signal(Signal::CONT)
    }

    /// Asks until the answer is yes.
    ///
    /// # Errors
    /// If the process ends, or does not answer for a minute.
    pub(super) fn until(&mut self, mut ready: impl FnMut() -> bool) -> Result<(), ServerError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.complaint(&format!("it ended with {status}")));
            }
            if ready() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.complaint(&format!("it is not ready after {PATIENCE:?}")));
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        send(self.child.id(), signal)
            .map_err(ServerError::during("cannot send a signal to a process"))
    }

    /// Sends a signal and waits for the end.
    pub(super) fn end_by(&mut self, signal: Signal) -> Result<(), ServerError> {
        if !self.has_ended() {
            self.signal(signal)?;
            // One that was stopped where it is would not notice.
            self.signal(Signal::CONT).ok();
            wait(&mut self.child);
        }
        Ok(())
    }

    /// Lets it run on when this process ends; its id.
    pub(super) fn detach(mut self) -> u32 {
        self.detached = Detached::Yes;
        self.child.id()
    }

    fn complaint(&self, what: &str) -> ServerError {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(TAIL)..]).into_owned();
        ServerError::new(format!("{what}; {} ends with:\n{tail}", self.log.display()))
    }

    /// What it has written so far.
    pub(super) fn log(log: &Path) -> String {
        String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // First the watcher: afterwards the id could be another process's.
        self.watcher.kill().ok();
        self.watcher.wait().ok();
        if self.detached == Detached::No {
            end_child(&mut self.child, self.end);
        }
    }
}

/// Starts a process that ends the server when this process is no more: its input
/// is a pipe that nobody writes to, and that closes with this process.
fn watch(id: u32, end: End) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "read -r _; kill -\"$1\" \"$2\"", "sh", end.name()])
        .arg(id.to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn end_child(child: &mut Child, end: End) {
    if !matches!(child.try_wait(), Ok(Some(_))) {
        send(child.id(), end.signal()).ok();
        wait(child);
    }
}

/// Waits until the process has ended; kills it if that takes too long.
fn wait(child: &mut Child) {
    let deadline = Instant::now() + PATIENCE;
    while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
        if Instant::now() > deadline {
            child.kill().ok();
            child.wait().ok();
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Waits until a server that is no child of this process is gone.
pub(super) fn until_gone(name: &str, gone: impl Fn() -> bool) -> Result<(), ServerError> {
    let deadline = Instant::now() + PATIENCE;
    while !gone() {
        if Instant::now() > deadline {
            return Err(ServerError::new(format!(
                "{name} has not ended {PATIENCE:?} after it was told to"
            )));
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// Sends a signal to a process.
pub(super) fn send(id: u32, signal: Signal) -> io::Result<()> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    match id {
        Some(id) => Ok(rustix::process::kill_process(id, signal)?),
        None => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}
