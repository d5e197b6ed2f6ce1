//! Claims whose answers come late: what may have lost its lock does not start.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{Ack, AckOutcome, ClaimRequest, JobId, JobName, Lock, LockToken, RunOps};
use mq_worker::JobContext;
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

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
        .ack(Ack {
            lock: other,
            outcome: AckOutcome::Complete { exit: None },
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
        names: [JobName::from("work")].into(),
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
