//! Jobs that no handler can finish: payloads that do not decode, results that
//! do not fit, names without a handler.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;

use mq_core::{
    AttemptOutcome, DefaultStore, Failure, HandlerError, Job, JobSpec, JobState, MemoryStore,
    RawJson,
};
use mq_worker::JobContext;
use serde::{Deserialize, Serialize};
use support::*;

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_decode_fails_the_job_with_the_error_and_its_path() {
    #[derive(Serialize, Deserialize)]
    struct Order {
        lines: Vec<Line>,
    }
    #[derive(Serialize, Deserialize)]
    struct Line {
        amount: u32,
    }
    impl Job for Order {
        const NAME: &'static str = "order";
        type Store = DefaultStore;
        type Output = u32;
        type Error = Failure;
    }
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Order, _ctx: JobContext| async move {
            Ok(job.lines.iter().map(|line| line.amount).sum::<u32>())
        })
        .start()
        .await
        .unwrap();
    let payload = r#"{"lines": [{"amount": 1}, {"amount": "two"}]}"#;
    let mut spec = JobSpec::new("order", "default", RawJson::parse(payload).unwrap());
    spec.attempts_max = 5;
    let id = fixture.enqueue_spec(spec).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Failed, 1));
    let exit = exit(&job);
    assert!(exit.starts_with(r#"{"defect":{"kind":"decode""#), "{exit}");
    assert!(
        exit.contains("lines[1].amount: invalid type: string"),
        "{exit}"
    );
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_fails_the_job_and_never_runs_it_again() {
    let inner = MemoryStore::builder()
        .time(TokioClock::source())
        .max_payload(1_000)
        .build();
    let fixture = fixture_on(inner).await;
    let worker = fixture
        .worker()
        .register(|job: Write, _ctx: JobContext| async move { Ok("x".repeat(job.length)) })
        .start()
        .await
        .unwrap();
    let large = fixture.enqueue(&Write { length: 2_000 }).await;
    let small = fixture.enqueue(&Write { length: 3 }).await;
    let job = fixture.finished(&large).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Failed, 1));
    let text = exit(&job);
    assert!(
        text.starts_with(r#"{"defect":{"kind":"too-large""#),
        "{text}"
    );
    assert!(text.contains("is 2009 bytes long, at most 1000"), "{text}");
    assert_eq!(exit(&fixture.finished(&small).await), r#"{"ok":"xxx"}"#);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_too_large_still_leads_to_another_attempt() {
    let inner = MemoryStore::builder()
        .time(TokioClock::source())
        .max_payload(1_000)
        .build();
    let fixture = fixture_on(inner).await;
    let worker = fixture
        .worker()
        .register(|job: Write, _ctx: JobContext| async move {
            Err::<String, _>("x".repeat(job.length).into())
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Write { length: 2_000 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Failed, 3));
    for attempt in fixture.attempts(&id).await {
        let exit = attempt.exit.unwrap();
        assert!(exit.get().contains(r#""kind":"too-large""#), "{exit}");
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_encode_fails_the_job_and_never_runs_it_again() {
    #[derive(Serialize, Deserialize)]
    struct Pairs;
    impl Job for Pairs {
        const NAME: &'static str = "pairs";
        type Store = DefaultStore;
        type Output = HashMap<(u8, u8), u8>;
        type Error = Failure;
    }
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Pairs, _ctx: JobContext| async move { Ok(HashMap::from([((1, 2), 3)])) })
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Pairs);
    spec.attempts_max = 5;
    let id = fixture.enqueue_spec(spec).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Failed, 1));
    let exit = exit(&job);
    assert!(exit.starts_with(r#"{"defect":{"kind":"encode""#), "{exit}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_fanned_out_parent_claimed_by_a_plain_handler_fails_visibly() {
    let fixture = fixture().await;
    fixture.store.claim_parents();
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Work { number: 0 });
    spec.attempts_max = 5;
    let id = fixture.enqueue_spec(spec).await;
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, job.attempts_made), (JobState::Failed, 1));
    let exit = exit(&job);
    assert!(
        exit.starts_with(r#"{"defect":{"kind":"no-phase""#),
        "{exit}"
    );
    assert!(exit.contains("register the flow"), "{exit}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_names_without_a_handler_are_left_to_others() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let stranger = fixture.enqueue(&Timed { number: 0 }).await;
    let known = fixture.enqueue(&Work { number: 0 }).await;
    fixture.finished(&known).await;
    tokio::time::sleep(secs(120)).await;
    let job = fixture.job(&stranger).await;
    assert_eq!((job.state, job.attempts_recorded), (JobState::Waiting, 0));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_handler_is_unregistered_between_claim_and_run_is_released() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::Claim, [Fault::LateAnswer(secs(5))]);
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .register(|job: Timed, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    fixture.in_state(&id, JobState::Active).await;
    assert!(worker.unregister::<Work>());
    assert!(!worker.unregister::<Work>());
    let job = fixture.in_state(&id, JobState::Waiting).await;
    assert_eq!((job.attempts_made, job.stalled_count), (0, 0));
    let other = fixture.enqueue(&Timed { number: 1 }).await;
    fixture.finished(&other).await;
    assert_eq!(fixture.job(&id).await.state, JobState::Waiting);
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_under_way_ends_although_its_handler_was_unregistered() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(60)).await;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 8 }).await;
    fixture.in_state(&id, JobState::Active).await;
    worker.unregister::<Work>();
    assert_eq!(exit(&fixture.finished(&id).await), r#"{"ok":8}"#);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_error_without_attempts_left_fails_the_job() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move {
            Err(HandlerError::RetryAfter(secs(1), Failure::new("no")))
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Failed);
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Failed]);
    worker.shutdown().await;
}

/// A value that panics when it is encoded.
#[derive(Deserialize)]
struct Loud;

impl Serialize for Loud {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("not today");
    }
}

#[derive(Serialize, Deserialize)]
struct Shout;

impl Job for Shout {
    const NAME: &'static str = "shout";
    type Store = DefaultStore;
    type Output = Loud;
    type Error = Failure;
}

#[tokio::test(start_paused = true)]
async fn a_result_whose_encoding_panics_fails_the_job_and_never_runs_it_again() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Shout, _ctx: JobContext| async move { Ok(Loud) })
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Shout);
    spec.attempts_max = 3;
    let id = fixture.enqueue_spec(spec).await;
    let job = fixture.finished(&id).await;
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Failed]);
    let exit = exit(&job);
    assert!(exit.contains(r#""kind":"encode""#), "{exit}");
    assert!(exit.contains("panicked: not today"), "{exit}");
    worker.shutdown().await;
}
