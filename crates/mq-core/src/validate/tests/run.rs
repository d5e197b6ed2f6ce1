//! Claims, acks, locks and waits.

use super::*;
use crate::id::{JobId, JobName, QueueName};
use crate::store::{Ack, AckOutcome, ClaimRequest, Lock};

fn request() -> ClaimRequest {
    ClaimRequest {
        queue: "queue".into(),
        names: [JobName::from("a"), "b".into()].into(),
        token: "token".into(),
        lock_for: Duration::from_secs(30),
        limit: 10,
    }
}

fn held() -> Lock {
    Lock {
        id: "id".into(),
        token: "token".into(),
    }
}

#[test]
fn every_text_of_a_claim_is_checked() {
    passes(claim(&request()));
    passes(claim(&ClaimRequest {
        names: [].into(),
        ..request()
    }));
    let names = [JobName::from("a"), "".into()].into();
    for (field, broken) in [
        (
            "queue name",
            ClaimRequest {
                queue: "".into(),
                ..request()
            },
        ),
        ("job name", ClaimRequest { names, ..request() }),
        (
            "lock token",
            ClaimRequest {
                token: "".into(),
                ..request()
            },
        ),
    ] {
        let message = format!("{field} \"\" is empty: give it at least one character");
        refuses(claim(&broken), &message);
    }
}

#[test]
fn a_claims_limit_is_clamped_to_250_and_never_zero() {
    let limit = |limit| claim(&ClaimRequest { limit, ..request() });
    assert_eq!(limit(1), Ok(1));
    assert_eq!(limit(250), Ok(250));
    assert_eq!(limit(251), Ok(250));
    assert_eq!(limit(u32::MAX), Ok(250));
    refuses(limit(0), "limit 0 is zero, must be at least 1");
}

#[test]
fn a_lock_holds_for_a_positive_span() {
    let for_claim = |lock_for| {
        claim(&ClaimRequest {
            lock_for,
            ..request()
        })
        .map(drop)
    };
    let for_heartbeat = |lock_for| extend_locks(&[held()], lock_for);
    for check in [&for_claim as &dyn Fn(Duration) -> Validated, &for_heartbeat] {
        passes(check(Duration::from_nanos(1)));
        passes(check(LONGEST));
        refuses(
            check(Duration::ZERO),
            "lock_for 0ns is zero, must be at least 1 ms",
        );
        refuses(check(TOO_LONG), &format!("lock_for {TOO_LONG:?} {SPAN}"));
    }
}

#[test]
fn both_texts_of_a_lock_are_checked() {
    let no_id = Lock {
        id: "".into(),
        ..held()
    };
    let no_token = Lock {
        token: "a\0".into(),
        ..held()
    };
    let second = Duration::from_secs(1);
    let ends = |held: &Lock| {
        ack(
            &Ack {
                lock: held.clone(),
                outcome: AckOutcome::Cancelled,
            },
            &limits(),
        )
    };
    let reports = |held: &Lock| set_progress(held, &RawJson::null(), &limits());
    let beats = |broken: &Lock| extend_locks(&[held(), broken.clone()], second);
    for check in [
        &lock as &dyn Fn(&Lock) -> Validated,
        &ends,
        &reports,
        &beats,
    ] {
        passes(check(&held()));
        refuses(
            check(&no_id),
            "job id \"\" is empty: give it at least one character",
        );
        refuses(
            check(&no_token),
            "lock token \"a\\0\" holds a NUL character (U+0000): remove it",
        );
    }
    passes(extend_locks(&[], second));
}

#[test]
fn delays_of_acks_lead_to_instants() {
    let ends = |outcome| {
        ack(
            &Ack {
                lock: held(),
                outcome,
            },
            &limits(),
        )
    };
    passes(ends(AckOutcome::Retry {
        delay: LONGEST,
        exit: None,
    }));
    passes(ends(AckOutcome::Snooze { delay: LONGEST }));
    refuses(
        ends(AckOutcome::Retry {
            delay: TOO_LONG,
            exit: None,
        }),
        &format!("retry delay {TOO_LONG:?} {SPAN}"),
    );
    refuses(
        ends(AckOutcome::Snooze { delay: TOO_LONG }),
        &format!("snooze delay {TOO_LONG:?} {SPAN}"),
    );
}

#[test]
fn exits_and_progress_are_limited_as_payloads_are() {
    let text = |bytes: usize| json(format!("\"{}\"", "x".repeat(bytes - 2)));
    let ends = |outcome| {
        ack(
            &Ack {
                lock: held(),
                outcome,
            },
            &limits(),
        )
    };
    let checks: [(&str, &dyn Fn(RawJson) -> Validated); 4] = [
        ("exit", &|value| {
            ends(AckOutcome::Complete { exit: Some(value) })
        }),
        ("exit", &|value| {
            ends(AckOutcome::Fail { exit: Some(value) })
        }),
        ("exit", &|value| {
            let delay = Duration::ZERO;
            ends(AckOutcome::Retry {
                delay,
                exit: Some(value),
            })
        }),
        ("progress", &|value| {
            set_progress(&held(), &value, &limits())
        }),
    ];
    for (field, check) in checks {
        passes(check(text(100)));
        let message = refusal(check(text(101)));
        assert!(message.starts_with(field), "{message}");
        assert!(
            message.ends_with("is 101 bytes long, at most 100"),
            "{message}"
        );
    }
    let deep = json(format!("{}{}", "[".repeat(101), "]".repeat(101)));
    let exit = AckOutcome::Complete {
        exit: Some(deep.clone()),
    };
    let unlimited = Limits::default();
    let message = refusal(ack(
        &Ack {
            lock: held(),
            outcome: exit,
        },
        &unlimited,
    ));
    assert!(
        message.ends_with("is nested deeper than 100 levels"),
        "{message}"
    );
    assert!(set_progress(&held(), &deep, &unlimited).is_err());
}

#[test]
fn pages_of_work_are_clamped_to_250_and_never_empty() {
    assert_eq!(batch_limit(1), Ok(1));
    assert_eq!(batch_limit(250), Ok(250));
    assert_eq!(batch_limit(251), Ok(250));
    refuses(batch_limit(0), "limit 0 is zero, must be at least 1");
}

#[test]
fn every_queue_and_every_id_of_a_list_is_checked() {
    passes(queues(&[]));
    passes(queues(&[QueueName::from("a")]));
    refuses(
        queues(&[QueueName::from("a"), "".into()]),
        "queue name \"\" is empty: give it at least one character",
    );
    passes(job_ids(&[]));
    passes(job_ids(&[JobId::from("a")]));
    refuses(
        job_ids(&[JobId::from("a"), "b\0".into()]),
        "job id \"b\\0\" holds a NUL character (U+0000): remove it",
    );
}
