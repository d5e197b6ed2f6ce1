//! What lies in Redis: every key, under every prefix, for every name.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use mq_core::{
    Ack, AckOutcome, AdminOps, Cadence, ClaimRequest, Dedupe, EnqueueOps, InspectOps, Keep, Lock,
    LockToken, ManualClock, NewJob, NewSchedule, Retention, RunOps, ScheduleOps, Tick, When,
};
use mq_redis::RedisStore;
use support::job;

/// The keys of a store, without its hash tag, and their types.
async fn keys(prefix: &str) -> BTreeSet<String> {
    let mut connection = support::connection(&support::url()).await;
    let tag = format!("{{{prefix}}}:");
    let mut found = BTreeSet::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("COUNT").arg(10_000);
        let (next, page): (u64, Vec<String>) = scan
            .query_async(&mut connection)
            .await
            .expect("a page of keys");
        for key in page {
            let Some(name) = key.strip_prefix(&tag) else {
                continue;
            };
            let mut command = redis::cmd("TYPE");
            let kind: String = command
                .arg(&key)
                .query_async(&mut connection)
                .await
                .expect("a type");
            found.insert(format!("{} {kind}", name.replace('\0', "\\0")));
        }
        cursor = next;
        if cursor == 0 {
            return found;
        }
    }
}

async fn open(prefix: &str) -> RedisStore {
    let builder = RedisStore::builder(support::url()).prefix(prefix);
    let opened = builder.time(ManualClock::default()).connect().await;
    opened.expect("the store opens")
}

fn named(id: &str, queue: &str, name: &str) -> NewJob {
    let mut job = job();
    job.id = Some(id.into());
    job.spec.queue = queue.into();
    job.spec.name = name.into();
    job
}

fn request(queue: &str, name: &str, limit: u32) -> ClaimRequest {
    ClaimRequest {
        queue: queue.into(),
        names: [name.into()].into(),
        token: LockToken::from("token"),
        lock_for: Duration::from_secs(30),
        limit,
    }
}

async fn end(store: &RedisStore, id: &str, outcome: AckOutcome) {
    let lock = Lock {
        id: id.into(),
        token: "token".into(),
    };
    let acked = store.ack(Ack { lock, outcome }).await;
    assert!(acked.expect("it is acknowledged").applied);
}

#[tokio::test]
async fn a_small_scenario_leaves_these_keys_and_no_others() {
    let prefix = support::prefix();
    let store = open(&prefix).await;
    let mut keyed = named("keyed", "q", "n");
    keyed.dedupe = Some(Dedupe::key("key"));
    let mut delayed = named("delayed", "q", "n");
    delayed.when = When::After(Duration::from_secs(5));
    let mut kept = named("done", "q", "n");
    kept.spec.priority = 2;
    kept.spec.keep = Some(Keep::all(Retention::age(Duration::from_secs(9))));
    let mut retried = named("retried", "q", "n");
    retried.spec.priority = 1;
    let jobs = vec![keyed, delayed, kept, retried];
    store.enqueue_many(jobs).await.expect("they are accepted");
    store.watch(&["keyed".into()]).await.expect("it is watched");
    let claim = store
        .claim(request("q", "n", 2))
        .await
        .expect("two are claimed");
    assert_eq!(claim.jobs.len(), 2);
    end(&store, "done", AckOutcome::Complete { exit: None }).await;
    let again = AckOutcome::Retry {
        delay: Duration::ZERO,
        exit: None,
    };
    end(&store, "retried", again).await;

    let expected = [
        "byname:n zset",
        "byqueue:q zset",
        "claim:token string",
        "counts hash",
        "dedupes hash",
        "delayed:q\\0n zset",
        "delaying:q set",
        "end:done string",
        "ended:n\\0c zset",
        "expiring zset",
        "histories set",
        "job:delayed string",
        "job:done string",
        "job:keyed string",
        "job:retried string",
        "ledger:retried list",
        "live hash",
        "schema hash",
        "seq string",
        "waiting:q\\0n zset",
        "watched set",
    ];
    let found = keys(&prefix).await;
    assert_eq!(
        found.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
}

#[tokio::test]
async fn removed_jobs_leave_nothing_behind() {
    let prefix = support::prefix();
    let store = open(&prefix).await;
    let before = keys(&prefix).await;
    let mut keyed = named("keyed", "q", "n");
    keyed.dedupe = Some(Dedupe::key("key"));
    let mut delayed = named("delayed", "q", "n");
    delayed.when = When::After(Duration::from_secs(5));
    let mut kept = named("done", "q", "n");
    kept.spec.priority = 1;
    kept.spec.keep = Some(Keep::all(Retention::age(Duration::from_secs(9))));
    let jobs = vec![keyed, delayed, kept];
    store.enqueue_many(jobs).await.expect("they are accepted");
    let ids = ["keyed", "delayed", "done"].map(Into::into);
    store.watch(&ids).await.expect("they are watched");
    store
        .claim(request("q", "n", 1))
        .await
        .expect("it is claimed");
    let lock = Lock {
        id: "done".into(),
        token: "token".into(),
    };
    let progress = mq_core::RawJson::null();
    store
        .set_progress(lock, progress)
        .await
        .expect("it reports");
    end(&store, "done", AckOutcome::Complete { exit: None }).await;
    for id in &ids {
        assert!(store.remove(id).await.expect("it is removed"), "{id}");
    }
    // The registries of names may stay; what was a job's must not.
    let stays = ["claim:token", "seq", "histories", "delaying:q"];
    let left: Vec<_> = keys(&prefix).await.difference(&before).cloned().collect();
    let of_jobs = |key: &&String| !stays.iter().any(|stay| key.starts_with(stay));
    assert_eq!(left.iter().filter(of_jobs).collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn prefixes_with_signs_that_patterns_use_are_stores_like_any_other() {
    let base = support::prefix();
    let prefixes = ["*", "[ab]", "?", "\\", "ä:", " "].map(|signs| format!("{base}{signs}"));
    let mut stores = Vec::new();
    for prefix in &prefixes {
        stores.push(open(prefix).await);
    }
    for (count, store) in stores.iter().enumerate() {
        store
            .enqueue_many(vec![job(); count + 1])
            .await
            .expect("they are accepted");
    }
    for (count, store) in stores.iter().enumerate() {
        let waiting = store.counts(None).await.expect("they are counted").waiting;
        assert_eq!(waiting, count as u64 + 1, "under {:?}", prefixes[count]);
    }
}

#[tokio::test]
async fn a_prefix_that_would_break_the_hash_tag_is_refused() {
    for prefix in ["", "a{b", "a}", "a\0b"] {
        let opened = RedisStore::builder(support::url()).prefix(prefix).connect();
        let error = opened.await.expect_err("it is refused").to_string();
        assert!(error.contains("store prefix"), "{error}");
    }
}

#[tokio::test]
async fn names_that_try_to_collide_stay_apart() {
    let store = open(&support::prefix()).await;
    let pairs = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a}:b", "c"),
        ("{a", "b:c"),
        ("a", "b\u{1}c"),
    ];
    for (number, (queue, name)) in pairs.iter().enumerate() {
        let job = named(&format!("id:{number}"), queue, name);
        store.enqueue(job).await.expect("it is accepted");
    }
    for (number, (queue, name)) in pairs.iter().enumerate() {
        let mut request = request(queue, name, 10);
        request.token = LockToken::random();
        let claim = store.claim(request).await.expect("it answers");
        let ids: Vec<_> = claim.jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, [format!("id:{number}")], "of {queue:?} and {name:?}");
    }
}

#[tokio::test]
async fn a_record_is_the_same_by_whichever_way_it_was_inserted() {
    let store = open(&support::prefix()).await;
    let now = store.now().await.expect("it tells the time");
    let schedule = NewSchedule {
        key: "key".into(),
        cadence: Cadence::Every(Duration::from_secs(60)),
        spec: job().spec,
        group: None,
        next_run_at: now,
    };
    let stored = store.upsert_schedule(schedule).await.expect("it is stored");
    let tick = Tick {
        key: stored.key,
        version: stored.version,
        expected: now,
        next: now.saturating_add(Duration::from_secs(60)),
        job: Some(named("by tick", "queue", "job")),
    };
    assert!(store.tick_schedule(tick).await.expect("it ticks"));
    let single = named("alone", "queue", "job");
    store.enqueue(single).await.expect("it is accepted");
    let mut keyed = named("keyed", "queue", "job");
    keyed.dedupe = Some(Dedupe::key("key"));
    let batch = vec![named("in a batch", "queue", "job"), keyed];
    store.enqueue_many(batch).await.expect("they are accepted");
    let ids = ["by tick", "alone", "in a batch", "keyed"].map(Into::into);
    let mut records = Vec::new();
    for answer in store.get_jobs(&ids).await.expect("they are read") {
        let mut record = answer.expect("it can be read").expect("it is there");
        record.id = "id".into();
        record.dedupe_key = None;
        records.push(record);
    }
    for record in &records[1..] {
        assert_eq!(*record, records[0]);
    }
}

#[tokio::test]
async fn a_store_under_another_name_is_refused_as_it_is_opened() {
    let prefix = support::prefix();
    let named = |name: &str| {
        let builder = RedisStore::builder(support::url()).prefix(&*prefix);
        builder.name(name).connect()
    };
    named("one").await.expect("a new store takes its name");
    named("one").await.expect("it bears it");
    let error = named("two").await.expect_err("it bears another");
    assert!(error.to_string().contains("\"one\""), "{error}");
}
