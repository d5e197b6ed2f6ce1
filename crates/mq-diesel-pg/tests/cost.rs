//! What operations cost: statements sent, and rows looked at beside many others.

mod support;

use std::time::Duration;

use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::bb8::Pool;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use mq_core::{Ack, AckOutcome, EnqueueOps, Lock, RunOps};
use mq_diesel_pg::{PgStore, Wake};

use support::{fresh_name, job, request, url};

/// What was sent, by anybody.
static SENT: parking_lot::Mutex<Vec<String>> = parking_lot::Mutex::new(Vec::new());

struct Record;

impl Instrumentation for Record {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if let InstrumentationEvent::StartQuery { query, .. } = event {
            SENT.lock().push(query.to_string());
        }
    }
}

/// How many statements were sent since the last time, but for those that tell
/// other processes.
fn sent() -> usize {
    let sent = std::mem::take(&mut *SENT.lock());
    let operations = sent.iter().filter(|query| !query.contains("pg_notify"));
    operations.count()
}

#[tokio::test]
async fn hot_operations_are_one_statement_each() {
    set_default_instrumentation(|| Some(Box::new(Record))).unwrap();
    let builder = PgStore::builder(url()).schema(fresh_name()).pool_size(1);
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    // The listening connection is made by the first claim.
    store.claim(request(1)).await.unwrap();
    sent();

    store.enqueue(job()).await.unwrap();
    assert_eq!(sent(), 1, "enqueue");
    store.enqueue_many(vec![job(); 250]).await.unwrap();
    assert_eq!(sent(), 1, "enqueue_many of 250");
    store.enqueue_many(vec![job(); 251]).await.unwrap();
    assert_eq!(sent(), 2, "enqueue_many of 251");

    let request = request(250);
    let token = request.token.clone();
    let claimed = store.claim(request).await.unwrap().jobs;
    assert_eq!((claimed.len(), sent()), (250, 1), "claim");
    let locks: Vec<Lock> = claimed
        .into_iter()
        .map(|job| Lock {
            id: job.id,
            token: token.clone(),
        })
        .collect();
    store
        .extend_locks(locks.clone(), Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(sent(), 1, "extend_locks");
    let acks: Vec<Ack> = locks
        .into_iter()
        .map(|lock| Ack {
            lock,
            outcome: AckOutcome::Complete { exit: None },
        })
        .collect();
    let answers = store.ack_many(acks).await.unwrap();
    assert_eq!((answers.len(), sent()), (250, 1), "ack_many");
    store.recover_stalled(3, 250).await.unwrap();
    assert_eq!(sent(), 1, "recover_stalled with nothing to recover");
}

/// What the server counts of a table.
#[derive(Clone, Debug, diesel::QueryableByName)]
struct Looked {
    #[diesel(sql_type = diesel::sql_types::Text)]
    relname: String,
    /// Rows read by scans of the whole table.
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    scanned: i64,
    /// Index entries read.
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    by_index: i64,
}

async fn looked(pool: &Pool<AsyncPgConnection>, schema: &str) -> Vec<Looked> {
    let mut connection = pool.get().await.expect("the pool's connection");
    // The pool's one session, so its own counts are flushed.
    connection
        .batch_execute("SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot()")
        .await
        .expect("the server counts");
    diesel::sql_query(format!(
        "SELECT t.relname::text, t.seq_tup_read AS scanned, coalesce((
            SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid
        ), 0)::bigint AS by_index
        FROM pg_stat_user_tables t WHERE t.schemaname = '{schema}' ORDER BY 1"
    ))
    .load(&mut connection)
    .await
    .expect("the server counts")
}

/// On a pool of the program's own, whose sessions are as the server sets them.
#[tokio::test]
async fn claims_and_acks_look_at_no_more_rows_beside_many_others() {
    let schema = fresh_name();
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url());
    let pool = Pool::builder().max_size(1).build(manager).await.unwrap();
    let builder = PgStore::with_pool(pool.clone())
        .schema(&schema)
        .wake(Wake::Poll(Duration::from_secs(1)));
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    let others = 60_000;
    let fill = format!(
        "SET search_path TO \"{schema}\";
        INSERT INTO mq_job (id, name, queue, payload, enqueued_at)
            SELECT 'w' || n, 'other', 'queue', '1', now() FROM generate_series(1, {others}) n;
        INSERT INTO mq_ready (job_id, queue, name, priority, seq, run_at)
            SELECT 'w' || n, 'queue', 'other', 9, nextval('mq_seq'), now()
            FROM generate_series(1, {others}) n;
        INSERT INTO mq_job (id, name, queue, payload, enqueued_at)
            SELECT 'd' || n, 'job', 'queue', '1', now() FROM generate_series(1, {others}) n;
        INSERT INTO mq_delayed (job_id, queue, name, priority, seq, run_at)
            SELECT 'd' || n, 'queue', 'job', 9, nextval('mq_seq'), now() + interval '1 day'
            FROM generate_series(1, {others}) n;
        INSERT INTO mq_job (id, name, queue, payload, enqueued_at)
            SELECT 'f' || n, 'job', 'queue', '1', now() FROM generate_series(1, {others}) n;
        INSERT INTO mq_finished (job_id, queue, name, state, seq, finished_at, run_at,
            attempts_made, attempts_recorded, stalled_count, watched, has_flow, outcome, closed_run)
            SELECT 'f' || n, 'queue', 'job', 'completed', nextval('mq_seq'), now(), now(), 1, 1, 0,
                false, false, 'completed', true
            FROM generate_series(1, {others}) n;
        ANALYZE mq_job, mq_ready, mq_delayed, mq_finished; RESET search_path"
    );
    pool.get()
        .await
        .unwrap()
        .batch_execute(&fill)
        .await
        .unwrap();
    let cycle = || async {
        store.enqueue_many(vec![job(); 20]).await.unwrap();
        let request = request(20);
        let token = request.token.clone();
        let claimed = store.claim(request).await.unwrap().jobs;
        assert_eq!(claimed.len(), 20);
        let locks: Vec<Lock> = claimed
            .into_iter()
            .map(|job| Lock {
                id: job.id,
                token: token.clone(),
            })
            .collect();
        store
            .extend_locks(locks.clone(), Duration::from_secs(30))
            .await
            .unwrap();
        let acks = locks.into_iter().map(|lock| Ack {
            lock,
            outcome: AckOutcome::Complete { exit: None },
        });
        for acked in store.ack_many(acks.collect()).await.unwrap() {
            acked.unwrap();
        }
    };
    // Until the server has settled on a plan for any values.
    for _ in 0..6 {
        cycle().await;
    }
    let before = looked(&pool, &schema).await;
    let cycles = 5;
    for _ in 0..cycles {
        cycle().await;
    }
    let after = looked(&pool, &schema).await;
    for (was, is) in before.into_iter().zip(after) {
        assert_eq!(was.relname, is.relname);
        let big = ["mq_job", "mq_ready", "mq_delayed", "mq_finished"];
        let scanned = is.scanned - was.scanned;
        if big.contains(&is.relname.as_str()) {
            assert_eq!(scanned, 0, "rows of {} scanned", is.relname);
        }
        let by_index = is.by_index - was.by_index;
        assert!(
            by_index <= cycles * 20 * 12,
            "{by_index} entries of {}'s indexes read for {cycles} cycles of 20",
            is.relname
        );
    }
}
