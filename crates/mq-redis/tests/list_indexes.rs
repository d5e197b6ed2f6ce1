//! The list indexes: kept or not, built when they are wanted again, and healed
//! where a job is gone.

mod support;

use mq_core::contract::StoreOptions;
use mq_core::{
    EnqueueOps, InspectOps, JobId, JobSpec, JobState, ListFilter, ListPage, NewJob, OrderBy,
    RawJson, RunOps, StoreError, TimeSource,
};
use mq_redis::{RedisStore, RedisStoreBuilder};

fn builder(prefix: &str) -> RedisStoreBuilder {
    RedisStore::builder(support::url()).prefix(prefix)
}

async fn with_indexes(prefix: &str) -> RedisStore {
    support::open(prefix, &StoreOptions::new(TimeSource::Server)).await
}

async fn without_indexes(prefix: &str) -> RedisStore {
    let opened = builder(prefix).without_list_indexes().connect().await;
    opened.expect("the store opens")
}

/// Enqueues so many jobs of two names in two queues, and answers their ids.
async fn fill(store: &RedisStore, count: usize) -> Vec<JobId> {
    let job = |number: usize| {
        let (name, queue) = (["one", "two"][number % 2], ["a", "b"][number / 2 % 2]);
        NewJob::new(JobSpec::new(name, queue, RawJson::null()))
    };
    let answers = store.enqueue_many((0..count).map(job).collect()).await;
    let answers = answers.expect("the jobs are accepted");
    let mut ids: Vec<_> = answers.into_iter().map(|answer| answer.id).collect();
    ids.sort();
    ids
}

/// The ids of all jobs that a listing finds.
async fn listed(store: &RedisStore, filter: ListFilter) -> Vec<JobId> {
    let mut ids = Vec::new();
    let mut next = filter;
    next.limit = Some(1_000);
    loop {
        let ListPage { items, cursor, .. } = store.list(next.clone()).await.expect("a page");
        ids.extend(items.into_iter().map(|job| job.id));
        match cursor {
            None => break,
            cursor => next.cursor = cursor,
        }
    }
    ids.sort();
    ids
}

fn of_name(name: &str) -> ListFilter {
    ListFilter {
        name: Some(name.into()),
        ..ListFilter::default()
    }
}

async fn keys(pattern: &str) -> Vec<String> {
    let client = redis::Client::open(support::url()).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let found: Vec<String> = redis::cmd("KEYS")
        .arg(pattern)
        .query_async(&mut connection)
        .await
        .expect("keys");
    found
}

#[tokio::test]
async fn a_store_without_list_indexes_refuses_the_lists_that_need_them_and_serves_the_others() {
    let prefix = support::prefix();
    let store = without_indexes(&prefix).await;
    fill(&store, 4).await;
    for filter in [ListFilter::default(), of_name("one")] {
        match store.list(filter).await {
            Err(StoreError::Unsupported { remedy, .. }) => {
                assert!(remedy.contains("list indexes"), "{remedy}");
            }
            other => panic!("expected Unsupported, got {other:?}"),
        }
    }
    let delayed = ListFilter {
        states: Some(vec![JobState::Delayed]),
        order_by: OrderBy::RunAt,
        ..ListFilter::default()
    };
    assert_eq!(listed(&store, delayed).await.len(), 0);
    assert_eq!(keys(&format!("{{{prefix}}}:by*")).await.len(), 0);
}

#[tokio::test]
async fn indexes_that_are_wanted_again_are_built_from_the_records() {
    let prefix = support::prefix();
    let ids = fill(&without_indexes(&prefix).await, 1_003).await;
    let store = with_indexes(&prefix).await;
    assert_eq!(listed(&store, ListFilter::default()).await, ids);
    let by_name = [of_name("one"), of_name("two")];
    let [one, two] = by_name.map(|filter| listed(&store, filter));
    assert_eq!(one.await.len() + two.await.len(), ids.len());
}

#[tokio::test]
async fn jobs_of_a_handle_without_indexes_are_listed_once_the_store_has_them() {
    let prefix = support::prefix();
    let older = without_indexes(&prefix).await;
    let mut ids = fill(&older, 3).await;
    let store = with_indexes(&prefix).await;
    // The older handle goes on, and writes to what it never asked for.
    ids.extend(fill(&older, 3).await);
    ids.sort();
    assert_eq!(listed(&store, ListFilter::default()).await, ids);
}

#[tokio::test]
async fn indexes_that_are_not_wanted_any_more_are_deleted() {
    let prefix = support::prefix();
    fill(&with_indexes(&prefix).await, 700).await;
    assert_ne!(keys(&format!("{{{prefix}}}:by*")).await.len(), 0);
    without_indexes(&prefix).await;
    assert_eq!(keys(&format!("{{{prefix}}}:by*")).await.len(), 0);
}

#[tokio::test]
async fn building_meets_only_the_keys_of_its_own_store() {
    let prefix = format!("{}-[ab]*?", support::prefix());
    let ids = fill(&without_indexes(&prefix).await, 5).await;
    let other = format!("{}-axx", prefix.trim_end_matches("-[ab]*?"));
    fill(&with_indexes(&other).await, 5).await;
    let store = with_indexes(&prefix).await;
    assert_eq!(listed(&store, ListFilter::default()).await, ids);
    without_indexes(&prefix).await;
    assert_ne!(keys(&format!("{{{other}}}:by*")).await.len(), 0);
}

#[tokio::test]
async fn a_build_that_was_cut_short_is_begun_again() {
    let prefix = support::prefix();
    let ids = fill(&without_indexes(&prefix).await, 10).await;
    let client = redis::Client::open(support::url()).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let _: () = redis::cmd("HSET")
        .arg(format!("{{{prefix}}}:schema"))
        .arg("indexes")
        .arg("building")
        .query_async(&mut connection)
        .await
        .expect("the mark is written");
    let store = with_indexes(&prefix).await;
    assert_eq!(listed(&store, ListFilter::default()).await, ids);
}

#[tokio::test]
async fn a_member_whose_job_is_gone_is_passed_over_and_dropped() {
    let prefix = support::prefix();
    let store = with_indexes(&prefix).await;
    let ids = fill(&store, 6).await;
    let client = redis::Client::open(support::url()).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let _: u64 = redis::cmd("DEL")
        .arg(format!("{{{prefix}}}:job:{}", ids[2]))
        .query_async(&mut connection)
        .await
        .expect("a record is deleted behind the store's back");
    let rest: Vec<_> = ids.iter().filter(|id| **id != ids[2]).cloned().collect();
    assert_eq!(listed(&store, ListFilter::default()).await, rest);
    let members: usize = {
        let mut sum = 0;
        for queue in ["a", "b"] {
            let count: usize = redis::cmd("ZCARD")
                .arg(format!("{{{prefix}}}:byqueue:{queue}"))
                .query_async(&mut connection)
                .await
                .expect("a count");
            sum += count;
        }
        sum
    };
    assert_eq!(members, rest.len());
    // Nor does it stop the queue.
    let mut claimed = 0;
    for queue in ["a", "b"] {
        let request = mq_core::ClaimRequest {
            queue: queue.into(),
            names: ["one".into(), "two".into()].into(),
            token: mq_core::LockToken::random(),
            lock_for: std::time::Duration::from_secs(30),
            limit: 10,
        };
        claimed += store.claim(request).await.expect("a claim").jobs.len();
    }
    assert_eq!(claimed, rest.len());
}
