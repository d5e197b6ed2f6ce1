//! Completing a job inside a program's own transaction.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use futures::FutureExt;
use mq_core::{
    Ack, AckOutcome, AdminOps, AttemptOutcome, Change, Dedupe, EnqueueOps, Failure, FlowOps,
    InspectOps, Job, JobId, JobState, Keep, Lock, ManualClock, Outcome, ParentEnvelope,
    QueueSettings, RawJson, Retention, RunOps, StoreError,
};
use mq_diesel_pg::{PgClient, PgStore};
use serde::{Deserialize, Serialize};

use support::{claim, fresh_schema, job, opened, request, url};

async fn connection() -> AsyncPgConnection {
    support::connection(&url()).await
}

fn ok(value: u32) -> Option<RawJson> {
    Some(RawJson::parse(format!(r#"{{"ok":{value}}}"#)).unwrap())
}

/// Enqueues a job and claims it.
async fn running(store: &PgStore) -> Lock {
    store.enqueue(job()).await.unwrap();
    claimed(store).await
}

async fn claimed(store: &PgStore) -> Lock {
    let asked = request(1);
    let token = asked.token.clone();
    let mut jobs = store.claim(asked).await.unwrap().jobs;
    let id = jobs.pop().expect("a job waits").id;
    Lock { id, token }
}

async fn state(store: &PgStore, id: &JobId) -> JobState {
    store.get_job(id).await.unwrap().expect("it is there").state
}

/// A table of the program's own, and how many rows it has.
struct Effects {
    table: String,
    connection: AsyncPgConnection,
}

impl Effects {
    async fn of(store: &PgStore) -> Self {
        let table = format!("\"{}\".effects", support::schema_of(store));
        let mut connection = connection().await;
        let create = format!("CREATE TABLE {table} (value integer)");
        connection.batch_execute(&create).await.unwrap();
        Self { table, connection }
    }

    fn write(&self) -> String {
        format!("INSERT INTO {} VALUES (1)", self.table)
    }

    async fn count(&mut self) -> i64 {
        #[derive(diesel::QueryableByName)]
        struct Count {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            count: i64,
        }
        let count = format!("SELECT count(*) FROM {}", self.table);
        let rows: Vec<Count> =
            diesel_async::RunQueryDsl::load(diesel::sql_query(count), &mut self.connection)
                .await
                .unwrap();
        rows[0].count
    }
}

#[tokio::test]
async fn what_a_handler_wrote_and_the_end_of_its_job_are_committed_together() {
    let store = opened().await;
    let mut effects = Effects::of(&store).await;
    let lock = running(&store).await;
    let mut connection = connection().await;
    for (end, written, then) in [
        ("ROLLBACK", 0, JobState::Active),
        ("COMMIT", 1, JobState::Completed),
    ] {
        connection.batch_execute("BEGIN").await.unwrap();
        connection.batch_execute(&effects.write()).await.unwrap();
        store
            .complete_in(&mut connection, &lock, ok(7))
            .await
            .unwrap();
        assert_eq!(state(&store, &lock.id).await, JobState::Active, "{end}");
        connection.batch_execute(end).await.unwrap();
        assert_eq!(effects.count().await, written, "after {end}");
        assert_eq!(state(&store, &lock.id).await, then, "after {end}");
    }
    let record = store.get_job(&lock.id).await.unwrap().unwrap();
    assert_eq!(record.exit, ok(7));
    assert_eq!(record.attempts_made, 1);
    let ledger = store.get_attempts(&lock.id).await.unwrap();
    assert_eq!(ledger.len(), 1);
    assert_eq!(ledger[0].outcome, AttemptOutcome::Completed);
    assert_eq!(ledger[0].started_at, record.processed_at);
    // The worker's own ack.
    let ack = Ack {
        lock,
        outcome: AckOutcome::Complete { exit: ok(8) },
    };
    assert!(!store.ack(ack).await.unwrap().applied);
    assert_eq!(store.get_job(&record.id).await.unwrap(), Some(record));
}

#[tokio::test]
async fn a_lost_lock_is_refused_and_the_transaction_can_be_rolled_back_or_go_on() {
    let store = opened().await;
    let mut effects = Effects::of(&store).await;
    let mut lost = running(&store).await;
    store.release(lost.clone()).await.unwrap();
    let again = claimed(&store).await;
    assert_eq!(again.id, lost.id);
    let mut connection = connection().await;
    connection.batch_execute("BEGIN").await.unwrap();
    connection.batch_execute(&effects.write()).await.unwrap();
    let refused = store.complete_in(&mut connection, &lost, ok(1)).await;
    let Err(StoreError::LockLost { id }) = refused else {
        panic!("expected a lost lock, got {refused:?}");
    };
    assert_eq!(id, lost.id);
    connection.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(effects.count().await, 0);
    assert_eq!(state(&store, &again.id).await, JobState::Active);

    // No statement failed: whoever insists may commit the rest.
    connection.batch_execute("BEGIN").await.unwrap();
    lost.id = "unknown".into();
    let refused = store.complete_in(&mut connection, &lost, None).await;
    assert!(
        matches!(refused, Err(StoreError::NotFound { .. })),
        "{refused:?}"
    );
    connection.batch_execute(&effects.write()).await.unwrap();
    connection.batch_execute("COMMIT").await.unwrap();
    assert_eq!(effects.count().await, 1);
}

#[tokio::test]
async fn a_transaction_whose_first_try_was_committed_is_refused_the_second_time() {
    let store = opened().await;
    let mut effects = Effects::of(&store).await;
    let lock = running(&store).await;
    let mut connection = connection().await;
    for (end, is_refused) in [("COMMIT", false), ("ROLLBACK", true)] {
        connection.batch_execute("BEGIN").await.unwrap();
        connection.batch_execute(&effects.write()).await.unwrap();
        let answer = store.complete_in(&mut connection, &lock, ok(1)).await;
        assert_eq!(
            matches!(answer, Err(StoreError::LockLost { .. })),
            is_refused,
            "{answer:?}"
        );
        connection.batch_execute(end).await.unwrap();
    }
    assert_eq!(effects.count().await, 1);
    assert_eq!(store.get_attempts(&lock.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_exit_that_is_too_large_is_refused_before_anything_is_written() {
    let builder = fresh_schema().max_payload(10);
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    let lock = running(&store).await;
    let mut connection = connection().await;
    connection.batch_execute("BEGIN").await.unwrap();
    let exit = Some(RawJson::parse(r#"{"ok":"too long"}"#).unwrap());
    let refused = store.complete_in(&mut connection, &lock, exit).await;
    assert!(
        matches!(refused, Err(StoreError::InvalidInput(_))),
        "{refused:?}"
    );
    store
        .complete_in(&mut connection, &lock, ok(1))
        .await
        .unwrap();
    connection.batch_execute("COMMIT").await.unwrap();
    assert_eq!(state(&store, &lock.id).await, JobState::Completed);
}

#[tokio::test]
async fn it_prunes_reports_and_frees_its_key_as_an_ordinary_ack_does() {
    let store = opened().await;
    let mut new = job();
    new.spec.keep = Some(Keep::all(Retention::count(1)));
    new.dedupe = Some(Dedupe::key("key"));
    new.parent = Some(ParentEnvelope {
        flow_name: "flow".into(),
        flow_id: "parent".into(),
        manifest: "manifest".into(),
        child_key: "child".into(),
        parent_store: "elsewhere".into(),
        depth: 1,
    });
    let mut connection = connection().await;
    let mut ids = Vec::new();
    for round in 1..=2 {
        let enqueued = store.enqueue(new.clone()).await.unwrap();
        assert!(!enqueued.duplicate, "the key is free in round {round}");
        let lock = claimed(&store).await;
        connection.batch_execute("BEGIN").await.unwrap();
        store
            .complete_in(&mut connection, &lock, ok(round))
            .await
            .unwrap();
        let before = store.peek_outbox(None, 10).await.unwrap().entries;
        assert_eq!(before.len(), ids.len(), "nothing is reported yet");
        connection.batch_execute("COMMIT").await.unwrap();
        ids.push(lock.id);
        let reports = store.peek_outbox(None, 10).await.unwrap().entries;
        assert_eq!(reports.len(), ids.len());
        assert_eq!(reports.last().unwrap().report.exit, ok(round));
    }
    assert_eq!(store.get_job(&ids[0]).await.unwrap(), None, "pruned");
    assert_eq!(state(&store, &ids[1]).await, JobState::Completed);
}

#[tokio::test]
async fn who_waits_for_the_job_or_for_its_slot_is_woken_by_the_commit() {
    let store = opened().await;
    let settings = QueueSettings {
        max_active: Change::Set(1),
        ..QueueSettings::default()
    };
    store.set_queue(&"queue".into(), settings).await.unwrap();
    let lock = running(&store).await;
    store.enqueue(job()).await.unwrap();
    // Another process.
    let other = PgStore::builder(url())
        .schema(support::schema_of(&store))
        .pool_size(2)
        .open()
        .await
        .unwrap();
    let ids = [lock.id.clone()];
    let watch = other.watch(&ids).await.unwrap();
    assert!(watch.finished.is_empty());
    let held_back = claim(&other, 1).await;
    assert!(held_back.jobs.is_empty());
    let queues = ["queue".into()];
    let mut for_slot = other.await_wake(&queues, held_back.wake);
    let mut for_end = other.await_finished(&ids, watch.cursor);
    let mut connection = connection().await;
    connection.batch_execute("BEGIN").await.unwrap();
    store
        .complete_in(&mut connection, &lock, ok(1))
        .await
        .unwrap();
    assert!((&mut for_slot).now_or_never().is_none(), "woken too early");
    assert!((&mut for_end).now_or_never().is_none(), "woken too early");
    connection.batch_execute("COMMIT").await.unwrap();
    let both = async { futures::try_join!(for_slot, for_end) };
    tokio::time::timeout(Duration::from_secs(10), both)
        .await
        .expect("both are woken")
        .unwrap();
    assert_eq!(claim(&other, 1).await.jobs.len(), 1);
}

#[tokio::test]
async fn an_open_transaction_holds_up_neither_heartbeats_nor_recovery_and_keeps_its_job() {
    let clock = ManualClock::default();
    let builder = fresh_schema().time(clock.clone());
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    for end in ["ROLLBACK", "COMMIT"] {
        let lock = running(&store).await;
        let neighbour = running(&store).await;
        let mut connection = connection().await;
        connection.batch_execute("BEGIN").await.unwrap();
        store
            .complete_in(&mut connection, &lock, ok(1))
            .await
            .unwrap();
        clock.advance(Duration::from_secs(20));
        let locks = vec![lock.clone(), neighbour.clone()];
        let extended = store
            .extend_locks(locks, Duration::from_secs(30))
            .await
            .unwrap();
        assert_eq!(extended.lost, [] as [JobId; 0], "neither is lost");
        // The lock runs out; its neighbour's was extended.
        clock.advance(Duration::from_secs(20));
        let recovered = store.recover_stalled(1, 10).await.unwrap();
        assert_eq!(recovered.stalled.len(), 0, "{recovered:?}");
        connection.batch_execute(end).await.unwrap();
        let recovered = store.recover_stalled(1, 10).await.unwrap();
        match end {
            "COMMIT" => {
                assert_eq!(recovered.stalled.len(), 0, "{recovered:?}");
                assert_eq!(state(&store, &lock.id).await, JobState::Completed);
            }
            _ => {
                assert_eq!(recovered.stalled.len(), 1, "{recovered:?}");
                assert_eq!(recovered.stalled[0].id, lock.id);
                store.remove(&lock.id).await.unwrap();
            }
        }
        let done = AckOutcome::Complete { exit: None };
        let ack = Ack {
            lock: neighbour,
            outcome: done,
        };
        assert!(store.ack(ack).await.unwrap().applied);
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "job", queue = "queue", output = u32)]
struct Typed {
    number: u32,
}

#[tokio::test]
async fn a_typed_job_is_enqueued_and_completed_in_transactions() {
    let client: PgClient = PgClient::bind(opened().await).await.unwrap();
    let store = client.pg_store();
    let mut connection = connection().await;
    let handle = connection
        .transaction(async |connection| {
            let handle = client.enqueue_in(connection, Typed { number: 7 }).await?;
            assert!(handle.record().await?.is_none(), "not before the commit");
            Ok::<_, Failure>(handle)
        })
        .await
        .unwrap();
    let lock = claimed(store).await;
    assert_eq!(handle.id(), &lock.id);
    let refused = connection
        .transaction(async |connection| {
            client.complete_in::<Typed>(connection, &lock, &7).await?;
            Err::<(), _>(Failure::new("on second thoughts"))
        })
        .await;
    assert_eq!(refused.unwrap_err().message, "on second thoughts");
    assert!(handle.poll().await.unwrap().is_none());
    connection
        .transaction(async |connection| {
            client.complete_in::<Typed>(connection, &lock, &7).await?;
            Ok::<_, Failure>(())
        })
        .await
        .unwrap();
    let outcome = handle.result().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(7)), "{outcome:?}");
}
