//! Waiting for wake-ups: none is lost, and none comes without a reason.

use futures::future::poll_immediate;

use super::wake::{queue, wakes, woken};
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, NO_JOBS, QUEUE, job, request, retry_in};
use crate::contract::steps::ids;
use crate::id::QueueName;
use crate::record::JobState;
use crate::store::ClaimRequest;

cases! { __contract_run_wait, run::wait:
    a_wake_up_between_claim_and_wait_is_not_lost,
    a_cursor_serves_any_number_of_waits,
    a_wake_up_crosses_handles,
    every_waiter_is_woken,
    one_of_several_queues_is_enough,
    another_queues_wake_up_is_no_reason,
    a_wait_that_is_dropped_loses_nothing,
    a_worker_that_only_waits_for_wake_ups_gets_every_job,
    a_broken_queue_name_is_refused,
}

/// The job came after the claim that found nothing, and before the wait.
async fn a_wake_up_between_claim_and_wait_is_not_lost(fx: Fixture) {
    let claim = fx.claim(1).await;
    assert_eq!(ids(&claim.jobs), NO_JOBS);
    fx.second().await.enqueue(job()).await;
    woken(&fx, claim.wake, "a job from another handle").await;
    assert_eq!(fx.claim_ids(1).await.len(), 1);
}

/// Waiting from the same place again returns again.
async fn a_cursor_serves_any_number_of_waits(fx: Fixture) {
    let wake = fx.wake_cursor().await;
    fx.enqueue(job()).await;
    for _ in 0..3 {
        woken(&fx, wake, "a job").await;
    }
}

/// In both directions.
async fn a_wake_up_crosses_handles(fx: Fixture) {
    let second = fx.second().await;
    wakes(&fx, "a job of the second handle", second.enqueue(job())).await;
    wakes(&second, "a job of the first handle", fx.enqueue(job())).await;
}

/// Each may be the one that has room.
async fn every_waiter_is_woken(fx: Fixture) {
    let second = fx.second().await;
    let handles = [fx.clone(), fx.clone(), second.clone(), second];
    let mut waiting = Vec::new();
    for handle in handles {
        let wake = handle.wake_cursor().await;
        waiting.push(tokio::spawn(async move {
            woken(&handle, wake, "one job").await
        }));
    }
    fx.enqueue(job()).await;
    for waiter in waiting {
        if let Err(error) = waiter.await {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// A worker of several queues waits for all of them at once.
async fn one_of_several_queues_is_enough(fx: Fixture) {
    let queues = ["a", "b", "c"].map(QueueName::from);
    for queue in &queues {
        let wake = fx.wake_cursor().await;
        let mut waiting = fx.store.await_wake(&queues, wake);
        let parked = poll_immediate(&mut waiting).await.is_none();
        fx.enqueue(job().queue(queue)).await;
        if parked {
            fx.within("a wake-up of one queue", waiting).await.must();
        }
        fx.within(
            "a wake-up since the cursor",
            fx.store.await_wake(&queues, wake),
        )
        .await
        .must();
    }
}

/// Once the other queue's waiter has been woken, this one's still waits.
async fn another_queues_wake_up_is_no_reason(fx: Fixture) {
    let wake = fx.wake_cursor().await;
    let (ours, theirs) = (queue(), [QueueName::from("other")]);
    let mut waiting = fx.store.await_wake(&ours, wake);
    assert!(
        poll_immediate(&mut waiting).await.is_none(),
        "woken before anything happened"
    );
    let second = fx.second().await;
    for other in [job().queue("other"), job().queue("other").delay(5)] {
        second.enqueue(other).await;
    }
    let request = ClaimRequest {
        queue: "other".into(),
        ..request(1)
    };
    let lock = second.claim_locks(request).await.remove(0);
    second.ack(&lock, retry_in(0)).await;
    fx.within(
        "the other queue's wake-up",
        fx.store.await_wake(&theirs, wake),
    )
    .await
    .must();
    assert!(
        poll_immediate(&mut waiting).await.is_none(),
        "woken by another queue"
    );
    drop(waiting);
    let mut again = fx.store.await_wake(&ours, wake);
    assert!(
        poll_immediate(&mut again).await.is_none(),
        "woken by another queue, afterwards"
    );
}

/// Giving up waiting, before the wake-up or after it, does not use it up.
async fn a_wait_that_is_dropped_loses_nothing(fx: Fixture) {
    let wake = fx.wake_cursor().await;
    let queues = queue();
    let mut dropped = fx.store.await_wake(&queues, wake);
    let _ = poll_immediate(&mut dropped).await;
    drop(dropped);
    let mut dropped = fx.store.await_wake(&queues, wake);
    let _ = poll_immediate(&mut dropped).await;
    fx.second().await.enqueue(job()).await;
    drop(dropped);
    woken(&fx, wake, "a job while a wait was dropped").await;
}

/// Workers that claim until there is nothing and then wait, and nothing else,
/// are never left waiting while a job is there.
async fn a_worker_that_only_waits_for_wake_ups_gets_every_job(fx: Fixture) {
    const JOBS: usize = 200;
    let second = fx.second().await;
    let producer = tokio::spawn({
        let fx = fx.clone();
        async move {
            for number in 0..JOBS {
                fx.enqueue(job().payload(number.to_string())).await;
                if number % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let mut seen = Vec::new();
    while seen.len() < JOBS {
        let claim = second.claim(10).await;
        if claim.jobs.is_empty() {
            woken(&second, claim.wake, "one of a stream of jobs").await;
        }
        seen.extend(
            claim
                .jobs
                .into_iter()
                .map(|job| job.spec.payload.get().to_owned()),
        );
    }
    if let Err(error) = producer.await {
        std::panic::resume_unwind(error.into_panic());
    }
    let expected: Vec<_> = (0..JOBS).map(|number| number.to_string()).collect();
    assert_eq!(seen, expected);
    fx.expect_count(JobState::Active, JOBS as u64).await;
}

/// A name that no queue can have is an error, not an endless wait.
async fn a_broken_queue_name_is_refused(fx: Fixture) {
    let wake = fx.wake_cursor().await;
    for queue in ["", "a\0b"] {
        let queues = [QueueName::from(QUEUE), queue.into()];
        let answer = fx
            .within("a refusal", fx.store.await_wake(&queues, wake))
            .await;
        expect_refused(answer, "queue name");
    }
}
