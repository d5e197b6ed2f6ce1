//! Waiting for jobs, and what they come to.

#![cfg(all(feature = "derive", feature = "memory"))]
#![allow(clippy::unwrap_used)]

mod client_support;

use std::task::Poll;
use std::time::Duration;

use client_support::{ack, claim, client, complete, fail};
use futures::future::join_all;
use futures::{FutureExt, poll};
use mq_core::{
    AckOutcome, Client, Defect, DefectKind, Job, JobHandle, Keep, MemoryStore, Outcome, Retention,
    StoreHandle,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(name = "add", output = u64, error = Overflow)]
struct Add(u64, u64);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Overflow {
    by: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "silent")]
struct Silent;

/// Runs the one job that waits.
async fn run(client: &Client, outcome: AckOutcome) {
    let [(_, lock)] = &claim(client, "default", "add").await[..] else {
        panic!("one job waits");
    };
    ack(client, lock.clone(), outcome).await;
}

async fn outcome_of(outcome: AckOutcome) -> Outcome<Add> {
    let (client, _, _) = client().await;
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    run(&client, outcome).await;
    handle.result().await.unwrap()
}

#[tokio::test]
async fn every_end_has_its_outcome() {
    let completed = outcome_of(complete(r#"{"ok":3}"#)).await;
    assert!(matches!(completed, Outcome::Completed(3)), "{completed:?}");
    assert_eq!(completed.completed().unwrap(), 3);

    let failed = outcome_of(fail(r#"{"err":{"by":7}}"#)).await;
    assert!(
        matches!(failed, Outcome::Failed(Overflow { by: 7 })),
        "{failed:?}"
    );
    assert!(failed.completed().is_err());

    let defect =
        |kind, message| format!(r#"{{"defect":{{"kind":"{kind}","message":"{message}"}}}}"#);
    let panicked = outcome_of(fail(&defect("panic", "oh"))).await;
    assert!(
        matches!(&panicked, Outcome::Panicked { message } if message == "oh"),
        "{panicked:?}"
    );
    let timed_out = outcome_of(fail(&defect("timeout", "30s"))).await;
    assert!(matches!(timed_out, Outcome::TimedOut), "{timed_out:?}");
    let too_large = outcome_of(fail(&defect("too-large", "2 MiB"))).await;
    let expected = Defect::new(DefectKind::TooLarge, "2 MiB");
    assert!(
        matches!(&too_large, Outcome::Defect(defect) if *defect == expected),
        "{too_large:?}"
    );

    let cancelled = outcome_of(AckOutcome::Cancelled).await;
    assert!(matches!(cancelled, Outcome::Cancelled), "{cancelled:?}");
}

#[tokio::test]
async fn a_result_of_another_release_is_handed_over_as_it_is() {
    for raw in [r#"{"ok":"three"}"#, r#"{"err":{}}"#, r#"{"maybe":1}"#] {
        let outcome = outcome_of(complete(raw)).await;
        let Outcome::Undecodable { raw: found, error } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(found.get(), raw);
        assert!(!error.to_string().is_empty());
    }
}

#[tokio::test]
async fn a_job_whose_workers_died_is_stalled() {
    let (client, _, clock) = client().await;
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    assert_eq!(claim(&client, "default", "add").await.len(), 1);
    clock.advance(Duration::from_secs(31));
    client.store().recover_stalled(0, 10).await.unwrap();
    let outcome = handle.result().await.unwrap();
    let Outcome::Stalled { reason } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("stall"), "{reason}");
}

#[tokio::test]
async fn a_job_that_is_unknown_is_gone() {
    let (client, _, _) = client().await;
    let handle: JobHandle<Add> = client.handle("never");
    assert!(matches!(handle.poll().await.unwrap(), Some(Outcome::Gone)));
    assert!(matches!(handle.result().await.unwrap(), Outcome::Gone));

    // Removed while somebody waits.
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    let mut result = Box::pin(handle.result());
    assert!(poll!(&mut result).is_pending());
    assert!(client.remove(handle.id()).await.unwrap());
    assert!(matches!(result.await.unwrap(), Outcome::Gone));
}

#[tokio::test]
async fn a_job_that_somebody_waits_for_is_kept_until_it_is_read() {
    let (client, _, _) = client().await;
    let none = Keep::all(Retention::count(0));
    let handle = client.enqueue(Add(1, 2)).keep(none).await.unwrap();
    let mut result = Box::pin(handle.result());
    assert!(poll!(&mut result).is_pending());
    run(&client, complete(r#"{"ok":3}"#)).await;
    let outcome = result.await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(3)), "{outcome:?}");
}

#[tokio::test]
async fn a_handler_that_returns_nothing_may_store_nothing() {
    let (client, _, _) = client().await;
    let handle = client.enqueue(Silent).await.unwrap();
    let (_, lock) = claim(&client, "default", "silent").await.remove(0);
    ack(&client, lock, AckOutcome::Complete { exit: None }).await;
    let outcome = handle.result().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(())), "{outcome:?}");
}

#[tokio::test]
async fn a_wait_ends_when_the_job_does() {
    let (client, _, _) = client().await;
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    assert!(handle.poll().await.unwrap().is_none());
    let mut result = Box::pin(handle.result());
    assert!(poll!(&mut result).is_pending());
    // Other jobs' ends are none of its business, nor is a run that fails.
    let other = client.enqueue(Silent).await.unwrap();
    other.cancel().await.unwrap();
    let retried = AckOutcome::Retry {
        delay: Duration::ZERO,
        exit: None,
    };
    run(&client, retried).await;
    assert!(poll!(&mut result).is_pending());
    run(&client, complete(r#"{"ok":3}"#)).await;
    assert!(matches!(result.await.unwrap(), Outcome::Completed(3)));
    let polled = handle.poll().await.unwrap();
    assert!(matches!(polled, Some(Outcome::Completed(3))));
}

#[tokio::test]
async fn waiting_can_be_spawned() {
    let (client, _, _) = client().await;
    let spawned = client.clone();
    let waits = tokio::spawn(async move {
        let handles = spawned.enqueue_many([Add(1, 2)]).await.unwrap();
        handles[0].result().await.unwrap().completed()
    });
    let lock = loop {
        match claim(&client, "default", "add").await.pop() {
            Some((_, lock)) => break lock,
            None => tokio::task::yield_now().await,
        }
    };
    ack(&client, lock, complete(r#"{"ok":3}"#)).await;
    assert_eq!(waits.await.unwrap().unwrap(), 3);
}

#[tokio::test]
async fn execute_enqueues_and_waits() {
    let (client, _, _) = client().await;
    let mut execute = Box::pin(client.execute(Add(1, 2)));
    assert!(poll!(&mut execute).is_pending());
    run(&client, complete(r#"{"ok":3}"#)).await;
    assert!(matches!(execute.await.unwrap(), Outcome::Completed(3)));
}

#[tokio::test]
async fn many_handles_share_their_calls() {
    const JOBS: u64 = 200;
    let (client, probe, _) = client().await;
    let handles = client
        .enqueue_many((0..JOBS).map(|n| Add(n, 0)))
        .await
        .unwrap();
    probe.hold();
    // Several handles on one job, and several jobs.
    let twice = handles.iter().chain(&handles).map(JobHandle::result);
    let mut results = Box::pin(join_all(twice));
    assert!(poll!(&mut results).is_pending());
    let sets = (2 * JOBS).div_ceil(250) as usize + 1;
    probe.let_through(sets);
    assert!(poll!(&mut results).is_pending());
    // One that found nothing in flight, and full batches.
    assert_eq!(probe.watches(), sets);

    for (job, lock) in claim(&client, "default", "add").await {
        let Add(n, _) = job.spec.payload.decode().unwrap();
        ack(&client, lock, complete(&format!(r#"{{"ok":{n}}}"#))).await;
    }
    let results = loop {
        if let Poll::Ready(results) = poll!(&mut results) {
            break results;
        }
        // One call at a time, so that the next batch gathers.
        probe.let_through(1);
        tokio::task::yield_now().await;
    };
    assert!(probe.watches() <= 3 * sets, "{}", probe.watches());
    assert!(probe.reads() <= 2 * sets, "{}", probe.reads());
    for (result, n) in results.into_iter().zip((0..JOBS).chain(0..JOBS)) {
        assert_eq!(result.unwrap().completed().unwrap(), n);
    }
}

#[tokio::test]
async fn who_stops_waiting_takes_nothing_from_the_others() {
    let (client, _, _) = client().await;
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    let mut stays = Box::pin(handle.result());
    {
        let mut first = Box::pin(handle.result());
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut stays).is_pending());
    }
    run(&client, complete(r#"{"ok":3}"#)).await;
    assert!(matches!(stays.await.unwrap(), Outcome::Completed(3)));
}

#[tokio::test]
async fn an_outage_ends_the_wait_with_an_error_after_which_it_may_begin_again() {
    let (client, probe, _) = client().await;
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    let mut result = Box::pin(handle.result());
    assert!(poll!(&mut result).is_pending());
    probe.set_down(true);
    run(&client, complete(r#"{"ok":3}"#)).await;
    assert!(result.await.unwrap_err().is_transient());
    assert!(handle.result().await.unwrap_err().is_transient());
    assert!(handle.poll().await.unwrap_err().is_transient());
    probe.set_down(false);
    let outcome = handle.result().await.unwrap();
    assert!(matches!(outcome, Outcome::Completed(3)), "{outcome:?}");
}

#[tokio::test]
async fn a_job_that_is_retried_is_waited_for_again() {
    let (client, _, _) = client().await;
    let handle = client.enqueue(Add(1, 2)).await.unwrap();
    run(&client, fail(r#"{"err":{"by":7}}"#)).await;
    let failed = handle.result().await.unwrap();
    assert!(matches!(failed, Outcome::Failed(_)), "{failed:?}");
    handle.retry().await.unwrap();
    assert!(handle.poll().await.unwrap().is_none());
    let mut result = Box::pin(handle.result());
    assert!(poll!(&mut result).is_pending());
    run(&client, complete(r#"{"ok":3}"#)).await;
    assert!(matches!(result.await.unwrap(), Outcome::Completed(3)));
}

#[test]
fn no_runtime_is_needed() {
    let store = futures::executor::block_on(StoreHandle::bind(MemoryStore::new()));
    let client: Client = store.unwrap().client();
    let enqueued = client.enqueue(Add(1, 2)).into_future().now_or_never();
    let handle = enqueued.unwrap().unwrap();
    let waiting = std::thread::spawn(move || futures::executor::block_on(handle.result()));
    futures::executor::block_on(run(&client, complete(r#"{"ok":3}"#)));
    let outcome = waiting.join().unwrap().unwrap();
    assert!(matches!(outcome, Outcome::Completed(3)), "{outcome:?}");
}
