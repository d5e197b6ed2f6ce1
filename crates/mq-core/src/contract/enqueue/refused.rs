//! Requests that are refused, and leave nothing behind.

use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, job, json, ms};
use crate::contract::{Fixture, StoreOptions};
use crate::error::Rule;
use crate::record::{Backoff, Dedupe, Keep, NewJob, ParentEnvelope, Retention, TraceContext, When};
use crate::time::LONGEST;
use crate::validate::{MAX_DEPTH, MAX_ID, MAX_METADATA, MAX_NAME};

cases! { __contract_enqueue_refused, enqueue::refused:
    an_empty_batch_answers_empty,
    every_broken_rule_is_refused_and_nothing_is_written,
    one_broken_item_refuses_its_whole_batch,
    a_refused_request_does_not_touch_its_dedupe_key,
    a_payload_may_be_as_large_as_the_store_takes with small_payloads,
    a_payload_may_be_as_deep_as_decoders_take,
}

/// No jobs, no answers, no error.
async fn an_empty_batch_answers_empty(fx: Fixture) {
    assert_eq!(fx.store.enqueue_many(Vec::new()).await.must(), []);
}

/// Requests that break one rule each, and the field each message names.
fn broken() -> Vec<(&'static str, NewJob)> {
    let long = "x".repeat(MAX_NAME + 1);
    let with = |change: &dyn Fn(&mut NewJob)| {
        let mut broken = job();
        change(&mut broken);
        broken
    };
    let too_long = LONGEST + ms(1);
    let envelope = ParentEnvelope {
        flow_name: "flow".into(),
        flow_id: "parent".into(),
        manifest: "token".into(),
        child_key: "child".into(),
        parent_store: "store".into(),
        depth: 1,
    };
    let trace = TraceContext {
        trace_id: "a\0".into(),
        span_id: String::new(),
        sampled: false,
        delayed: false,
    };
    vec![
        ("job id", job().id("")),
        ("job id", job().id("a\0b")),
        ("job id", job().id("x".repeat(MAX_ID + 1))),
        ("job name", job().name("")),
        ("job name", job().name("a\0b")),
        ("job name", job().name(long.as_str())),
        ("job name", job().name("a/b")),
        ("job name", job().name("sched")),
        ("job name", job().name("flow")),
        ("queue name", job().queue("")),
        ("queue name", job().queue("a\0b")),
        ("queue name", job().queue(long.as_str())),
        ("metadata key", job().label("", "x")),
        ("metadata key", job().label("a\0", "x")),
        ("metadata \"a\"", job().label("a", "x\0")),
        (
            "metadata with keys",
            job().label("a", &"x".repeat(MAX_METADATA)),
        ),
        ("attempts_max", with(&|job| job.spec.attempts_max = 0)),
        ("timeout", with(&|job| job.spec.timeout = Some(ms(0)))),
        ("timeout", with(&|job| job.spec.timeout = Some(too_long))),
        ("delay", with(&|job| job.when = When::After(too_long))),
        (
            "backoff delay",
            with(&|job| job.spec.backoff = Some(Backoff::fixed(too_long))),
        ),
        (
            "backoff factor",
            with(&|job| job.spec.backoff = Some(Backoff::exponential(ms(1)).factor(0.5))),
        ),
        (
            "backoff jitter",
            with(&|job| job.spec.backoff = Some(Backoff::exponential(ms(1)).jitter(1.5))),
        ),
        ("keep age", job().keep(Keep::all(Retention::age(too_long)))),
        ("dedupe key", job().key("")),
        ("dedupe key", job().key("a\0")),
        ("dedupe key", job().key(long.as_str())),
        ("dedupe ttl", job().dedupe(Dedupe::key("a").ttl(too_long))),
        ("dedupe of key", job().dedupe(Dedupe::key("a").extend())),
        ("trace id", with(&|job| job.trace = Some(trace.clone()))),
        (
            "flow name",
            with(&|job| {
                job.parent = Some(ParentEnvelope {
                    flow_name: "".into(),
                    ..envelope.clone()
                })
            }),
        ),
        (
            "child key",
            with(&|job| {
                job.parent = Some(ParentEnvelope {
                    child_key: "\0".into(),
                    ..envelope.clone()
                })
            }),
        ),
        (
            "payload",
            job().payload(format!(
                "{}1{}",
                "[".repeat(MAX_DEPTH + 1),
                "]".repeat(MAX_DEPTH + 1)
            )),
        ),
        (
            "payload",
            job().payload(format!("\"{}\"", "x".repeat(1024 * 1024))),
        ),
    ]
}

/// Each refusal names its field, and the store stays as empty as it was.
async fn every_broken_rule_is_refused_and_nothing_is_written(fx: Fixture) {
    for (field, broken) in broken() {
        expect_refused(fx.store.enqueue(broken).await, field);
    }
    assert_eq!(fx.counts().await.total(), 0);
    assert_eq!(fx.store.queues().await.must(), []);
}

/// A batch is checked as a whole before any of it is written; the message says
/// which item it was.
async fn one_broken_item_refuses_its_whole_batch(fx: Fixture) {
    let batch = vec![job().id("a"), job().id("b").key("key"), job().name("")];
    let invalid = expect_refused(fx.store.enqueue_many(batch).await, "job name");
    assert!(
        invalid.field.contains('2'),
        "expected the item's place in {:?}",
        invalid.field
    );
    assert_eq!(fx.counts().await.total(), 0);
    fx.enqueue(job().key("key")).await;
}

/// A refused request neither replaces a job nor extends a window.
async fn a_refused_request_does_not_touch_its_dedupe_key(fx: Fixture) {
    let policy = Dedupe::key("key").ttl(ms(10)).extend().replace();
    let id = fx.enqueue(job().delay(1_000).dedupe(policy.clone())).await;
    let before = fx.job(&id).await;
    fx.advance(5);
    let mut broken = job().dedupe(policy);
    broken.spec.attempts_max = 0;
    expect_refused(fx.store.enqueue(broken).await, "attempts_max");
    assert_eq!(fx.job(&id).await, before);
    fx.advance(5);
    fx.enqueue(job().key("key")).await;
}

fn small_payloads(options: StoreOptions) -> StoreOptions {
    options.max_payload(16)
}

/// Exactly the store's limit passes; one byte more does not.
async fn a_payload_may_be_as_large_as_the_store_takes(fx: Fixture) {
    let id = fx.enqueue(job().payload("\"12345678901234\"")).await;
    assert_eq!(fx.job(&id).await.spec.payload, json("\"12345678901234\""));
    let invalid = expect_refused(
        fx.store.enqueue(job().payload("\"123456789012345\"")).await,
        "payload",
    );
    assert_eq!(
        invalid.rule,
        Rule::TooLong {
            bytes: 17,
            most: 16
        }
    );
    assert_eq!(fx.counts().await.total(), 1);
}

/// A hundred levels pass, and come back.
async fn a_payload_may_be_as_deep_as_decoders_take(fx: Fixture) {
    let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    let id = fx.enqueue(job().payload(deepest.as_str())).await;
    assert_eq!(fx.job(&id).await.spec.payload.get(), deepest);
}
