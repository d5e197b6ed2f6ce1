//! Schedules, one by one and declared in groups.

#![cfg(all(feature = "derive", feature = "memory", feature = "cron"))]
#![allow(clippy::unwrap_used)]

mod client_support;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client_support::{client, labels};
use futures::poll;
use mq_core::client::{ClientResult, Declared, Drift};
use mq_core::{
    Backoff, Cadence, Client, ClientError, Clock, DefaultStore, Job, Keep, Retention,
    ScheduleFilter, ScheduleKey, ScheduleRecord, Schedules, StoreError,
};
use serde::{Deserialize, Serialize};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

#[derive(Serialize, Deserialize, Job)]
#[job(name = "digest", queue = "mail", attempts = 3, key = Self::key, metadata = Self::labels)]
struct Digest {
    to: String,
}

impl Digest {
    fn to(to: &str) -> Self {
        Self { to: to.into() }
    }

    fn key(&self) -> String {
        self.to.clone()
    }

    fn labels(&self) -> [(String, String); 1] {
        [("to".into(), self.to.clone())]
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "report")]
struct Report(HashMap<String, u32>);

/// `mq_core::Schedule` is long for lines of one declaration each.
use mq_core::Schedule as S;

async fn schedules(client: &Client) -> Vec<ScheduleRecord> {
    let all = ScheduleFilter::default();
    client.store().list_schedules(all).await.unwrap()
}

async fn keys(client: &Client) -> Vec<String> {
    let schedules = schedules(client).await;
    schedules.iter().map(|it| it.key.to_string()).collect()
}

fn refusal<T: std::fmt::Debug>(answer: ClientResult<T>) -> String {
    match answer.unwrap_err() {
        ClientError::Store(StoreError::InvalidInput(input)) => input.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_schedule_is_stored_under_name_and_key_with_its_first_slot() {
    let (client, _, clock) = client().await;
    let stored = client
        .schedule("morning", Digest::to("ada"))
        .cron("0 9 * * *")
        .tz("America/New_York")
        .await
        .unwrap();
    assert_eq!(stored.key, "digest/morning");
    let cadence = Cadence::Cron {
        expression: "0 9 * * *".into(),
        tz: Some("America/New_York".into()),
    };
    assert_eq!(stored.cadence, cadence);
    // The clock stands at the start of 2025, in UTC.
    assert_eq!(stored.next_run_at.to_string(), "2025-01-01T14:00:00.000Z");
    let spec = &stored.spec;
    assert_eq!((&*spec.name, &*spec.queue), ("digest", "mail"));
    assert_eq!(spec.payload.get(), r#"{"to":"ada"}"#);
    assert_eq!(spec.metadata, labels(&[("to", "ada")]));
    assert_eq!(spec.attempts_max, 3);
    assert_eq!(stored.group, None);

    let every = client.schedule("often", Digest::to("ada")).every(MINUTE);
    let next = every.await.unwrap().next_run_at;
    assert_eq!(next, clock.now().saturating_add(MINUTE));
}

#[tokio::test]
async fn a_schedule_may_differ_from_its_kind() {
    let (client, _, _) = client().await;
    let stored = client
        .schedule("a", Digest::to("ada"))
        .queue("slow")
        .metadata([("tenant", "x")])
        .priority(4)
        .attempts(9)
        .backoff(Backoff::fixed(MINUTE))
        .keep(Keep::all(Retention::count(1)))
        .timeout(HOUR)
        .every(HOUR)
        .await
        .unwrap();
    let spec = stored.spec;
    assert_eq!(spec.queue, "slow");
    assert_eq!(spec.metadata, labels(&[("tenant", "x"), ("to", "ada")]));
    assert_eq!((spec.priority, spec.attempts_max), (4, 9));
    assert_eq!(spec.backoff, Some(Backoff::fixed(MINUTE)));
    assert_eq!(spec.keep, Some(Keep::all(Retention::count(1))));
    assert_eq!(spec.timeout, Some(HOUR));
}

#[tokio::test]
async fn the_same_cadence_keeps_the_next_slot() {
    let (client, _, clock) = client().await;
    let schedule = |every| client.schedule("a", Digest::to("ada")).every(every);
    let first = schedule(HOUR).await.unwrap();
    clock.advance(MINUTE);
    let again = schedule(HOUR).await.unwrap();
    assert_eq!(again.next_run_at, first.next_run_at);
    assert!(again.version > first.version);
    let other = schedule(2 * HOUR).await.unwrap();
    assert_eq!(other.next_run_at, clock.now().saturating_add(2 * HOUR));
}

#[tokio::test]
async fn a_schedule_that_makes_no_sense_is_refused() {
    let (client, _, _) = client().await;
    let schedule = |key: &str| client.schedule(key, Digest::to("ada"));
    for (answer, word) in [
        (schedule("").every(HOUR).await, "empty"),
        (schedule("a").every(Duration::ZERO).await, "zero"),
        (schedule("a").cron("often").await, "often"),
        (schedule("a").cron("0 9 30 2 *").await, "0 9 30 2 *"),
        (
            schedule("a").cron("0 9 * * *").tz("Mars/Base").await,
            "Mars",
        ),
        (schedule("a").every(HOUR).tz("UTC").await, "interval"),
        (schedule("a").attempts(0).every(HOUR).await, "zero"),
        (schedule(&"k".repeat(250)).every(HOUR).await, "257"),
    ] {
        let refusal = refusal(answer);
        assert!(refusal.contains(word), "{refusal}");
    }
    assert!(schedules(&client).await.is_empty());
}

#[tokio::test]
async fn a_schedule_is_deleted_by_kind_and_key() {
    let (client, _, _) = client().await;
    let daily = |key: &str| client.schedule(key, Digest::to("ada")).every(HOUR);
    daily("a").await.unwrap();
    daily("b").await.unwrap();
    assert!(client.unschedule::<Digest>("a").await.unwrap());
    assert!(!client.unschedule::<Digest>("a").await.unwrap());
    assert!(!client.unschedule::<Report>("b").await.unwrap());
    assert_eq!(keys(&client).await, ["digest/b"]);
}

fn billing() -> Schedules<DefaultStore> {
    Schedules::group("billing")
        .add(S::new("daily", Digest::to("ada")).cron("0 9 * * *"))
        .add(S::new("hourly", report()).every(HOUR))
}

/// Its fields are encoded in another order each time.
fn report() -> Report {
    Report((0..50).map(|n| (n.to_string(), n)).collect())
}

fn texts(keys: &[ScheduleKey]) -> Vec<&str> {
    keys.iter().map(|key| &**key).collect()
}

#[tokio::test]
async fn a_group_is_declared_as_a_whole() {
    let (client, _, _) = client().await;
    let declared = billing().declare(&client).await.unwrap();
    let both = ["digest/daily", "report/hourly"];
    assert_eq!(texts(&declared.created), both);
    assert!(declared.drifted.is_empty() && declared.undeclared.is_empty());
    let stored = schedules(&client).await;
    assert!(stored.iter().map(|it| &*it.key).eq(both));
    let grouped = |it: &ScheduleRecord| it.group.as_deref() == Some("billing");
    assert!(stored.iter().all(grouped));

    let again = billing().declare(&client).await.unwrap();
    assert!(again.created.is_empty() && again.undeclared.is_empty());
    assert_eq!(again.drifted, [], "the order of a map's keys is no drift");
}

#[tokio::test]
async fn durations_that_the_store_rounds_up_are_no_drift() {
    let (client, _, _) = client().await;
    let odd = Duration::from_micros(1_500);
    let fine = || {
        let digest = S::new("fine", Digest::to("ada")).every(odd).timeout(odd);
        let digest = digest.backoff(Backoff::exponential(odd).max(odd));
        Schedules::group("fine").add(digest.keep(Keep::all(Retention::age(odd))))
    };
    fine().declare(&client).await.unwrap();
    assert_eq!(fine().declare(&client).await.unwrap().drifted, []);
}

#[tokio::test]
async fn drift_is_reported_and_the_declaration_wins() {
    let (client, _, _) = client().await;
    let loose = client.schedule("daily", Digest::to("bob")).priority(1);
    loose.cron("0 8 * * *").await.unwrap();

    let log = Log::default();
    let declared = {
        let _guard = log.listen();
        billing().declare(&client).await.unwrap()
    };
    let drift = Drift {
        key: "digest/daily".into(),
        fields: vec!["cadence", "group", "payload", "metadata", "priority"],
    };
    assert_eq!(declared.drifted, [drift]);
    assert_eq!(texts(&declared.created), ["report/hourly"]);
    let stored = &schedules(&client).await[0];
    assert_eq!(stored.spec.payload.get(), r#"{"to":"ada"}"#);
    assert_eq!(stored.next_run_at.to_string(), "2025-01-01T09:00:00.000Z");

    let log = log.text();
    assert!(log.contains("WARN"), "{log}");
    assert!(log.contains("digest/daily"), "{log}");
    assert!(log.contains("cadence, group, payload"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[tokio::test]
async fn a_group_of_which_one_breaks_a_rule_is_refused_as_a_whole() {
    let (client, _, _) = client().await;
    let twice = billing().add(S::new("daily", Digest::to("bob")).every(HOUR));
    let message = refusal(twice.declare(&client).await);
    assert!(message.contains("declared twice"), "{message}");
    let broken = billing().add(S::new("c", Digest::to("bob")).cron("often"));
    let message = refusal(broken.declare(&client).await);
    assert!(message.contains("often"), "{message}");
    let unnamed = Schedules::group("").add(S::new("c", Digest::to("bob")).every(HOUR));
    let message = refusal(unnamed.declare(&client).await);
    assert!(message.contains("schedule group"), "{message}");
    assert!(schedules(&client).await.is_empty());
}

async fn smaller(client: &Client) -> Declared<DefaultStore> {
    let smaller = Schedules::group("billing").add(S::new("hourly", report()).every(HOUR));
    smaller.declare(client).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_declared_any_more_is_removed_after_a_while() {
    let (client, _, _) = client().await;
    billing().declare(&client).await.unwrap();
    let other = Schedules::group("other").add(S::new("mine", Digest::to("c")).every(HOUR));
    other.declare(&client).await.unwrap();
    client
        .schedule("loose", Digest::to("d"))
        .every(HOUR)
        .await
        .unwrap();

    let declared = smaller(&client).await;
    assert_eq!(texts(&declared.undeclared), ["digest/daily"]);
    let mut removal = Box::pin(declared.remove_undeclared(10 * MINUTE));
    assert!(poll!(&mut removal).is_pending());
    tokio::time::advance(9 * MINUTE).await;
    assert!(poll!(&mut removal).is_pending());
    assert_eq!(keys(&client).await.len(), 4);
    tokio::time::advance(2 * MINUTE).await;
    assert_eq!(texts(&removal.await.unwrap()), ["digest/daily"]);
    let rest = ["digest/loose", "digest/mine", "report/hourly"];
    assert_eq!(keys(&client).await, rest);
}

#[tokio::test(start_paused = true)]
async fn what_others_declare_in_the_meantime_is_spared() {
    let (client, _, _) = client().await;
    billing().declare(&client).await.unwrap();
    let declared = smaller(&client).await;
    let removal = declared.remove_undeclared(10 * MINUTE);
    // An older release starts once more, and a newer one declares what this
    // one does not know yet.
    let newer = billing().add(S::new("new", Digest::to("n")).every(HOUR));
    let _ = newer.declare(&client).await.unwrap();
    assert_eq!(texts(&removal.await.unwrap()), [""; 0]);
    assert_eq!(keys(&client).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_has_left_the_group_is_spared() {
    let (client, _, _) = client().await;
    billing().declare(&client).await.unwrap();
    let removal = smaller(&client).await.remove_undeclared(10 * MINUTE);
    let daily = client.schedule("daily", Digest::to("ada"));
    daily.cron("0 9 * * *").await.unwrap();
    assert!(removal.await.unwrap().is_empty());
    assert_eq!(keys(&client).await, ["digest/daily", "report/hourly"]);
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
