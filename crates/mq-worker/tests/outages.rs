//! Stores that are out of reach: at start, in the middle, at shutdown.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AttemptOutcome, JobState};
use mq_worker::JobContext;
use support::logs::Logs;
use support::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_worker_starts_while_its_store_is_down_and_works_once_it_is_up() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    fixture.faults.go_down();
    let id = fixture.enqueue(&Work { number: 3 }).await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(3_600)).await;
    assert_eq!(fixture.job(&id).await.state, JobState::Waiting);
    // At most every 2.5 s, once the waits have grown.
    let claims = fixture.faults.calls(Operation::Claim);
    assert!((700..1_500).contains(&claims), "{claims}");
    let up = Instant::now();
    fixture.faults.come_back();
    assert_eq!(exit(&fixture.finished(&id).await), r#"{"ok":3}"#);
    assert!(up.elapsed() <= secs(5), "{:?}", up.elapsed());
    // Within the longest wait, all that failed is asked for again.
    tokio::time::sleep(secs(5)).await;
    assert_eq!(logs.with("WARN").len(), 1, "{:?}", logs.with("WARN"));
    assert_eq!(logs.with("the store does not answer").len(), 1);
    assert_eq!(logs.with("the store answers again").len(), 1);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_in_the_middle_drops_nothing_and_counts_no_stall() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .default_concurrency(20)
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move {
            // Some end before, some during and some after the outage.
            tokio::time::sleep(secs(30) * job.number).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    tokio::time::sleep(secs(45)).await;
    fixture.faults.go_down();
    tokio::time::sleep(secs(300)).await;
    let late = fixture.enqueue(&Work { number: 0 }).await;
    fixture.faults.come_back();
    for (number, id) in ids.iter().enumerate() {
        let job = fixture.finished(id).await;
        assert_eq!(exit(&job), format!(r#"{{"ok":{number}}}"#));
        assert_eq!((job.attempts_made, job.stalled_count), (1, 0));
        assert_eq!(fixture.outcomes(id).await, [AttemptOutcome::Completed]);
    }
    fixture.finished(&late).await;
    assert_eq!(worker.stats().locks_lost, 0);
    assert_eq!(logs.with("WARN").len(), 1, "{:?}", logs.with("WARN"));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_outage_is_warned_of_once() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    for outages in 1..=3 {
        fixture.faults.go_down();
        tokio::time::sleep(secs(60)).await;
        fixture.faults.come_back();
        tokio::time::sleep(secs(60)).await;
        assert_eq!(logs.with("WARN").len(), outages);
        assert_eq!(logs.with("the store answers again").len(), outages);
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_in_time_although_the_store_is_down() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .shutdown_grace(secs(20))
        .cancel_grace(secs(5))
        .register(|job: Work, _ctx: JobContext| async move {
            match job.number {
                0 => Ok(0),
                _ => std::future::pending().await,
            }
        })
        .start()
        .await
        .unwrap();
    let hanging = fixture.enqueue(&Work { number: 1 }).await;
    fixture.in_state(&hanging, JobState::Active).await;
    fixture.faults.script(Operation::AckMany, [Fault::Hang]);
    let ended = fixture.enqueue(&Work { number: 0 }).await;
    fixture.faults.called(Operation::AckMany, 1).await;
    fixture.faults.go_down();
    let begun = Instant::now();
    let report = worker.shutdown().await;
    let took = begun.elapsed();
    assert!((secs(25)..=secs(31)).contains(&took), "{took:?}");
    let mut untold = report.untold;
    untold.sort();
    let mut expected = vec![hanging.clone(), ended];
    expected.sort();
    assert_eq!(untold, expected);
    assert_eq!((report.ended, report.released), (0, 0));
    // Nothing goes on after it.
    let calls = fixture.faults.calls(Operation::AckMany) + fixture.faults.calls(Operation::Claim);
    tokio::time::sleep(secs(600)).await;
    let later = fixture.faults.calls(Operation::AckMany) + fixture.faults.calls(Operation::Claim);
    assert_eq!(calls, later);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_during_the_shutdown_still_learns_how_runs_ended() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(10)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 6 }).await;
    fixture.in_state(&id, JobState::Active).await;
    fixture.faults.go_down();
    let shutdown = tokio::spawn(worker.shutdown());
    tokio::time::sleep(secs(12)).await;
    fixture.faults.come_back();
    let report = shutdown.await.unwrap();
    assert_eq!(report.ended, 1);
    assert!(report.untold.is_empty());
    assert_eq!(exit(&fixture.finished(&id).await), r#"{"ok":6}"#);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_claims_for_good_is_asked_again_and_said_so_once() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::Claim, [(); 10].map(|()| permanent()));
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    fixture.finished(&id).await;
    let errors = logs.with("ERROR");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("a table is missing"));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_ack_that_the_store_cannot_take_does_not_hold_up_the_others() {
    let fixture = fixture().await;
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let opened = std::sync::Arc::clone(&gate);
    let worker = fixture
        .worker()
        .register(move |job: Work, _ctx: JobContext| {
            let gate = std::sync::Arc::clone(&opened);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    fixture.in_state(&ids[2], JobState::Active).await;
    fixture.store.refuse_acks_of(Some(&ids[0]));
    let begun = Instant::now();
    gate.add_permits(4);
    // The batch fails as a whole; then each is acknowledged by itself.
    fixture.finished(&ids[1]).await;
    fixture.finished(&ids[2]).await;
    assert_eq!(fixture.store.ack_batches(), [3, 1, 1, 1]);
    // The first is told again for as long as a lock, then left to stall.
    while worker.stats().refused == 0 {
        tokio::time::sleep(secs(1)).await;
    }
    let tried = begun.elapsed();
    assert!((secs(30)..secs(40)).contains(&tried), "{tried:?}");
    fixture.store.refuse_acks_of(None);
    let job = fixture.finished(&ids[0]).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 1));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_one_operation_is_warned_of_once_too() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    fixture.faults.called(Operation::Claim, 1).await;
    let faults = vec![Fault::Before; 100];
    fixture.faults.script(Operation::Claim, faults);
    fixture.faults.called(Operation::Claim, 100).await;
    assert_eq!(logs.with("the store does not answer").len(), 1);
    assert_eq!(logs.with("the store answers again").len(), 0);
    tokio::time::sleep(secs(60)).await;
    assert_eq!(logs.with("the store answers again").len(), 1);
    assert_eq!(logs.with("WARN").len(), 1);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_heartbeats_for_good_is_said_so_once() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| std::future::pending())
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 1 }).await;
    let faults = vec![permanent(); 10];
    fixture.faults.script(Operation::ExtendLocks, faults);
    fixture.faults.called(Operation::ExtendLocks, 11).await;
    assert_eq!(logs.with("ERROR").len(), 1, "{:?}", logs.with("ERROR"));
    drop(worker);
}
