//! The checker finds what is wrong, and nothing else.

use std::time::Duration;

use super::simulation::{Breakage, run};
use super::*;
use crate::event::Outcome;

fn second(number: u64) -> Instant {
    Instant(number * 1_000_000_000)
}

fn held(token: &str) -> Held {
    Held {
        id: "job".into(),
        token: token.into(),
    }
}

fn claimed(at: u64, token: &str) -> Event {
    Event::Claimed {
        asked: second(at),
        at: second(at),
        lock_for: Duration::from_secs(10),
        token: token.into(),
        ids: vec!["job".into()],
    }
}

fn started(at: u64, token: &str) -> Event {
    Event::Started {
        at: second(at),
        held: held(token),
    }
}

fn ended(at: u64, token: &str) -> Event {
    Event::Ended {
        at: second(at),
        held: held(token),
    }
}

fn acking(at: u64, token: &str, outcome: Outcome) -> Event {
    Event::Acking {
        at: second(at),
        held: held(token),
        outcome,
    }
}

fn acked(at: u64, token: &str, answer: Answer) -> Event {
    Event::Acked {
        at: second(at),
        held: held(token),
        answer,
    }
}

fn killed(at: u64, worker: &str) -> Event {
    Event::Killed {
        at: second(at),
        worker: worker.into(),
    }
}

fn log(process: &str, events: impl IntoIterator<Item = Event>) -> Log {
    Log {
        process: process.into(),
        events: events.into_iter().collect(),
    }
}

fn violations(logs: &[Log]) -> Vec<Violation> {
    check(logs).violations
}

fn tokens() -> [String; 2] {
    ["a".into(), "b".into()]
}

#[test]
fn a_store_that_keeps_its_promises_is_found_faultless() {
    for seed in 0..500 {
        let found = violations(&run(seed, Breakage::None));
        assert_eq!(found, [], "seed {seed}");
    }
}

#[test]
fn each_broken_promise_is_found() {
    let breakages = [
        Breakage::TokenCheck,
        Breakage::LockCheck,
        Breakage::Extension,
        Breakage::Amnesia,
    ];
    for breakage in breakages {
        let found = (0..100).filter(|seed| !violations(&run(*seed, breakage)).is_empty());
        let found = found.count();
        assert!(found > 50, "{breakage:?} was found in {found} of 100 runs");
    }
}

#[test]
fn two_handlers_at_once_under_live_locks_are_a_violation() {
    let one = log("one", [claimed(1, "a"), started(2, "a"), ended(5, "a")]);
    let other = log("other", [claimed(3, "b"), started(4, "b"), ended(6, "b")]);
    let expected = [
        Violation::RanTwiceAtOnce {
            id: "job".into(),
            tokens: tokens(),
        },
        Violation::ClaimedWhileHeld {
            id: "job".into(),
            tokens: tokens(),
        },
    ];
    assert_eq!(violations(&[one, other]), expected);
}

#[test]
fn a_second_run_after_the_first_ones_lock_has_expired_is_none() {
    let one = log("one", [claimed(1, "a"), started(2, "a"), ended(20, "a")]);
    let other = log(
        "other",
        [claimed(11, "b"), started(12, "b"), ended(13, "b")],
    );
    assert_eq!(violations(&[one, other]), []);
}

#[test]
fn an_extension_keeps_a_lock_live() {
    let extended = Event::Extended {
        asked: second(8),
        at: second(9),
        lock_for: Duration::from_secs(10),
        held: vec![held("a")],
    };
    let one = log("one", [claimed(1, "a"), started(2, "a"), extended]);
    let other = log("other", [claimed(12, "b")]);
    let expected = Violation::ClaimedWhileHeld {
        id: "job".into(),
        tokens: tokens(),
    };
    assert_eq!(violations(&[one, other]), [expected]);
}

#[test]
fn an_extension_that_came_when_the_lock_was_over_proves_nothing() {
    let extended = Event::Extended {
        asked: second(12),
        at: second(12),
        lock_for: Duration::from_secs(10),
        held: vec![held("a")],
    };
    let one = log("one", [claimed(1, "a"), started(2, "a"), extended]);
    let other = log("other", [claimed(13, "b")]);
    assert_eq!(violations(&[one, other]), []);
}

#[test]
fn a_kill_ends_a_run_but_not_its_lock() {
    let logs = |claims_at| {
        [
            log("one", [claimed(1, "a"), started(2, "a")]),
            log("other", [claimed(claims_at, "b"), started(claims_at, "b")]),
            log("harness", [killed(3, "one")]),
        ]
    };
    let too_early = Violation::ClaimedWhileHeld {
        id: "job".into(),
        tokens: tokens(),
    };
    assert_eq!(violations(&logs(5)), [too_early]);
    assert_eq!(violations(&logs(12)), []);
}

#[test]
fn a_kill_counts_as_holding_only_under_a_live_lock() {
    let holding = log("holding", [claimed(1, "a"), started(2, "a")]);
    let done = log(
        "done",
        [
            claimed(20, "b"),
            acking(21, "b", Outcome::Final),
            acked(21, "b", Answer::Applied),
        ],
    );
    let harness = log("harness", [killed(3, "holding"), killed(22, "done")]);
    let tally = check(&[holding, done, harness]).tally;
    assert_eq!((tally.kills, tally.kills_holding), (2, 1));
}

#[test]
fn an_end_by_a_run_that_had_lost_its_lock_is_a_violation() {
    let one = log(
        "one",
        [
            claimed(1, "a"),
            acking(5, "a", Outcome::Final),
            acked(30, "a", Answer::Applied),
        ],
    );
    let other = log("other", [claimed(12, "b")]);
    let expected = Violation::EndedByLoser {
        held: held("a"),
        holder: "b".into(),
    };
    assert_eq!(violations(&[one, other]), [expected]);
}

#[test]
fn a_run_may_follow_one_that_was_put_off() {
    let one = log(
        "one",
        [
            claimed(1, "a"),
            acking(2, "a", Outcome::Again),
            acked(3, "a", Answer::Applied),
        ],
    );
    let other = log("other", [claimed(4, "b")]);
    assert_eq!(violations(&[one, other]), []);
}

#[test]
fn a_refusal_in_time_is_a_violation_and_a_late_one_is_none() {
    let refused = |at| {
        let acks = [
            acking(at, "a", Outcome::Final),
            acked(at, "a", Answer::Refused),
        ];
        log("one", [vec![claimed(1, "a")], acks.into()].concat())
    };
    let expected = Violation::RefusedWhileHeld { held: held("a") };
    assert_eq!(violations(&[refused(5)]), [expected]);
    assert_eq!(violations(&[refused(11)]), []);
}

#[test]
fn a_repeated_ack_may_be_refused() {
    let events = [
        claimed(1, "a"),
        acking(2, "a", Outcome::Final),
        acked(3, "a", Answer::InDoubt),
        acking(4, "a", Outcome::Final),
        acked(5, "a", Answer::Refused),
    ];
    assert_eq!(violations(&[log("one", events)]), []);
}

#[test]
fn a_job_ends_once() {
    let end = |at, token| {
        [
            claimed(at, token),
            acking(at, token, Outcome::Final),
            acked(at, token, Answer::Applied),
        ]
    };
    let found = violations(&[log("one", end(1, "a")), log("other", end(20, "b"))]);
    assert!(
        found.contains(&Violation::EndedTwice { id: "job".into() }),
        "{found:?}"
    );
}
