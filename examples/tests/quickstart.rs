//! The quickstart, run as the README says.

use std::path::Path;
use std::process::Command;

/// What it tells, in this order; the text between may differ from run to run.
const ACCOUNT: [&str; 12] = [
    "Priority: the invoice was enqueued last and printed first.",
    "Result: the email was sent as \"message-for-ada@example.org\".",
    "Retry: the third attempt was the first to go well. Its ledger:",
    "1 after   0 ms: retried   {\"err\":\"ServerBusy\"}",
    "2 after ",
    "3 after ",
    "completed {\"ok\":\"message-for-busy@example.org\"}",
    "Failure: NoSuchMailbox is not worth another attempt, so there was one.",
    "Delay: the reminder was to wait 300ms, and ran after ",
    "Dedupe: the site was asked to be indexed twice, and was once.",
    "Schedule: every 250ms, so it ran for the slots",
    "Cancel: the import was called off at row ",
];

/// Runs the quickstart and checks that it tells its account.
fn expect_account(arguments: &[&str]) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet"])
        .args(arguments)
        .current_dir(workspace)
        .output()
        .expect("cargo runs");
    let account = String::from_utf8(output.stdout).expect("it tells its account in UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{account}\n{errors}");

    let mut rest = account.as_str();
    for told in ACCOUNT {
        let Some((_, after)) = rest.split_once(told) else {
            panic!("{told:?} is not told where it belongs:\n{account}\n{errors}");
        };
        rest = after;
    }
    assert!(rest.contains("1 failed, 1 cancelled."), "{account}");
}

#[test]
fn the_quickstart_tells_its_account_and_succeeds() {
    expect_account(&["--example", "quickstart"]);
}

#[test]
fn the_quickstart_tells_the_same_on_redis() {
    let url = std::env::var("MQ_TEST_REDIS_URL")
        .expect("MQ_TEST_REDIS_URL names no Redis server: run `cargo xtask test`");
    let example = ["--features", "redis", "--example", "quickstart"];
    expect_account(&[&example[..], &["--", "--redis", &url]].concat());
}
