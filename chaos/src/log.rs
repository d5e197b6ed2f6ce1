//! Logs outside the store: a file per process, a line per event.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::event::Event;

/// Appends events. Each is with the system before `write` returns, so that a
/// kill takes none away.
#[derive(Clone)]
pub(crate) struct Writer(Arc<File>);

impl Writer {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(Arc::new(file)))
    }

    /// Without its log a process has no business here, so it ends if it cannot
    /// write.
    pub(crate) fn write(&self, event: &Event) {
        if let Err(error) = self.append(event) {
            eprintln!("cannot write the log: {error}");
            std::process::exit(1);
        }
    }

    fn append(&self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        (&*self.0).write_all(&line)
    }
}

/// Reads a log as it grows.
pub(crate) struct Reader {
    path: PathBuf,
    read: u64,
}

impl Reader {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: 0,
        }
    }

    /// The events that came since the last call. A line that is not complete,
    /// because its process was killed or is at it, is none yet.
    pub(crate) fn news(&mut self) -> anyhow::Result<Vec<Event>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context(self.path.display().to_string()),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut reader = BufReader::new(file);
        let mut events = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                return Ok(events);
            }
            self.read += u64::try_from(length)?;
            let event = serde_json::from_slice(&line)
                .with_context(|| format!("{} holds what is no event", self.path.display()))?;
            events.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;

    fn struck(at: u64) -> Event {
        Event::Struck {
            at: Instant(at),
            fault: "a kill".into(),
        }
    }

    #[test]
    fn events_are_read_once_as_they_come_and_torn_lines_when_they_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut reader = Reader::new(&path);
        assert_eq!(reader.news().unwrap(), []);
        let writer = Writer::create(&path).unwrap();
        writer.write(&struck(1));
        writer.write(&struck(2));
        assert_eq!(reader.news().unwrap(), [struck(1), struck(2)]);
        let whole = serde_json::to_vec(&struck(3)).unwrap();
        (&*writer.0).write_all(&whole[..10]).unwrap();
        assert_eq!(reader.news().unwrap(), []);
        (&*writer.0).write_all(&whole[10..]).unwrap();
        (&*writer.0).write_all(b"\n").unwrap();
        assert_eq!(reader.news().unwrap(), [struck(3)]);
        assert_eq!(reader.news().unwrap(), []);
    }
}
