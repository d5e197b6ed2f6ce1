//! The worker processes, each behind a proxy of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant as Moment};

use anyhow::Context;
use mq_testkit::proxy::{Fault, Proxy, Which};
use mq_testkit::servers::{End, Process};

use crate::backend::{Backend, Server};
use crate::clock::Instant;
use crate::event::{Event, Held};
use crate::log::{Reader, Writer};
use crate::sabotage::Sabotage;

/// What all workers have in common.
pub(crate) struct Terms {
    pub(crate) store: Backend,
    pub(crate) folder: PathBuf,
    pub(crate) lock: Duration,
    pub(crate) concurrency: u32,
    pub(crate) board: PathBuf,
    pub(crate) sabotage: Option<Sabotage>,
}

/// A place for a worker: when its process is killed, the next one takes it.
pub(crate) struct Place {
    url: String,
    proxy: Proxy,
    name: String,
    process: Process,
    log: Reader,
    runs: BTreeSet<Held>,
    process_thaws: Option<Moment>,
    network_thaws: Option<Moment>,
}

/// All workers.
pub(crate) struct Fleet {
    terms: Terms,
    harness: Writer,
    places: Vec<Place>,
    started: u32,
    /// How many handlers have ended, over all processes.
    pub(crate) ended: u64,
}

impl Fleet {
    pub(crate) async fn start(
        terms: Terms,
        harness: Writer,
        server: &Server,
        count: u32,
    ) -> anyhow::Result<Self> {
        let mut fleet = Self {
            terms,
            harness,
            places: Vec::new(),
            started: 0,
            ended: 0,
        };
        for _ in 0..count {
            let proxy = Proxy::start(server.address().to_string()).await?;
            let url = server.url_at(proxy.address());
            let (name, process, log) = fleet.spawn(&url)?;
            fleet.places.push(Place {
                url,
                proxy,
                name,
                process,
                log,
                runs: BTreeSet::new(),
                process_thaws: None,
                network_thaws: None,
            });
        }
        Ok(fleet)
    }

    fn spawn(&mut self, url: &str) -> anyhow::Result<(String, Process, Reader)> {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let log = self.terms.folder.join(format!("{name}.log"));
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["worker", "--store", self.terms.store.name(), "--url", url])
            .arg("--log")
            .arg(&log)
            .args(["--lock", &self.terms.lock.as_millis().to_string()])
            .args(["--concurrency", &self.terms.concurrency.to_string()])
            .arg("--board")
            .arg(&self.terms.board);
        if let Some(sabotage) = self.terms.sabotage {
            command.args(["--sabotage", sabotage.name()]);
        }
        let output = self.terms.folder.join(format!("{name}.out"));
        let process = Process::start(&mut command, output, End::Kill)?;
        Ok((name, process, Reader::new(log)))
    }

    /// Reads what the workers have written since, and replaces those that ended
    /// by themselves, which none should.
    pub(crate) fn watch(&mut self) -> anyhow::Result<()> {
        for at in 0..self.places.len() {
            self.read(at)?;
            let place = &mut self.places[at];
            if place.process.has_ended() {
                self.harness.write(&Event::Surprise {
                    at: Instant::now(),
                    what: format!("{} ended by itself", place.name),
                });
                self.replace(at)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, at: usize) -> anyhow::Result<()> {
        let place = &mut self.places[at];
        for event in place.log.news()? {
            match event {
                Event::Started { held, .. } => {
                    place.runs.insert(held);
                }
                Event::Ended { held, .. } => {
                    place.runs.remove(&held);
                    self.ended += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Kills a worker that runs handlers; whether there was one.
    pub(crate) fn kill(&mut self, pick: usize) -> anyhow::Result<bool> {
        let busy = |place: &Place| !place.runs.is_empty() && place.process_thaws.is_none();
        let Some(at) = self.pick(pick, busy) else {
            return Ok(false);
        };
        self.harness.write(&Event::Killed {
            at: Instant::now(),
            worker: self.places[at].name.clone(),
        });
        self.places[at].process.kill9()?;
        self.replace(at)?;
        Ok(true)
    }

    fn replace(&mut self, at: usize) -> anyhow::Result<()> {
        self.read(at)?;
        let url = self.places[at].url.clone();
        let (name, process, log) = self.spawn(&url)?;
        let place = &mut self.places[at];
        (place.name, place.process, place.log) = (name, process, log);
        place.runs.clear();
        place.process_thaws = None;
        Ok(())
    }

    /// Stops a process where it is; whether there was one to stop.
    pub(crate) fn freeze_process(&mut self, pick: usize, time: Duration) -> anyhow::Result<bool> {
        let Some(at) = self.pick(pick, |place| place.process_thaws.is_none()) else {
            return Ok(false);
        };
        let place = &mut self.places[at];
        place.process.pause()?;
        place.process_thaws = Some(Moment::now() + time);
        self.strike(at, &format!("its process stands still for {time:?}"));
        Ok(true)
    }

    /// Lets nothing through between a worker and the server; whether there was one.
    pub(crate) fn freeze_network(&mut self, pick: usize, time: Duration) -> bool {
        let Some(at) = self.pick(pick, |place| place.network_thaws.is_none()) else {
            return false;
        };
        let place = &mut self.places[at];
        place.proxy.set(Which::All, Fault::Freeze);
        place.network_thaws = Some(Moment::now() + time);
        self.strike(at, &format!("its network stands still for {time:?}"));
        true
    }

    /// Ends freezes whose time is over.
    pub(crate) async fn thaw(&mut self) -> anyhow::Result<()> {
        let now = Moment::now();
        for place in &mut self.places {
            if place.process_thaws.is_some_and(|at| at <= now) {
                place.process.resume()?;
                place.process_thaws = None;
            }
            if place.network_thaws.is_some_and(|at| at <= now) {
                place.proxy.heal().await;
                place.network_thaws = None;
            }
        }
        Ok(())
    }

    /// Resets the connections of one worker; whether there was one to strike.
    pub(crate) fn cut(&mut self, pick: usize) -> bool {
        let Some(at) = self.pick(pick, |place| place.network_thaws.is_none()) else {
            return false;
        };
        self.places[at].proxy.cut(Which::All);
        self.strike(at, "its connections are reset");
        true
    }

    /// Resets a connection of one worker when the next answer is due; whether
    /// there was one to strike.
    pub(crate) fn lose_reply(&mut self, pick: usize) -> bool {
        let Some(at) = self.pick(pick, |place| place.network_thaws.is_none()) else {
            return false;
        };
        let fault = Fault::ResetAfter { bytes: 0 };
        self.places[at].proxy.set_once(Which::All, fault);
        self.strike(at, "its next answer is lost");
        true
    }

    /// Resets the connections of all workers.
    pub(crate) fn cut_all(&self) {
        for place in &self.places {
            place.proxy.cut(Which::All);
        }
    }

    fn strike(&self, at: usize, what: &str) {
        self.harness.write(&Event::Struck {
            at: Instant::now(),
            fault: format!("{}: {what}", self.places[at].name),
        });
    }

    /// The place that a number from chance means, among those that fit.
    fn pick(&self, pick: usize, fits: impl Fn(&Place) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.places.len())
            .filter(|at| fits(&self.places[*at]))
            .collect();
        fitting.get(pick.checked_rem(fitting.len())?).copied()
    }

    /// Kills all workers, and says what each process was called.
    pub(crate) fn end(mut self) -> anyhow::Result<Vec<String>> {
        for place in &mut self.places {
            place
                .process
                .kill9()
                .with_context(|| format!("cannot end {}", place.name))?;
        }
        Ok((1..=self.started)
            .map(|number| format!("worker-{number}"))
            .collect())
    }
}
