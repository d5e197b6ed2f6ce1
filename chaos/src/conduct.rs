//! Conducts a run: starts everything, has the faults strike, and ends it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant as Moment};

use anyhow::Context;
use mq_core::Store;
use mq_testkit::proxy::{Proxy, Which};
use mq_testkit::servers::{End, Process};

use crate::audit;
use crate::backend::{Backend, Server};
use crate::check::{self, Findings, Log};
use crate::clock::Instant;
use crate::event::Event;
use crate::fleet::{Fleet, Terms};
use crate::log::{Reader, Writer};
use crate::plan::{self, Amounts, Fault, Step};
use crate::sabotage::Sabotage;

/// How often the conductor looks about.
const BEAT: Duration = Duration::from_millis(10);

/// How long nothing may move before a run is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a fault may wait for somebody whom it can strike.
const SEARCH: Duration = Duration::from_secs(10);

/// How far the producer may be ahead of the workers, in jobs.
const LEAD: u64 = 5000;

/// What a run is to be.
pub(crate) struct Order {
    pub(crate) store: Backend,
    pub(crate) jobs: u64,
    pub(crate) amounts: Amounts,
    pub(crate) seed: u64,
    pub(crate) workers: u32,
    pub(crate) concurrency: u32,
    pub(crate) lock: Duration,
    pub(crate) sabotage: Option<Sabotage>,
}

/// How a run went.
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) audit: audit::Audit,
    pub(crate) struck: Struck,
    /// Faults of the plan that struck nobody.
    pub(crate) unstruck: usize,
    pub(crate) took: Duration,
}

/// How many faults struck that logs do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Struck {
    pub(crate) server_kills: u32,
    pub(crate) process_freezes: u32,
    pub(crate) network_freezes: u32,
    pub(crate) cuts: u32,
    pub(crate) lost_replies: u32,
}

/// Runs it, with everything in this folder.
pub(crate) async fn run(order: &Order, folder: &Path) -> anyhow::Result<Outcome> {
    let started = Moment::now();
    let server = Server::start(order.store, &folder.join("server"))?;
    let direct = server.url_at(server.address());
    order.store.prepare(&direct).await?;
    let harness = Writer::create(&folder.join("harness.log"))?;
    let board = folder.join("board");
    std::fs::create_dir(&board)?;
    let terms = Terms {
        store: order.store,
        folder: folder.to_owned(),
        lock: order.lock,
        concurrency: order.concurrency,
        board,
        sabotage: order.sabotage,
    };
    let fleet = Fleet::start(terms, harness.clone(), &server, order.workers).await?;
    let proxy = Proxy::start(server.address().to_string()).await?;
    let pace = folder.join("pace");
    let producer = start_producer(order, folder, &server.url_at(proxy.address()), &pace)?;
    let plan = plan::plan(order.seed, order.jobs, order.amounts, order.lock);
    let mut conductor = Conductor {
        server: Some(server),
        fleet,
        producer,
        proxy,
        pace,
        harness,
        struck: Struck::default(),
    };
    let unstruck = conductor.strike_all(&plan).await?;
    conductor.let_settle(order.store, &direct).await?;

    let mut processes = conductor.fleet.end()?;
    processes.extend(["producer", "harness"].map(String::from));
    let findings = check::check(&read_logs(folder, processes)?);
    let store = order.store.open(&direct).await?;
    let audit = audit::audit(&store, &findings, order.jobs).await?;
    Ok(Outcome {
        findings,
        audit,
        struck: conductor.struck,
        unstruck,
        took: started.elapsed(),
    })
}

fn start_producer(order: &Order, folder: &Path, url: &str, pace: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["producer", "--store", order.store.name(), "--url", url])
        .arg("--log")
        .arg(folder.join("producer.log"))
        .args(["--jobs", &order.jobs.to_string()])
        .args(["--seed", &order.seed.to_string()])
        .args(["--lock", &order.lock.as_millis().to_string()])
        .arg("--pace")
        .arg(pace);
    let output = folder.join("producer.out");
    Ok(Process::start(&mut command, output, End::Kill)?)
}

fn read_logs(folder: &Path, processes: Vec<String>) -> anyhow::Result<Vec<Log>> {
    let read = |process: String| {
        let events = Reader::new(folder.join(format!("{process}.log"))).news()?;
        Ok(Log { process, events })
    };
    processes.into_iter().map(read).collect()
}

/// Everything that runs.
struct Conductor {
    /// Away only while it is killed and started.
    server: Option<Server>,
    fleet: Fleet,
    producer: Process,
    proxy: Proxy,
    pace: PathBuf,
    harness: Writer,
    struck: Struck,
}

impl Conductor {
    /// Has all faults strike in their time; how many found nobody to strike.
    async fn strike_all(&mut self, plan: &[Step]) -> anyhow::Result<usize> {
        let mut unstruck = 0;
        for (done, step) in plan.iter().enumerate() {
            let mut watch = Watch::new(self.fleet.ended);
            while self.fleet.ended < step.after {
                self.beat().await?;
                if watch.is_stuck(self.fleet.ended) {
                    return Ok(unstruck + plan.len() - done);
                }
            }
            let deadline = Moment::now() + SEARCH;
            while !self.strike(step.fault).await? {
                if Moment::now() > deadline {
                    unstruck += 1;
                    break;
                }
                self.beat().await?;
            }
        }
        Ok(unstruck)
    }

    /// Waits until the producer is done and no job is left to run.
    async fn let_settle(&mut self, backend: Backend, url: &str) -> anyhow::Result<()> {
        let store = backend.open(url).await?;
        let mut watch = Watch::new(self.fleet.ended);
        loop {
            self.beat().await?;
            if self.producer.has_ended() && left(&*store).await == Some(0) {
                return Ok(());
            }
            if watch.is_stuck(self.fleet.ended) {
                // What did not get done will be found by the audit.
                return Ok(());
            }
        }
    }

    async fn beat(&mut self) -> anyhow::Result<()> {
        self.fleet.watch()?;
        self.fleet.thaw().await?;
        // Written aside, so that the producer never reads half of it.
        let aside = self.pace.with_extension("new");
        std::fs::write(&aside, (self.fleet.ended + LEAD).to_string())?;
        std::fs::rename(&aside, &self.pace)?;
        tokio::time::sleep(BEAT).await;
        Ok(())
    }

    /// Has a fault strike; whether it found somebody.
    async fn strike(&mut self, fault: Fault) -> anyhow::Result<bool> {
        let struck = &mut self.struck;
        Ok(match fault {
            Fault::KillWorker { pick } => self.fleet.kill(pick)?,
            Fault::FreezeProcess { pick, time } => {
                let done = self.fleet.freeze_process(pick, time)?;
                struck.process_freezes += u32::from(done);
                done
            }
            Fault::FreezeNetwork { pick, time } => {
                let done = self.fleet.freeze_network(pick, time);
                struck.network_freezes += u32::from(done);
                done
            }
            Fault::CutConnections { pick } => {
                let done = self.fleet.cut(pick);
                struck.cuts += u32::from(done);
                done
            }
            Fault::LoseReply { pick } => {
                let done = self.fleet.lose_reply(pick);
                struck.lost_replies += u32::from(done);
                done
            }
            Fault::CutAll => {
                let forgot = self.server()?.forget().is_ok();
                self.fleet.cut_all();
                self.proxy.cut(Which::All);
                self.struck.cuts += u32::from(forgot);
                self.note("all connections are reset");
                forgot
            }
            Fault::KillServer { down } => {
                self.kill_server(down).await?;
                true
            }
        })
    }

    async fn kill_server(&mut self, down: Duration) -> anyhow::Result<()> {
        self.note("the server is killed");
        let mut server = self.server.take().context("the server is away")?;
        let restarted = tokio::task::spawn_blocking(move || {
            server.kill9()?;
            std::thread::sleep(down);
            server.restart()?;
            Ok::<_, mq_testkit::servers::ServerError>(server)
        });
        self.server = Some(restarted.await??);
        self.note("the server is back");
        self.struck.server_kills += 1;
        Ok(())
    }

    fn server(&self) -> anyhow::Result<&Server> {
        self.server.as_ref().context("the server is away")
    }

    fn note(&self, fault: &str) {
        self.harness.write(&Event::Struck {
            at: Instant::now(),
            fault: fault.to_owned(),
        });
    }
}

/// Notices when nothing moves any more.
struct Watch {
    seen: u64,
    since: Moment,
}

impl Watch {
    fn new(now: u64) -> Self {
        Self {
            seen: now,
            since: Moment::now(),
        }
    }

    fn is_stuck(&mut self, now: u64) -> bool {
        if now != self.seen {
            *self = Self::new(now);
        }
        self.since.elapsed() > PATIENCE
    }
}

/// How many jobs are not over, if the store says so.
async fn left(store: &dyn Store) -> Option<u64> {
    let counts = store.counts(None).await.ok()?;
    let over = counts.completed + counts.failed + counts.cancelled;
    Some(counts.total() - over)
}
