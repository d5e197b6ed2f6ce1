//! Flows on Redis: what a fan-out leaves behind, and what it costs the server.

mod support;

use std::time::Duration;

use mq_core::contract::StoreOptions;
use mq_core::{
    Ack, AckOutcome, AdminOps, ClaimRequest, EnqueueOps, FlowChild, FlowOps, InspectOps, JobSpec,
    JobState, Lock, LockToken, ManualClock, NewJob, RawJson, RunOps,
};
use mq_redis::RedisStore;
use redis::aio::MultiplexedConnection;

async fn connection() -> MultiplexedConnection {
    let client = redis::Client::open(support::url()).expect("a URL");
    client
        .get_multiplexed_async_connection()
        .await
        .expect("a connection")
}

/// The store's keys of one kind.
async fn keys(prefix: &str, kind: &str) -> Vec<String> {
    let mut connection = connection().await;
    redis::cmd("KEYS")
        .arg(format!("{{{prefix}}}:{kind}:*"))
        .query_async(&mut connection)
        .await
        .expect("keys")
}

async fn start_parent(store: &RedisStore) -> Lock {
    let parent = NewJob::new(JobSpec::new("parent", "queue", RawJson::null()));
    store.enqueue(parent).await.expect("a parent");
    let token = LockToken::random();
    let request = ClaimRequest {
        queue: "queue".into(),
        names: ["parent".into()].into(),
        token: token.clone(),
        lock_for: Duration::from_secs(30),
        limit: 1,
    };
    let claim = store.claim(request).await.expect("a claim");
    Lock {
        id: claim.jobs[0].id.clone(),
        token,
    }
}

fn children(count: usize) -> Vec<FlowChild> {
    let child = |number: usize| {
        let mut job = NewJob::new(JobSpec::new("child", "queue", RawJson::null()));
        job.id = Some(format!("child-{number}").into());
        FlowChild {
            key: format!("{number:06}").into(),
            store: "store".into(),
            job,
        }
    };
    (0..count).map(child).collect()
}

async fn fan_out(store: &RedisStore, lock: &Lock, count: usize) {
    let ack = Ack {
        lock: lock.clone(),
        outcome: AckOutcome::FanOut {
            fail_fast: false,
            children: children(count),
        },
    };
    let acked = store.ack(ack).await.expect("the fan-out lands");
    assert!(acked.applied);
}

#[tokio::test]
async fn rows_of_a_fan_out_that_was_cut_short_are_invisible_and_purged_with_the_stall() {
    let (prefix, clock) = (support::prefix(), ManualClock::default());
    let store = support::open(&prefix, &StoreOptions::new(clock.clone())).await;
    let lock = start_parent(&store).await;
    // What a worker leaves that dies after its first page.
    let mut connection = connection().await;
    let rows = format!("{{{prefix}}}:rows:{}\0{}", lock.id, lock.token);
    let _: () = redis::pipe()
        .cmd("HSET")
        .arg(format!("{{{prefix}}}:staged"))
        .arg(&*lock.id)
        .arg(&*lock.token)
        .cmd("HSET")
        .arg(&rows)
        .arg("key")
        .arg("row")
        .query_async(&mut connection)
        .await
        .expect("a page is staged");
    let seen = store.list_child_results(&lock.id, None, None).await;
    assert!(seen.expect("a page").items.is_empty());

    clock.advance(Duration::from_secs(30));
    let recovered = store.recover_stalled(3, 10).await.expect("a sweep");
    assert_eq!(recovered.stalled.len(), 1);
    assert_eq!(keys(&prefix, "rows").await.len(), 0);
    let staged: u64 = redis::cmd("HLEN")
        .arg(format!("{{{prefix}}}:staged"))
        .query_async(&mut connection)
        .await
        .expect("a count");
    assert_eq!(staged, 0);
}

#[tokio::test]
async fn a_removed_parent_leaves_no_rows() {
    let prefix = support::prefix();
    let store = support::open(&prefix, &StoreOptions::new(ManualClock::default())).await;
    let lock = start_parent(&store).await;
    fan_out(&store, &lock, 600).await;
    store.cancel(&lock.id).await.expect("a cancel");
    assert!(store.remove(&lock.id).await.expect("a removal"));
    for kind in ["rows", "keys", "pending", "fresh", "owed"] {
        assert_eq!(keys(&prefix, kind).await.len(), 0, "{kind}");
    }
}

/// Closing renames one key, whatever the number of rows.
#[tokio::test]
async fn closing_a_large_flow_touches_no_row() {
    let prefix = support::prefix();
    let store = support::open(&prefix, &StoreOptions::new(ManualClock::default())).await;
    let lock = start_parent(&store).await;
    fan_out(&store, &lock, 5_000).await;
    let mut connection = connection().await;
    let rows = format!("{{{prefix}}}:rows:{}\0{}", lock.id, lock.token);
    let all_rows = |mut connection: MultiplexedConnection, key: String| async move {
        let digest: Vec<String> = redis::cmd("HVALS")
            .arg(key)
            .query_async(&mut connection)
            .await
            .expect("rows");
        digest
    };
    let before = all_rows(connection.clone(), rows.clone()).await;
    assert_eq!(before.len(), 5_000);
    store.cancel(&lock.id).await.expect("a cancel");
    assert_eq!(all_rows(connection.clone(), rows).await, before);
    let fresh: u64 = redis::cmd("ZCARD")
        .arg(format!("{{{prefix}}}:fresh:{}\0{}", lock.id, lock.token))
        .query_async(&mut connection)
        .await
        .expect("a count");
    assert_eq!(fresh, 5_000);
    let parent = store.get_job(&lock.id).await.expect("a read");
    assert_eq!(parent.map(|job| job.state), Some(JobState::Cancelled));
}
