//! How many jobs a second the store takes in in bulk, and how many a worker of
//! 100 slots drains, each beside the least that a queue on Redis could do: one
//! `HSET` and one `ZADD` for each job; one pop, one `HGETALL` and one `HSET`.
//! And how many bytes a waiting job takes.
//!
//! The server is the one that `MQ_TEST_REDIS_URL` names:
//! `cargo bench -p mq-redis --bench throughput [-- --quick]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_core::{
    Ack, AckOutcome, ClaimRequest, EnqueueOps, JobName, JobSpec, Lock, LockToken, NewJob, RawJson,
    RunOps,
};
use mq_redis::{RedisStore, RedisStoreBuilder};
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, pipe};

const JOBS: usize = 20_000;
/// How many jobs a worker holds at once.
const SLOTS: u32 = 100;
/// How many batches are on their way at once: one is worked on, one is fetched.
const FLOWS: usize = 2;
/// How many jobs a producer hands over at once.
const BULK: usize = 1_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 1 } else { 7 };
    let url = std::env::var("MQ_TEST_REDIS_URL")
        .map_err(|_| "MQ_TEST_REDIS_URL names no Redis server")?;
    let server = Server::connect(&url).await?;
    println!("{JOBS} jobs of 100 bytes, {rounds} rounds; jobs a second, median (least, most)\n");
    let mut rows = Rows::default();
    for round in 0..rounds {
        let tag = format!("bench-{}-{round}", std::process::id());
        rows.replay(&server, &tag).await?;
        for (label, indexes) in [("no list indexes", false), ("list indexes", true)] {
            let builder = RedisStore::builder(&*url).prefix(format!("{tag}-{indexes}"));
            let builder = match indexes {
                true => builder,
                false => builder.without_list_indexes(),
            };
            rows.store(&server, label, builder).await?;
        }
    }
    rows.print();
    Ok(())
}

#[derive(Default)]
struct Rows(Vec<(String, Vec<f64>)>);

impl Rows {
    fn add(&mut self, label: &str, figure: f64) {
        match self.0.iter_mut().find(|(known, _)| known == label) {
            Some((_, figures)) => figures.push(figure),
            None => self.0.push((label.to_owned(), vec![figure])),
        }
    }

    fn print(&mut self) {
        for (label, figures) in &mut self.0 {
            figures.sort_unstable_by(f64::total_cmp);
            let (least, most) = (figures[0], figures[figures.len() - 1]);
            let median = figures[figures.len() / 2];
            println!("{label:<40}{median:>10.0}  ({least:.0}, {most:.0})");
        }
    }

    /// The least that a queue could do.
    async fn replay(&mut self, server: &Server, tag: &str) -> Outcome<()> {
        self.add("replay: enqueue", rate(server.replay_enqueue(tag)).await?);
        self.add("replay: drain", rate(server.replay_drain(tag)).await?);
        server.forget(tag).await
    }

    async fn store(
        &mut self,
        server: &Server,
        label: &str,
        builder: RedisStoreBuilder,
    ) -> Outcome<()> {
        let store = builder.connect().await?;
        let before = server.used_memory().await?;
        self.add(&format!("{label}: enqueue"), rate(enqueue(&store)).await?);
        let used = server.used_memory().await?.saturating_sub(before);
        let bytes = used as f64 / JOBS as f64;
        self.add(&format!("{label}: bytes a waiting job"), bytes);
        self.add(&format!("{label}: drain"), rate(drain(&store)).await?);
        server.forget("bench-").await
    }
}

/// How many jobs a second some work handles.
async fn rate(work: impl Future<Output = Outcome<()>>) -> Outcome<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(JOBS as f64 / begun.elapsed().as_secs_f64())
}

fn payload() -> RawJson {
    RawJson::parse(format!("\"{}\"", "x".repeat(98))).expect("it is JSON")
}

/// Two producers hand over jobs in bulk.
async fn enqueue(store: &RedisStore) -> Outcome<()> {
    let tasks: Vec<_> = (0..FLOWS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let job = NewJob::new(JobSpec::new("measured", "queue", payload()));
                for _ in 0..JOBS / FLOWS / BULK {
                    store.enqueue_many(vec![job.clone(); BULK]).await?;
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn drain(store: &RedisStore) -> Outcome<()> {
    let tasks: Vec<_> = (0..FLOWS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let names: Arc<[JobName]> = ["measured".into()].into();
                while cycle(&store, &names).await? {}
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Claims a batch and completes it; false if there was none.
async fn cycle(store: &RedisStore, names: &Arc<[JobName]>) -> Outcome<bool> {
    let token = LockToken::random();
    let request = ClaimRequest {
        queue: "queue".into(),
        names: Arc::clone(names),
        token: token.clone(),
        lock_for: Duration::from_secs(30),
        limit: SLOTS,
    };
    let claim = store.claim(request).await?;
    let exit = RawJson::parse(r#"{"ok":null}"#)?;
    let ack = |job: mq_core::JobRecord| Ack {
        lock: Lock {
            id: job.id,
            token: token.clone(),
        },
        outcome: AckOutcome::Complete {
            exit: Some(exit.clone()),
        },
    };
    let acks: Vec<_> = claim.jobs.into_iter().map(ack).collect();
    if acks.is_empty() {
        return Ok(false);
    }
    for acked in store.ack_many(acks).await? {
        assert!(acked?.applied);
    }
    Ok(true)
}

struct Server(MultiplexedConnection);

impl Server {
    async fn connect(url: &str) -> RedisResult<Self> {
        let client = redis::Client::open(url)?;
        let config =
            redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Self(connection.await?))
    }

    async fn used_memory(&self) -> Outcome<u64> {
        let mut command = redis::cmd("INFO");
        let info: String = command
            .arg("memory")
            .query_async(&mut self.0.clone())
            .await?;
        let used = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        Ok(used
            .ok_or("INFO says nothing of used_memory")?
            .trim()
            .parse()?)
    }

    async fn replay_enqueue(&self, tag: &str) -> Outcome<()> {
        let payload = payload();
        for batch in 0..JOBS / SLOTS as usize {
            let mut pipe = pipe();
            for place in 0..SLOTS as usize {
                let id = format!("{batch:010}-{place:015}");
                pipe.hset(format!("{tag}:{id}"), "payload", payload.get())
                    .ignore();
                pipe.zadd(format!("{tag}:waiting"), id, batch).ignore();
            }
            pipe.exec_async(&mut self.0.clone()).await?;
        }
        Ok(())
    }

    async fn replay_drain(&self, tag: &str) -> Outcome<()> {
        loop {
            let mut pop = redis::cmd("ZPOPMIN");
            pop.arg(format!("{tag}:waiting")).arg(SLOTS);
            let popped: Vec<(String, f64)> = pop.query_async(&mut self.0.clone()).await?;
            if popped.is_empty() {
                return Ok(());
            }
            let (mut reads, mut writes) = (pipe(), pipe());
            for (id, _) in popped {
                reads.hgetall(format!("{tag}:{id}")).ignore();
                writes
                    .hset(format!("{tag}:{id}"), "exit", r#"{"ok":null}"#)
                    .ignore();
            }
            reads.exec_async(&mut self.0.clone()).await?;
            writes.exec_async(&mut self.0.clone()).await?;
        }
    }

    /// Deletes what a round has left behind.
    async fn forget(&self, tag: &str) -> Outcome<()> {
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(format!("*{tag}*"))
                .arg("COUNT")
                .arg(10_000);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut self.0.clone()).await?;
            if !keys.is_empty() {
                redis::cmd("DEL")
                    .arg(keys)
                    .exec_async(&mut self.0.clone())
                    .await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}
