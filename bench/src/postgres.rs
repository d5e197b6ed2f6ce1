//! Postgres: opening stores, the least that a queue could do there, and replays
//! of what mq sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::future;
use mq_core::StoreHandle;
use mq_diesel_pg::PgStore;
use mq_testkit::servers::{Postgres, Settings};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket, tls::NoTlsStream};

use crate::replay::{Answers, Recorder, replay};
use crate::work::payload;

/// How many jobs one statement of a worker handles.
const BATCH: usize = 100;
/// How many jobs one statement of a bulk producer brings.
const BULK: usize = 250;
/// How many connections the limits of bulk and drain use.
const TASKS: usize = 2;
/// How many connections the limit of concurrent enqueues uses.
const PRODUCERS: usize = 16;

/// The schema of the store, and of the bare table beside it.
const SCHEMA: &str = "bench";

/// The channel of the store's wake-ups.
const CHANNEL: &str = "mq_wake_bench";

/// A throw-away Postgres with its default settings, but for 512 MB of shared
/// buffers and room for 300 connections.
pub struct Server {
    postgres: Postgres,
    _folder: TempDir,
    clients: Vec<Arc<Client>>,
}

impl Server {
    /// Starts one, with the tables of a store and a bare one.
    ///
    /// # Errors
    /// If no Postgres is installed.
    pub async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let settings = Settings::durable()
            .with("shared_buffers", "512MB")
            .with("max_connections", "300");
        let postgres = Postgres::start(folder.path(), settings)?;
        let url = postgres.url();
        PgStore::builder(&url).schema(SCHEMA).migrate().await?;
        let mut clients = Vec::new();
        for _ in 0..PRODUCERS {
            clients.push(Arc::new(connect(&url).await?));
        }
        clients[0]
            .batch_execute(&format!(
                "CREATE TABLE {SCHEMA}.bare (
                    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                    name text NOT NULL, payload json NOT NULL, locked_at timestamptz
                );
                CREATE INDEX ON {SCHEMA}.bare (id) WHERE locked_at IS NULL;"
            ))
            .await?;
        Ok(Self {
            postgres,
            _folder: folder,
            clients,
        })
    }

    /// An empty store.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn store(&self) -> anyhow::Result<StoreHandle> {
        self.clear().await?;
        open(&self.postgres.url(), 10).await
    }

    /// Empties the store's tables and the bare one.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn clear(&self) -> anyhow::Result<()> {
        let client = &self.clients[0];
        let tables = client
            .query(
                "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
                 WHERE schemaname = $1 AND tablename <> 'mq_meta'",
                &[&SCHEMA],
            )
            .await?;
        let tables: Vec<String> = tables.iter().map(|row| row.get(0)).collect();
        let truncate = format!("TRUNCATE {} RESTART IDENTITY", tables.join(", "));
        client.batch_execute(&truncate).await?;
        Ok(())
    }

    /// The limit of one producer: an insert of one row at a time.
    ///
    /// # Errors
    /// If the server refuses one.
    pub async fn least_enqueue(&self, jobs: usize) -> anyhow::Result<()> {
        insert_singly(Arc::clone(&self.clients[0]), jobs).await
    }

    /// The limit of many producers: the same on 16 connections.
    ///
    /// # Errors
    /// If the server refuses one.
    pub async fn least_enqueue_from_tasks(&self, jobs: usize) -> anyhow::Result<()> {
        let share = jobs / PRODUCERS;
        at_once(
            self.clients
                .iter()
                .map(|client| insert_singly(Arc::clone(client), share)),
        )
        .await
    }

    /// The limit of bulk: inserts of 250 rows on two connections.
    ///
    /// # Errors
    /// If the server refuses one.
    pub async fn least_enqueue_in_bulk(&self, jobs: usize) -> anyhow::Result<()> {
        let one = |client: &Arc<Client>| {
            let client = Arc::clone(client);
            async move {
                let text = format!(
                    "INSERT INTO {SCHEMA}.bare (name, payload) SELECT n, p::json
                     FROM unnest($1::text[], $2::text[]) AS i(n, p)"
                );
                let statement = client.prepare(&text).await?;
                for _ in 0..jobs / TASKS / BULK {
                    let (names, payloads) = (vec!["measured"; BULK], vec![payload(); BULK]);
                    client.execute(&statement, &[&names, &payloads]).await?;
                }
                Ok(())
            }
        };
        at_once(self.clients[..TASKS].iter().map(one)).await
    }

    /// The limit of a drain: 100 rows are marked, read and deleted at a time, on
    /// two connections.
    ///
    /// # Errors
    /// If the server refuses a statement.
    pub async fn least_drain(&self) -> anyhow::Result<()> {
        let one = |client: &Arc<Client>| {
            let client = Arc::clone(client);
            async move {
                let claim = client.prepare(&claim_text()).await?;
                let delete = format!("DELETE FROM {SCHEMA}.bare WHERE id = ANY ($1)");
                let delete = client.prepare(&delete).await?;
                loop {
                    let rows = client.query(&claim, &[]).await?;
                    if rows.is_empty() {
                        return Ok(());
                    }
                    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    client.execute(&delete, &[&ids]).await?;
                }
            }
        };
        at_once(self.clients[..TASKS].iter().map(one)).await
    }

    /// The limit of the latency: an insert with its `NOTIFY`, until a listener
    /// has marked and read the row; in milliseconds, sorted.
    ///
    /// # Errors
    /// If the server refuses a statement.
    pub async fn least_latencies(&self, samples: usize) -> anyhow::Result<Vec<f64>> {
        let (listener, mut notified) = listen(&self.postgres.url()).await?;
        listener.batch_execute("LISTEN bench").await?;
        let claim = listener.prepare(&claim_text()).await?;
        let producer = &self.clients[0];
        let insert = producer
            .prepare(&format!(
                "WITH told AS (SELECT pg_notify('bench', ''))
                 INSERT INTO {SCHEMA}.bare (name, payload)
                 SELECT 'measured', $1::text::json FROM told"
            ))
            .await?;
        let mut waits = Vec::with_capacity(samples);
        for _ in 0..samples {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let begun = Instant::now();
            let inserting = producer.execute(&insert, &[&"{}"]);
            let claiming = async {
                notified.recv().await.context("the listener has ended")?;
                let rows = listener.query(&claim, &[]).await?;
                ensure!(rows.len() == 1, "{} rows for one notification", rows.len());
                Ok(Instant::now())
            };
            let (inserted, claimed) = future::join(inserting, claiming).await;
            inserted?;
            waits.push((claimed? - begun).as_secs_f64() * 1e3);
        }
        waits.sort_unstable_by(f64::total_cmp);
        Ok(waits)
    }

    /// So many connections that listen to a store's channel, as the workers of as
    /// many processes would, until they are dropped.
    ///
    /// # Errors
    /// If the server takes no more connections.
    pub async fn listeners(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        let mut listeners = Vec::with_capacity(count);
        for _ in 0..count {
            let (client, _) = listen(&self.postgres.url()).await?;
            client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
            listeners.push(client);
        }
        Ok(listeners)
    }

    /// Records what mq sends for some work on a store of one connection.
    ///
    /// # Errors
    /// The work's own.
    pub async fn record<W>(&self, work: impl FnOnce(StoreHandle) -> W) -> anyhow::Result<Vec<u8>>
    where
        W: Future<Output = anyhow::Result<()>>,
    {
        let recorder = Recorder::start(self.postgres.port()).await?;
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", recorder.port());
        work(open(&url, 1).await?).await?;
        Ok(recorder.busiest())
    }

    /// Sends recorded bytes again.
    ///
    /// # Errors
    /// If the server refuses a statement.
    pub async fn replay(&self, recording: &[u8]) -> anyhow::Result<Duration> {
        let answers = Ready {
            awaited: requests(recording)?,
            buffer: Vec::new(),
        };
        replay(self.postgres.port(), recording.to_vec(), answers).await
    }

    /// Fails unless so many jobs of the server's store are completed.
    ///
    /// # Errors
    /// If they are not.
    pub async fn check_completed(&self, jobs: usize) -> anyhow::Result<()> {
        let store = open(&self.postgres.url(), 1).await?;
        let counts = store.store().counts(None).await?;
        ensure!(
            counts.completed == jobs as u64,
            "a replay left {counts:?} of {jobs} jobs"
        );
        Ok(())
    }

    /// Vacuums as autovacuum would between two rounds, so that each round finds
    /// the same tables.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn tidy(&self) -> anyhow::Result<()> {
        self.clients[0].batch_execute("VACUUM ANALYZE").await?;
        Ok(())
    }
}

fn claim_text() -> String {
    format!(
        "UPDATE {SCHEMA}.bare SET locked_at = now() WHERE id = ANY (ARRAY(
            SELECT id FROM {SCHEMA}.bare WHERE locked_at IS NULL ORDER BY id LIMIT {BATCH}
            FOR UPDATE SKIP LOCKED
        )) RETURNING id, name, payload::text"
    )
}

async fn insert_singly(client: Arc<Client>, jobs: usize) -> anyhow::Result<()> {
    let text =
        format!("INSERT INTO {SCHEMA}.bare (name, payload) VALUES ('measured', $1::text::json)");
    let (statement, payload) = (client.prepare(&text).await?, payload());
    for _ in 0..jobs {
        client.execute(&statement, &[&payload]).await?;
    }
    Ok(())
}

async fn at_once<F>(work: impl Iterator<Item = F>) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let tasks: Vec<_> = work.map(tokio::spawn).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn open(url: &str, connections: u32) -> anyhow::Result<StoreHandle> {
    let builder = PgStore::builder(url).schema(SCHEMA).pool_size(connections);
    Ok(StoreHandle::bind(builder.open().await?).await?)
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A connection, and the notifications it receives.
async fn listen(url: &str) -> anyhow::Result<(Client, mpsc::UnboundedReceiver<()>)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(pass_on(connection, tell));
    Ok((client, told))
}

async fn pass_on(mut connection: Connection<Socket, NoTlsStream>, tell: mpsc::UnboundedSender<()>) {
    while let Some(Ok(message)) = future::poll_fn(|context| connection.poll_message(context)).await
    {
        if let AsyncMessage::Notification(_) = message {
            tell.send(()).ok();
        }
    }
}

/// How many times the server says that it is ready for a recording: once for the
/// start, and once for each `Sync` and `Query` message.
///
/// <https://www.postgresql.org/docs/15/protocol-message-formats.html>
fn requests(recording: &[u8]) -> anyhow::Result<usize> {
    let start = recording.get(..4).context("a recording is empty")?;
    let mut rest = &recording[u32::from_be_bytes(start.try_into()?) as usize..];
    let mut count = 1;
    while let [kind, length @ ..] = rest {
        let length = length.get(..4).context("a recording is cut short")?;
        let length = u32::from_be_bytes(length.try_into()?) as usize;
        if matches!(kind, b'S' | b'Q') {
            count += 1;
        }
        rest = rest.get(1 + length..).context("a recording is cut short")?;
    }
    Ok(count)
}

/// Counts how often the server says that it is ready.
struct Ready {
    awaited: usize,
    buffer: Vec<u8>,
}

impl Answers for Ready {
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        self.buffer.extend_from_slice(bytes);
        let mut place = 0;
        while let Some(head) = self.buffer.get(place..place + 5) {
            let length = u32::from_be_bytes(head[1..].try_into()?) as usize;
            let Some(body) = self.buffer.get(place + 5..place + 1 + length) else {
                break;
            };
            match head[0] {
                b'Z' => self.awaited = self.awaited.saturating_sub(1),
                b'E' => bail!("in a replay: {}", String::from_utf8_lossy(body)),
                _ => {}
            }
            place += 1 + length;
        }
        self.buffer.drain(..place);
        Ok(self.awaited == 0)
    }
}
