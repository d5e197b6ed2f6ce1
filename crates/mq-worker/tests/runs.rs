//! What becomes of a job whose handler returns.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mq_core::{AttemptOutcome, HandlerError, JobState, Metadata, NewJob, When};
use mq_worker::JobContext;
use support::*;

#[tokio::test(start_paused = true)]
async fn a_handlers_value_is_the_jobs_exit() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number + 1) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(
        (job.state, exit(&job)),
        (JobState::Completed, r#"{"ok":2}"#)
    );
    assert_eq!(job.attempts_made, 1);
    worker.shutdown().await;
}

async fn handler(job: Work, _ctx: JobContext) -> Result<u32, HandlerError<mq_core::Failure>> {
    let number: u32 = job.number.to_string().parse()?;
    Ok(number)
}

#[tokio::test(start_paused = true)]
async fn an_async_function_is_a_handler_and_errors_pass_through_question_marks() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(handler)
        .register(|job: Write, _ctx: JobContext| async move {
            let length = u8::try_from(job.length).map_err(|error| error.to_string())?;
            Ok("x".repeat(length.into()))
        })
        .register(|job: Fragile, _ctx: JobContext| async move {
            if job.number > 1 {
                return Err(Broken::Hopeless.into());
            }
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 7 }).await;
    assert_eq!(exit(&fixture.finished(&id).await), r#"{"ok":7}"#);
    let id = fixture.enqueue(&Write { length: 300 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(
        exit(&job),
        r#"{"err":"out of range integral type conversion attempted"}"#
    );
    assert_eq!(job.attempts_made, 3);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_tried_again_after_its_backoff_until_attempts_run_out() {
    let fixture = fixture().await;
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |job: Fragile, ctx: JobContext| {
            let started = started.clone();
            async move {
                let seen = (tokio::time::Instant::now(), ctx.attempt(), ctx.run());
                started.send(seen).unwrap();
                Err(Broken::Mendable(job.number + ctx.attempt()).into())
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Fragile { number: 40 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Failed);
    assert_eq!(exit(&job), r#"{"err":{"Mendable":43}}"#);
    use AttemptOutcome::{Failed, Retried};
    assert_eq!(fixture.outcomes(&id).await, [Retried, Retried, Failed]);
    let attempts = fixture.attempts(&id).await;
    assert_eq!(
        attempts[0].exit.as_ref().unwrap().get(),
        r#"{"err":{"Mendable":41}}"#
    );
    let seen: Vec<_> = std::iter::from_fn(|| starts.try_recv().ok()).collect();
    let numbers: Vec<_> = seen.iter().map(|seen| (seen.1, seen.2)).collect();
    assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)]);
    assert_eq!((seen[1].0 - seen[0].0).as_secs(), 10);
    assert_eq!((seen[2].0 - seen[1].0).as_secs(), 20);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unrecoverable_error_and_one_that_is_not_retryable_use_no_more_attempts() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Fragile, _ctx: JobContext| async move {
            match job.number {
                0 => Err(HandlerError::Unrecoverable(Broken::Mendable(0))),
                _ => Err(HandlerError::Error(Broken::Hopeless)),
            }
        })
        .start()
        .await
        .unwrap();
    for (number, expected) in [
        (0, r#"{"err":{"Mendable":0}}"#),
        (1, r#"{"err":"Hopeless"}"#),
    ] {
        let id = fixture.enqueue(&Fragile { number }).await;
        let job = fixture.finished(&id).await;
        assert_eq!((job.state, exit(&job)), (JobState::Failed, expected));
        assert_eq!(job.attempts_made, 1);
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_choose_the_delay_before_the_next_attempt() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Fragile, ctx: JobContext| async move {
            match ctx.attempt() {
                1 => Err(HandlerError::RetryAfter(secs(3_600), Broken::Mendable(1))),
                attempt => Ok(attempt),
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Fragile { number: 0 }).await;
    let delayed = fixture.in_state(&id, JobState::Delayed).await;
    let job = fixture.finished(&id).await;
    assert_eq!(exit(&job), r#"{"ok":2}"#);
    assert_eq!(delayed.run_at.since(job.enqueued_at), secs(3_600));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_snooze_puts_the_job_off_without_using_an_attempt() {
    let fixture = fixture().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let worker = fixture
        .worker()
        .register(move |_job: Work, ctx: JobContext| {
            let run = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                assert_eq!((ctx.attempt(), ctx.run()), (1, run));
                match run {
                    1..=3 => Err(HandlerError::Snooze(secs(60))),
                    _ => Ok(ctx.attempt()),
                }
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(
        (job.state, exit(&job)),
        (JobState::Completed, r#"{"ok":1}"#)
    );
    assert_eq!(job.attempts_made, 1);
    use AttemptOutcome::{Completed, Snoozed};
    assert_eq!(
        fixture.outcomes(&id).await,
        [Snoozed, Snoozed, Snoozed, Completed]
    );
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_knows_its_run() {
    let fixture = fixture().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .queue("side")
        .register(move |_job: Fragile, ctx: JobContext| {
            told.send(ctx).unwrap();
            async move { Ok(1) }
        })
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Fragile { number: 1 });
    spec.queue = "side".into();
    spec.metadata = Metadata::from([("tenant".into(), "a".into())]);
    let id = fixture.enqueue_spec(spec).await;
    let ctx = heard.recv().await.unwrap();
    assert_eq!(ctx.id(), &id);
    assert_eq!(ctx.name(), &"fragile");
    assert_eq!(ctx.queue(), &"side");
    assert_eq!((ctx.attempt(), ctx.run(), ctx.attempts_max()), (1, 1, 3));
    assert_eq!(ctx.metadata()["tenant"], "a");
    assert_eq!(ctx.scheduled_for(), None);
    assert_eq!(ctx.lock().id, id);
    assert_eq!(ctx.progress::<u32>().unwrap(), None);
    assert!(!ctx.is_cancelled());
    fixture.finished(&id).await;
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_retried_job_begins_a_new_budget_and_keeps_counting_its_runs() {
    use mq_core::AdminOps;
    let fixture = fixture().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |_job: Work, ctx: JobContext| {
            told.send((ctx.attempt(), ctx.run())).unwrap();
            async move { Err(mq_core::Failure::new("no").into()) }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.finished(&id).await;
    fixture.plain().retry(&id).await.unwrap();
    fixture.finished(&id).await;
    assert_eq!(heard.recv().await, Some((1, 1)));
    assert_eq!(heard.recv().await, Some((1, 2)));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_job_starts_when_it_is_due_by_the_stores_clock() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .poll_interval(secs(3_600))
        .register(|job: Work, _ctx: JobContext| async move { Ok(job.number) })
        .start()
        .await
        .unwrap();
    let mut job = NewJob::new(spec(&Work { number: 0 }));
    job.when = When::After(secs(1_000));
    let id = fixture.enqueue_new(job).await;
    let job = fixture.finished(&id).await;
    let waited = job.processed_at.unwrap().since(job.enqueued_at);
    assert_eq!(waited, secs(1_000));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_kept_across_attempts_so_that_a_run_resumes() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Steps, ctx: JobContext| async move {
            let mut done: Vec<u32> = ctx.progress()?.unwrap_or_default();
            let step = done.len() as u32;
            done.push(ctx.run());
            ctx.set_progress(&done).await?;
            assert_eq!(ctx.progress::<Vec<u32>>()?, Some(done.clone()));
            if step + 1 < job.count {
                return Err(mq_core::Failure::new("crashed").into());
            }
            Ok(done)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Steps { count: 3 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(exit(&job), r#"{"ok":[1,2,3]}"#);
    assert_eq!(job.progress.unwrap().get(), "[1,2,3]");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn progress_that_is_not_of_the_asked_type_says_where() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Work, ctx: JobContext| async move {
            ctx.set_progress(&serde_json::json!({"done": [1, "two"]}))
                .await?;
            #[derive(Debug, serde::Deserialize)]
            struct Progress {
                #[allow(dead_code)]
                done: Vec<u32>,
            }
            ctx.progress::<Progress>()?;
            Ok(1)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Failed);
    let exit = exit(&job);
    assert!(
        exit.contains("the stored progress does not decode: done[1]"),
        "{exit}"
    );
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_its_run_is_refused_and_no_lock_counts_as_lost() {
    let fixture = fixture().await;
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register(move |job: Work, ctx: JobContext| {
            let answered = answered.clone();
            async move {
                tokio::spawn(async move {
                    tokio::time::sleep(secs(1)).await;
                    answered.send(ctx.set_progress(&1).await).unwrap();
                });
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    fixture.enqueue(&Work { number: 1 }).await;
    let answer = answers.recv().await.unwrap();
    assert!(answer.unwrap_err().to_string().contains("is lost"));
    assert_eq!(worker.stats().locks_lost, 0);
    worker.shutdown().await;
}
