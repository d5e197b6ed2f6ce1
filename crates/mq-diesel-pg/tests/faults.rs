//! What a store does when its server or its connections fail, each on a real
//! server of the test's own.

mod support;

use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use mq_core::{AdminOps, EnqueueOps, InspectOps, RunOps, Timestamp};
use mq_diesel_pg::PgStore;
use mq_testkit::proxy::{Fault, Proxy, Which};
use mq_testkit::servers::Settings;
use support::{OwnServer, claim, connection, fresh_schema, job, schema_of, url};

/// How long a store may take to mend itself before a test calls it broken.
const PATIENCE: Duration = Duration::from_secs(20);

async fn in_time<T>(what: &str, awaited: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(PATIENCE, awaited).await;
    answer.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Calls until the store works again; only transient errors are borne.
async fn until_mended(store: &PgStore) -> Timestamp {
    let mended = async {
        loop {
            match store.now().await {
                Ok(now) => return now,
                Err(error) if error.is_transient() => tokio::task::yield_now().await,
                Err(error) => panic!("expected the outage to pass: {error}"),
            }
        }
    };
    in_time("the store mends itself", mended).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_and_a_restart_end_all_waits_and_lose_nothing() {
    let mut server = OwnServer::start(Settings::durable()).await;
    let store = server.store().await;
    let id = store.enqueue(job()).await.expect("it is accepted").id;
    let held = claim(&store, 1).await.jobs;
    assert_eq!(held[0].id, id);
    let ids = [id.clone()];
    let watch = store.watch(&ids).await.expect("it answers");
    let wake = claim(&store, 1).await.wake;
    let waiters = [
        tokio::spawn({
            let store = store.clone();
            async move { store.await_wake(&["queue".into()], wake).await }
        }),
        tokio::spawn({
            let store = store.clone();
            async move { store.await_finished(&ids, watch.cursor).await }
        }),
    ];
    server.postgres.kill9().expect("the server is killed");
    assert!(store.now().await.is_err_and(|error| error.is_transient()));
    server.postgres.restart().expect("the server comes back");
    until_mended(&store).await;
    for waiter in waiters {
        let ended = in_time("the wait ends", waiter).await;
        ended.expect("it does not panic").expect("without an error");
    }
    let found = store.get_job(&id).await.expect("it answers");
    let found = found.expect("the accepted job is there");
    assert_eq!(found, held[0], "and is still locked");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_ended_under_load_lose_and_double_nothing() {
    let server = OwnServer::start(Settings::volatile()).await;
    let store = server.store().await;
    let producers: Vec<_> = (0..8)
        .map(|producer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..25 {
                    let mut job = job();
                    job.id = Some(format!("{producer}-{number}").into());
                    loop {
                        match store.enqueue(job.clone()).await {
                            Ok(_) => break,
                            Err(error) if error.is_transient() => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    let mut foreign = connection(&server.url()).await;
    let mut rounds = 0;
    while rounds == 0 || producers.iter().any(|producer| !producer.is_finished()) {
        foreign
            .batch_execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
            )
            .await
            .expect("the sessions are ended");
        rounds += 1;
        // The load goes on between two blows.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for producer in producers {
        let ended = in_time("the producer gets through", producer).await;
        ended.expect("without a permanent error");
    }
    until_mended(&store).await;
    assert_eq!(store.counts(None).await.expect("it answers").waiting, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_listener_is_noticed_and_counts_as_a_wake_up() {
    let server = OwnServer::start(Settings::volatile()).await;
    let producer = server.store().await;
    let proxy = Proxy::start(format!("127.0.0.1:{}", server.postgres.port()));
    let proxy = proxy.await.expect("a proxy");
    let probed = Duration::from_millis(200);
    let store = PgStore::builder(server.url())
        .listen_url(format!("postgres://postgres@{}/postgres", proxy.address()))
        .listen_probe(probed, probed)
        .open()
        .await
        .expect("the store opens");
    let wake = claim(&store, 1).await.wake;
    let before = proxy.accepted();
    assert_eq!(before, 1, "it listens through the proxy");
    proxy.set(Which::Said("LISTEN".into()), Fault::SwallowReplies);
    let waiter = store.clone();
    let waiting = tokio::spawn(async move { waiter.await_wake(&["queue".into()], wake).await });
    producer.enqueue(job()).await.expect("it is accepted");
    let noticed = async {
        while proxy.accepted() == before {
            tokio::task::yield_now().await;
        }
    };
    in_time("the silence is noticed", noticed).await;
    proxy.heal().await;
    let woken = in_time("it is woken", waiting).await;
    woken.expect("no panic").expect("without an error");
    assert_eq!(claim(&store, 1).await.jobs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_a_stranger_is_sat_out() {
    let builder = fresh_schema();
    builder.migrate().await.expect("the tables can be created");
    let store = builder.open().await.expect("the store opens");
    let schema = schema_of(&store);
    for id in ["a", "b"] {
        let mut job = job();
        job.id = Some(id.into());
        store.enqueue(job).await.expect("it is accepted");
    }
    let jobs = claim(&store, 2).await.jobs;
    assert_eq!(jobs.len(), 2);
    // The stranger holds one row, the cancel the other, and each wants the
    // other's. The server ends whoever looks first: a stranger that is patient
    // never does.
    let mut stranger = connection(&url()).await;
    stranger
        .batch_execute(&format!(
            "SET deadlock_timeout = '100s'; BEGIN;
            SELECT FROM \"{schema}\".mq_active WHERE job_id = 'b' FOR UPDATE"
        ))
        .await
        .expect("it locks the one");
    let canceller = store.clone();
    let cancelling =
        tokio::spawn(async move { canceller.cancel_many(&["a".into(), "b".into()]).await });
    let mut observer = connection(&url()).await;
    in_time("the cancel waits", until_blocked(&mut observer, &schema)).await;
    in_time(
        "the stranger gets the row that the cancel held",
        stranger.batch_execute(&format!(
            "SELECT FROM \"{schema}\".mq_active WHERE job_id = 'a' FOR UPDATE"
        )),
    )
    .await
    .expect("the server ended the store's statement, not this one");
    stranger.batch_execute("COMMIT").await.expect("it ends");
    let answers = in_time("the cancel gets through", cancelling).await;
    for answer in answers.expect("no panic").expect("it is answered") {
        answer.expect("each job is cancelled");
    }
    for id in ["a", "b"] {
        let job = store.get_job(&id.into()).await.expect("it answers");
        assert!(job.is_some_and(|job| job.cancel_requested), "job {id}");
    }
}

/// Looks until a statement on this schema waits for a lock.
async fn until_blocked(observer: &mut diesel_async::AsyncPgConnection, schema: &str) {
    let look = format!(
        "DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                AND query LIKE '%{schema}%') THEN RAISE EXCEPTION 'not yet'; END IF;
        END $$"
    );
    while observer.batch_execute(&look).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_cannot_be_serialized_is_repeated() {
    let builder = fresh_schema();
    builder.migrate().await.expect("the tables can be created");
    let schema = schema_of(&builder.open().await.expect("the store opens"));
    let separator = if url().contains('?') { '&' } else { '?' };
    let strict = format!(
        "{}{separator}options=-c%20default_transaction_isolation%3Dserializable",
        url()
    );
    let store = PgStore::builder(strict).schema(&*schema).pool_size(4);
    let store = store.open().await.expect("the store opens");
    store.enqueue(job()).await.expect("it is accepted");
    let held = claim(&store, 1).await.jobs.remove(0).id;
    // What the store's statement waits for has changed when it gets it.
    let mut stranger = connection(&url()).await;
    stranger
        .batch_execute(&format!(
            "BEGIN; UPDATE \"{schema}\".mq_active SET progress = '1'"
        ))
        .await
        .expect("it changes the row");
    let canceller = store.clone();
    let cancelling = tokio::spawn({
        let id = held.clone();
        async move { canceller.cancel(&id).await }
    });
    let mut observer = connection(&url()).await;
    in_time("the cancel waits", until_blocked(&mut observer, &schema)).await;
    stranger.batch_execute("COMMIT").await.expect("it ends");
    let answer = in_time("the cancel gets through", cancelling).await;
    answer.expect("no panic").expect("it is repeated");
    let job = store.get_job(&held).await.expect("it answers");
    let job = job.expect("it is there");
    assert!(job.cancel_requested, "the cancel took effect");
    assert!(job.progress.is_some(), "and so did what came before");
}

#[tokio::test]
async fn a_job_whose_policies_are_all_nonsense_fails_by_itself() {
    let store = support::opened().await;
    let schema = schema_of(&store);
    let accepted = store.enqueue_many(vec![job(); 2]).await;
    let accepted = accepted.expect("they are accepted");
    let ids: Vec<_> = accepted.into_iter().map(|answer| answer.id).collect();
    let mut foreign = connection(&url()).await;
    foreign
        .batch_execute(&format!(
            "UPDATE \"{schema}\".mq_job SET keep = '{{\"failed\": {{\"age\": \"x\"}}}}',
                parent = '{{\"flow_id\": 1}}', trace = '[]'
            WHERE id = '{}'",
            ids[0]
        ))
        .await
        .expect("the record is overwritten");
    let claimed = claim(&store, 2).await.jobs;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].id, ids[1]);
    let counts = store.counts(None).await.expect("it answers");
    assert_eq!((counts.active, counts.failed), (1, 1));
    assert_eq!(
        store.get_attempts(&ids[0]).await.expect("it answers").len(),
        1
    );
}
