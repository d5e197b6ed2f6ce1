//! Jobs to enqueue, and what they carry.

use super::*;
use crate::error::Rule;
use crate::record::{Backoff, Dedupe, Keep, ParentEnvelope, Retention, TraceContext, When};
use crate::time::Timestamp;

fn check(change: impl FnOnce(&mut NewJob)) -> Validated {
    let mut changed = job();
    change(&mut changed);
    new_job(&changed, &limits())
}

#[test]
fn a_plain_job_passes() {
    passes(check(|_| {}));
}

#[test]
fn every_text_of_a_job_is_checked() {
    for (field, change) in [
        (
            "job id",
            (|job| job.id = Some("".into())) as fn(&mut NewJob),
        ),
        ("job name", |job| job.spec.name = "".into()),
        ("queue name", |job| job.spec.queue = "".into()),
        ("dedupe key", |job| job.dedupe = Some(Dedupe::key(""))),
    ] {
        let message = format!("{field} \"\" is empty: give it at least one character");
        refuses(check(change), &message);
    }
    let long = "x".repeat(MAX_NAME);
    passes(check(|job| job.dedupe = Some(Dedupe::key(long.as_str()))));
    let message = refusal(check(|job| {
        job.dedupe = Some(Dedupe::key(format!("{long}x")))
    }));
    assert!(
        message.ends_with("is 257 bytes long, at most 256"),
        "{message}"
    );
}

#[test]
fn a_job_has_at_least_one_attempt() {
    passes(check(|job| job.spec.attempts_max = 1));
    passes(check(|job| job.spec.attempts_max = u32::MAX));
    refuses(
        check(|job| job.spec.attempts_max = 0),
        "attempts_max 0 is zero, must be at least 1",
    );
}

#[test]
fn any_priority_passes() {
    for priority in [i32::MIN, 0, i32::MAX] {
        passes(check(|job| job.spec.priority = priority));
    }
}

#[test]
fn a_timeout_is_a_positive_span() {
    for timeout in [Duration::from_nanos(1), LONGEST] {
        passes(check(|job| job.spec.timeout = Some(timeout)));
    }
    refuses(
        check(|job| job.spec.timeout = Some(Duration::ZERO)),
        "timeout 0ns is zero, must be at least 1 ms (leave it out for none)",
    );
    refuses(
        check(|job| job.spec.timeout = Some(TOO_LONG)),
        &format!("timeout {TOO_LONG:?} {SPAN}"),
    );
}

#[test]
fn a_delay_leads_to_an_instant() {
    for when in [When::NOW, When::After(LONGEST), When::At(Timestamp::MAX)] {
        passes(check(|job| job.when = when));
    }
    refuses(
        check(|job| job.when = When::After(TOO_LONG)),
        &format!("delay {TOO_LONG:?} {SPAN}"),
    );
    refuses(
        check(|job| job.when = When::After(Duration::MAX)),
        &format!("delay {:?} {SPAN}", Duration::MAX),
    );
}

#[test]
fn metadata_holds_64_kib_of_keys_and_values() {
    let label = |key: &str, value: String| {
        let key = key.to_owned();
        check(move |job| {
            job.spec.metadata.insert("other".into(), "12345".into());
            job.spec.metadata.insert(key, value);
        })
    };
    let room = MAX_METADATA - "other".len() - "12345".len() - "key".len();
    passes(label("key", "x".repeat(room)));
    refuses(
        label("key", "x".repeat(room + 1)),
        "metadata with keys [\"key\", \"other\"] is 65537 bytes long, at most 65536",
    );
    refuses(
        label("longer", "x".repeat(room)),
        "metadata with keys [\"longer\", \"other\"] is 65539 bytes long, at most 65536",
    );
}

#[test]
fn a_label_has_a_key_and_no_nul() {
    let label = |key: &str, value: &str| {
        check(|job| drop(job.spec.metadata.insert(key.into(), value.into())))
    };
    passes(label("key", ""));
    passes(label(" ", "\u{1}"));
    refuses(
        label("", "value"),
        "metadata key \"\" is empty: give it at least one character",
    );
    refuses(
        label("a\0", "value"),
        "metadata key \"a\\0\" holds a NUL character (U+0000): remove it",
    );
    refuses(
        label("key", "a\0"),
        "metadata \"key\" \"a\\0\" holds a NUL character (U+0000): remove it",
    );
    refuses(
        label(&"k".repeat(100_000), "a\0"),
        &format!(
            "metadata \"{}… \"a\\0\" holds a NUL character (U+0000): remove it",
            "k".repeat(63)
        ),
    );
}

#[test]
fn a_fixed_backoff_is_a_span() {
    let fixed = |delay| check(|job| job.spec.backoff = Some(Backoff::fixed(delay)));
    passes(fixed(Duration::ZERO));
    passes(fixed(LONGEST));
    refuses(
        fixed(TOO_LONG),
        &format!("backoff delay {TOO_LONG:?} {SPAN}"),
    );
}

#[test]
fn an_exponential_backoff_has_numbers_that_make_sense() {
    let backoff = |policy| check(|job| job.spec.backoff = Some(policy));
    let usual = Backoff::exponential(Duration::from_secs(1));
    passes(backoff(usual));
    passes(backoff(Backoff::exponential(LONGEST).max(LONGEST)));
    let delay = backoff(Backoff::exponential(TOO_LONG));
    refuses(delay, &format!("backoff delay {TOO_LONG:?} {SPAN}"));
    let max = backoff(usual.max(TOO_LONG));
    refuses(max, &format!("backoff max {TOO_LONG:?} {SPAN}"));
    for factor in [1.0, f64::MAX] {
        passes(backoff(usual.factor(factor)));
    }
    for factor in [0.999, 0.0, -2.0, f64::NAN, f64::INFINITY] {
        let rule = "is out of range: a finite number of at least 1";
        let message = format!("backoff factor {factor:?} {rule}");
        refuses(backoff(usual.factor(factor)), &message);
    }
    for jitter in [0.0, 0.5, 1.0] {
        passes(backoff(usual.jitter(jitter)));
    }
    for jitter in [-0.001, 1.001, f64::NAN, f64::INFINITY] {
        let message = format!("backoff jitter {jitter:?} is out of range: from 0 to 1");
        refuses(backoff(usual.jitter(jitter)), &message);
    }
}

#[test]
fn each_state_keeps_for_a_span() {
    let keep = |policy| check(|job| job.spec.keep = Some(policy));
    passes(keep(Keep::default()));
    passes(keep(Keep::all(Retention::count(0))));
    passes(keep(Keep::all(Retention::age(Duration::ZERO))));
    passes(keep(Keep::all(Retention::age(LONGEST))));
    let too_long = Some(Retention::age(TOO_LONG));
    let none = Keep::default;
    for policy in [
        Keep {
            completed: too_long,
            ..none()
        },
        Keep {
            failed: too_long,
            ..none()
        },
        Keep {
            cancelled: too_long,
            ..none()
        },
    ] {
        refuses(keep(policy), &format!("keep age {TOO_LONG:?} {SPAN}"));
    }
}

#[test]
fn a_dedupe_window_is_a_span_and_only_a_window_extends() {
    let dedupe = |policy| check(|job| job.dedupe = Some(policy));
    let key = || Dedupe::key("key");
    passes(dedupe(key()));
    passes(dedupe(key().replace()));
    passes(dedupe(key().ttl(Duration::ZERO).extend()));
    passes(dedupe(key().ttl(LONGEST)));
    refuses(
        dedupe(key().ttl(TOO_LONG)),
        &format!("dedupe ttl {TOO_LONG:?} {SPAN}"),
    );
    refuses(
        dedupe(key().extend()),
        "dedupe of key \"key\" extends a window without a ttl: give it one",
    );
}

#[test]
fn a_trace_is_any_text_but_nul() {
    let trace = |trace_id: &str, span_id: &str| {
        check(|job| {
            job.trace = Some(TraceContext {
                trace_id: trace_id.into(),
                span_id: span_id.into(),
                sampled: false,
                delayed: false,
            });
        })
    };
    passes(trace("", ""));
    passes(trace("not W3C at all", "\u{1}"));
    let rule = "holds a NUL character (U+0000): remove it";
    refuses(trace("a\0", ""), &format!("trace id \"a\\0\" {rule}"));
    refuses(trace("", "a\0"), &format!("span id \"a\\0\" {rule}"));
}

#[test]
fn every_text_of_a_parent_is_checked() {
    let whole = ParentEnvelope {
        flow_name: "flow".into(),
        flow_id: "id".into(),
        manifest: "token".into(),
        child_key: "child".into(),
        parent_store: "store".into(),
        depth: 1,
    };
    let parent = |parent: ParentEnvelope| check(|job| job.parent = Some(parent));
    passes(parent(whole.clone()));
    let w = || whole.clone();
    for (field, broken) in [
        (
            "flow name",
            ParentEnvelope {
                flow_name: "".into(),
                ..w()
            },
        ),
        (
            "job id",
            ParentEnvelope {
                flow_id: "".into(),
                ..w()
            },
        ),
        (
            "lock token",
            ParentEnvelope {
                manifest: "".into(),
                ..w()
            },
        ),
        (
            "child key",
            ParentEnvelope {
                child_key: "".into(),
                ..w()
            },
        ),
        (
            "store name",
            ParentEnvelope {
                parent_store: "".into(),
                ..w()
            },
        ),
    ] {
        let message = format!("{field} \"\" is empty: give it at least one character");
        refuses(parent(broken), &message);
    }
}

#[test]
fn a_payload_may_be_as_large_as_the_limit_and_is_not_quoted() {
    let payload = |length: usize| {
        let text = format!("\"{}\"", "x".repeat(length - 2));
        check(|job| job.spec.payload = json(text))
    };
    passes(payload(100));
    refuses(payload(101), "payload is 101 bytes long, at most 100");
}

/// So many arrays, one in the other, with some text inside.
fn nested(levels: usize, inside: &str) -> String {
    format!("{}{inside}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn a_payload_may_be_nested_a_hundred_levels_deep() {
    let payload = |text: String| {
        let mut deep = job();
        deep.spec.payload = json(text);
        new_job(&deep, &Limits::default())
    };
    passes(payload(nested(MAX_DEPTH, "")));
    passes(payload(nested(MAX_DEPTH, "1, 2")));
    for deep in [nested(MAX_DEPTH + 1, ""), nested(MAX_DEPTH, "{}")] {
        let message = refusal(payload(deep));
        let end = "is nested deeper than 100 levels";
        assert!(message.starts_with("payload "), "{message}");
        assert!(message.ends_with(end), "{message}");
    }
    let objects = format!("{}1{}", "{\"a\":".repeat(101), "}".repeat(101));
    assert!(payload(objects).is_err());
}

#[test]
fn only_real_brackets_nest() {
    let payload = |text: String| {
        let mut flat = job();
        flat.spec.payload = json(text);
        new_job(&flat, &Limits::default())
    };
    passes(payload(format!("\"{}\"", "[{".repeat(200))));
    passes(payload(format!("[\"{}\"]", "\\\"[".repeat(200))));
    passes(payload(format!("[\"\\\\\",\"{}\"]", "[".repeat(200))));
    passes(payload(format!("{{\"{}\":[]}}", "{".repeat(200))));
    passes(payload(format!("[{}[]]", "[],".repeat(300))));
    let hidden = format!("[\"\\\\\",{}]", nested(100, "\"]]\""));
    assert!(
        payload(hidden).is_err(),
        "brackets after a string that ends in a backslash"
    );
}

#[test]
fn a_batch_names_the_place_of_its_broken_item() {
    let broken = || {
        let mut broken = job();
        broken.spec.attempts_max = 0;
        broken
    };
    passes(enqueue_many(&[], &limits()));
    passes(enqueue_many(&[job(), job()], &limits()));
    refuses(
        enqueue_many(&[broken()], &limits()),
        "attempts_max 0 is zero, must be at least 1",
    );
    refuses(
        enqueue_many(&[job(), job(), broken(), broken()], &limits()),
        "job 2 of 4: attempts_max 0 is zero, must be at least 1",
    );
    let error = enqueue_many(&[broken(), job()], &limits()).unwrap_err();
    assert_eq!(error.field, "job 0 of 2: attempts_max");
    assert_eq!(error.value, "0");
    assert_eq!(error.rule, Rule::Zero { least: "1" });
}
