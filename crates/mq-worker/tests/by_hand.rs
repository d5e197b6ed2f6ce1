//! Workers that are driven by hand, on a clock that stands still.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mq_core::{
    AttemptOutcome, ClaimRequest, Clock, DefaultStore, InspectOps, JobState, Keep, LockToken,
    ManualClock, MemoryStore, NewJob, Outcome, Retention, RunOps, When,
};
use mq_worker::{ByHand, FailedRun, FailureCause, JobContext, StartError, Worker, WorkerBuilder};
use support::*;

const HOUR: Duration = Duration::from_secs(3600);

async fn world() -> (Fixture, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().time(clock.clone()).build();
    (fixture_on(store).await, clock)
}

async fn start(
    builder: WorkerBuilder<DefaultStore>,
    clock: &ManualClock,
) -> Worker<DefaultStore, ByHand> {
    builder.start_by_hand(clock.clone()).await.unwrap()
}

/// Runs `Work`, and does nothing else.
fn working(fixture: &Fixture) -> WorkerBuilder<DefaultStore> {
    let work = |job: Work, _: JobContext| async move { Ok(job.number) };
    fixture.worker().register(work)
}

#[tokio::test]
async fn nothing_runs_until_it_is_told_to_and_then_all_that_is_due() {
    let (fixture, clock) = world().await;
    let mut worker = start(working(&fixture), &clock).await;
    let mut ids = Vec::new();
    for number in 0..25 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    settle().await;
    assert_eq!(fixture.plain().counts(None).await.unwrap().waiting, 25);
    let idle = worker.run_until_idle().await.unwrap();
    assert_eq!((idle.runs, idle.next_job, idle.next_slot), (25, None, None));
    for id in &ids {
        assert_eq!(fixture.job(id).await.state, JobState::Completed);
    }
    assert_eq!(worker.run_until_idle().await.unwrap().runs, 0);
    assert_eq!(worker.stats().completed, 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_slot_never_looks_idle_while_jobs_wait() {
    let (fixture, clock) = world().await;
    let mut worker = start(working(&fixture).default_concurrency(1), &clock).await;
    for round in 0..20 {
        for number in 0..20 {
            fixture.enqueue(&Work { number }).await;
        }
        let idle = worker.run_until_idle().await.unwrap();
        assert_eq!(idle.runs, 20, "round {round}");
    }
}

#[tokio::test]
async fn what_jobs_enqueue_runs_too_even_if_they_wait_for_it() {
    let (fixture, clock) = world().await;
    let client = fixture.handle.client();
    let builder = working(&fixture).register(move |steps: Steps, _: JobContext| {
        let client = client.clone();
        async move {
            let mut done = Vec::new();
            for number in 0..steps.count {
                match client.execute(Work { number }).await.unwrap() {
                    Outcome::Completed(number) => done.push(number),
                    other => panic!("{other:?}"),
                }
            }
            Ok(done)
        }
    });
    let mut worker = start(builder, &clock).await;
    let id = fixture.enqueue(&Steps { count: 3 }).await;
    assert_eq!(worker.run_until_idle().await.unwrap().runs, 4);
    assert_eq!(exit(&fixture.job(&id).await), r#"{"ok":[0,1,2]}"#);
}

#[tokio::test]
async fn a_delayed_job_runs_at_its_instant_on_the_way() {
    let (fixture, clock) = world().await;
    let mut worker = start(working(&fixture), &clock).await;
    let mut later = NewJob::new(spec(&Work { number: 1 }));
    later.when = When::After(HOUR);
    let id = fixture.enqueue_new(later).await;
    let begin = clock.now();
    let idle = worker.run_until_idle().await.unwrap();
    assert_eq!(
        (idle.runs, idle.next_job),
        (0, Some(begin.saturating_add(HOUR)))
    );
    assert_eq!(worker.advance(HOUR - millis(1)).await.unwrap().runs, 0);
    assert_eq!(worker.advance(24 * HOUR).await.unwrap().runs, 1);
    assert_eq!(clock.now(), begin.saturating_add(25 * HOUR - millis(1)));
    let job = fixture.job(&id).await;
    assert_eq!(job.processed_at, Some(begin.saturating_add(HOUR)));
    assert_eq!(job.finished_at, job.processed_at);
}

#[tokio::test]
async fn a_drain_goes_through_every_retry_at_its_time() {
    let (fixture, clock) = world().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let builder = fixture
        .worker()
        .register(|job: Fragile, _: JobContext| async move { Err(Broken::Mendable(job.number))? })
        .on_failure(move |failed: FailedRun| {
            let told = told.clone();
            async move { told.send(failed.cause).unwrap() }
        });
    let mut worker = start(builder, &clock).await;
    let begin = clock.now();
    let id = fixture.enqueue(&Fragile { number: 7 }).await;
    assert_eq!(worker.drain().await.unwrap().runs, 3);
    let started: Vec<_> = fixture.attempts(&id).await;
    let started: Vec<_> = started
        .iter()
        .map(|entry| entry.started_at.unwrap().since(begin))
        .collect();
    assert_eq!(started, [secs(0), secs(10), secs(30)]);
    assert_eq!(fixture.job(&id).await.state, JobState::Failed);
    for run in 1..=3 {
        let cause = heard.try_recv().expect("on_failure has ended by now");
        assert!(matches!(cause, FailureCause::Exit { attempt, .. } if attempt == run));
    }
}

#[tokio::test]
async fn schedules_fire_at_each_slot_and_a_drain_does_not_wait_for_them() {
    let (fixture, clock) = world().await;
    let slots = Arc::new(Mutex::new(Vec::new()));
    let (seen, time) = (Arc::clone(&slots), clock.clone());
    let builder = fixture
        .worker()
        .register(move |job: Work, ctx: JobContext| {
            let slot = ctx.scheduled_for().unwrap();
            assert_eq!(slot, time.now());
            seen.lock().unwrap().push(slot);
            async move { Ok(job.number) }
        });
    let mut worker = start(builder, &clock).await;
    let schedule = fixture.handle.client();
    let begin = clock.now();
    let schedule = schedule.schedule("hourly", Work { number: 1 }).every(HOUR);
    schedule.await.unwrap();
    let idle = worker.drain().await.unwrap();
    assert_eq!((idle.runs, idle.next_job), (0, None));
    assert_eq!(idle.next_slot, Some(begin.saturating_add(HOUR)));
    assert_eq!(clock.now(), begin);
    assert_eq!(worker.advance(24 * HOUR).await.unwrap().runs, 24);
    let expected: Vec<_> = (1..=24)
        .map(|hour| begin.saturating_add(hour * HOUR))
        .collect();
    assert_eq!(*slots.lock().unwrap(), expected);
}

#[tokio::test]
async fn jobs_of_a_worker_that_died_are_run_once_their_locks_have_expired() {
    let (fixture, clock) = world().await;
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let claim = ClaimRequest {
        queue: "default".into(),
        names: ["work".into()].into(),
        token: LockToken::random(),
        lock_for: secs(30),
        limit: 1,
    };
    assert_eq!(fixture.plain().claim(claim).await.unwrap().jobs.len(), 1);
    let mut worker = start(working(&fixture), &clock).await;
    assert_eq!(worker.advance(secs(29)).await.unwrap().runs, 0);
    let idle = worker.drain().await.unwrap();
    assert_eq!((idle.runs, idle.next_job), (1, None));
    assert_eq!(worker.stats().stalls_requeued, 1);
    let outcomes = fixture.outcomes(&id).await;
    assert_eq!(
        outcomes,
        [AttemptOutcome::Stalled, AttemptOutcome::Completed]
    );
}

#[tokio::test]
async fn history_goes_when_its_age_is_over() {
    let (fixture, clock) = world().await;
    let mut worker = start(working(&fixture), &clock).await;
    let mut spec = spec(&Work { number: 1 });
    spec.keep = Some(Keep::all(Retention {
        count: None,
        age: Some(HOUR),
    }));
    let id = fixture.enqueue_spec(spec).await;
    worker.run_until_idle().await.unwrap();
    worker.advance(HOUR - millis(1)).await.unwrap();
    assert!(fixture.plain().get_job(&id).await.unwrap().is_some());
    worker.advance(millis(1)).await.unwrap();
    assert!(fixture.plain().get_job(&id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_clock_that_is_not_the_stores_is_refused() {
    let (fixture, clock) = world().await;
    let other = ManualClock::default();
    other.advance(HOUR);
    let refused = working(&fixture).start_by_hand(other.clone()).await;
    let error = refused.expect_err("the clocks differ");
    let (now, told) = (clock.now(), other.now());
    assert!(matches!(error, StartError::OtherClock { .. }));
    assert!(error.to_string().contains(&format!("{now}")), "{error}");
    assert!(error.to_string().contains(&format!("{told}")), "{error}");
}

#[tokio::test]
async fn a_store_that_fails_ends_the_drive_and_it_can_go_on() {
    let (fixture, clock) = world().await;
    let mut worker = start(working(&fixture), &clock).await;
    fixture.enqueue(&Work { number: 1 }).await;
    fixture
        .faults
        .script(Operation::RecoverStalled, [Fault::Before]);
    assert!(worker.run_until_idle().await.unwrap_err().is_transient());
    assert_eq!(worker.run_until_idle().await.unwrap().runs, 1);
    assert!(worker.shutdown().await.untold.is_empty());
}
