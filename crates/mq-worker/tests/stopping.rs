//! Handlers that panic, take too long or are called off.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::Mutex;

use mq_core::{AdminOps, AttemptOutcome, Cancelled, Failure, HandlerError, JobState};
use mq_worker::{JobContext, StopReason};
use support::*;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt_and_the_worker_and_its_neighbours_go_on() {
    let fixture = fixture().await;
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let worker = fixture
        .worker()
        .register(|job: Fragile, ctx: JobContext| async move {
            assert!(
                ctx.attempt() > 1,
                "attempt {} of {}",
                ctx.attempt(),
                job.number
            );
            Ok(job.number)
        })
        .register(move |job: Work, _ctx: JobContext| {
            let gate = Arc::clone(&opened);
            async move {
                gate.notified().await;
                Ok(job.number)
            }
        })
        .start()
        .await
        .unwrap();
    let neighbour = fixture.enqueue(&Work { number: 1 }).await;
    fixture.in_state(&neighbour, JobState::Active).await;
    let id = fixture.enqueue(&Fragile { number: 9 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(exit(&job), r#"{"ok":9}"#);
    let first = &fixture.attempts(&id).await[0];
    assert_eq!(first.outcome, AttemptOutcome::Retried);
    assert_eq!(
        first.exit.as_ref().unwrap().get(),
        r#"{"defect":{"kind":"panic","message":"attempt 1 of 9"}}"#
    );
    gate.notify_one();
    assert_eq!(exit(&fixture.finished(&neighbour).await), r#"{"ok":1}"#);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_before_its_first_await_or_with_any_value_fails_its_job() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| {
            if job.number == 0 {
                panic!("too early");
            }
            async move { std::panic::panic_any(7_u8) }
        })
        .start()
        .await
        .unwrap();
    let early = fixture.enqueue(&Work { number: 0 }).await;
    let odd = fixture.enqueue(&Work { number: 1 }).await;
    let early = fixture.finished(&early).await;
    assert_eq!(
        exit(&early),
        r#"{"defect":{"kind":"panic","message":"too early"}}"#
    );
    let odd = fixture.finished(&odd).await;
    assert_eq!(
        exit(&odd),
        r#"{"defect":{"kind":"panic","message":"panicked with a value that is not a text"}}"#
    );
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_with_a_value_that_panics_in_turn_stays_inside() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Work, _ctx: JobContext| async move {
            match job.number {
                0 => std::panic::panic_any(Bomb),
                number => Ok(number),
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = tokio::time::timeout(secs(60), fixture.finished(&id)).await;
    assert_eq!(job.unwrap().state, JobState::Failed);
    let report = worker.shutdown().await;
    assert!(report.untold.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_handler_that_always_has_something_to_do_is_timed_out_too() {
    let fixture = fixture_on(mq_core::MemoryStore::new()).await;
    let worker = fixture
        .worker()
        .cancel_grace(millis(1))
        .register(|_job: Work, _ctx: JobContext| async move {
            loop {
                tokio::task::consume_budget().await;
            }
        })
        .start()
        .await
        .unwrap();
    let mut spec = spec(&Work { number: 1 });
    spec.timeout = Some(millis(1));
    let id = fixture.enqueue_spec(spec).await;
    let job = tokio::time::timeout(secs(20), fixture.finished(&id)).await;
    let job = job.expect("the time-out is never noticed");
    assert!(exit(&job).contains(r#""kind":"timeout""#), "{}", exit(&job));
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_handler_is_dropped_stays_inside() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .cancel_grace(millis(10))
        .register(|_job: Timed, _ctx: JobContext| async move {
            let _bomb = PanicsOnDrop;
            std::future::pending::<()>().await;
            Ok(1)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Timed { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert!(exit(&job).contains(r#""kind":"timeout""#), "{}", exit(&job));
    assert_eq!(worker.in_flight(), 0);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_time_out_signals_then_drops_the_handler_and_uses_an_attempt() {
    let fixture = fixture().await;
    let (signals, mut signalled) = mpsc::unbounded_channel();
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .cancel_grace(millis(300))
        .register(move |_job: Timed, ctx: JobContext| {
            let (signals, guard) = (signals.clone(), Dropped(drops.clone()));
            async move {
                let _guard = guard;
                let begun = Instant::now();
                let reason = ctx.cancelled().await;
                signals.send((reason, begun, Instant::now())).unwrap();
                std::future::pending::<()>().await;
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Timed { number: 0 }).await;
    let job = fixture.finished(&id).await;
    let timed_out = r#"{"defect":{"kind":"timeout","message":"the run took longer than 1s"}}"#;
    assert_eq!((job.state, exit(&job)), (JobState::Failed, timed_out));
    assert_eq!(job.attempts_made, 2);
    use AttemptOutcome::{Failed, Retried};
    assert_eq!(fixture.outcomes(&id).await, [Retried, Failed]);
    for _ in 0..2 {
        let (reason, begun, signal) = signalled.recv().await.unwrap();
        assert_eq!(reason, StopReason::Timeout);
        assert_eq!(signal - begun, secs(1));
        // Timers fire up to a millisecond late.
        let grace = dropped.recv().await.unwrap() - signal;
        assert!((300..=301).contains(&grace.as_millis()), "{grace:?}");
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_heeds_its_time_out_may_still_succeed_or_rule_out_another_attempt() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|job: Timed, ctx: JobContext| async move {
            ctx.cancelled().await;
            match job.number {
                0 => Ok(5),
                1 => Err(HandlerError::Unrecoverable(Failure::new("beyond help"))),
                _ => Err(HandlerError::Error(Failure::new("interrupted"))),
            }
        })
        .start()
        .await
        .unwrap();
    let ok = fixture.enqueue(&Timed { number: 0 }).await;
    assert_eq!(exit(&fixture.finished(&ok).await), r#"{"ok":5}"#);
    let hopeless = fixture.enqueue(&Timed { number: 1 }).await;
    let hopeless = fixture.finished(&hopeless).await;
    assert_eq!(exit(&hopeless), r#"{"err":{"message":"beyond help"}}"#);
    assert_eq!(hopeless.attempts_made, 1);
    let interrupted = fixture.enqueue(&Timed { number: 2 }).await;
    let interrupted = fixture.finished(&interrupted).await;
    assert!(exit(&interrupted).contains(r#""kind":"timeout""#));
    assert_eq!(interrupted.attempts_made, 2);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_handler_with_the_next_heartbeat() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .heartbeat_interval(secs(10))
        .register(move |_job: Work, ctx: JobContext| {
            let told = told.clone();
            async move {
                assert_eq!(ctx.stop_reason(), None);
                let reason = ctx.cancelled().await;
                told.send((reason, ctx.stop_reason(), Instant::now()))
                    .unwrap();
                Err(Failure::new("called off").into())
            }
        })
        .start()
        .await
        .unwrap();
    let begun = Instant::now();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    let cancelled = fixture.plain().cancel(&id).await.unwrap();
    assert_eq!(cancelled, Cancelled::Requested);
    let job = fixture.finished(&id).await;
    assert_eq!((job.state, exit(&job)), (JobState::Cancelled, ""));
    assert_eq!(fixture.outcomes(&id).await, [AttemptOutcome::Cancelled]);
    let (reason, again, when) = heard.recv().await.unwrap();
    assert_eq!(
        (reason, again),
        (StopReason::Cancel, Some(StopReason::Cancel))
    );
    assert!((when - begun).as_millis() <= 10_001);
    assert_eq!(worker.stats().cancelled, 1);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_handler_that_does_not_stop_is_dropped_after_the_grace() {
    let fixture = fixture().await;
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let signalled = Arc::new(Mutex::new(None));
    let signal = Arc::clone(&signalled);
    let worker = fixture
        .worker()
        .cancel_grace(secs(7))
        .register(move |_job: Work, ctx: JobContext| {
            let (guard, signal) = (Dropped(drops.clone()), Arc::clone(&signal));
            async move {
                let _guard = guard;
                ctx.cancelled().await;
                *signal.lock().unwrap() = Some(Instant::now());
                std::future::pending::<()>().await;
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    fixture.plain().cancel(&id).await.unwrap();
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Cancelled);
    let signalled = signalled.lock().unwrap().unwrap();
    let grace = dropped.recv().await.unwrap() - signalled;
    assert!((7_000..=7_001).contains(&grace.as_millis()), "{grace:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_completes_in_spite_of_a_cancel_has_completed() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .register(|_job: Work, ctx: JobContext| async move {
            ctx.cancelled().await;
            tokio::time::sleep(secs(2)).await;
            Ok(3)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    fixture.in_state(&id, JobState::Active).await;
    fixture.plain().cancel(&id).await.unwrap();
    let job = fixture.finished(&id).await;
    assert_eq!(
        (job.state, exit(&job)),
        (JobState::Completed, r#"{"ok":3}"#)
    );
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_past_its_time_out_keeps_its_lock_and_its_slot_until_it_returns() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = Mutex::new(finished);
    let worker = fixture
        .worker()
        .default_concurrency(1)
        .lock_duration(secs(6))
        .stalled_interval(secs(1))
        .register_blocking(move |job: Timed, ctx: JobContext| {
            told.send(ctx.clone()).unwrap();
            finished.lock().unwrap().recv().unwrap();
            ctx.set_progress_blocking(&"nearly")?;
            Ok(job.number)
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Timed { number: 4 }).await;
    let next = fixture.enqueue(&Timed { number: 5 }).await;
    let ctx = heard.recv().await.unwrap();
    assert_eq!(ctx.id(), &id);
    pass(secs(60)).await;
    assert_eq!(ctx.stop_reason(), Some(StopReason::Timeout));
    let job = fixture.job(&id).await;
    assert_eq!((job.state, job.stalled_count), (JobState::Active, 0));
    assert_eq!(fixture.job(&next).await.state, JobState::Waiting);
    finish.send(()).unwrap();
    let job = fixture.finished(&id).await;
    assert_eq!(
        (job.state, exit(&job)),
        (JobState::Completed, r#"{"ok":4}"#)
    );
    assert_eq!(job.progress.unwrap().get(), r#""nearly""#);
    heard.recv().await.unwrap();
    finish.send(()).unwrap();
    fixture.finished(&next).await;
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_may_panic_and_may_heed_a_cancel() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .register_blocking(move |job: Work, ctx: JobContext| {
            if job.number == 0 {
                panic!("on the pool");
            }
            told.send(()).unwrap();
            while !ctx.is_cancelled() {
                std::thread::yield_now();
            }
            Err(Failure::new("called off").into())
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    let job = fixture.finished(&id).await;
    assert_eq!(
        exit(&job),
        r#"{"defect":{"kind":"panic","message":"on the pool"}}"#
    );
    let id = fixture.enqueue(&Work { number: 1 }).await;
    heard.recv().await.unwrap();
    fixture.plain().cancel(&id).await.unwrap();
    pass(secs(11)).await;
    let job = fixture.finished(&id).await;
    assert_eq!(job.state, JobState::Cancelled);
    worker.shutdown().await;
}
