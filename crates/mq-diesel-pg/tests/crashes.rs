//! What is left of a handler's work, and of its job, when its process dies.
//!
//! Each scenario has a process of its own, which dies at one step; then a
//! worker in this one goes on. The outcome is the table in
//! `docs/transactions.md`.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;
use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use mq_core::{AttemptOutcome, Failure, InspectOps, Job, JobId, Outcome};
use mq_diesel_pg::{PgClient, PgStore};
use mq_worker::{JobContext, Worker};
use serde::{Deserialize, Serialize};

use support::{fresh_name, url};

/// How the handler ends its job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// Inside its transaction.
    Inside,
    /// By returning, once its transaction is committed.
    Outside,
}

/// Where the process dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Begin,
    Written,
    Completed,
    Committed,
    Acked,
    Nowhere,
}

use Ends::{Inside, Outside};
use Step::{Acked, Begin, Committed, Completed, Nowhere, Written};

/// The table's rows, in its words: what is there once the process is dead, and
/// once another worker has gone on.
const TABLE: [(Ends, Step, &str); 9] = [
    (
        Inside,
        Begin,
        "| before its transaction begins | 0, 0 | 1, 1 |",
    ),
    (Inside, Written, "| after its own write | 0, 0 | 1, 1 |"),
    (Inside, Completed, "| after `complete_in` | 0, 0 | 1, 1 |"),
    (
        Inside,
        Committed,
        "| after the commit, before the worker's ack | 1, 1 | 1, 1 |",
    ),
    (Inside, Acked, "| after the worker's ack | 1, 1 | 1, 1 |"),
    (
        Outside,
        Begin,
        "| before its transaction begins | 0, 0 | 1, 1 |",
    ),
    (Outside, Written, "| after its own write | 0, 0 | 1, 1 |"),
    (
        Outside,
        Committed,
        "| after the commit, before the worker's ack | 1, 0 | **2**, 1 |",
    ),
    (Outside, Acked, "| after the worker's ack | 1, 1 | 1, 1 |"),
];

const LOCK: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize, Job)]
#[job(name = "charge", output = u32)]
struct Charge {}

/// What every process of a scenario knows.
#[derive(Clone)]
struct Scenario {
    schema: String,
    ends: Ends,
    dies: Step,
}

impl Scenario {
    async fn client(&self) -> PgClient {
        let builder = PgStore::builder(url()).schema(&self.schema).pool_size(3);
        builder.migrate().await.unwrap();
        PgClient::bind(builder.open().await.unwrap()).await.unwrap()
    }

    fn reaches(&self, step: Step) {
        if self.dies == step {
            std::process::abort();
        }
    }

    async fn charge(&self, client: &PgClient, context: &JobContext) -> Result<u32, Failure> {
        let mut connection = AsyncPgConnection::establish(&url()).await?;
        self.reaches(Begin);
        connection
            .transaction(async |connection| {
                let write = format!("INSERT INTO \"{}\".effects VALUES (1)", self.schema);
                connection.batch_execute(&write).await?;
                self.reaches(Written);
                if self.ends == Inside {
                    let lock = context.lock();
                    client.complete_in::<Charge>(connection, lock, &7).await?;
                    self.reaches(Completed);
                }
                Ok::<_, Failure>(())
            })
            .await?;
        self.reaches(Committed);
        Ok(7)
    }

    async fn worker(&self, client: &PgClient) -> Worker {
        let (scenario, handler_client) = (self.clone(), client.clone());
        let hooked = self.clone();
        Worker::builder(client.store_handle().clone())
            .lock_duration(LOCK)
            .stalled_interval(Duration::from_millis(200))
            .after_ack(move |_| hooked.reaches(Acked))
            .register(move |_: Charge, context: JobContext| {
                let (scenario, client) = (scenario.clone(), handler_client.clone());
                async move { Ok(scenario.charge(&client, &context).await?) }
            })
            .start()
            .await
            .unwrap()
    }

    /// How many effects and how many completions there are.
    async fn count(&self, client: &PgClient, id: &JobId) -> (i64, usize) {
        #[derive(diesel::QueryableByName)]
        struct Count {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            count: i64,
        }
        let mut connection = support::connection(&url()).await;
        let count = format!("SELECT count(*) FROM \"{}\".effects", self.schema);
        let effects: Vec<Count> = diesel::sql_query(count)
            .load(&mut connection)
            .await
            .unwrap();
        let ledger = client.pg_store().get_attempts(id).await.unwrap();
        let completed = |outcome| outcome == AttemptOutcome::Completed;
        let completions = ledger.iter().filter(|run| completed(run.outcome));
        (effects[0].count, completions.count())
    }

    /// Plays it through, and answers its row.
    async fn play(self, number: usize) -> String {
        let label = label(TABLE[number].2);
        let client = self.client().await;
        let create = format!("CREATE TABLE \"{}\".effects (value integer)", self.schema);
        let mut connection = support::connection(&url()).await;
        connection.batch_execute(&create).await.unwrap();
        let job = client.enqueue(Charge {}).await.unwrap();

        let me = std::env::current_exe().unwrap();
        let mut child = Command::new(me);
        child
            .args(["--exact", TEST, "--nocapture"])
            .env(SCHEMA, &self.schema)
            .env(ROW, number.to_string());
        let output = tokio::task::spawn_blocking(move || child.output().unwrap());
        let output = output.await.unwrap();
        assert!(!output.status.success(), "{label} did not die: {output:?}");
        let dead = self.count(&client, job.id()).await;

        let next = Self {
            dies: Nowhere,
            ..self.clone()
        };
        let worker = next.worker(&client).await;
        let outcome = job.result().await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(7)), "{outcome:?}");
        let report = worker.shutdown().await;
        assert!(report.untold.is_empty(), "{report:?}");
        let counts = client.pg_store().counts(None).await.unwrap();
        assert_eq!((counts.waiting, counts.active), (0, 0), "{label}");
        let settled = self.count(&client, job.id()).await;
        let bold = match settled.0 {
            1 => "1".to_owned(),
            effects => format!("**{effects}**"),
        };
        let (effects, completions) = dead;
        format!(
            "| {label} | {effects}, {completions} | {bold}, {} |",
            settled.1
        )
    }
}

const TEST: &str = "effects_and_completions_are_as_the_table_says_wherever_a_process_dies";
const SCHEMA: &str = "MQ_CRASH_SCHEMA";
const ROW: &str = "MQ_CRASH_ROW";

fn label(row: &str) -> &str {
    row.split('|').nth(1).unwrap().trim()
}

#[test]
fn effects_and_completions_are_as_the_table_says_wherever_a_process_dies() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if let (Ok(schema), Ok(row)) = (std::env::var(SCHEMA), std::env::var(ROW)) {
        let (ends, dies, _) = TABLE[row.parse::<usize>().unwrap()];
        return runtime.block_on(async {
            let scenario = Scenario { schema, ends, dies };
            let worker = scenario.worker(&scenario.client().await).await;
            // Long enough for the step; who outlives it has not died.
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(worker);
        });
    }
    let rows = runtime.block_on(async {
        let played: Vec<_> = TABLE
            .iter()
            .enumerate()
            .map(|(number, &(ends, dies, _))| {
                let schema = fresh_name();
                tokio::spawn(Scenario { schema, ends, dies }.play(number))
            })
            .collect();
        let mut rows = Vec::new();
        for row in played {
            rows.push(row.await.unwrap());
        }
        rows
    });
    assert_eq!(rows, TABLE.map(|(_, _, row)| row.to_owned()));
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/transactions.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (inside, outside) = rows.split_at(5);
    for part in [inside, outside] {
        let part = part.join("\n");
        assert!(page.contains(&part), "docs/transactions.md lacks\n{part}");
    }
}
