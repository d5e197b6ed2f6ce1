//! Enqueueing inside a program's own transaction, and what becomes of the
//! connections of calls that were dropped.

mod support;

use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use futures::FutureExt;
use mq_core::{Dedupe, EnqueueOps, InspectOps, RunOps, StoreError};
use mq_diesel_pg::PgStore;

use support::{claim, fresh_schema, job, opened, url};

async fn connection() -> AsyncPgConnection {
    let established = AsyncPgConnection::establish(&url()).await;
    established.expect("the server takes connections")
}

#[tokio::test]
async fn a_job_is_there_exactly_if_its_transaction_commits() {
    let store = opened().await;
    let mut connection = connection().await;
    for (end, there) in [("ROLLBACK", 0), ("COMMIT", 2)] {
        connection.batch_execute("BEGIN").await.unwrap();
        store.enqueue_in(&mut connection, job()).await.unwrap();
        let mut keyed = job();
        keyed.dedupe = Some(Dedupe::key("key"));
        let answer = store.enqueue_in(&mut connection, keyed).await.unwrap();
        assert!(!answer.duplicate, "before {end}");
        assert_eq!(store.counts(None).await.unwrap().waiting, 0, "before {end}");
        connection.batch_execute(end).await.unwrap();
        assert_eq!(
            store.counts(None).await.unwrap().waiting,
            there,
            "after {end}"
        );
    }
}

#[tokio::test]
async fn workers_are_woken_when_the_transaction_commits() {
    let store = opened().await;
    let wake = claim(&store, 1).await.wake;
    let queues = ["queue".into()];
    let mut waiting = store.await_wake(&queues, wake);
    let mut connection = connection().await;
    connection.batch_execute("BEGIN").await.unwrap();
    store.enqueue_in(&mut connection, job()).await.unwrap();
    assert!((&mut waiting).now_or_never().is_none(), "woken too early");
    connection.batch_execute("COMMIT").await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .expect("a wake-up after the commit")
        .unwrap();
}

#[tokio::test]
async fn a_dropped_call_leaves_no_transaction_open() {
    let builder = fresh_schema().pool_size(1);
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    // Each further poll gets a little further into the transaction.
    for polls in 1..40 {
        let mut keyed = job();
        keyed.dedupe = Some(Dedupe::key(format!("key {polls}")));
        let mut call = store.enqueue_many(vec![keyed]);
        for _ in 0..polls {
            if futures::poll!(&mut call).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(call);
        // The one connection serves, outside of any transaction.
        let id = store.enqueue(job()).await.unwrap().id;
        let seen = another(&store).await.get_job(&id).await.unwrap();
        assert!(seen.is_some(), "after {polls} polls");
    }
}

/// The same data through connections of its own.
async fn another(store: &PgStore) -> PgStore {
    let schema = support::schema_of(store);
    PgStore::builder(url())
        .schema(schema)
        .pool_size(1)
        .open()
        .await
        .expect("the store opens")
}

#[tokio::test]
async fn a_pool_without_a_free_connection_says_how_many_and_how_long() {
    let builder = fresh_schema();
    builder.migrate().await.unwrap();
    let limit = Duration::from_millis(200);
    let store = builder
        .pool_size(1)
        .connection_timeout(limit)
        .open()
        .await
        .unwrap();
    let schema = support::schema_of(&store);
    let mut connection = connection().await;
    let lock = format!("BEGIN; LOCK TABLE \"{schema}\".mq_job IN ACCESS EXCLUSIVE MODE");
    connection.batch_execute(&lock).await.unwrap();
    let blocked = tokio::spawn({
        let store = store.clone();
        async move { store.enqueue_many(vec![job()]).await }
    });
    let error = loop {
        match store.now().await {
            Err(error) => break error,
            Ok(_) => tokio::task::yield_now().await,
        }
    };
    let StoreError::Unavailable { message, .. } = error else {
        panic!("expected a transient error, got {error:?}");
    };
    assert!(
        message.contains("1 connections") && message.contains("200ms"),
        "{message}"
    );
    connection.batch_execute("ROLLBACK").await.unwrap();
    blocked.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_statement_that_takes_too_long_names_the_limit() {
    let builder = fresh_schema();
    builder.migrate().await.unwrap();
    let store = builder
        .statement_timeout(Some(Duration::from_millis(200)))
        .open()
        .await
        .unwrap();
    let schema = support::schema_of(&store);
    let mut connection = connection().await;
    let lock = format!("BEGIN; LOCK TABLE \"{schema}\".mq_job IN ACCESS EXCLUSIVE MODE");
    connection.batch_execute(&lock).await.unwrap();
    let error = store.enqueue(job()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("57014") && message.contains("200ms"),
        "{message}"
    );
}

#[tokio::test]
async fn a_read_only_server_is_named_as_such() {
    let builder = fresh_schema();
    builder.migrate().await.unwrap();
    let separator = if url().contains('?') { '&' } else { '?' };
    let read_only = format!(
        "{}{separator}options=-c%20default_transaction_read_only%3Don",
        url()
    );
    let schema = support::schema_of(&builder.open().await.unwrap());
    let store = PgStore::builder(read_only)
        .schema(schema)
        .open()
        .await
        .unwrap();
    let error = store.enqueue(job()).await.unwrap_err();
    assert!(!error.is_transient(), "{error:?}");
    assert!(error.to_string().contains("25006"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_transient_error_that_names_it() {
    let store = PgStore::builder("postgres://me:secret@127.0.0.1:1/nowhere")
        .connection_timeout(Duration::from_secs(1));
    let error = store.open().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("127.0.0.1:1/nowhere"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn connections_that_the_server_ends_are_replaced() {
    let store = opened().await;
    let wake = claim(&store, 1).await.wake;
    let mut connection = connection().await;
    let schema = support::schema_of(&store);
    for _ in 0..5 {
        store.enqueue(job()).await.unwrap();
        // Every session that has to do with this schema, the listening one too.
        connection
            .batch_execute(&format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE pid <> pg_backend_pid() AND query LIKE '%{schema}%'"
            ))
            .await
            .unwrap();
        // The first calls may meet connections that died; none is stuck.
        let mut tries = 0;
        while let Err(error) = store.enqueue(job()).await {
            assert!(error.is_transient(), "{error:?}");
            tries += 1;
            assert!(tries < 10, "{error}");
        }
    }
    let queues = ["queue".into()];
    tokio::time::timeout(Duration::from_secs(20), store.await_wake(&queues, wake))
        .await
        .expect("a wake-up")
        .unwrap();
}
