//! Fan-outs and reports.

use super::*;
use crate::id::{ChildKey, JobId, LockToken, OutboxId};
use crate::record::{FlowChild, Report, ReportOutcome};
use crate::store::{Ack, AckOutcome, Lock};

fn child(key: &str) -> FlowChild {
    FlowChild {
        key: key.into(),
        store: "store".into(),
        job: NewJob {
            id: Some(key.into()),
            ..job()
        },
    }
}

#[test]
fn a_fan_out_may_have_no_children() {
    passes(fan_out(&[], &limits()));
    passes(fan_out(&[child("a"), child("b")], &limits()));
}

#[test]
fn the_children_of_a_fan_out_have_distinct_keys_and_ids() {
    let of = |second: FlowChild| fan_out(&[child("a"), second], &limits());
    refuses(
        of(child("a")),
        "child key \"a\" is used by two children of one fan-out: give each its own",
    );
    refuses(
        of(FlowChild {
            key: "".into(),
            ..child("b")
        }),
        "child key \"\" is empty: give it at least one character",
    );
    refuses(
        of(FlowChild {
            job: job(),
            ..child("b")
        }),
        "child \"b\" has no job id: a fan-out names the id of each child",
    );
    refuses(
        of(FlowChild {
            store: "".into(),
            ..child("b")
        }),
        "store name \"\" is empty: give it at least one character",
    );
    let mut broken = child("b");
    broken.job.spec.attempts_max = 0;
    refuses(of(broken), "attempts_max 0 is zero, must be at least 1");
}

#[test]
fn an_ack_checks_the_children_it_names() {
    let lock = Lock {
        id: "parent".into(),
        token: "token".into(),
    };
    let children = vec![child("a"), child("a")];
    let outcome = AckOutcome::FanOut {
        fail_fast: false,
        children,
    };
    assert!(refusal(ack(&Ack { lock, outcome }, &limits())).contains("two children"));
}

#[test]
fn every_text_of_a_report_is_checked() {
    let whole = || Report {
        flow_id: "parent".into(),
        manifest: "token".into(),
        child_key: "child".into(),
        outcome: ReportOutcome::Failed,
        exit: Some(RawJson::null()),
        failed_reason: Some(String::new()),
    };
    let check = |report| record_child_results(&[whole(), report], &limits());
    passes(record_child_results(&[], &limits()));
    passes(check(whole()));
    let empty = "\"\" is empty: give it at least one character";
    for (field, broken) in [
        (
            "job id",
            Report {
                flow_id: "".into(),
                ..whole()
            },
        ),
        (
            "lock token",
            Report {
                manifest: "".into(),
                ..whole()
            },
        ),
        (
            "child key",
            Report {
                child_key: "".into(),
                ..whole()
            },
        ),
    ] {
        refuses(check(broken), &format!("{field} {empty}"));
    }
    refuses(
        check(Report {
            failed_reason: Some("a\0".into()),
            ..whole()
        }),
        "failed reason \"a\\0\" holds a NUL character (U+0000): remove it",
    );
    let exit = Some(json(format!("\"{}\"", "x".repeat(99))));
    let message = refusal(check(Report { exit, ..whole() }));
    assert!(
        message.ends_with("is 101 bytes long, at most 100"),
        "{message}"
    );
}

#[test]
fn every_text_that_names_children_is_checked() {
    let check = |flow: &str, manifest: &str, key: &str| {
        flow_children(
            &JobId::from(flow),
            &LockToken::from(manifest),
            &[ChildKey::from("a"), key.into()],
        )
    };
    passes(check("parent", "token", "b"));
    let empty = "\"\" is empty: give it at least one character";
    refuses(check("", "token", "b"), &format!("job id {empty}"));
    refuses(check("parent", "", "b"), &format!("lock token {empty}"));
    refuses(check("parent", "token", ""), &format!("child key {empty}"));
}

#[test]
fn a_sweep_of_flows_is_limited_like_any_other() {
    assert_eq!(flow_sweep_work(Duration::ZERO, 1), Ok(1));
    assert_eq!(flow_sweep_work(LONGEST, 251), Ok(250));
    refuses(
        flow_sweep_work(Duration::ZERO, 0),
        "limit 0 is zero, must be at least 1",
    );
    refuses(
        flow_sweep_work(TOO_LONG, 1),
        &format!("pending age {TOO_LONG:?} {SPAN}"),
    );
}

#[test]
fn an_outbox_id_is_any_text_but_nul() {
    passes(outbox_id(&OutboxId::from("")));
    passes(outbox_id(&OutboxId::from("x".repeat(10_000))));
    refuses(
        outbox_id(&OutboxId::from("1\0")),
        "outbox id \"1\\0\" holds a NUL character (U+0000): remove it",
    );
}
