//! Flows: what is filed where, and in which order sweepers get it.

use super::{claim, complete, job, store};
use crate::id::{ChildKey, JobId, LockToken};
use crate::memory::MemoryStore;
use crate::record::{FlowChild, JobState, NewJob, Report, ReportOutcome};
use crate::store::{Ack, AckOutcome, AdminOps, EnqueueOps, FlowOps, InspectOps, Lock, RunOps};
use crate::time::{ManualClock, Timestamp};
use std::time::Duration;

fn children(keys: impl IntoIterator<Item = String>) -> Vec<FlowChild> {
    let child = |key: String| FlowChild {
        job: NewJob {
            id: Some(JobId::from(format!("child/{key}"))),
            ..job("child", "q")
        },
        store: "other".into(),
        key: ChildKey::from(key),
    };
    keys.into_iter().map(child).collect()
}

/// A parked parent of this name with so many children, and its manifest.
async fn parked(store: &MemoryStore, name: &str, count: usize) -> (JobId, LockToken) {
    let id = store.enqueue(job(name, "q")).await.unwrap().id;
    let request = claim("q", 1);
    let token = request.token.clone();
    assert_eq!(store.claim(request).await.unwrap().jobs[0].id, id);
    let children = children((0..count).map(|number| format!("{number:06}")));
    let fan_out = Ack {
        lock: Lock {
            id: id.clone(),
            token: token.clone(),
        },
        outcome: AckOutcome::FanOut {
            fail_fast: false,
            children,
        },
    };
    assert!(store.ack(fan_out).await.unwrap().applied);
    check(store);
    (id, token)
}

fn check(store: &MemoryStore) {
    store.shared.state.lock().check();
}

/// All that is due, and how many calls it took.
async fn drain(store: &MemoryStore, clock: &ManualClock) -> (usize, usize, usize) {
    clock.advance(Duration::from_secs(1));
    let (mut reconcile, mut cascade, mut calls) = (0, 0, 0);
    loop {
        let work = store
            .flow_sweep_work(Duration::from_secs(1), 250)
            .await
            .unwrap();
        check(store);
        calls += 1;
        reconcile += work.reconcile.len();
        cascade += work.cascade.len();
        if !work.more {
            return (reconcile, cascade, calls);
        }
    }
}

#[tokio::test]
async fn the_indexes_follow_a_flow_through_its_life() {
    let (store, clock) = store();
    let (id, manifest) = parked(&store, "a", 600).await;
    assert_eq!(drain(&store, &clock).await, (600, 0, 3));
    let report = |number: usize, outcome| Report {
        flow_id: id.clone(),
        manifest: manifest.clone(),
        child_key: format!("{number:06}").into(),
        outcome,
        exit: None,
        failed_reason: None,
    };
    let first = (0..100).map(|number| report(number, ReportOutcome::Completed));
    store.record_child_results(first.collect()).await.unwrap();
    check(&store);
    assert_eq!(drain(&store, &clock).await, (500, 0, 2));
    store.cancel(&id).await.unwrap();
    check(&store);
    assert_eq!(drain(&store, &clock).await, (0, 500, 2));
    let keys: Vec<ChildKey> = (0..600)
        .map(|number| format!("{number:06}").into())
        .collect();
    store
        .mark_children_cascaded(&id, &manifest, &keys[..300])
        .await
        .unwrap();
    check(&store);
    assert_eq!(drain(&store, &clock).await, (0, 300, 2));
    store
        .mark_children_cascaded(&id, &manifest, &keys)
        .await
        .unwrap();
    assert_eq!(drain(&store, &clock).await, (0, 0, 1));
    assert!(store.remove(&id).await.unwrap());
    store.shared.state.lock().check_empty_of_jobs();
}

#[tokio::test]
async fn a_removed_flow_leaves_nothing_behind() {
    let (store, clock) = store();
    for _ in 0..3 {
        let (id, _) = parked(&store, "a", 10).await;
        assert_eq!(drain(&store, &clock).await.0, 10);
        store.cancel(&id).await.unwrap();
        assert!(store.remove(&id).await.unwrap());
        check(&store);
        assert_eq!(drain(&store, &clock).await, (0, 0, 1));
    }
    store.shared.state.lock().check_empty_of_jobs();
}

#[tokio::test]
async fn a_run_that_ends_in_a_page_with_a_fan_out_ends_first() {
    let (store, _) = store();
    for name in ["a", "b"] {
        store.enqueue(job(name, "q")).await.unwrap();
    }
    let request = claim("q", 2);
    let jobs = store.claim(request.clone()).await.unwrap().jobs;
    let lock = |place: usize| Lock {
        id: jobs[place].id.clone(),
        token: request.token.clone(),
    };
    store.cancel(&jobs[0].id).await.unwrap();
    let fan_out = Ack {
        lock: lock(0),
        outcome: AckOutcome::FanOut {
            fail_fast: false,
            children: children(["x".into()]),
        },
    };
    for answer in store
        .ack_many(vec![fan_out, complete(lock(1))])
        .await
        .unwrap()
    {
        assert!(answer.unwrap().applied);
    }
    check(&store);
    let counts = store.counts(None).await.unwrap();
    assert_eq!(counts.of(JobState::Cancelled), 1);
    let state = store.shared.state.lock();
    let seq = |place: usize| state.jobs[state.slot_of(&jobs[place].id).unwrap()].seq;
    assert!(
        seq(1) < seq(0),
        "the fan-out, which a cancel raced, ended last"
    );
}

#[tokio::test]
async fn at_the_last_instant_rows_rest_like_at_any_other() {
    let (store, clock) = store();
    let (open, _) = parked(&store, "a", 3).await;
    let (closed, _) = parked(&store, "a", 3).await;
    store.cancel(&closed).await.unwrap();
    clock.set(Timestamp::MAX);
    assert_eq!(drain(&store, &clock).await, (3, 3, 1));
    assert_eq!(drain(&store, &clock).await, (0, 0, 1));
    // Parked when no age can pass any more.
    let (late, _) = parked(&store, "b", 3).await;
    assert_eq!(drain(&store, &clock).await, (0, 0, 1));
    store.cancel(&late).await.unwrap();
    assert_eq!(drain(&store, &clock).await, (0, 3, 1));
    assert_eq!(drain(&store, &clock).await, (0, 0, 1));
    store.cancel(&open).await.unwrap();
    assert_eq!(drain(&store, &clock).await, (0, 3, 1));
}
