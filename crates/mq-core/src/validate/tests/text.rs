//! Ids, names and keys.

use super::*;
use crate::id::{ChildKey, JobId, JobName, LockToken, QueueName, ScheduleKey, StoreKey};

type Check = fn(&str) -> Validated;

/// Every text that has a function of its own, its field and its longest.
fn texts() -> [(&'static str, usize, Check); 7] {
    [
        ("job id", MAX_ID, |text| job_id(&JobId::from(text))),
        ("job name", MAX_NAME, |text| job_name(&JobName::from(text))),
        ("queue name", MAX_NAME, |text| {
            queue_name(&QueueName::from(text))
        }),
        ("child key", MAX_NAME, |text| {
            child_key(&ChildKey::from(text))
        }),
        ("lock token", MAX_NAME, |text| {
            lock_token(&LockToken::from(text))
        }),
        ("store name", MAX_NAME, |text| {
            store_key(&StoreKey::from(text))
        }),
        ("schedule key", MAX_NAME, |text| {
            schedule_key(&ScheduleKey::from(text))
        }),
    ]
}

#[test]
fn a_text_needs_a_character() {
    for (field, _, check) in texts() {
        passes(check("a"));
        passes(check(" "));
        let message = format!("{field} \"\" is empty: give it at least one character");
        refuses(check(""), &message);
    }
}

#[test]
fn a_text_may_be_as_long_as_its_limit_in_bytes() {
    for (field, most, check) in texts() {
        passes(check(&"x".repeat(most)));
        passes(check(&"é".repeat(most / 2)));
        let shown = "x".repeat(63);
        let message = format!(
            "{field} \"{shown}… is {} bytes long, at most {most}",
            most + 1
        );
        refuses(check(&"x".repeat(most + 1)), &message);
        let two_bytes_each = refusal(check(&"é".repeat(most / 2 + 1)));
        let end = format!("is {} bytes long, at most {most}", most + 2);
        assert!(two_bytes_each.ends_with(&end), "{two_bytes_each}");
    }
}

#[test]
fn a_text_holds_no_nul() {
    for (field, _, check) in texts() {
        passes(check("a\u{1}b"));
        let message = format!("{field} \"a\\0b\" holds a NUL character (U+0000): remove it");
        refuses(check("a\0b"), &message);
        assert!(refusal(check("\0")).contains("NUL"));
    }
}

#[test]
fn the_limits_are_those_of_the_contract() {
    assert_eq!((MAX_ID, MAX_NAME, MAX_METADATA), (1_024, 256, 65_536));
    assert_eq!((MAX_DEPTH, MAX_PAGE_BYTES), (100, 8_388_608));
    assert_eq!((MAX_BATCH, MAX_PAGE, DEFAULT_LIST), (250, 1_000, 50));
    assert_eq!(Limits::default().max_payload, 1_048_576);
}

#[test]
fn a_job_name_has_no_slash() {
    let check = |name: &str| job_name(&JobName::from(name));
    for name in ["a.b", "a:b", "a\\b", "send-email", "Ünïcode"] {
        passes(check(name));
    }
    let rule = "holds a slash, which separates the parts of job ids: use another sign";
    for name in ["a/b", "/", "a/"] {
        refuses(check(name), &format!("job name {name:?} {rule}"));
    }
}

#[test]
fn the_names_that_ids_are_built_with_are_no_job_names() {
    let check = |name: &str| job_name(&JobName::from(name));
    for name in ["Sched", "schedule", "flows", "flow-1"] {
        passes(check(name));
    }
    let rule = "is kept for ids that the library builds: choose another";
    for name in ["sched", "flow"] {
        refuses(check(name), &format!("job name {name:?} {rule}"));
        passes(queue_name(&QueueName::from(name)));
    }
}

#[test]
fn a_chosen_id_begins_with_no_reserved_name() {
    let check = |id: &str| chosen_job_id(&JobId::from(id));
    for id in [
        "sched",
        "flow",
        "scheduler/1",
        "flows/1",
        "a/sched/1",
        "Flow/1",
    ] {
        passes(check(id));
    }
    for reserved in RESERVED_NAMES {
        for id in [format!("{reserved}/"), format!("{reserved}/key/1")] {
            let rule = format!(
                "begins with {reserved}/, which is kept for ids that the library builds: choose another"
            );
            refuses(check(&id), &format!("job id {id:?} {rule}"));
            passes(job_id(&JobId::from(id)));
        }
    }
    refuses(
        check(""),
        "job id \"\" is empty: give it at least one character",
    );
}

#[test]
fn a_value_is_shown_up_to_64_characters() {
    let exactly = format!("{}\0", "x".repeat(60));
    let shown = refusal(job_id(&JobId::from(exactly)));
    assert!(
        shown.starts_with(&format!("job id \"{}\\0\" holds", "x".repeat(60))),
        "{shown}"
    );
    let longer = format!("{}\0", "x".repeat(61));
    let shown = refusal(job_id(&JobId::from(longer)));
    assert!(
        shown.starts_with(&format!("job id \"{}\\0… holds", "x".repeat(61))),
        "{shown}"
    );
}
