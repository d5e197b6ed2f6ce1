//! How the cost of a job grows with what else the store holds: jobs that wait
//! under other names, finished ones, delayed ones.
//!
//! `cargo xtask bench growth [--quick]`; on throw-away servers. On Redis it also
//! says how long the longest scripts took, of all that ran.

use std::path::Path;

use mq_bench::figures::{Growth, Samples};
use mq_bench::store::{self, Held};
use mq_bench::{postgres, redis};
use mq_core::StoreHandle;

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    jobs: usize,
    /// How many jobs of each kind the store holds besides, step by step.
    steps: &'static [usize],
}

const FULL: Size = Size {
    rounds: 9,
    jobs: 5_000,
    steps: &[0, 10_000, 100_000, 1_000_000],
};

const QUICK: Size = Size {
    rounds: 3,
    jobs: 1_000,
    steps: &[0, 5_000],
};

fn main() -> anyhow::Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let size = if quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut growth = Growth::new(size.steps);
    runtime.block_on(on_redis(size, &mut growth))?;
    runtime.block_on(on_postgres(size, &mut growth))?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("growth.json"), growth.json()?)?;
    std::fs::write(folder.join("growth.md"), growth.markdown())?;
    println!(
        "\nµs a job in batches of 100, {} rounds of {} jobs; median (least to most)\n\n{}",
        size.rounds,
        size.jobs,
        growth.markdown()
    );
    Ok(())
}

async fn on_redis(size: Size, growth: &mut Growth) -> anyhow::Result<()> {
    for kind in Held::ALL {
        let server = redis::Server::start().await?;
        let store = server.store(redis::ListIndexes::Left).await?;
        server.log_scripts().await?;
        let mut held = 0;
        for &step in size.steps {
            kind.hold(&store, step - held).await?;
            held = step;
            measure("Redis", &store, kind, step, size, growth).await?;
        }
        eprintln!("  {}", server.logged_scripts().await?);
    }
    Ok(())
}

async fn on_postgres(size: Size, growth: &mut Growth) -> anyhow::Result<()> {
    for kind in Held::ALL {
        let server = postgres::Server::start().await?;
        let store = server.store().await?;
        let mut held = 0;
        for &step in size.steps {
            kind.hold(&store, step - held).await?;
            held = step;
            server.tidy().await?;
            measure("Postgres", &store, kind, step, size, growth).await?;
        }
    }
    Ok(())
}

async fn measure(
    server: &str,
    store: &StoreHandle,
    kind: Held,
    held: usize,
    size: Size,
    growth: &mut Growth,
) -> anyhow::Result<()> {
    eprintln!("{server}: {held} {}", kind.text());
    let (mut enqueues, mut runs) = (Samples::default(), Samples::default());
    for _ in 0..size.rounds {
        let per_job = 1e6 / size.jobs as f64;
        enqueues.push(store::enqueue(store, size.jobs).await?.as_secs_f64() * per_job);
        runs.push(store::drain(store).await?.as_secs_f64() * per_job);
    }
    let text = kind.text();
    growth.add(&format!("{server}: enqueue beside {text}"), enqueues);
    growth.add(&format!("{server}: claim and ack beside {text}"), runs);
    Ok(())
}
