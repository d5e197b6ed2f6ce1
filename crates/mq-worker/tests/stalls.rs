//! Jobs whose worker died.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{
    AttemptOutcome, ClaimRequest, EnqueueOps, JobId, JobState, LockToken, NewJob, RunOps,
};
use mq_worker::{FailedRun, FailureCause, FailureOutcome, JobContext, Worker};
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Claims jobs, and dies.
async fn die_with(fixture: &Fixture, queue: &str, names: &[&str], limit: u32) -> usize {
    let request = ClaimRequest {
        queue: queue.into(),
        names: names.iter().map(|&name| name.into()).collect(),
        token: LockToken::random(),
        lock_for: secs(10),
        limit,
    };
    fixture.plain().claim(request).await.unwrap().jobs.len()
}

#[tokio::test(start_paused = true)]
async fn the_first_sweep_comes_one_lock_after_the_first_contact_at_start() {
    let fixture = fixture().await;
    let id = fixture.enqueue(&Work { number: 1 }).await;
    assert_eq!(die_with(&fixture, "default", &["work"], 1).await, 1);
    tokio::time::sleep(secs(60)).await;
    fixture.faults.go_down();
    let worker = fixture
        .worker()
        .lock_duration(secs(30))
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(100)).await;
    assert_eq!(fixture.faults.calls(Operation::RecoverStalled), 0);
    fixture.faults.come_back();
    fixture.faults.script(Operation::ReportWorker, []);
    let up = Instant::now();
    fixture.faults.called(Operation::RecoverStalled, 1).await;
    let waited = up.elapsed();
    assert!((secs(30)..secs(36)).contains(&waited), "{waited:?}");
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Completed, 1));
    assert_eq!(worker.stats().stalls_requeued, 1);
    use AttemptOutcome::{Completed, Stalled};
    assert_eq!(fixture.outcomes(&id).await, [Stalled, Completed]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_nobodys_live_jobs_are_called_stalled() {
    let fixture = fixture().await;
    let builder = || {
        fixture.worker().stalled_interval(secs(1)).register(
            |job: Work, _ctx: JobContext| async move {
                tokio::time::sleep(secs(400)).await;
                Ok(job.number)
            },
        )
    };
    let one = builder().start().await.unwrap();
    let other = builder().start().await.unwrap();
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    tokio::time::sleep(secs(60)).await;
    fixture.faults.go_down();
    // All locks expire, and nobody can extend them.
    tokio::time::sleep(secs(200)).await;
    fixture.faults.come_back();
    for id in &ids {
        let job = fixture.finished(id).await;
        assert_eq!((job.attempts_made, job.stalled_count), (1, 0));
    }
    assert_eq!(one.stats().locks_lost + other.stats().locks_lost, 0);
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_poison_job_ends_failed_and_its_neighbours_do_not() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .max_stalled_count(2)
        .stalled_interval(secs(5))
        .on_failure(move |failed: FailedRun| {
            let told = told.clone();
            async move { told.send(failed).unwrap() }
        })
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    // Each process that takes it dies: the worker itself serves other names.
    let mut poison = spec(&Work { number: 0 });
    poison.name = "poison".into();
    let id = fixture.enqueue_spec(poison).await;
    let neighbour = fixture.enqueue(&Work { number: 1 }).await;
    for stalls in 1..=3 {
        assert_eq!(die_with(&fixture, "default", &["poison"], 1).await, 1);
        fixture
            .faults
            .called(
                Operation::RecoverStalled,
                fixture.faults.calls(Operation::RecoverStalled) + 1,
            )
            .await;
        while fixture.job(&id).await.stalled_count < stalls {
            tokio::time::sleep(secs(1)).await;
        }
    }
    let job = fixture.job(&id).await;
    assert_eq!((job.state, exit(&job)), (JobState::Failed, ""));
    assert!(job.failed_reason.is_some());
    use AttemptOutcome::Stalled;
    assert_eq!(fixture.outcomes(&id).await, [Stalled, Stalled, Stalled]);
    let failed = heard.recv().await.unwrap();
    assert_eq!(failed.id, id);
    assert_eq!(failed.name, "poison");
    assert_eq!(failed.queue, "default");
    assert_eq!(failed.cause, FailureCause::Stalled);
    assert_eq!(failed.outcome, FailureOutcome::Failed);
    assert!(
        heard.try_recv().is_err(),
        "stalls that are run again are no failures"
    );
    let neighbour = fixture.finished(&neighbour).await;
    assert_eq!(
        (neighbour.state, neighbour.stalled_count),
        (JobState::Completed, 0)
    );
    let stats = worker.stats();
    assert_eq!((stats.stalls_requeued, stats.stalls_failed), (2, 1));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_goes_on_until_no_expired_lock_is_left() {
    let fixture = fixture().await;
    let jobs = (0..1_000).map(|number| NewJob::new(spec(&Work { number })));
    let enqueued = fixture.plain().enqueue_many(jobs.collect()).await.unwrap();
    for _ in 0..4 {
        assert_eq!(die_with(&fixture, "default", &["work"], 250).await, 250);
    }
    let worker = fixture
        .worker()
        .stalled_interval(secs(3_600))
        .default_concurrency(1_000)
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let ids: Vec<JobId> = enqueued.into_iter().map(|enqueued| enqueued.id).collect();
    for id in &ids {
        assert_eq!(fixture.finished(id).await.stalled_count, 1);
    }
    assert_eq!(worker.stats().stalls_requeued, 1_000);
    worker.shutdown().await;
}

/// A worker that looks for stalled jobs all the time, past its first sweep,
/// and a job that it runs for long.
async fn running_long(fixture: &Fixture, heartbeats: std::time::Duration) -> (Worker, JobId) {
    let worker = fixture
        .worker()
        .lock_duration(secs(30))
        .heartbeat_interval(heartbeats)
        .stalled_interval(secs(1))
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(3_600)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    // Claimed soon after a heartbeat.
    tokio::time::sleep(secs(51)).await;
    let id = fixture.enqueue(&Work { number: 1 }).await;
    fixture.in_state(&id, JobState::Active).await;
    (worker, id)
}

async fn is_alive(fixture: &Fixture, worker: &Worker, id: &JobId) {
    let job = fixture.job(id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Active, 0));
    let stats = worker.stats();
    assert_eq!((stats.locks_lost, stats.stalls_requeued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_frozen_does_not_call_its_own_live_jobs_stalled() {
    for frozen in [31, 45, 3_000] {
        let fixture = fixture().await;
        let (worker, id) = running_long(&fixture, secs(10)).await;
        tokio::time::advance(secs(frozen)).await;
        tokio::time::sleep(secs(120)).await;
        is_alive(&fixture, &worker, &id).await;
        assert!(fixture.faults.calls(Operation::RecoverStalled) > 50);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_extend_its_locks_does_not_call_its_own_jobs_stalled() {
    let fixture = fixture().await;
    let (worker, id) = running_long(&fixture, secs(10)).await;
    let faults = vec![Fault::Before; 30];
    fixture.faults.script(Operation::ExtendLocks, faults);
    tokio::time::sleep(secs(240)).await;
    assert!(fixture.faults.calls(Operation::ExtendLocks) > 30);
    is_alive(&fixture, &worker, &id).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_a_late_heartbeat_is_one_if_locks_may_expire_in_it() {
    let fixture = fixture().await;
    let (worker, id) = running_long(&fixture, secs(25)).await;
    let other = fixture
        .worker()
        .heartbeat_interval(secs(25))
        .stalled_interval(secs(1))
        .queue("other")
        .only_queues(["other"])
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    // The heartbeats come at 75 s and at 100 s, so the lock ends at 130 s.
    tokio::time::sleep(secs(69)).await;
    fixture.faults.go_down();
    tokio::time::sleep(secs(12)).await;
    let faults = vec![Fault::Before; 2];
    fixture.faults.script(Operation::ExtendLocks, faults);
    fixture.faults.come_back();
    tokio::time::sleep(secs(120)).await;
    is_alive(&fixture, &worker, &id).await;
    assert_eq!(other.stats().stalls_requeued, 0);
}
