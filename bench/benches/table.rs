//! The table: every row on Redis and on Postgres, beside its limit and beside
//! the replay of what mq sent.
//!
//! `cargo xtask bench table [--quick]`; the JSON goes to
//! `target/bench/table.json`, the table to `target/bench/table.md` and to the
//! terminal.

use std::path::Path;

use mq_bench::figures::{Column, Table, Unit};
use mq_bench::redis::ListIndexes;
use mq_bench::work::{self, at, per_second, rate};
use mq_bench::{postgres, redis};
use mq_core::StoreHandle;

/// How many tasks share a client in the row of concurrent producers.
const TASKS: usize = 64;
/// How many connections listen in the row that shows what listeners cost.
const LISTENERS: usize = 200;

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    jobs: usize,
    /// Jobs of one producer on Postgres, where each waits for the disk.
    singles: usize,
    samples: usize,
    children: usize,
}

const FULL: Size = Size {
    rounds: 5,
    jobs: 20_000,
    singles: 4_000,
    samples: 300,
    children: 5_000,
};

const QUICK: Size = Size {
    rounds: 1,
    jobs: 4_000,
    singles: 400,
    samples: 30,
    children: 500,
};

fn main() -> anyhow::Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let size = if quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let table = runtime.block_on(measure(size))?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("table.json"), table.json()?)?;
    std::fs::write(folder.join("table.md"), table.markdown())?;
    println!(
        "\n{} rounds, {} jobs of about 107 bytes; median (least to most)\n\n{}",
        size.rounds,
        size.jobs,
        table.markdown()
    );
    Ok(())
}

async fn measure(size: Size) -> anyhow::Result<Table> {
    let mut table = Table::default();
    let redis = redis::Server::start().await?;
    for round in 1..=size.rounds {
        eprintln!("Redis, round {round} of {}", size.rounds);
        on_redis(&redis, size, &mut table).await?;
    }
    drop(redis);
    let postgres = postgres::Server::start().await?;
    for round in 1..=size.rounds {
        eprintln!("Postgres, round {round} of {}", size.rounds);
        on_postgres(&postgres, size, &mut table).await?;
    }
    Ok(table)
}

async fn on_redis(server: &redis::Server, size: Size, table: &mut Table) -> anyhow::Result<()> {
    use Column::{Limit, Ours, Replay};
    use Unit::{Bytes, JobsPerSecond, Milliseconds, Seconds};
    let jobs = size.jobs;

    let row = "Redis: enqueue, 1 producer";
    let client = server.store(ListIndexes::Left).await?.client();
    let figure = rate(jobs, work::enqueue_one_by_one(&client, jobs)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    server.flush().await?;
    let figure = rate(jobs, server.least_enqueue(jobs, 1)).await?;
    table.add(row, JobsPerSecond, Limit, figure);

    let row = "Redis: enqueue, 64 tasks";
    let client = server.store(ListIndexes::Left).await?.client();
    let figure = rate(jobs, work::enqueue_from_tasks(&client, jobs, TASKS)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    server.flush().await?;
    let figure = rate(jobs, server.least_enqueue_from_tasks(jobs, TASKS)).await?;
    table.add(row, JobsPerSecond, Limit, figure);

    let row = "Redis: bulk enqueue";
    let store = server.store(ListIndexes::Left).await?;
    let figure = rate(jobs, work::enqueue_in_bulk(&store.client(), jobs)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    let drained = work::drain(&store, jobs, 100).await?;
    server.flush().await?;
    let figure = rate(jobs, server.least_enqueue(jobs, 250)).await?;
    table.add(row, JobsPerSecond, Limit, figure);
    let least = rate(jobs, server.least_drain()).await?;

    server.flush().await?;
    let bulk = server
        .record(|store| async move { work::enqueue_in_bulk(&store.client(), jobs).await })
        .await?;
    let drain = server.record(|store| drain(store, jobs)).await?;
    server.flush().await?;
    let elapsed = server.replay(&bulk).await?;
    table.add(row, JobsPerSecond, Replay, per_second(jobs, elapsed));
    let row = "Redis: drain, concurrency 100";
    table.add(row, JobsPerSecond, Ours, per_second(jobs, drained));
    table.add(row, JobsPerSecond, Limit, least);
    let elapsed = server.replay(&drain).await?;
    server.check_completed(jobs).await?;
    table.add(row, JobsPerSecond, Replay, per_second(jobs, elapsed));

    let ours = work::latencies(&server.store(ListIndexes::Left).await?, size.samples).await?;
    let least = server.least_latencies(size.samples).await?;
    for (row, share) in [
        ("Redis: latency, median", 0.5),
        ("Redis: latency, p99", 0.99),
    ] {
        table.add(row, Milliseconds, Ours, at(&ours, share));
        table.add(row, Milliseconds, Limit, at(&least, share));
    }

    let row = format!("Redis: flow of {} children", size.children);
    let store = server.store(ListIndexes::Left).await?;
    let elapsed = work::flow(&store, size.children).await?;
    table.add(&row, Seconds, Ours, elapsed.as_secs_f64());

    for (row, indexes) in [
        ("Redis: a waiting job", ListIndexes::Left),
        ("Redis: a waiting job, list indexes kept", ListIndexes::Kept),
    ] {
        let bytes = redis::bytes_per_waiting_job(server, indexes, jobs).await?;
        table.add(row, Bytes, Ours, bytes);
    }
    Ok(())
}

async fn drain(store: StoreHandle, jobs: usize) -> anyhow::Result<()> {
    work::drain(&store, jobs, 100).await?;
    Ok(())
}

async fn on_postgres(
    server: &postgres::Server,
    size: Size,
    table: &mut Table,
) -> anyhow::Result<()> {
    use Column::{Limit, Ours, Replay};
    use Unit::{JobsPerSecond, Milliseconds, Seconds};
    let Size { jobs, singles, .. } = size;

    let row = "Postgres: enqueue, 1 producer";
    let client = server.store().await?.client();
    let figure = rate(singles, work::enqueue_one_by_one(&client, singles)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    let figure = rate(singles, server.least_enqueue(singles)).await?;
    table.add(row, JobsPerSecond, Limit, figure);

    let row = "Postgres: enqueue, 64 tasks";
    let client = server.store().await?.client();
    let figure = rate(jobs, work::enqueue_from_tasks(&client, jobs, TASKS)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    let figure = rate(jobs, server.least_enqueue_from_tasks(jobs)).await?;
    table.add(row, JobsPerSecond, Limit, figure);

    let row = "Postgres: enqueue, 64 tasks, 200 listeners";
    let client = server.store().await?.client();
    let listeners = server.listeners(LISTENERS).await?;
    let figure = rate(jobs, work::enqueue_from_tasks(&client, jobs, TASKS)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    drop(listeners);

    let row = "Postgres: bulk enqueue";
    let store = server.store().await?;
    let figure = rate(jobs, work::enqueue_in_bulk(&store.client(), jobs)).await?;
    table.add(row, JobsPerSecond, Ours, figure);
    server.tidy().await?;
    let drained = work::drain(&store, jobs, 100).await?;
    drop(store);
    let figure = rate(jobs, server.least_enqueue_in_bulk(jobs)).await?;
    table.add(row, JobsPerSecond, Limit, figure);
    server.tidy().await?;
    let least = rate(jobs, server.least_drain()).await?;

    server.clear().await?;
    let bulk = server
        .record(|store| async move { work::enqueue_in_bulk(&store.client(), jobs).await })
        .await?;
    let recording = server.record(|store| drain(store, jobs)).await?;
    server.clear().await?;
    let elapsed = server.replay(&bulk).await?;
    table.add(row, JobsPerSecond, Replay, per_second(jobs, elapsed));
    let row = "Postgres: drain, concurrency 100";
    table.add(row, JobsPerSecond, Ours, per_second(jobs, drained));
    table.add(row, JobsPerSecond, Limit, least);
    server.tidy().await?;
    let elapsed = server.replay(&recording).await?;
    server.check_completed(jobs).await?;
    table.add(row, JobsPerSecond, Replay, per_second(jobs, elapsed));

    let row = "Postgres: drain, concurrency 10";
    let store = server.store().await?;
    work::enqueue_in_bulk(&store.client(), jobs).await?;
    server.tidy().await?;
    let elapsed = work::drain(&store, jobs, 10).await?;
    table.add(row, JobsPerSecond, Ours, per_second(jobs, elapsed));

    let ours = work::latencies(&server.store().await?, size.samples).await?;
    server.clear().await?;
    let least = server.least_latencies(size.samples).await?;
    for (row, share) in [
        ("Postgres: latency, median", 0.5),
        ("Postgres: latency, p99", 0.99),
    ] {
        table.add(row, Milliseconds, Ours, at(&ours, share));
        table.add(row, Milliseconds, Limit, at(&least, share));
    }

    let row = format!("Postgres: flow of {} children", size.children);
    let store = server.store().await?;
    let elapsed = work::flow(&store, size.children).await?;
    table.add(&row, Seconds, Ours, elapsed.as_secs_f64());
    Ok(())
}
