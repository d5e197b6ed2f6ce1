//! Queries and settings.

use super::*;
use crate::id::{DedupeKey, JobName, QueueName};
use crate::record::{Rate, WorkerRecord};
use crate::store::{Change, ListFilter, QueueSettings};
use crate::time::Timestamp;

#[test]
fn a_listing_is_50_long_unless_asked_otherwise_and_at_most_1000() {
    let limit = |limit| {
        list(&ListFilter {
            limit,
            ..ListFilter::default()
        })
    };
    assert_eq!(limit(None), Ok(50));
    assert_eq!(limit(Some(1)), Ok(1));
    assert_eq!(limit(Some(1_000)), Ok(1_000));
    assert_eq!(limit(Some(1_001)), Ok(1_000));
    refuses(limit(Some(0)), "limit 0 is zero, must be at least 1");
    assert_eq!(page_limit(u32::MAX), Ok(1_000));
    refuses(page_limit(0), "limit 0 is zero, must be at least 1");
}

#[test]
fn every_text_of_a_filter_is_checked() {
    let any = ListFilter::default;
    let no_states = ListFilter {
        states: Some(Vec::new()),
        ..any()
    };
    passes(list(&no_states));
    let label = [(String::new(), String::new())].into();
    for (field, broken) in [
        (
            "queue name",
            ListFilter {
                queue: Some("".into()),
                ..any()
            },
        ),
        (
            "job name",
            ListFilter {
                name: Some("".into()),
                ..any()
            },
        ),
        (
            "metadata key",
            ListFilter {
                metadata: label,
                ..any()
            },
        ),
    ] {
        let message = format!("{field} \"\" is empty: give it at least one character");
        refuses(list(&broken), &message);
    }
    let slash = ListFilter {
        name: Some("a/b".into()),
        ..any()
    };
    assert!(refusal(list(&slash)).contains("slash"));
}

#[test]
fn a_cancel_by_key_needs_both_texts() {
    let check =
        |name: &str, key: &str| cancel_by_dedupe(&JobName::from(name), &DedupeKey::from(key));
    passes(check("job", "key"));
    passes(check("job", "a/b"));
    let rule = "is empty: give it at least one character";
    refuses(check("", "key"), &format!("job name \"\" {rule}"));
    refuses(check("job", ""), &format!("dedupe key \"\" {rule}"));
    let long = refusal(check("job", &"k".repeat(257)));
    assert!(long.ends_with("is 257 bytes long, at most 256"), "{long}");
}

fn settings(change: impl FnOnce(&mut QueueSettings)) -> Validated {
    let mut settings = QueueSettings::default();
    change(&mut settings);
    set_queue(&QueueName::from("queue"), &settings)
}

#[test]
fn a_queue_lets_at_least_one_job_run() {
    passes(settings(|it| it.max_active = Change::Clear));
    passes(settings(|it| it.max_active = Change::Set(1)));
    passes(settings(|it| it.max_active = Change::Set(u32::MAX)));
    refuses(
        settings(|it| it.max_active = Change::Set(0)),
        "max_active 0 is zero, must be at least 1 (pause the queue to hold it altogether)",
    );
    refuses(
        set_queue(&QueueName::from(""), &QueueSettings::default()),
        "queue name \"\" is empty: give it at least one character",
    );
}

#[test]
fn a_rate_is_at_least_one_start_in_a_positive_span() {
    let rate = |count, per| settings(|it| it.rate = Change::Set(Rate { count, per }));
    passes(settings(|it| it.rate = Change::Clear));
    passes(rate(1, Duration::from_nanos(1)));
    passes(rate(u32::MAX, LONGEST));
    refuses(
        rate(0, LONGEST),
        "rate count 0 is zero, must be at least 1 (pause the queue to hold it altogether)",
    );
    refuses(
        rate(1, Duration::ZERO),
        "rate per 0ns is zero, must be at least 1 ms",
    );
    refuses(rate(1, TOO_LONG), &format!("rate per {TOO_LONG:?} {SPAN}"));
}

#[test]
fn every_text_of_a_worker_is_checked() {
    let whole = || WorkerRecord {
        id: "id".into(),
        host: String::new(),
        version: String::new(),
        queues: Vec::new(),
        in_flight: 0,
        started_at: Timestamp::MIN,
        last_seen_at: Timestamp::MIN,
    };
    passes(worker(&whole()));
    passes(worker(&WorkerRecord {
        id: "x".repeat(256).into(),
        ..whole()
    }));
    let nul = "\"a\\0\" holds a NUL character (U+0000): remove it";
    let empty = "\"\" is empty: give it at least one character";
    for (broken, message) in [
        (
            WorkerRecord {
                id: "".into(),
                ..whole()
            },
            format!("worker id {empty}"),
        ),
        (
            WorkerRecord {
                host: "a\0".into(),
                ..whole()
            },
            format!("worker host {nul}"),
        ),
        (
            WorkerRecord {
                version: "a\0".into(),
                ..whole()
            },
            format!("worker version {nul}"),
        ),
        (
            WorkerRecord {
                queues: vec!["".into()],
                ..whole()
            },
            format!("queue name {empty}"),
        ),
    ] {
        refuses(worker(&broken), &message);
    }
}
