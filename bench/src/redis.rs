//! Redis: opening stores, the least that a queue could do there, and replays of
//! what mq sent.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, stream};
use mq_core::StoreHandle;
use mq_redis::RedisStore;
use mq_testkit::servers::{Redis, Settings};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, pipe};
use tempfile::TempDir;

use crate::replay::{Answers, Recorder, replay};
use crate::work::{self, BULK, payload};

/// How many jobs a worker holds at once.
const SLOTS: usize = 100;

/// Whether a store keeps the indexes that unfiltered lists read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListIndexes {
    /// As stores do by default.
    Kept,
    /// As the builder's `without_list_indexes` has it.
    Left,
}

/// A throw-away Redis without persistence.
pub struct Server {
    redis: Redis,
    _folder: TempDir,
    connection: MultiplexedConnection,
}

impl Server {
    /// Starts one.
    ///
    /// # Errors
    /// If no Redis is installed.
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let redis = Redis::start(folder.path(), Settings::volatile())?;
        let connection = connect(&redis.url()).await?;
        Ok(Self {
            redis,
            _folder: folder,
            connection,
        })
    }

    /// An empty store; all that the server held is gone.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn store(&self, indexes: ListIndexes) -> anyhow::Result<StoreHandle> {
        self.flush().await?;
        open(&self.redis.url(), indexes).await
    }

    /// Deletes everything.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn flush(&self) -> anyhow::Result<()> {
        redis::cmd("FLUSHALL")
            .exec_async(&mut self.connection.clone())
            .await?;
        Ok(())
    }

    /// How many bytes the server's data takes.
    ///
    /// # Errors
    /// If the server does not say.
    pub async fn used_memory(&self) -> anyhow::Result<u64> {
        let mut info = redis::cmd("INFO");
        let info: String = info
            .arg("memory")
            .query_async(&mut self.connection.clone())
            .await?;
        let used = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"))
            .context("INFO says nothing of used_memory")?;
        Ok(used.trim().parse()?)
    }

    /// Logs how long each script takes, from now on.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn log_scripts(&self) -> anyhow::Result<()> {
        let mut connection = self.connection.clone();
        let mut pipe = pipe();
        for (name, value) in [("slowlog-max-len", 200_000), ("slowlog-log-slower-than", 0)] {
            pipe.cmd("CONFIG").arg("SET").arg(name).arg(value).ignore();
        }
        pipe.cmd("SLOWLOG").arg("RESET").ignore();
        pipe.exec_async(&mut connection).await?;
        Ok(())
    }

    /// How long the scripts took that are logged: the time that 99.9 % of them
    /// stayed below, and the longest, in milliseconds; and which that was.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn logged_scripts(&self) -> anyhow::Result<ScriptTimes> {
        type Entry = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let mut connection = self.connection.clone();
        let mut get = redis::cmd("SLOWLOG");
        get.arg("GET").arg(-1);
        let entries: Vec<Entry> = get.query_async(&mut connection).await?;
        let mut times: Vec<(f64, String)> = entries
            .into_iter()
            .filter(|(_, _, _, command, ..)| command.first().is_some_and(|name| name == b"EVALSHA"))
            .map(|(_, _, micros, command, ..)| {
                let command = command.join(&b' ');
                (
                    micros as f64 / 1e3,
                    String::from_utf8_lossy(&command).into_owned(),
                )
            })
            .collect();
        times.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let sorted: Vec<f64> = times.iter().map(|(time, _)| *time).collect();
        let (longest, command) = times.pop().context("no script is logged")?;
        Ok(ScriptTimes {
            count: sorted.len(),
            below: work::at(&sorted, 0.999),
            longest,
            command: command.chars().take(80).collect(),
        })
    }

    /// The limit of enqueues: one `HSET` and one `ZADD` for each job, so many
    /// jobs to a round trip.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn least_enqueue(&self, jobs: usize, batch: usize) -> anyhow::Result<()> {
        let payload = payload();
        for first in (0..jobs).step_by(batch) {
            let mut pipe = pipe();
            for number in first..first + batch {
                add(&mut pipe, number, &payload);
            }
            pipe.exec_async(&mut self.connection.clone()).await?;
        }
        Ok(())
    }

    /// The limit of enqueues from many tasks: the same, one job to a request,
    /// so many requests on their way.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn least_enqueue_from_tasks(&self, jobs: usize, tasks: usize) -> anyhow::Result<()> {
        let payload = payload();
        let requests = stream::iter(0..jobs).map(|number| {
            let (mut connection, mut pipe) = (self.connection.clone(), pipe());
            add(&mut pipe, number, &payload);
            async move { pipe.exec_async(&mut connection).await }
        });
        let mut requests = requests.buffer_unordered(tasks);
        while let Some(answer) = requests.next().await {
            answer?;
        }
        Ok(())
    }

    /// The limit of a drain: a pop of 100, an `HGETALL` and an `HSET` for each
    /// job.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn least_drain(&self) -> anyhow::Result<()> {
        loop {
            let mut connection = self.connection.clone();
            let mut pop = redis::cmd("ZPOPMIN");
            pop.arg("waiting").arg(SLOTS);
            let popped: Vec<(String, f64)> = pop.query_async(&mut connection).await?;
            if popped.is_empty() {
                return Ok(());
            }
            let (mut reads, mut writes) = (pipe(), pipe());
            for (id, _) in popped {
                reads.hgetall(&id).ignore();
                writes.hset(&id, "exit", r#"{"ok":null}"#).ignore();
            }
            reads.exec_async(&mut connection).await?;
            writes.exec_async(&mut connection).await?;
        }
    }

    /// The limit of the latency: an `LPUSH` until a blocked `BRPOP` on another
    /// connection has its element; in milliseconds, sorted.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn least_latencies(&self, samples: usize) -> anyhow::Result<Vec<f64>> {
        let mut blocked = connect(&self.redis.url()).await?;
        let mut waits = Vec::with_capacity(samples);
        for _ in 0..samples {
            let waiter = tokio::spawn({
                let mut blocked = blocked.clone();
                async move {
                    let mut pop = redis::cmd("BRPOP");
                    pop.arg("latency").arg(0);
                    pop.exec_async(&mut blocked).await?;
                    redis::RedisResult::Ok(Instant::now())
                }
            });
            tokio::time::sleep(Duration::from_millis(10)).await;
            let begun = Instant::now();
            let mut push = redis::cmd("LPUSH");
            push.arg("latency").arg(payload());
            push.exec_async(&mut self.connection.clone()).await?;
            waits.push((waiter.await?? - begun).as_secs_f64() * 1e3);
        }
        redis::cmd("PING").exec_async(&mut blocked).await?;
        waits.sort_unstable_by(f64::total_cmp);
        Ok(waits)
    }

    /// Records what mq sends for some work on a store, without list indexes.
    ///
    /// # Errors
    /// The work's own.
    pub async fn record<W>(&self, work: impl FnOnce(StoreHandle) -> W) -> anyhow::Result<Vec<u8>>
    where
        W: Future<Output = anyhow::Result<()>>,
    {
        let recorder = Recorder::start(self.redis.port()).await?;
        let url = format!("redis://127.0.0.1:{}", recorder.port());
        work(open(&url, ListIndexes::Left).await?).await?;
        Ok(recorder.busiest())
    }

    /// Sends recorded bytes again.
    ///
    /// # Errors
    /// If the server refuses a request.
    pub async fn replay(&self, recording: &[u8]) -> anyhow::Result<Duration> {
        let mark = format!("{:032x}", fastrand::u128(..));
        let mut bytes = recording.to_vec();
        bytes.extend_from_slice(format!("*2\r\n$4\r\nECHO\r\n$32\r\n{mark}\r\n").as_bytes());
        replay(self.redis.port(), bytes, Echo::of(mark)).await
    }

    /// Fails unless so many jobs of the server's store are completed.
    ///
    /// # Errors
    /// If they are not.
    pub async fn check_completed(&self, jobs: usize) -> anyhow::Result<()> {
        let store = open(&self.redis.url(), ListIndexes::Left).await?;
        let counts = store.store().counts(None).await?;
        ensure!(
            counts.completed == jobs as u64,
            "a replay left {counts:?} of {jobs} jobs"
        );
        Ok(())
    }
}

/// How long scripts took, in milliseconds.
pub struct ScriptTimes {
    count: usize,
    below: f64,
    longest: f64,
    command: String,
}

impl fmt::Display for ScriptTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            count,
            below,
            longest,
            command,
        } = self;
        write!(
            f,
            "{count} scripts: 99.9 % below {below:.2} ms, the longest {longest:.2} ms ({command})"
        )
    }
}

fn add(pipe: &mut Pipeline, number: usize, payload: &str) {
    let id = format!("{number:020}-{:015}", number % BULK);
    pipe.hset(&id, "payload", payload).ignore();
    pipe.zadd("waiting", id, number).ignore();
}

async fn connect(url: &str) -> anyhow::Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    let client = Client::open(url)?;
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    Ok(connection.await?)
}

async fn open(url: &str, indexes: ListIndexes) -> anyhow::Result<StoreHandle> {
    let builder = RedisStore::builder(url);
    let builder = match indexes {
        ListIndexes::Kept => builder,
        ListIndexes::Left => builder.without_list_indexes(),
    };
    Ok(StoreHandle::bind(builder.connect().await?).await?)
}

/// All is answered once the last request's text comes back.
struct Echo {
    mark: Vec<u8>,
    tail: Vec<u8>,
}

impl Echo {
    fn of(mark: String) -> Self {
        Self {
            mark: mark.into_bytes(),
            tail: Vec::new(),
        }
    }
}

impl Answers for Echo {
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        let kept = self.tail.len().min(self.mark.len() + 8);
        self.tail.drain(..self.tail.len() - kept);
        self.tail.extend_from_slice(bytes);
        let ended = self.tail.windows(self.mark.len());
        Ok(ended.rev().take(64).any(|text| text == self.mark))
    }
}

/// The bytes that a waiting job takes.
///
/// # Errors
/// If the server does not answer.
pub async fn bytes_per_waiting_job(
    server: &Server,
    indexes: ListIndexes,
    jobs: usize,
) -> anyhow::Result<f64> {
    let store = server.store(indexes).await?;
    let before = server.used_memory().await?;
    work::enqueue_in_bulk(&store.client(), jobs).await?;
    let used = server.used_memory().await?.saturating_sub(before);
    Ok(used as f64 / jobs as f64)
}
