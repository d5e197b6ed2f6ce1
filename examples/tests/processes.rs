//! Producer and workers in processes of their own, run as the example says.

use std::path::Path;
use std::process::Command;

#[test]
fn two_workers_share_the_jobs_of_a_third_process() {
    let url = std::env::var("MQ_TEST_REDIS_URL")
        .expect("MQ_TEST_REDIS_URL names no Redis server: run `cargo xtask test`");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--features", "redis"])
        .args(["--example", "processes", "--", &url])
        .current_dir(workspace)
        .output()
        .expect("cargo runs");
    let told = String::from_utf8(output.stdout).expect("it tells in UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{errors}");
    let ran = |worker: &str| -> u32 {
        let line = told.lines().find(|line| line.starts_with(worker));
        let number = line.and_then(|line| line.split(' ').nth(2));
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let (left, right) = (ran("left"), ran("right"));
    assert_eq!(left + right, 100, "{told}");
    assert!(left > 0 && right > 0, "{told}");
    assert_eq!(
        told.matches("a worker stopped: exit status: 0").count(),
        2,
        "{told}"
    );
}
