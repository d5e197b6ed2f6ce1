//! Options that cannot work are refused at start, with the remedy.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use mq_core::{DefaultStore, Failure, Job};
use mq_worker::{JobContext, WorkerBuilder};
use serde::{Deserialize, Serialize};
use support::*;

async fn refusal(
    set: impl FnOnce(WorkerBuilder<DefaultStore>) -> WorkerBuilder<DefaultStore>,
) -> String {
    let fixture = fixture().await;
    let builder = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) });
    set(builder).start().await.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_must_be_shorter_than_the_lock() {
    let expected = "heartbeat_interval is 30s, must be shorter than lock_duration (30s), or locks expire between two heartbeats";
    assert_eq!(refusal(|w| w.heartbeat_interval(secs(30))).await, expected);
    let shorter_lock = refusal(|w| w.heartbeat_interval(secs(5)).lock_duration(secs(5))).await;
    assert!(shorter_lock.contains("must be shorter than lock_duration (5s)"));
}

#[tokio::test(start_paused = true)]
async fn intervals_must_be_longer_than_nothing_and_fit_into_time() {
    type Set = fn(WorkerBuilder<DefaultStore>, Duration) -> WorkerBuilder<DefaultStore>;
    let intervals: [(&str, Set); 7] = [
        ("lock_duration", |w, d| w.lock_duration(d)),
        ("heartbeat_interval", |w, d| w.heartbeat_interval(d)),
        ("stalled_interval", |w, d| w.stalled_interval(d)),
        ("poll_interval", |w, d| w.poll_interval(d)),
        ("schedule_interval", |w, d| w.schedule_interval(d)),
        ("history_interval", |w, d| w.history_interval(d)),
        ("report_interval", |w, d| w.report_interval(d)),
    ];
    for (name, set) in intervals {
        let zero = refusal(|w| set(w, Duration::ZERO)).await;
        assert_eq!(zero, format!("{name} is 0ns, must be at least 1 ms"));
        let short = refusal(|w| set(w, Duration::from_micros(999))).await;
        assert_eq!(short, format!("{name} is 999µs, must be at least 1 ms"));
        let long = refusal(|w| set(w, Duration::MAX)).await;
        assert!(long.starts_with(&format!("{name} is ")), "{long}");
        assert!(long.contains("at most 253,402,300,799,999 ms"), "{long}");
    }
    let graces: [Set; 2] = [|w, d| w.cancel_grace(d), |w, d| w.shutdown_grace(d)];
    for set in graces {
        let long = refusal(|w| set(w, Duration::MAX)).await;
        assert!(long.contains("at most 253,402,300,799,999 ms"), "{long}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_must_come_before_the_store_forgets_the_worker() {
    assert_eq!(
        refusal(|w| w.report_interval(secs(60))).await,
        "report_interval is 60s, must be shorter than 60 s, or the store forgets the worker between two reports"
    );
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_must_not_be_zero_and_must_be_of_a_queue_that_is_served() {
    assert_eq!(
        refusal(|w| w.default_concurrency(0)).await,
        "default_concurrency is 0, must be at least 1"
    );
    assert_eq!(
        refusal(|w| w.concurrency("default", 0)).await,
        "concurrency of queue \"default\" is 0, must be at least 1"
    );
    assert_eq!(
        refusal(|w| w.concurrency("emial", 20)).await,
        "queue \"emial\" has a concurrency, but is not served: register a handler of one of its jobs, or add it with `.queue(\"emial\")`"
    );
}

#[tokio::test(start_paused = true)]
async fn handlers_must_be_there_and_one_for_each_name() {
    assert_eq!(
        refusal(|w| w.register(|_job: Work, _ctx: JobContext| async move { Ok(2) })).await,
        "two handlers are registered for jobs named \"work\": remove one of them"
    );
    let fixture = fixture().await;
    let none = fixture.worker().start().await.unwrap_err().to_string();
    assert!(none.starts_with("the worker has no handler: "), "{none}");
}

#[tokio::test(start_paused = true)]
async fn names_that_no_store_takes_are_refused_before_anything_runs() {
    #[derive(Serialize, Deserialize)]
    struct Slashed;
    impl Job for Slashed {
        const NAME: &'static str = "a/b";
        type Store = DefaultStore;
        type Output = ();
        type Error = Failure;
    }
    let slashed =
        refusal(|w| w.register(|_job: Slashed, _ctx: JobContext| async move { Ok(()) })).await;
    assert!(
        slashed.starts_with("job name \"a/b\" holds a slash"),
        "{slashed}"
    );
    let queue = refusal(|w| w.queue("")).await;
    assert!(queue.starts_with("queue name \"\" is empty"), "{queue}");
    let id = refusal(|w| w.id("x".repeat(300))).await;
    assert!(id.ends_with("is 300 bytes long, at most 256"), "{id}");
}
