//! Two stores on real servers, and processes of workers on them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mq_core::{
    AttemptOutcome, ChildStatus, JobId, JobRecord, JobSpec, JobState, NewJob, RawJson, Store,
};
use mq_diesel_pg::PgStore;
use mq_redis::RedisStore;
use mq_testkit::servers::{End, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a look is taken at what no event tells of.
const LOOK: Duration = Duration::from_millis(5);

/// Which store has the parents; the children are on the other one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    PgParents,
    RedisParents,
}

impl Way {
    pub(crate) fn parents(self) -> &'static str {
        match self {
            Self::PgParents => "pg",
            Self::RedisParents => "redis",
        }
    }

    pub(crate) fn children(self) -> &'static str {
        match self {
            Self::PgParents => "redis",
            Self::RedisParents => "pg",
        }
    }
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Parents,
    Children,
}

/// Who delivers reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relay {
    Yes,
    /// The process finds every outbox empty.
    No,
}

pub(crate) struct World {
    pub(crate) way: Way,
    pub(crate) parents: Arc<dyn Store>,
    pub(crate) children: Arc<dyn Store>,
    arguments: Vec<String>,
    folder: TempDir,
    started: usize,
}

impl World {
    pub(crate) async fn new(way: Way) -> Self {
        let (pg_url, redis_url) = (server("MQ_TEST_PG_URL"), server("MQ_TEST_REDIS_URL"));
        let name = format!("flow_{:016x}", fastrand::u64(..));
        let builder = PgStore::builder(&pg_url).schema(&name).pool_size(2);
        builder.migrate().await.unwrap();
        let pg: Arc<dyn Store> = Arc::new(builder.open().await.unwrap());
        let redis = RedisStore::builder(&redis_url).prefix(&name).connect();
        let redis: Arc<dyn Store> = Arc::new(redis.await.unwrap());
        let (parents, children) = match way {
            Way::PgParents => (pg, redis),
            Way::RedisParents => (redis, pg),
        };
        let arguments = ["--pg", &pg_url, "--schema", &name, "--redis", &redis_url];
        let arguments = arguments.into_iter().chain(["--prefix", &name]);
        Self {
            way,
            parents,
            children,
            arguments: arguments.map(str::to_owned).collect(),
            folder: tempfile::tempdir().unwrap(),
            started: 0,
        }
    }

    /// Starts a process that lives until it is dropped.
    pub(crate) fn start(&mut self, role: Role, relay: Relay) -> Process {
        self.spawn(role, relay, "1000", None)
    }

    /// Starts a process that dies at a step of the form `parents:pending_children:1:before`,
    /// whose store is the parents' or the children's. Its locks soon run out.
    pub(crate) fn start_to_die(&mut self, role: Role, relay: Relay, step: &str) -> Process {
        let (store, call) = step.split_once(':').unwrap();
        let store = match store {
            "parents" => self.way.parents(),
            _ => self.way.children(),
        };
        let step = format!("{store}:{call}");
        self.spawn(role, relay, "500", Some(&step))
    }

    fn spawn(&mut self, role: Role, relay: Relay, lock: &str, step: Option<&str>) -> Process {
        self.started += 1;
        let mut command = Command::new(env!("CARGO_BIN_EXE_mq-chaos"));
        command.arg("flow-worker").args(&self.arguments);
        command.arg("--log").arg(self.log(self.started));
        command.args(["--lock", lock, "--interval", "300"]);
        match role {
            Role::Parents => command.args(["--parents", self.way.parents()]),
            Role::Children => command.args(["--children", self.way.children()]),
        };
        if relay == Relay::No {
            command.arg("--no-relay");
        }
        if let Some(step) = step {
            command.args(["--die", step]);
        }
        let output = self.folder.path().join(format!("{}.out", self.started));
        Process::start(&mut command, output, End::Kill).unwrap()
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number}.log"))
    }

    /// Waits for the death of a process at its step.
    pub(crate) async fn dies(&self, mut process: Process) {
        eventually("the process dies", async || {
            process.has_ended().then_some(())
        })
        .await;
        let fault = |event: &Value| event.get("struck").is_some();
        assert!(
            self.events().iter().any(fault),
            "it ended before its step: {}",
            std::fs::read_to_string(self.folder.path().join(format!("{}.out", self.started)))
                .unwrap()
        );
    }

    /// Enqueues a parent of these children, each a key and what it does.
    pub(crate) async fn enqueue(&self, kind: &str, children: &[(&str, &str)], keep: Keep) -> JobId {
        let named = children
            .iter()
            .map(|(key, does)| json!({ "key": key, "does": does, "takes": 0 }));
        let payload = json!({
            "children": named.collect::<Vec<_>>(),
            "pruned": keep == Keep::None,
        });
        let payload = RawJson::encode(&payload).unwrap();
        let mut spec = JobSpec::new(kind, "parents", payload);
        spec.attempts_max = 3;
        self.parents.enqueue(NewJob::new(spec)).await.unwrap().id
    }

    /// Waits for the end of a parent.
    pub(crate) async fn ends(&self, id: &JobId) -> JobRecord {
        let ids = [id.clone()];
        tokio::time::timeout(PATIENCE, async {
            loop {
                let watch = self.parents.watch(&ids).await.unwrap();
                if !watch.finished.is_empty() {
                    return self.parents.get_job(id).await.unwrap().unwrap();
                }
                let wait = self.parents.await_finished(&ids, watch.cursor);
                wait.await.unwrap();
            }
        })
        .await
        .expect("the parent ends")
    }

    /// What every process wrote down.
    fn events(&self) -> Vec<Value> {
        let read = |number| std::fs::read_to_string(self.log(number)).unwrap_or_default();
        let text: String = (1..=self.started).map(read).collect();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// How often each child's handler began, by key.
    pub(crate) fn runs(&self) -> BTreeMap<String, u32> {
        let mut runs = BTreeMap::new();
        for event in self.events() {
            let id = event["started"]["held"]["id"].as_str().unwrap_or_default();
            if id.starts_with("flow/") {
                let (_, key) = id.rsplit_once('/').unwrap();
                *runs.entry(key.to_owned()).or_default() += 1;
            }
        }
        runs
    }

    /// Waits until this many children's handlers have begun.
    pub(crate) async fn are_running(&self, count: usize) {
        eventually("the children run", async || {
            (self.runs().len() == count).then_some(())
        })
        .await;
    }

    /// Checks that the flow of `a`, which completes, and `b`, which fails, settled by
    /// one settle, with all that became of them, and that nothing is left over.
    pub(crate) async fn settles_once(&self, id: &JobId) {
        let job = self.ends(id).await;
        assert_eq!(job.state, JobState::Completed, "{job:?}");
        let exit: Value = job.exit.unwrap().decode().unwrap();
        let expected = json!({
            "ok": { "completed": { "a": "a is done" }, "failed": 1, "cancelled": 0 }
        });
        assert_eq!(exit, expected);
        assert_eq!(job.attempts_made, 1);
        self.ledger_is(id, &[AttemptOutcome::FannedOut, AttemptOutcome::Completed])
            .await;
        let results = [("a", ChildStatus::Completed), ("b", ChildStatus::Failed)];
        self.results_are(id, &results).await;
        self.nothing_is_left().await;
    }

    /// Checks how the parent's runs ended, but for stalls, which are the deaths.
    pub(crate) async fn ledger_is(&self, id: &JobId, expected: &[AttemptOutcome]) {
        let ledger = self.parents.get_attempts(id).await.unwrap();
        let outcomes = ledger.iter().map(|entry| entry.outcome);
        let outcomes: Vec<_> = outcomes
            .filter(|outcome| *outcome != AttemptOutcome::Stalled)
            .collect();
        assert_eq!(outcomes, expected);
    }

    pub(crate) async fn results_are(&self, id: &JobId, expected: &[(&str, ChildStatus)]) {
        let page = self.parents.list_child_results(id, None, None).await;
        let page = page.unwrap();
        let results: Vec<_> = page
            .items
            .iter()
            .map(|child| (child.key.as_str(), child.status))
            .collect();
        assert_eq!(results, expected);
    }

    /// Waits until no job, no report and no cancel is left to see to.
    pub(crate) async fn nothing_is_left(&self) {
        for store in [&self.parents, &self.children] {
            eventually("all is done", async || {
                let counts = store.counts(None).await.unwrap();
                let over = counts.completed + counts.failed + counts.cancelled;
                let outbox = store.peek_outbox(None, 1).await.unwrap();
                (counts.total() == over && outbox.entries.is_empty()).then_some(())
            })
            .await;
        }
        eventually("no cancel is owed", async || {
            let work = self.parents.flow_sweep_work(Duration::ZERO, 250).await;
            let work = work.unwrap();
            (work.cascade.is_empty() && work.reconcile.is_empty()).then_some(())
        })
        .await;
    }

    /// The states of all children, in order of their keys.
    pub(crate) async fn children_are(&self, expected: &[JobState]) {
        let filter = mq_core::ListFilter {
            name: Some("leaf".into()),
            limit: Some(100),
            ..mq_core::ListFilter::default()
        };
        let mut jobs = self.children.list(filter).await.unwrap().items;
        jobs.sort_by(|one, other| one.id.cmp(&other.id));
        let states: Vec<_> = jobs.iter().map(|job| job.state).collect();
        assert_eq!(states, expected);
    }
}

/// Whether finished children are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    None,
}

fn server(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} names no server: run `cargo xtask test`, or \
             `eval \"$(cargo xtask services env)\"` first"
        )
    })
}

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{what}: not within {PATIENCE:?}"
        );
        tokio::time::sleep(LOOK).await;
    }
}
