//! Which servers stay, in a file.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::folder;
use super::server::{Detached, Server, Service};

/// The servers that stay.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct State {
    running: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    service: Service,
    url: String,
    processes: Vec<Detached>,
}

impl State {
    pub(super) fn load() -> anyhow::Result<Self> {
        let path = file();
        match std::fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json).with_context(|| {
                format!(
                    "{} cannot be decoded: stop the servers by hand, and remove it",
                    path.display()
                )
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        let path = file();
        std::fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the file and all data.
    pub(super) fn remove() -> anyhow::Result<()> {
        for service in Service::ALL {
            let data = folder().join(service.folder());
            if data.exists() {
                std::fs::remove_dir_all(&data)
                    .with_context(|| format!("cannot remove {}", data.display()))?;
            }
        }
        if file().exists() {
            std::fs::remove_file(file())?;
        }
        Ok(())
    }

    /// Where a service is, if it stays.
    pub(super) fn url(&self, service: Service) -> Option<&str> {
        let mut entries = self.running.iter();
        let entry = entries.find(|entry| entry.service == service)?;
        Some(&entry.url)
    }

    /// Lets a server stay.
    pub(super) fn add(&mut self, server: Server) {
        self.running.push(Entry {
            service: server.service(),
            url: server.url(),
            processes: server.detach(),
        });
    }

    /// A reboot ends servers without a word to this file.
    pub(super) fn forget_what_is_gone(&mut self) {
        self.running
            .retain(|entry| entry.processes.iter().all(Detached::runs));
    }

    pub(super) fn stop_all(&mut self) -> anyhow::Result<()> {
        for entry in &self.running {
            for process in &entry.processes {
                process.stop()?;
            }
        }
        self.running.clear();
        Ok(())
    }
}

fn file() -> PathBuf {
    folder().join("state.json")
}
