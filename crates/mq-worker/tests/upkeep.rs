//! The history sweep and worker records.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AdminOps, InspectOps, Keep, Retention, WorkerRecord};
use mq_worker::JobContext;
use support::*;

async fn workers(fixture: &Fixture) -> Vec<WorkerRecord> {
    fixture.plain().workers().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_are_deleted_when_their_retention_is_over() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .history_interval(secs(60))
        .default_concurrency(1_000)
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Work { number: 1 });
    spec.keep = Some(Keep::all(Retention::age(secs(100))));
    let mut ids = Vec::new();
    for _ in 0..600 {
        ids.push(fixture.enqueue_spec(spec.clone()).await);
    }
    let forever = fixture.enqueue(&Work { number: 2 }).await;
    tokio::time::sleep(secs(90)).await;
    assert_eq!(fixture.plain().counts(None).await.unwrap().completed, 601);
    tokio::time::sleep(secs(40)).await;
    // In one round, page after page.
    assert_eq!(fixture.plain().counts(None).await.unwrap().completed, 1);
    assert!(fixture.plain().get_job(&forever).await.unwrap().is_some());
    assert_eq!(worker.stats().swept, 600);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_reports_itself_at_start_and_then_again_and_again() {
    let fixture = fixture().await;
    tokio::time::sleep(secs(7)).await;
    let worker = fixture
        .worker()
        .id("worker-1")
        .version("1.2.3")
        .queue("bulk")
        .report_interval(secs(10))
        .register(|_job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(15)).await;
            Ok(1)
        })
        .start()
        .await
        .unwrap();
    assert_eq!(*worker.id(), *"worker-1");
    fixture.enqueue(&Work { number: 1 }).await;
    fixture.enqueue(&Work { number: 2 }).await;
    tokio::time::sleep(secs(11)).await;
    let started_at = mq_core::Timestamp::from_millis(BEGIN + 7_000).unwrap();
    let [record] = <[_; 1]>::try_from(workers(&fixture).await).unwrap();
    assert_eq!(record.id, *"worker-1");
    assert!(!record.host.is_empty());
    assert_eq!(record.version, "1.2.3");
    assert_eq!(record.queues, ["bulk", "default"]);
    assert_eq!(record.in_flight, 2);
    assert_eq!(record.started_at, started_at);
    tokio::time::sleep(secs(10)).await;
    let [record] = <[_; 1]>::try_from(workers(&fixture).await).unwrap();
    assert_eq!((record.in_flight, record.started_at), (0, started_at));
    assert!(record.last_seen_at.since(started_at) >= secs(20));
    worker.shutdown().await;
    // Nothing is removed; the store forgets.
    assert_eq!(workers(&fixture).await.len(), 1);
    tokio::time::sleep(secs(61)).await;
    assert!(workers(&fixture).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn workers_draw_ids_of_their_own_from_host_process_and_chance() {
    let fixture = fixture().await;
    let start = async || {
        let builder = fixture.worker();
        builder
            .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
            .start()
            .await
            .unwrap()
    };
    let (one, other) = (start().await, start().await);
    assert_ne!(one.id(), other.id());
    let process = format!("-{}-", std::process::id());
    assert!(one.id().contains(&process), "{}", one.id());
    fixture.faults.called(Operation::ReportWorker, 2).await;
    settle().await;
    assert_eq!(workers(&fixture).await.len(), 2);
    one.shutdown().await;
    other.shutdown().await;
}
