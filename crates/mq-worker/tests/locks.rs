//! Locks: kept while a run is under way, and what happens when one is lost.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{
    AdminOps, AttemptOutcome, ClaimRequest, JobId, JobState, Lock, LockToken, QueueSettings,
    RunOps, record, store::Change,
};
use mq_worker::{JobContext, OnLockLost, StopReason};
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Takes a running job's lock away, as if the worker had been silent for too
/// long, and keeps the job from being claimed again.
async fn steal(fixture: &Fixture, lock: &Lock) {
    let paused = QueueSettings {
        paused: Change::Set(true),
        ..QueueSettings::default()
    };
    fixture
        .plain()
        .set_queue(&"default".into(), paused)
        .await
        .unwrap();
    fixture.plain().release(lock.clone()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_longer_than_its_lock_keeps_it_by_heartbeats() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(3_600)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    // Every 10 s, as a third of the lock.
    let beats = fixture.faults.calls(Operation::ExtendLocks);
    assert!((359..=361).contains(&beats), "{beats}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_call_extends_all_locks_of_all_queues() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .default_concurrency(50)
        .register(|job: Work, ctx: JobContext| async move {
            ctx.cancelled().await;
            Ok(job.number)
        })
        .register(|job: Fragile, ctx: JobContext| async move {
            ctx.cancelled().await;
            Ok(job.number)
        })
        .shutdown_grace(secs(0))
        .start()
        .await
        .unwrap();
    for number in 0..40 {
        fixture.enqueue(&Work { number }).await;
        fixture.enqueue(&Fragile { number }).await;
    }
    fixture.faults.called(Operation::ExtendLocks, 1).await;
    assert_eq!(fixture.store.extended()[0].len(), 80);
    let report = worker.shutdown().await;
    assert_eq!(report.ended, 80);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_cancels_the_run_it_belonged_to_and_no_other() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .cancel_grace(secs(2))
        .register(move |job: Work, ctx: JobContext| {
            let (told, guard) = (told.clone(), Dropped(drops.clone()));
            async move {
                told.send(ctx.clone()).unwrap();
                let _guard = guard;
                if job.number == 1 {
                    tokio::time::sleep(secs(100)).await;
                    return Ok(1);
                }
                std::future::pending().await
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let neighbour = fixture.enqueue(&Work { number: 1 }).await;
    let ctx = heard.recv().await.unwrap();
    heard.recv().await.unwrap();
    assert_eq!(ctx.id(), &id);
    steal(&fixture, ctx.lock()).await;
    assert_eq!(ctx.cancelled().await, StopReason::LockLost);
    let signalled = Instant::now();
    let grace = dropped.recv().await.unwrap() - signalled;
    assert!((2_000..=2_001).contains(&grace.as_millis()), "{grace:?}");
    assert_eq!(exit(&fixture.finished(&neighbour).await), r#"{"ok":1}"#);
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Waiting, 0));
    assert_eq!(worker.stats().locks_lost, 1);
    assert_eq!(worker.in_flight(), 0);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn told_so_a_run_without_its_lock_finishes_and_has_its_ack_refused() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (done, mut finished) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .on_lock_lost(OnLockLost::Finish)
        .register(move |job: Work, ctx: JobContext| {
            let (told, done) = (told.clone(), done.clone());
            async move {
                told.send(ctx.clone()).unwrap();
                tokio::time::sleep(secs(60)).await;
                done.send(ctx.stop_reason()).unwrap();
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let ctx = heard.recv().await.unwrap();
    steal(&fixture, ctx.lock()).await;
    assert_eq!(finished.recv().await, Some(None));
    fixture.faults.called(Operation::AckMany, 1).await;
    settle().await;
    let stats = worker.stats();
    assert_eq!((stats.locks_lost, stats.completed), (1, 0));
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty());
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.exit), (JobState::Waiting, None));
}

#[tokio::test(start_paused = true)]
async fn a_lock_found_lost_only_by_the_ack_is_counted() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
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
    steal(&fixture, heard.recv().await.unwrap().lock()).await;
    fixture.faults.called(Operation::AckMany, 1).await;
    settle().await;
    assert_eq!(worker.stats().locks_lost, 1);
    assert_eq!(worker.stats().completed, 0);
    assert_eq!(fixture.job(&id).await.state, JobState::Waiting);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_progress_is_refused_learns_that_its_lock_is_lost() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (go, mut gone) = mpsc::unbounded_channel::<()>();
    let (answer, mut answered) = mpsc::unbounded_channel();
    let gone = std::sync::Arc::new(tokio::sync::Mutex::new(async move || gone.recv().await));
    let worker = fixture
        .worker()
        .heartbeat_interval(secs(29))
        .register(move |_job: Work, ctx: JobContext| {
            told.send(ctx.clone()).unwrap();
            let (answer, gone) = (answer.clone(), std::sync::Arc::clone(&gone));
            async move {
                (gone.lock().await)().await;
                let error = ctx.set_progress(&1).await.unwrap_err();
                answer.send((error, ctx.stop_reason())).unwrap();
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 0 }).await;
    steal(&fixture, heard.recv().await.unwrap().lock()).await;
    go.send(()).unwrap();
    let (error, reason) = answered.recv().await.unwrap();
    assert!(error.to_string().contains("the lock on job"), "{error}");
    assert_eq!(reason, Some(StopReason::LockLost));
    settle().await;
    assert_eq!(fixture.faults.calls(Operation::AckMany), 0);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_run_without_its_lock_does_no_harm_to_the_jobs_next_run_on_the_same_worker() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .on_lock_lost(OnLockLost::Finish)
        .register(move |_job: Work, ctx: JobContext| {
            told.send(ctx.clone()).unwrap();
            async move {
                tokio::time::sleep(secs(100)).await;
                assert_eq!(ctx.stop_reason(), None);
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let first = heard.recv().await.unwrap();
    tokio::time::sleep(secs(5)).await;
    fixture.plain().release(first.lock().clone()).await.unwrap();
    let second = heard.recv().await.unwrap();
    assert_ne!(first.lock(), second.lock());
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Completed, 1));
    assert_eq!(worker.stats().locks_lost, 1);
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    for locks in fixture.store.extended() {
        assert_eq!(locks.len(), 1, "no call may hold two locks of one job");
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn locks_whose_acks_are_on_their_way_are_extended_too() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::AckMany, [(); 100].map(|()| Fault::Before));
    let worker = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    // The tries took more than a whole lock.
    let took = job.finished_at.unwrap().since(job.enqueued_at);
    assert!(took > secs(40), "{took:?}");
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Completed]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_fails_is_repeated_long_before_the_lock_expires() {
    let fixture = fixture().await;
    fixture.faults.script(
        Operation::ExtendLocks,
        [Fault::Before, Fault::Hang, Fault::Panic],
    );
    let worker = fixture
        .worker()
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(100)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 0));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_late_is_repeated_before_anything_of_it_starts() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::Claim, [Fault::LateAnswer(secs(20))]);
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |job: Work, _ctx: JobContext| {
            told.send(Instant::now()).unwrap();
            async move { Ok(job.number) }
        })
        .start()
        .await
        .unwrap();
    fixture.finished(&id).await;
    let claims = fixture.store.claims();
    assert_eq!(claims[0].token, claims[1].token);
    heard.recv().await.unwrap();
    assert!(heard.try_recv().is_err());
    let job = fixture.job(&id).await;
    assert_eq!((job.attempts_made, job.stalled_count), (1, 0));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_lock_expired_before_the_claim_was_answered_is_not_started() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::Claim, [Fault::LateAnswer(secs(3_600))]);
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { panic!("its lock is another's") })
        .start()
        .await
        .unwrap();
    // Another worker recovers the job, and takes it.
    tokio::time::sleep(millis(29_999)).await;
    let other = take(&fixture, &id, 1).await;
    tokio::time::sleep(secs(10)).await;
    let claims = fixture.store.claims();
    assert_eq!(claims[0].token, claims[1].token);
    let acked = fixture
        .plain()
        .ack(mq_core::Ack {
            lock: other,
            outcome: mq_core::AckOutcome::Complete { exit: None },
        })
        .await;
    assert!(acked.unwrap().applied);
    worker.shutdown().await;
}

/// Claims a job as soon as its lock has expired, looking so often.
async fn take(fixture: &Fixture, id: &JobId, step: u64) -> Lock {
    loop {
        let recovered = fixture.plain().recover_stalled(9, 10).await.unwrap();
        if recovered.stalled.iter().any(|stalled| stalled.id == *id) {
            break;
        }
        tokio::time::sleep(millis(step)).await;
    }
    let token = LockToken::random();
    let request = ClaimRequest {
        queue: "default".into(),
        names: [record::JobSpec::new("work", "default", mq_core::RawJson::null()).name].into(),
        token: token.clone(),
        lock_for: secs(3_600),
        limit: 1,
    };
    let claim = fixture.plain().claim(request).await.unwrap();
    assert_eq!(claim.jobs.len(), 1);
    Lock {
        id: id.clone(),
        token,
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_begun_before_its_lock_may_have_expired_goes_back() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let first = fixture.enqueue(&Work { number: 0 }).await;
    let second = fixture.enqueue(&Work { number: 1 }).await;
    let worker = fixture
        .worker()
        .register(move |job: Work, ctx: JobContext| {
            told.send((job.number, ctx.lock().clone())).unwrap();
            async move {
                if job.number == 0 && ctx.attempt() == 1 {
                    // Stands for a runtime that is stuck for longer than a lock.
                    tokio::time::advance(secs(31)).await;
                }
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    fixture.finished(&first).await;
    fixture.finished(&second).await;
    let (number, lock) = heard.recv().await.unwrap();
    let (next, next_lock) = heard.recv().await.unwrap();
    assert_eq!((number, next), (0, 1));
    assert_ne!(lock.token, next_lock.token, "it was claimed again");
    assert_eq!(worker.stats().released, 1);
    assert_eq!(fixture.job(&second).await.stalled_count, 0);
    worker.shutdown().await;
}
