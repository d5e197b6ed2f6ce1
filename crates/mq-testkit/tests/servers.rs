//! The throw-away servers themselves.
#![cfg(all(unix, feature = "servers"))]
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use mq_testkit::servers::{Postgres, Redis, RedisCluster, Settings, programs};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn query(postgres: &Postgres, sql: &str) -> String {
    let psql = programs::postgres().unwrap().join("psql");
    let output = Command::new(psql)
        .args(["-X", "-A", "-t", "-c", sql])
        .arg(postgres.url())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{sql}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn runs(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[test]
fn a_durable_redis_keeps_what_it_acknowledged_when_killed() {
    let folder = folder();
    let mut redis = Redis::start(folder.path(), Settings::durable()).unwrap();
    let (url, process) = (redis.url(), redis.process_id());
    assert_eq!(redis.ask("SET key value").unwrap(), "+OK");
    redis.kill9().unwrap();
    assert!(redis.ask("PING").is_err());
    assert_eq!(redis.process_id(), None);
    redis.restart().unwrap();
    assert_eq!(redis.url(), url);
    assert_ne!(redis.process_id(), process);
    assert_eq!(redis.ask("GET key").unwrap(), "value");
}

#[test]
fn a_volatile_redis_forgets_when_killed() {
    let folder = folder();
    let mut redis = Redis::start(folder.path(), Settings::volatile()).unwrap();
    assert_eq!(redis.ask("SET key value").unwrap(), "+OK");
    redis.kill9().unwrap();
    redis.restart().unwrap();
    assert_eq!(redis.ask("EXISTS key").unwrap(), ":0");
}

#[test]
fn settings_reach_redis_and_a_password_does_not_keep_it_from_being_ready() {
    let folder = folder();
    let settings = Settings::volatile()
        .with("maxmemory", "10mb")
        .with("requirepass", "secret");
    let redis = Redis::start(folder.path(), settings).unwrap();
    assert!(redis.ask("GET key").unwrap().starts_with("-NOAUTH"));
}

#[test]
fn a_redis_that_refuses_its_settings_says_why() {
    let folder = folder();
    let settings = Settings::volatile().with("no-such-setting", "1");
    let error = Redis::start(folder.path(), settings).err().unwrap();
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn a_paused_redis_stops_when_told_to() {
    let folder = folder();
    let mut redis = Redis::start(folder.path(), Settings::volatile()).unwrap();
    redis.pause().unwrap();
    assert!(redis.ask("PING").is_err());
    redis.resume().unwrap();
    assert_eq!(redis.ask("PING").unwrap(), "+PONG");
    redis.pause().unwrap();
    redis.stop().unwrap();
}

#[test]
fn a_dropped_server_is_gone() {
    let folder = folder();
    let redis = Redis::start(folder.path(), Settings::volatile()).unwrap();
    let process = redis.process_id().unwrap();
    assert!(Redis::runs_detached(redis.port(), process));
    drop(redis);
    assert!(!runs(process));
}

#[test]
fn a_detached_server_outlives_its_handle_until_it_is_stopped() {
    let folder = folder();
    let redis = Redis::start(folder.path(), Settings::volatile()).unwrap();
    let port = redis.port();
    let process = redis.detach().unwrap();
    assert!(Redis::runs_detached(port, process));
    assert!(!Redis::stop_detached(port, process + 1).unwrap());
    assert!(Redis::stop_detached(port, process).unwrap());
    assert!(!Redis::runs_detached(port, process));
}

#[test]
fn a_cluster_serves_every_slot_on_three_masters() {
    let folder = folder();
    let mut cluster = RedisCluster::start(folder.path(), Settings::volatile()).unwrap();
    assert_eq!(cluster.url().split(',').count(), 3);
    for node in cluster.nodes() {
        let info = node.ask("CLUSTER INFO").unwrap();
        assert!(info.contains("cluster_slots_ok:16384"), "{info}");
    }
    // The slot of "key" is 12539, the third master's.
    assert_eq!(cluster.nodes()[2].ask("SET key value").unwrap(), "+OK");
    let moved = cluster.nodes()[0].ask("GET key").unwrap();
    assert_eq!(
        moved,
        format!("-MOVED 12539 127.0.0.1:{}", cluster.nodes()[2].port())
    );
}

#[test]
fn a_cluster_is_whole_again_after_a_node_was_killed() {
    let folder = folder();
    let mut cluster = RedisCluster::start(folder.path(), Settings::durable()).unwrap();
    let node = &mut cluster.nodes()[1];
    node.kill9().unwrap();
    node.restart().unwrap();
    cluster.wait_until_whole().unwrap();
}

#[test]
fn a_durable_postgres_keeps_what_it_committed_when_killed() {
    let folder = folder();
    let mut postgres = Postgres::start(folder.path(), Settings::durable()).unwrap();
    let (url, process) = (postgres.url(), postgres.process_id());
    query(&postgres, "CREATE TABLE kept AS SELECT 7 AS number");
    assert_eq!(query(&postgres, "SHOW fsync"), "on");
    let backend: u32 = query(
        &postgres,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
    )
    .parse()
    .unwrap();
    assert!(runs(backend));
    postgres.kill9().unwrap();
    postgres.restart().unwrap();
    assert!(!runs(backend));
    assert_eq!(postgres.url(), url);
    assert_ne!(postgres.process_id(), process);
    assert_eq!(query(&postgres, "SELECT number FROM kept"), "7");
}

#[test]
fn settings_reach_postgres() {
    let folder = folder();
    let settings = Settings::volatile().with("max_connections", "17");
    let postgres = Postgres::start(folder.path(), settings).unwrap();
    assert_eq!(query(&postgres, "SHOW max_connections"), "17");
    assert_eq!(query(&postgres, "SHOW fsync"), "off");
    assert_eq!(query(&postgres, "SHOW server_encoding"), "UTF8");
}

#[test]
fn a_detached_postgres_outlives_its_handle_until_it_is_stopped() {
    let folder = folder();
    let postgres = Postgres::start(folder.path(), Settings::volatile()).unwrap();
    let (data, port) = (postgres.folder().to_owned(), postgres.port());
    let process = postgres.detach().unwrap();
    assert!(Postgres::runs_detached(&data, port, process));
    assert!(!Postgres::stop_detached(&data, port, process + 1).unwrap());
    assert!(Postgres::stop_detached(&data, port, process).unwrap());
    assert!(!Postgres::runs_detached(&data, port, process));
}

/// The name that makes this test start servers, say so, and wait to be killed.
const VICTIM: &str = "MQ_TEST_SERVERS_OF_A_VICTIM";

#[test]
fn servers_end_with_the_process_that_started_them_even_if_it_is_killed() {
    if let Ok(folder) = std::env::var(VICTIM) {
        return be_the_victim(Path::new(&folder));
    }
    let folder = folder();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "servers_end_with_the_process_that_started_them_even_if_it_is_killed",
        ])
        .env(VICTIM, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = victim.stdout.take().unwrap();
    let mut said = String::new();
    while !said.ends_with(" ready\n") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let line = said.lines().last().unwrap();
    let ids: Vec<u32> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(ids.len(), 2, "{line}");
    assert!(ids.iter().all(|id| runs(*id)));
    victim.kill().unwrap();
    victim.wait().unwrap();
    while ids.iter().any(|id| runs(*id)) {
        std::thread::yield_now();
    }
}

fn be_the_victim(folder: &Path) {
    let redis = Redis::start(folder.join("redis"), Settings::volatile()).unwrap();
    let postgres = Postgres::start(folder.join("postgres"), Settings::volatile()).unwrap();
    let ids = [redis.process_id().unwrap(), postgres.process_id().unwrap()];
    println!("\n{} {} ready", ids[0], ids[1]);
    std::thread::park();
}
