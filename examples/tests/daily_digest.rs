//! The daily digest, run as its head says.

use std::path::Path;
use std::process::Command;

fn run(arguments: &[&str]) -> (bool, String, String) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--features",
            "flow",
            "--example",
            "daily_digest",
            "--",
        ])
        .args(arguments)
        .current_dir(workspace)
        .output()
        .expect("cargo runs");
    (
        output.status.success(),
        String::from_utf8(output.stdout).expect("it tells in UTF-8"),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn the_digest_reaches_all_readers_in_memory() {
    let (success, account, errors) = run(&["--memory"]);
    assert!(success, "{account}\n{errors}");
    assert!(
        account.contains("Fan-out: 5000 children have ended."),
        "{account}"
    );
    assert!(
        account.contains("Collect: 4995 letters sent, 5 readers unknown"),
        "{account}"
    );
    assert!(account.contains("Kept: 0 of the children"), "{account}");
}

#[test]
fn without_memory_the_digest_says_how_to_run_it() {
    let (success, _, errors) = run(&[]);
    assert!(!success);
    assert!(errors.contains("--memory"), "{errors}");
}
