//! What a store says and does when its server or its connection fails, each on
//! a real server of the test's own.

mod support;

use std::time::Duration;

use mq_core::{ClaimRequest, EnqueueOps, InspectOps, LockToken, RunOps, StoreError, Timestamp};
use mq_redis::RedisStore;
use mq_testkit::proxy::{Fault, Proxy, Which};
use mq_testkit::servers::Settings;
use support::{OwnServer, job};

/// How long a store may take to mend itself before a test calls it broken.
const PATIENCE: Duration = Duration::from_secs(20);

fn request() -> ClaimRequest {
    ClaimRequest {
        queue: "queue".into(),
        names: ["job".into()].into(),
        token: LockToken::random(),
        lock_for: Duration::from_secs(30),
        limit: 10,
    }
}

/// Expects an error that a repetition may mend, and that says what it must.
#[track_caller]
fn expect_transient<T: std::fmt::Debug>(answer: mq_core::Result<T>, says: &str) {
    match answer {
        Err(error @ StoreError::Unavailable { .. }) => {
            let message = error.to_string();
            assert!(message.contains(says), "expected {says:?} in: {message}");
        }
        other => panic!("expected Unavailable with {says:?}, got {other:?}"),
    }
}

/// Expects an error that somebody must see to, and that says what it must.
#[track_caller]
fn expect_permanent<T: std::fmt::Debug>(answer: mq_core::Result<T>, says: &str) {
    match answer {
        Err(error) => {
            let message = error.to_string();
            assert!(
                !error.is_transient(),
                "expected a permanent error: {message}"
            );
            assert!(message.contains(says), "expected {says:?} in: {message}");
        }
        other => panic!("expected an error with {says:?}, got {other:?}"),
    }
}

/// Calls until the store works again; only transient errors are borne.
async fn until_mended(store: &RedisStore) -> Timestamp {
    let mended = async {
        loop {
            match store.now().await {
                Ok(now) => return now,
                Err(error) if error.is_transient() => tokio::task::yield_now().await,
                Err(error) => panic!("expected the outage to pass: {error}"),
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, mended).await;
    in_time.expect("the store mends itself")
}

#[tokio::test]
async fn nobody_at_the_address_is_an_outage_that_names_it() {
    let url = {
        let server = OwnServer::start(Settings::volatile());
        server.url()
    };
    let address = url.trim_start_matches("redis://").to_owned();
    expect_transient(RedisStore::connect(url).await, "refused");
    let refused = RedisStore::connect(format!("redis://{address}")).await;
    expect_transient(refused, &address);
}

#[tokio::test]
async fn a_url_that_is_none_is_refused_without_quoting_it() {
    let answer = RedisStore::connect("reddis://user:secret@host").await;
    let message = answer.expect_err("it is no URL").to_string();
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn a_killed_server_is_an_outage_and_nothing_is_lost_with_it() {
    let mut server = OwnServer::start(Settings::durable());
    let store = server.store().await;
    let before = store.enqueue(job()).await.expect("it is accepted");
    server.redis.kill9().expect("the server is killed");
    assert!(store.now().await.is_err_and(|error| error.is_transient()));
    server.redis.restart().expect("the server comes back");
    until_mended(&store).await;
    let found = store.get_job(&before.id).await.expect("it answers");
    assert!(found.is_some(), "the accepted job is there");
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_gets_them_again() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    for _ in 0..3 {
        store.enqueue(job()).await.expect("it is accepted");
        server.ask("SCRIPT FLUSH");
    }
    assert_eq!(store.counts(None).await.expect("it answers").waiting, 3);
}

#[tokio::test]
async fn connections_that_are_killed_under_load_lose_and_double_nothing() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    let mut producers = Vec::new();
    for producer in 0..8 {
        let store = store.clone();
        producers.push(tokio::spawn(async move {
            for number in 0..50 {
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
        }));
    }
    while producers.iter().any(|producer| !producer.is_finished()) {
        server.ask("CLIENT KILL TYPE normal SKIPME yes");
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for producer in producers {
        producer.await.expect("the producer gets through");
    }
    assert_eq!(store.counts(None).await.expect("it answers").waiting, 400);
}

#[tokio::test]
async fn a_reply_that_is_lost_is_repeated_and_makes_no_second_job() {
    let server = OwnServer::start(Settings::volatile());
    let proxy = proxy(&server).await;
    let store = through(&proxy).await;
    // The server knows the script by then.
    store.enqueue(job()).await.expect("it is accepted");
    // The server enqueues it, and the connection is reset before it can say so.
    proxy.set_once(Which::All, Fault::ResetAfter { bytes: 0 });
    let enqueued = store.enqueue(job()).await.expect("the repetition lands");
    assert!(!enqueued.duplicate, "it is the caller's own job");
    assert_eq!(store.counts(None).await.expect("it answers").waiting, 2);
}

#[tokio::test]
async fn a_lost_reply_to_an_ack_says_that_its_outcome_is_unknown() {
    let server = OwnServer::start(Settings::volatile());
    let proxy = proxy(&server).await;
    let store = through(&proxy).await;
    store
        .enqueue_many(vec![job(); 2])
        .await
        .expect("they are accepted");
    let request = request();
    let claim = store
        .claim(request.clone())
        .await
        .expect("they are claimed");
    let ack = |place: usize| mq_core::Ack {
        lock: mq_core::Lock {
            id: claim.jobs[place].id.clone(),
            token: request.token.clone(),
        },
        outcome: mq_core::AckOutcome::Complete { exit: None },
    };
    // The server knows the script by then.
    store.ack(ack(0)).await.expect("it is acknowledged");
    let ack = ack(1);
    proxy.set_once(
        Which::NotSaid("SUBSCRIBE".into()),
        Fault::ResetAfter { bytes: 0 },
    );
    expect_transient(store.ack(ack.clone()).await, "unknown");
    until_mended(&store).await;
    let again = store.ack(ack).await.expect("the repetition is answered");
    assert!(!again.applied, "the first ack had landed");
}

async fn proxy(server: &OwnServer) -> Proxy {
    let address = server.url().trim_start_matches("redis://").to_owned();
    Proxy::start(address).await.expect("a proxy")
}

async fn through(proxy: &Proxy) -> RedisStore {
    RedisStore::builder(format!("redis://{}", proxy.address()))
        .response_timeout(Duration::from_millis(500))
        .connect()
        .await
        .expect("the store opens")
}

#[tokio::test]
async fn a_slow_server_is_an_outage_and_the_next_call_works() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    server.redis.pause().expect("the server stands still");
    expect_transient(store.now().await, "500ms");
    server.redis.resume().expect("the server goes on");
    until_mended(&store).await;
}

#[tokio::test]
async fn a_replica_refuses_writes_until_it_is_a_master_again() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    server.ask("REPLICAOF 127.0.0.1 1");
    expect_transient(store.enqueue(job()).await, "READONLY");
    server.ask("REPLICAOF NO ONE");
    store.enqueue(job()).await.expect("it is a master again");
    assert_eq!(store.counts(None).await.expect("it answers").waiting, 1);
}

#[tokio::test]
async fn a_full_server_refuses_a_job_whole() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    server.ask("CONFIG SET maxmemory 1");
    expect_transient(store.enqueue(job()).await, "OOM");
    server.ask("CONFIG SET maxmemory 0");
    let counts = store.counts(None).await.expect("it answers");
    assert_eq!(counts.total(), 0, "nothing of it was written");
    store.enqueue(job()).await.expect("there is room again");
}

#[tokio::test]
async fn a_password_that_is_missing_or_wrong_is_a_permanent_error() {
    let server = OwnServer::start(Settings::volatile());
    server.ask("CONFIG SET requirepass right");
    let address = server.url().trim_start_matches("redis://").to_owned();
    expect_permanent(RedisStore::connect(server.url()).await, "password");
    let wrong = RedisStore::connect(format!("redis://:wrong@{address}")).await;
    expect_permanent(wrong, "password");
    let right = RedisStore::connect(format!("redis://:right@{address}")).await;
    right.expect("the right password opens the store");
}

#[tokio::test]
async fn a_script_that_does_not_end_is_an_outage_until_it_is_killed() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    server.ask("CONFIG SET busy-reply-threshold 1");
    let mut foreign = support::connection(&server.url()).await;
    let endless = tokio::spawn(async move {
        let mut command = redis::cmd("EVAL");
        command.arg("while true do end").arg(0);
        command.query_async::<redis::Value>(&mut foreign).await
    });
    let busy = async {
        loop {
            match store.now().await {
                Err(error) if error.to_string().contains("BUSY") => return error,
                Err(error) if error.is_transient() => {}
                Err(error) => panic!("{error}"),
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let error = tokio::time::timeout(PATIENCE, busy)
        .await
        .expect("it is busy");
    assert!(error.is_transient(), "{error}");
    server.ask("SCRIPT KILL");
    until_mended(&store).await;
    assert!(endless.await.expect("it ends").is_err());
}

#[tokio::test]
async fn a_half_open_subscriber_is_noticed_and_counts_as_a_wake_up() {
    let server = OwnServer::start(Settings::volatile());
    let proxy = proxy(&server).await;
    let store = through(&proxy).await;
    let wake = store.claim(request()).await.expect("it answers").wake;
    proxy.set(Which::Said("SUBSCRIBE".into()), Fault::SwallowReplies);
    let producer = server.store().await;
    producer.enqueue(job()).await.expect("it is accepted");
    // Until the store gives the silent connection up and tries another.
    let before = proxy.accepted();
    let noticed = async {
        while proxy.accepted() == before {
            tokio::task::yield_now().await;
        }
    };
    let noticed = tokio::time::timeout(PATIENCE, noticed).await;
    noticed.expect("the silence is noticed");
    proxy.heal().await;
    let queues = ["queue".into()];
    let woken = tokio::time::timeout(PATIENCE, store.await_wake(&queues, wake)).await;
    woken.expect("it is woken").expect("without an error");
}

#[tokio::test]
async fn a_lost_subscriber_connection_is_a_reason_to_look() {
    let server = OwnServer::start(Settings::volatile());
    let store = server.store().await;
    let wake = store.claim(request()).await.expect("it answers").wake;
    let queues = ["queue".into()];
    let waiting = store.await_wake(&queues, wake);
    server.ask("CLIENT KILL TYPE pubsub");
    let woken = tokio::time::timeout(PATIENCE, waiting).await;
    woken.expect("it is woken").expect("without an error");
}

#[tokio::test]
async fn a_store_of_another_layout_is_left_alone() {
    let server = OwnServer::start(Settings::volatile());
    server.ask("HSET {mq}:schema layout 99");
    expect_permanent(RedisStore::connect(server.url()).await, "layout 99");
    assert_eq!(server.ask("DBSIZE").trim().trim_start_matches(':'), "1");
}
