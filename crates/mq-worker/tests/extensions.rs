//! What a worker runs besides handlers: a phase runner, maintenance tasks,
//! after-ack hooks, and the callback for failures.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mq_core::{AckOutcome, Failure, JobState, RawJson, StoreError, async_trait};
use mq_worker::{
    FailedRun, FailureCause, FailureOutcome, JobContext, MaintenanceTask, PhaseRunner, Pulse,
    Retry, RunEnd, SettledRun,
};
use support::logs::Logs;
use support::*;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Fans out in its first phase, and collects in its second.
struct Phases;

#[async_trait]
impl PhaseRunner for Phases {
    async fn run(&self, context: JobContext) -> RunEnd {
        let job: Work = context.record().spec.payload.decode().unwrap();
        if context.record().flow.is_some() {
            return RunEnd::completed(&format!("collected {}", job.number));
        }
        match job.number {
            0 => RunEnd::failed(&"too few", Retry::Never),
            1 => panic!("in a phase"),
            2 => {
                context.cancelled().await;
                std::future::pending().await
            }
            _ => RunEnd::FannedOut {
                fail_fast: false,
                children: Vec::new(),
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_phase_runner_runs_the_phases_of_a_job() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register_phases::<Work>(Phases)
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(
        (job.state, exit(&job)),
        (JobState::Failed, r#"{"err":"too few"}"#)
    );
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let job = fixture.finished(&id).await;
    assert!(exit(&job).contains(r#""kind":"panic""#), "{}", exit(&job));
    fixture.store.claim_parents();
    let id = fixture.enqueue(&Work { number: 9 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(exit(&job), r#"{"ok":"collected 9"}"#);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_phase_is_timed_out_like_a_handler() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register_phases::<Work>(Phases)
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Work { number: 2 });
    spec.timeout = Some(secs(1));
    let id = fixture.enqueue_spec(spec).await;
    let job = fixture.finished(&id).await;
    assert!(exit(&job).contains(r#""kind":"timeout""#), "{}", exit(&job));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_goes_to_the_store_by_itself_and_what_it_refuses_fails_the_parent() {
    let fixture = fixture().await;
    let refused =
        mq_core::InvalidInput::new("child", "a", mq_core::Rule::Other("has no job id".into()));
    let faults = [Fault::Before, Fault::Error(refused.into())];
    fixture.faults.script(Operation::AckMany, faults);
    let worker = fixture
        .worker()
        .register_phases::<Work>(Phases)
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 3 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Failed);
    let exit = exit(&job);
    assert!(exit.contains("child \\\"a\\\" has no job id"), "{exit}");
    assert_eq!(fixture.store.ack_batches(), [1, 1, 1]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_after_ack_hook_sees_each_landed_ack_and_its_panics_stay_inside() {
    let fixture = fixture().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let worker = fixture
        .worker()
        .after_ack(|_: &SettledRun<'_>| panic!("in a hook"))
        .after_ack(move |settled: &SettledRun<'_>| {
            let outcome = match settled.outcome {
                AckOutcome::Complete { .. } => "complete",
                AckOutcome::Retry { .. } => "retry",
                AckOutcome::Fail { .. } => "fail",
                _ => "other",
            };
            assert_eq!(settled.job.id, settled.lock.id);
            let id = settled.job.id.clone();
            hook.lock()
                .unwrap()
                .push((id, outcome, settled.acked.applied));
        })
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .register(|_job: Write, _ctx: JobContext| async move {
            Err::<String, _>("no".to_owned().into())
        })
        .start()
        .await
        .unwrap();
    let good = fixture.enqueue(&Work { number: 0 }).await;
    fixture.finished(&good).await;
    let bad = fixture.enqueue(&Write { length: 0 }).await;
    fixture.finished(&bad).await;
    settle().await;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            (good, "complete", true),
            (bad.clone(), "retry", true),
            (bad.clone(), "retry", true),
            (bad, "fail", true)
        ]
    );
    worker.shutdown().await;
}

/// A task that tells when its rounds begin, and fails or panics in some.
struct Task {
    rounds: AtomicU32,
    begun: mpsc::UnboundedSender<Instant>,
    pulse: Pulse,
}

#[async_trait]
impl MaintenanceTask for Task {
    fn name(&self) -> &str {
        "task"
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        self.begun.send(Instant::now()).unwrap();
        match self.rounds.fetch_add(1, Ordering::SeqCst) {
            1 => Err(StoreError::unavailable("another store is down")),
            2 => panic!("in a round"),
            _ => Ok(secs(60)),
        }
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.pulse.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn a_maintenance_task_does_round_after_round_and_may_be_pulsed() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let (begun, mut rounds) = mpsc::unbounded_channel();
    let pulse = Pulse::new();
    let task = Task {
        rounds: AtomicU32::new(0),
        begun,
        pulse: pulse.clone(),
    };
    // A worker may have nothing but maintenance to do.
    let worker = fixture.worker().maintenance(task).start().await.unwrap();
    let first = rounds.recv().await.unwrap();
    let second = rounds.recv().await.unwrap();
    assert_eq!(second - first, secs(60));
    // It failed, then panicked: both are repeated soon.
    let third = rounds.recv().await.unwrap();
    let fourth = rounds.recv().await.unwrap();
    assert!(fourth - second < secs(1), "{:?}", fourth - second);
    assert!(third > second);
    assert_eq!(logs.with("maintenance panicked").len(), 1);
    tokio::time::sleep(secs(7)).await;
    pulse.send();
    let fifth = rounds.recv().await.unwrap();
    assert_eq!(fifth - fourth, secs(7));
    worker.shutdown().await;
    assert!(rounds.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn on_failure_is_called_after_each_failed_run_is_acknowledged_and_is_isolated() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let plain = fixture.plain().clone();
    let worker = fixture
        .worker()
        .on_failure(|_: FailedRun| async { panic!("in a callback") })
        .on_failure(move |failed: FailedRun| {
            let (told, plain) = (told.clone(), plain.clone());
            async move {
                use mq_core::InspectOps;
                let job = plain.get_job(&failed.id).await.unwrap().unwrap();
                told.send((failed, job.state)).unwrap();
            }
        })
        .register(|job: Fragile, _ctx: JobContext| async move {
            match job.number {
                0 => Ok(0),
                _ => Err(Broken::Mendable(1).into()),
            }
        })
        .register(|_job: Work, _ctx: JobContext| async move {
            Err(mq_core::HandlerError::<Failure>::Snooze(secs(1_000)))
        })
        .start()
        .await
        .unwrap();
    // Successes and snoozes are no failures.
    let good = fixture.enqueue(&Fragile { number: 0 }).await;
    fixture.finished(&good).await;
    let snoozed = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&snoozed, JobState::Delayed).await;
    let mut spec = spec(&Fragile { number: 1 });
    spec.attempts_max = 2;
    let bad = fixture.enqueue_spec(spec).await;
    let cause = |attempt| FailureCause::Exit {
        attempt,
        exit: RawJson::parse(r#"{"err":{"Mendable":1}}"#).unwrap(),
    };
    let (first, state) = heard.recv().await.unwrap();
    assert_eq!((&first.id, state), (&bad, JobState::Delayed));
    assert_eq!(first.name, "fragile");
    assert_eq!(first.cause, cause(1));
    let delay = secs(10);
    assert_eq!(first.outcome, FailureOutcome::Retried { delay });
    let (last, state) = heard.recv().await.unwrap();
    assert_eq!((last.id, state), (bad, JobState::Failed));
    assert_eq!(last.cause, cause(2));
    assert_eq!(last.outcome, FailureOutcome::Failed);
    settle().await;
    assert_eq!(logs.with("on_failure panicked").len(), 2);
    assert!(heard.try_recv().is_err());
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_run_is_a_span_with_the_jobs_id_name_queue_and_attempt() {
    let (logs, _guard) = Logs::collect();
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Fragile, ctx: JobContext| async move {
            match ctx.attempt() {
                1 => Err(Broken::Mendable(1).into()),
                _ => Ok(1),
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Fragile { number: 0 }).await;
    fixture.finished(&id).await;
    let expected = [1, 2].map(|attempt| {
        format!("span job job_id={id} job_name=fragile queue=fragile attempt={attempt}")
    });
    assert_eq!(logs.with("span job "), expected);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_maintenance_task_goes_on_whatever_of_it_panics() {
    struct Fragile(mpsc::UnboundedSender<()>, AtomicU32);
    #[async_trait]
    impl MaintenanceTask for Fragile {
        fn name(&self) -> &str {
            assert_ne!(self.1.fetch_add(1, Ordering::SeqCst), 2, "no name");
            "fragile"
        }
        async fn round(&self) -> Result<Duration, StoreError> {
            assert_ne!(self.1.fetch_add(1, Ordering::SeqCst), 1, "no round");
            self.0.send(()).unwrap();
            Ok(secs(1))
        }
        fn pulse(&self) -> Option<Pulse> {
            assert_ne!(self.1.fetch_add(1, Ordering::SeqCst), 0, "no pulse");
            None
        }
    }
    let fixture = fixture().await;
    let (rounds, mut done) = mpsc::unbounded_channel();
    let task = Fragile(rounds, AtomicU32::new(0));
    let worker = fixture.worker().maintenance(task).start().await.unwrap();
    for _ in 0..3 {
        let round = tokio::time::timeout(secs(60), done.recv()).await;
        assert_eq!(round, Ok(Some(())));
    }
    worker.shutdown().await;
}
