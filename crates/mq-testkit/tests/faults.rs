//! The fault-injecting store does what it says.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mq_core::layer::Operation;
use mq_core::*;
use mq_testkit::{Fault, Faults, FaultyStore};

fn job(id: &str) -> NewJob {
    let mut job = NewJob::new(JobSpec::new("job", "queue", RawJson::null()));
    job.id = Some(id.into());
    job
}

async fn exists(store: &impl Store, id: &str) -> bool {
    store.get_job(&id.into()).await.unwrap().is_some()
}

#[tokio::test]
async fn a_fault_before_the_effect_leaves_nothing_behind() {
    let faults = Faults::none();
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    faults.script(Operation::EnqueueMany, [Fault::Before]);
    assert!(store.enqueue(job("a")).await.unwrap_err().is_transient());
    assert!(!exists(&store, "a").await);
}

#[tokio::test]
async fn a_fault_after_the_effect_loses_only_the_answer() {
    let faults = Faults::none();
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    faults.script(Operation::EnqueueMany, [Fault::After]);
    assert!(store.enqueue(job("a")).await.unwrap_err().is_transient());
    assert!(exists(&store, "a").await);
}

#[tokio::test]
async fn scripted_faults_apply_one_call_each_to_their_operation_only() {
    let faults = Faults::none();
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    faults.script(Operation::Now, [Fault::None, Fault::Before]);
    store.counts(None).await.unwrap();
    assert!(store.now().await.is_ok());
    assert!(store.now().await.is_err());
    assert!(store.now().await.is_ok());
    assert_eq!(faults.calls(Operation::Now), 3);
}

#[tokio::test]
async fn an_outage_fails_every_call_until_it_ends() {
    let faults = Faults::none();
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    faults.go_down();
    assert!(store.now().await.unwrap_err().is_transient());
    assert!(store.enqueue(job("a")).await.is_err());
    faults.come_back();
    assert!(!exists(&store, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_hold_stops_calls_before_their_effect() {
    let faults = Faults::none();
    let memory = MemoryStore::new();
    let store = FaultyStore::new(memory.clone(), &faults);
    let hold = faults.hold(Operation::EnqueueMany);
    let call = tokio::spawn(async move { store.enqueue(job("a")).await });
    hold.reached().await;
    assert!(!exists(&memory, "a").await);
    drop(hold);
    call.await.unwrap().unwrap();
    assert!(exists(&memory, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_wake_up_never_arrives() {
    let faults = Faults::seeded(1).lose_wakes(1.0);
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    let queue = QueueName::from("queue");
    let claim = ClaimRequest {
        queue: queue.clone(),
        names: [JobName::from("job")].into(),
        token: LockToken::random(),
        lock_for: Duration::from_secs(1),
        limit: 1,
    };
    let wake = store.claim(claim).await.unwrap().wake;
    store.enqueue(job("a")).await.unwrap();
    let waited = tokio::time::timeout(
        Duration::from_secs(3600),
        store.await_wake(std::slice::from_ref(&queue), wake),
    );
    assert!(waited.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn effects_and_answers_come_late_by_the_time_asked_for() {
    let late = Duration::from_secs(5);
    let faults = Faults::none();
    let memory = MemoryStore::new();
    let store = FaultyStore::new(memory.clone(), &faults);
    faults.script(
        Operation::EnqueueMany,
        [Fault::LateEffect(late), Fault::LateAnswer(late)],
    );
    for (id, exists_at_once) in [("a", false), ("b", true)] {
        let start = tokio::time::Instant::now();
        let call = store.enqueue(job(id));
        tokio::pin!(call);
        tokio::time::timeout(late / 2, &mut call).await.unwrap_err();
        assert_eq!(exists(&memory, id).await, exists_at_once);
        call.await.unwrap();
        assert_eq!(start.elapsed(), late);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_has_no_effect_and_no_answer() {
    let faults = Faults::none();
    let memory = MemoryStore::new();
    let store = FaultyStore::new(memory.clone(), &faults);
    faults.script(Operation::EnqueueMany, [Fault::Hang]);
    let call = tokio::time::timeout(Duration::from_secs(3600), store.enqueue(job("a")));
    assert!(call.await.is_err());
    assert!(!exists(&memory, "a").await);
}

#[tokio::test]
async fn a_scripted_error_is_the_answer() {
    let faults = Faults::none();
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    let error = StoreError::NotFound { id: "x".into() };
    faults.script(Operation::Now, [Fault::Error(error.clone())]);
    let answer = store.now().await.unwrap_err();
    assert_eq!(answer.to_string(), error.to_string());
}

#[tokio::test]
async fn the_number_of_calls_can_be_waited_for() {
    let faults = Faults::none();
    let store = FaultyStore::new(MemoryStore::new(), &faults);
    let (_, answer) = tokio::join!(faults.called(Operation::Now, 2), async {
        store.now().await?;
        store.now().await
    });
    answer.unwrap();
    assert_eq!(faults.calls(Operation::Now), 2);
}

#[tokio::test]
async fn chance_follows_its_seed_and_its_shares() {
    let outcomes = |seed| async move {
        let faults = Faults::seeded(seed).fail_before(0.2).fail_after(0.2);
        let store = FaultyStore::new(MemoryStore::new(), &faults);
        let mut failed = Vec::new();
        for _ in 0..1_000 {
            failed.push(store.now().await.is_err());
        }
        failed
    };
    let first = outcomes(7).await;
    assert_eq!(first, outcomes(7).await);
    assert_ne!(first, outcomes(8).await);
    let failures = first.iter().filter(|failed| **failed).count();
    assert!((300..500).contains(&failures), "{failures} of 1,000 failed");
}
