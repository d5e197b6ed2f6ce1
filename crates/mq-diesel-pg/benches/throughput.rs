//! How many jobs a second the Postgres store takes in bulk and drains at a
//! concurrency of 100, beside the least that a queue on the same server could
//! do: the same rounds on a bare table, where a job is one narrow row that is
//! inserted, marked and deleted.
//!
//! `MQ_TEST_PG_URL=… cargo bench -p mq-diesel-pg --bench throughput [-- --quick]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_core::{
    Ack, AckOutcome, ClaimRequest, EnqueueOps, JobName, JobSpec, Lock, LockToken, NewJob, RawJson,
    RunOps,
};
use mq_diesel_pg::PgStore;
use tokio_postgres::{Client, NoTls};

/// How many jobs one call of a worker handles.
const BATCH: usize = 100;
/// How many jobs one call of a bulk producer brings.
const BULK: usize = 250;
/// How many connections work at once.
const TASKS: usize = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    jobs: usize,
}

const FULL: Size = Size {
    rounds: 7,
    jobs: 100_000,
};
const QUICK: Size = Size {
    rounds: 3,
    jobs: 20_000,
};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let size = if quick { QUICK } else { FULL };
    let url = std::env::var("MQ_TEST_PG_URL")
        .map_err(|_| "set MQ_TEST_PG_URL to a Postgres that may be filled with test data")?;
    let schema = format!("bench_{:016x}", fastrand::u64(..));
    let builder = PgStore::builder(&url).schema(&schema).pool_size(4);
    builder.migrate().await?;
    let store = builder.open().await?;
    let bare = Bare::open(&url, &schema).await?;
    println!(
        "{} rounds of {} jobs of 100 bytes, {TASKS} connections; jobs a second\n",
        size.rounds, size.jobs
    );
    let (mut enqueued, mut inserted) = (Vec::new(), Vec::new());
    let (mut drained, mut deleted) = (Vec::new(), Vec::new());
    // Taken in turn, so that a busy machine slows both alike.
    for _ in 0..size.rounds {
        enqueued.push(rate(size.jobs, enqueue(&store, size.jobs)).await?);
        inserted.push(rate(size.jobs, bare.insert(size.jobs)).await?);
        drained.push(rate(size.jobs, drain(&store)).await?);
        deleted.push(rate(size.jobs, bare.drain()).await?);
        bare.clients[0]
            .batch_execute(&format!(
                "VACUUM {schema}.mq_ready, {schema}.mq_active, {schema}.bare"
            ))
            .await?;
    }
    println!(
        "{:<36}{:>10}{:>10}{:>10}",
        "", "median", "slowest", "fastest"
    );
    let store_rate = report("bulk enqueue", enqueued);
    let bare_rate = report("  insert into a bare table", inserted);
    println!("  {:<34}{:>10.2}", "ratio", store_rate / bare_rate);
    let store_rate = report("drain", drained);
    let bare_rate = report("  claim and delete on a bare table", deleted);
    println!("  {:<34}{:>10.2}", "ratio", store_rate / bare_rate);
    bare.clients[0]
        .batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))
        .await?;
    Ok(())
}

async fn rate(
    jobs: usize,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<f64, Failure> {
    let begin = Instant::now();
    work.await?;
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}

/// Prints the rates' median and spread, and answers the median.
fn report(label: &str, mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    let (slowest, median, fastest) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    println!("{label:<36}{median:>10.0}{slowest:>10.0}{fastest:>10.0}");
    median
}

fn payload() -> String {
    format!("{:?}", "x".repeat(98))
}

async fn enqueue(store: &PgStore, jobs: usize) -> Result<(), Failure> {
    let payload = RawJson::parse(payload())?;
    let job = NewJob::new(JobSpec::new("measured", "q", payload));
    let one = |_| {
        let (store, job) = (store.clone(), job.clone());
        async move {
            for _ in 0..jobs / TASKS / BULK {
                store.enqueue_many(vec![job.clone(); BULK]).await?;
            }
            Ok::<_, Failure>(())
        }
    };
    at_once(one).await
}

async fn drain(store: &PgStore) -> Result<(), Failure> {
    let names: Arc<[JobName]> = ["measured".into()].into();
    let exit = RawJson::parse(r#"{"ok":null}"#)?;
    let one = |_| {
        let (store, names, exit) = (store.clone(), Arc::clone(&names), exit.clone());
        async move {
            loop {
                let token = LockToken::random();
                let request = ClaimRequest {
                    queue: "q".into(),
                    names: Arc::clone(&names),
                    token: token.clone(),
                    lock_for: Duration::from_secs(30),
                    limit: BATCH as u32,
                };
                let claim = store.claim(request).await?;
                if claim.jobs.is_empty() {
                    return Ok::<_, Failure>(());
                }
                let acks = claim.jobs.into_iter().map(|job| Ack {
                    lock: Lock {
                        id: job.id,
                        token: token.clone(),
                    },
                    outcome: AckOutcome::Complete {
                        exit: Some(exit.clone()),
                    },
                });
                for acked in store.ack_many(acks.collect()).await? {
                    assert!(acked?.applied);
                }
            }
        }
    };
    at_once(one).await
}

async fn at_once<F>(one: impl Fn(usize) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let tasks: Vec<_> = (0..TASKS).map(|number| tokio::spawn(one(number))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// The bare table.
struct Bare {
    clients: Vec<Arc<Client>>,
    schema: String,
}

impl Bare {
    async fn open(url: &str, schema: &str) -> Result<Self, Failure> {
        let mut clients = Vec::new();
        for _ in 0..TASKS {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            clients.push(Arc::new(client));
        }
        let create = format!(
            "CREATE TABLE {schema}.bare (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                name text NOT NULL, payload json NOT NULL, locked_at timestamptz
            );
            CREATE INDEX ON {schema}.bare (id) WHERE locked_at IS NULL;"
        );
        clients[0].batch_execute(&create).await?;
        Ok(Self {
            clients,
            schema: schema.to_owned(),
        })
    }

    async fn insert(&self, jobs: usize) -> Result<(), Failure> {
        let text = format!(
            "INSERT INTO {}.bare (name, payload) SELECT n, p::json
            FROM unnest($1::text[], $2::text[]) AS i(n, p)",
            self.schema
        );
        let one = |number: usize| {
            let (client, text) = (Arc::clone(&self.clients[number]), text.clone());
            async move {
                let statement = client.prepare(&text).await?;
                for _ in 0..jobs / TASKS / BULK {
                    let names = vec!["measured"; BULK];
                    let payloads = vec![payload(); BULK];
                    client.execute(&statement, &[&names, &payloads]).await?;
                }
                Ok::<_, Failure>(())
            }
        };
        at_once(one).await
    }

    async fn drain(&self) -> Result<(), Failure> {
        let claim = format!(
            "UPDATE {0}.bare SET locked_at = now() WHERE id = ANY (ARRAY(
                SELECT id FROM {0}.bare WHERE locked_at IS NULL ORDER BY id LIMIT {BATCH}
                FOR UPDATE SKIP LOCKED
            )) RETURNING id, name, payload::text",
            self.schema
        );
        let delete = format!("DELETE FROM {}.bare WHERE id = ANY ($1)", self.schema);
        let one = |number: usize| {
            let client = Arc::clone(&self.clients[number]);
            let (claim, delete) = (claim.clone(), delete.clone());
            async move {
                let claim = client.prepare(&claim).await?;
                let delete = client.prepare(&delete).await?;
                loop {
                    let rows = client.query(&claim, &[]).await?;
                    if rows.is_empty() {
                        return Ok::<_, Failure>(());
                    }
                    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    client.execute(&delete, &[&ids]).await?;
                }
            }
        };
        at_once(one).await
    }
}
