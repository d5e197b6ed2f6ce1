//! Calls that took effect and whose answers were lost.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, Mutex};

use mq_core::{AttemptOutcome, JobState, StoreHandle};
use mq_worker::{FailedRun, JobContext, SettledRun, Worker};
use support::*;
use tokio::sync::mpsc;

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_is_repeated_with_its_token_until_it_has_one() {
    let fixture = fixture().await;
    let faults = [Fault::After, Fault::Before, Fault::After, Fault::Panic];
    fixture.faults.script(Operation::Claim, faults);
    let ids = [
        fixture.enqueue(&Work { number: 0 }).await,
        fixture.enqueue(&Work { number: 1 }).await,
    ];
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |job: Work, _ctx: JobContext| {
            told.send(job.number).unwrap();
            async move { Ok(job.number) }
        })
        .start()
        .await
        .unwrap();
    for id in &ids {
        let job = fixture.finished(id).await;
        assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
        assert_eq!(fixture.outcomes(id).await, [AttemptOutcome::Completed]);
    }
    fixture.faults.called(Operation::Claim, 6).await;
    let claims = fixture.store.claims();
    assert!(
        claims[..5]
            .iter()
            .all(|claim| claim.token == claims[0].token)
    );
    assert_ne!(claims[5].token, claims[0].token);
    let started: Vec<_> = std::iter::from_fn(|| heard.try_recv().ok()).collect();
    assert_eq!(started, [0, 1]);
    assert_eq!(worker.stats().claims_repeated, 4);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_answers_is_repeated_after_the_length_of_a_lock() {
    let fixture = fixture().await;
    fixture.faults.script(Operation::Claim, [Fault::Hang]);
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let job = fixture.finished(&id).await;
    let waited = job.processed_at.unwrap().since(job.enqueued_at);
    assert!(waited >= secs(30) && waited < secs(31), "{waited:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_ack_whose_answer_was_lost_is_repeated_and_counts_as_settled_before() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::AckMany, [Fault::After, Fault::After]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let worker = fixture
        .worker()
        .after_ack(move |settled: &SettledRun<'_>| {
            hook.lock().unwrap().push(settled.acked.applied);
        })
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.faults.called(Operation::AckMany, 3).await;
    settle().await;
    assert_eq!(*seen.lock().unwrap(), [false]);
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    let stats = worker.stats();
    assert_eq!((stats.completed, stats.locks_lost), (1, 0));
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_acks_of_two_runs_of_one_job_never_share_a_call() {
    let fixture = fixture().await;
    // The first run's ack lands, and its answer is lost: the job is run again
    // while that ack waits to be repeated.
    fixture.faults.script(Operation::AckMany, [Fault::After]);
    let worker = fixture
        .worker()
        .register(|job: Write, ctx: JobContext| async move {
            match ctx.attempt() {
                1 => Err("once more".to_owned().into()),
                _ => Ok("x".repeat(job.length)),
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Write { length: 1 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Completed, 2));
    use AttemptOutcome::{Completed, Retried};
    assert_eq!(fixture.outcomes(&id).await, [Retried, Completed]);
    settle().await;
    let stats = worker.stats();
    assert_eq!(
        (stats.locks_lost, stats.retried, stats.completed),
        (0, 1, 1)
    );
    assert_eq!(fixture.store.ack_batches(), [1, 1, 1]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_is_repeated_and_settled() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::ReleaseMany, [Fault::After]);
    let worker = fixture
        .worker()
        .shutdown_grace(secs(0))
        .cancel_grace(secs(0))
        .register(|_job: Work, _ctx: JobContext| std::future::pending())
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty(), "{report:?}");
    assert_eq!(fixture.job(&id).await.state, JobState::Waiting);
    assert_eq!(fixture.faults.calls(Operation::ReleaseMany), 2);
}

#[tokio::test(start_paused = true)]
async fn an_ack_for_a_job_that_was_removed_is_settled() {
    use mq_core::{AdminOps, RunOps};
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .heartbeat_interval(secs(29))
        .register(move |job: Work, ctx: JobContext| {
            told.send(ctx).unwrap();
            async move {
                tokio::time::sleep(secs(1)).await;
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let lock = heard.recv().await.unwrap().lock().clone();
    let paused = mq_core::QueueSettings {
        paused: mq_core::Change::Set(true),
        ..Default::default()
    };
    let queue = "default".into();
    fixture.plain().set_queue(&queue, paused).await.unwrap();
    fixture.plain().release(lock).await.unwrap();
    assert!(fixture.plain().remove(&id).await.unwrap());
    fixture.faults.called(Operation::AckMany, 1).await;
    settle().await;
    let stats = worker.stats();
    assert_eq!(
        (stats.locks_lost, stats.refused, stats.completed),
        (0, 0, 0)
    );
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_had_landed_counts_although_its_job_has_run_elsewhere_since() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    // Its answer is lost, and another try comes only after the job's next run
    // has ended on another worker.
    let faults = [Fault::After, Fault::LateEffect(secs(20))];
    fixture.faults.script(Operation::AckMany, faults);
    let worker = fixture
        .worker()
        .on_failure(move |failed: FailedRun| {
            let told = told.clone();
            async move { told.send(failed).unwrap() }
        })
        .register(|_job: Fragile, _ctx: JobContext| async move { Err(Broken::Mendable(1).into()) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Fragile { number: 1 }).await;
    fixture.faults.called(Operation::AckMany, 1).await;
    worker.unregister::<Fragile>();
    let plain: StoreHandle = StoreHandle::bind(fixture.plain().clone()).await.unwrap();
    let other = Worker::builder(plain)
        .register(|_job: Fragile, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Completed);
    let failed = heard.recv().await.unwrap();
    assert_eq!(failed.id, id);
    let stats = worker.stats();
    assert_eq!((stats.retried, stats.locks_lost), (1, 0));
    other.shutdown().await;
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_had_landed_counts_although_its_job_was_deleted_at_once() {
    let fixture = fixture().await;
    let (failed, mut failures) = mpsc::unbounded_channel();
    let (settled, mut settles) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .on_failure(move |run: FailedRun| {
            failed.send(run.id).unwrap();
            async {}
        })
        .after_ack(move |run: &SettledRun<'_>| settled.send(run.acked.applied).unwrap())
        .register(|_job: Work, _ctx: JobContext| async move {
            Err(mq_core::Failure::new("as expected").into())
        })
        .start()
        .await
        .unwrap();
    fixture.faults.script(Operation::AckMany, [Fault::After]);
    let mut spec = spec(&Work { number: 1 });
    let none = mq_core::Retention {
        count: Some(0),
        age: None,
    };
    spec.keep = Some(mq_core::Keep {
        failed: Some(none),
        ..mq_core::Keep::default()
    });
    let id = fixture.enqueue_spec(spec).await;
    fixture.faults.called(Operation::AckMany, 2).await;
    assert_eq!(failures.recv().await, Some(id));
    assert_eq!(settles.recv().await, Some(false));
    assert_eq!(worker.stats().failed, 1);
    worker.shutdown().await;
}
