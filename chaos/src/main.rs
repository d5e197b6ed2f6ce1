//! Runs jobs through worker processes while it kills workers and servers, and
//! decides from logs outside the store whether anything was lost or run twice.

mod audit;
mod backend;
mod check;
mod clock;
mod conduct;
mod event;
mod fleet;
mod flows;
mod log;
mod plan;
mod probe;
mod producer;
mod report;
mod sabotage;
mod work;
mod worker;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};

use backend::Backend;
use conduct::Order;
use plan::Amounts;
use sabotage::Sabotage;

/// Runs jobs while workers and servers are killed.
#[derive(Parser)]
#[command(bin_name = "cargo xtask chaos")]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Role {
    /// A worker's process; started by a run.
    #[command(hide = true)]
    Worker(worker::Options),
    /// The producer's process; started by a run.
    #[command(hide = true)]
    Producer(producer::Options),
    /// A process that runs flows; started by a run.
    #[command(hide = true)]
    FlowWorker(flows::worker::Options),
}

#[derive(clap::Args)]
struct Run {
    /// The store.
    #[arg(long, default_value = "redis")]
    store: Backend,
    /// How many jobs.
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// How often a worker that holds locks is killed.
    #[arg(long, default_value_t = 200)]
    worker_kills: u32,
    /// How often the server is killed.
    #[arg(long, default_value_t = 50)]
    server_kills: u32,
    /// How often a worker, or its network, stands still for up to twice as long as
    /// a lock holds.
    #[arg(long, default_value_t = 20)]
    freezes: u32,
    /// How often connections are reset.
    #[arg(long, default_value_t = 50)]
    cuts: u32,
    /// What the plan of faults and the jobs are drawn from; from chance if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// How many workers at a time.
    #[arg(long, default_value_t = 4)]
    workers: u32,
    /// How many handlers each runs at once.
    #[arg(long, default_value_t = 25)]
    concurrency: u32,
    /// How long a lock holds.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    lock: Duration,
    /// Rob the store of something, to see that it is noticed.
    #[arg(long)]
    sabotage: Option<Sabotage>,
    /// Where logs and data go, and stay; a temporary folder if absent, which
    /// stays only if something is found.
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.role {
        Some(Role::Worker(options)) => worker::run(options).await.map(|()| true),
        Some(Role::Producer(options)) => producer::run(options).await.map(|()| true),
        Some(Role::FlowWorker(options)) => flows::worker::run(options).await.map(|()| true),
        None => run(cli.run).await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Conducts a run and reports; whether it was faultless.
async fn run(options: Run) -> anyhow::Result<bool> {
    let order = Order {
        store: options.store,
        jobs: options.jobs,
        amounts: Amounts {
            worker_kills: options.worker_kills,
            server_kills: options.server_kills,
            freezes: options.freezes,
            cuts: options.cuts,
        },
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
        workers: options.workers,
        concurrency: options.concurrency,
        lock: options.lock,
        sabotage: options.sabotage,
    };
    // Postgres may run under an account of its own, and must get at its data.
    let temporary = tempfile::Builder::new()
        .prefix("mq-chaos-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir()?;
    let folder = match &options.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            folder.as_path()
        }
        None => temporary.path(),
    };
    let outcome = conduct::run(&order, folder).await?;
    outcome.print(&order);
    let faultless = outcome.is_faultless();
    if !faultless && options.folder.is_none() {
        println!("the logs are in {}", temporary.keep().display());
    }
    Ok(faultless)
}
