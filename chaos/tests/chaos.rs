//! Short runs of the harness, on servers of their own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

/// Runs few jobs and many faults, with these further arguments.
fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mq-chaos"))
        .args(["--jobs", "2000", "--lock", "1s", "--seed", "1"])
        .args(["--workers", "3", "--concurrency", "10"])
        .args(arguments)
        .output()
        .unwrap()
}

fn is_faultless(arguments: &[&str]) {
    let faults = ["--worker-kills", "8", "--server-kills", "2"];
    let output = run(&[&faults, &["--freezes", "2", "--cuts", "4"], arguments].concat());
    let (said, error) = texts(&output);
    assert!(output.status.success(), "{said}\n{error}");
    let wanted = [
        "2000 of 2000",
        "worker kills               8",
        "server kills               2",
    ];
    for line in wanted {
        assert!(said.contains(line), "no {line:?} in\n{said}");
    }
}

/// Workers that stand still for longer than a lock come back and end what others
/// run by then.
fn is_caught(arguments: &[&str]) {
    let faults = ["--worker-kills", "0", "--server-kills", "0", "--cuts", "0"];
    let sabotage = ["--freezes", "24", "--sabotage", "token-check"];
    let output = run(&[&faults[..], &sabotage, arguments].concat());
    let (said, error) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{said}\n{error}");
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn nothing_is_lost_or_run_twice_on_redis() {
    is_faultless(&["--store", "redis"]);
}

#[test]
fn a_redis_store_without_the_token_check_is_caught() {
    is_caught(&["--store", "redis"]);
}

#[test]
fn nothing_is_lost_or_run_twice_on_postgres() {
    is_faultless(&["--store", "pg"]);
}

#[test]
fn a_postgres_store_without_the_token_check_is_caught() {
    is_caught(&["--store", "pg"]);
}
