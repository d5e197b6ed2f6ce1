//! What the test store remembers, and what it says when something else was
//! enqueued.
#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mq_core::{Client, Dedupe, EnqueueOps, Job, JobSpec, NewJob, RawJson, ScheduleOps, Tick};
use mq_testkit::TestStore;
use serde::{Deserialize, Serialize};

/// Neither `Debug` nor `PartialEq`, as nothing here needs them.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-email", queue = "email", attempts = 5, priority = 2)]
struct SendEmail {
    to: String,
    subject: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "index", dedupe = Self::one_per_site)]
struct Index {
    site: String,
}

impl Index {
    fn one_per_site(&self) -> Dedupe {
        Dedupe::key(self.site.as_str())
    }
}

fn email(to: &str, subject: &str) -> SendEmail {
    SendEmail {
        to: to.into(),
        subject: subject.into(),
    }
}

fn index(site: &str) -> Index {
    Index { site: site.into() }
}

/// What an assertion that fails says.
fn complaint(assertion: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).expect_err("it does not hold");
    *panic.downcast::<String>().expect("it says something")
}

async fn some(client: &Client) {
    client.enqueue(email("ada", "Welcome")).await.unwrap();
    let later = client.enqueue(email("bob", "Welcome")).queue("bulk");
    let later = later.delay(Duration::from_secs(60)).priority(7);
    later.metadata([("tenant", "acme")]).await.unwrap();
    client.enqueue(index("example.org")).await.unwrap();
    client.enqueue(index("example.org")).await.unwrap();
}

#[tokio::test]
async fn what_was_enqueued_comes_back_typed_with_all_that_was_asked_for() {
    let store: TestStore = TestStore::new();
    some(&store.client()).await;
    let emails = store.assert_enqueued_count::<SendEmail>(2);
    assert_eq!(
        (emails[0].job.to.as_str(), emails[0].delay()),
        ("ada", Duration::ZERO)
    );
    let bob = store.assert_enqueued(&email("bob", "Welcome"));
    assert_eq!(bob.delay(), Duration::from_secs(60));
    assert_eq!((bob.spec.priority, bob.spec.attempts_max), (7, 5));
    assert_eq!(
        (bob.spec.queue.as_str(), bob.enqueued_at),
        ("bulk", store.now())
    );
    let record = store.client().handle::<SendEmail>(bob.id.clone());
    assert_eq!(record.record().await.unwrap().unwrap().spec, bob.spec);
    let indexed = store.assert_enqueued_exactly(&[index("example.org")]);
    assert_eq!(indexed[0].dedupe, Some(Dedupe::key("example.org")));
    let all = store.enqueues();
    let duplicates: Vec<_> = all.duplicates().map(|job| job.id.clone()).collect();
    assert_eq!(duplicates, [indexed[0].id.clone()]);
    assert_eq!(all.jobs().count(), 3);
}

#[tokio::test]
async fn it_can_be_narrowed_down_and_forgotten() {
    let store: TestStore = TestStore::new();
    some(&store.client()).await;
    let bulk = store.enqueues().in_queue("bulk");
    bulk.assert_enqueued_exactly(&[email("bob", "Welcome")]);
    bulk.assert_not_enqueued::<Index>();
    let tenant = store.enqueues().with_metadata("tenant", "acme");
    tenant.assert_enqueued_count::<SendEmail>(1);
    store
        .enqueues()
        .named("index")
        .assert_enqueued_count::<Index>(1);
    store
        .enqueues()
        .named("index")
        .in_queue("bulk")
        .assert_none();
    store.forget_enqueues();
    store.assert_nothing_enqueued();
    let counts = mq_core::InspectOps::counts(&**store.handle().store(), None);
    assert_eq!(counts.await.unwrap().total(), 3, "the jobs are still there");
}

#[tokio::test]
async fn a_payload_that_differs_is_shown_against_the_nearest() {
    let store: TestStore = TestStore::new();
    some(&store.client()).await;
    let said = complaint(|| drop(store.assert_enqueued(&email("bob", "Goodbye"))));
    assert!(
        said.starts_with("no send-email was enqueued with the expected payload"),
        "{said}"
    );
    for line in [
        r#"     "to": "bob""#,
        r#"  -  "subject": "Goodbye""#,
        r#"  +  "subject": "Welcome""#,
        r#"in queue "bulk", in 60s, priority 7, metadata {"tenant": "acme"}"#,
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let said = complaint(|| drop(store.assert_enqueued_exactly(&[email("ada", "Welcome")])));
    assert!(said.contains(r#"  +  "to": "bob""#), "{said}");
    assert!(said.contains(r#"     "to": "ada""#), "{said}");
}

#[tokio::test]
async fn each_assertion_that_fails_says_what_it_looked_for_and_what_there_is() {
    let store: TestStore = TestStore::new();
    let said = complaint(|| drop(store.assert_enqueued(&email("ada", "Welcome"))));
    assert!(said.contains("Nothing was enqueued."), "{said}");
    some(&store.client()).await;
    let said = complaint(|| drop(store.assert_enqueued_count::<SendEmail>(1)));
    assert!(
        said.starts_with("2 send-email were enqueued, expected 1"),
        "{said}"
    );
    let said = complaint(|| store.assert_not_enqueued::<Index>());
    assert!(
        said.starts_with("1 index were enqueued, expected 0"),
        "{said}"
    );
    assert!(said.contains("(duplicate)"), "{said}");
    let said = complaint(|| store.enqueues().in_queue("bulk").assert_none());
    assert!(
        said.starts_with(r#"1 jobs were enqueued in queue "bulk", expected none"#),
        "{said}"
    );
    let urgent = |email: &mq_testkit::EnqueuedJob<SendEmail>| email.spec.priority > 9;
    let said = complaint(|| drop(store.assert_enqueued_with("that is urgent", urgent)));
    assert!(
        said.starts_with("no send-email was enqueued that is urgent"),
        "{said}"
    );
    let said = complaint(|| store.assert_nothing_enqueued());
    assert!(
        said.starts_with("3 jobs were enqueued, expected none"),
        "{said}"
    );
}

#[tokio::test]
async fn a_payload_of_another_type_is_told_with_the_place() {
    let store: TestStore = TestStore::new();
    let foreign = RawJson::parse(r#"{"to": 7}"#).unwrap();
    let job = NewJob::new(JobSpec::new("send-email", "email", foreign));
    store.handle().store().enqueue(job).await.unwrap();
    let said = complaint(|| drop(store.enqueued::<SendEmail>()));
    assert!(
        said.contains("its payload is no test_store::SendEmail"),
        "{said}"
    );
    assert!(said.contains("invalid type: integer `7`"), "{said}");
}

#[tokio::test]
async fn the_slots_of_schedules_are_enqueues_too() {
    let store: TestStore = TestStore::new();
    let hour = Duration::from_secs(3600);
    let client = store.client();
    client
        .schedule("site", index("example.org"))
        .every(hour)
        .await
        .unwrap();
    store.advance(hour);
    let schedules = store.handle().store();
    let due = schedules.due_schedules(1).await.unwrap().due.remove(0);
    let job = NewJob {
        id: Some("sched/index/site/1".into()),
        ..NewJob::new(due.spec)
    };
    let tick = Tick {
        key: due.key,
        version: due.version,
        expected: due.next_run_at,
        next: due.next_run_at.saturating_add(hour),
        job: Some(job),
    };
    assert!(schedules.tick_schedule(tick.clone()).await.unwrap());
    assert!(!schedules.tick_schedule(tick).await.unwrap());
    let job = store.assert_enqueued(&index("example.org"));
    assert_eq!(job.enqueued_at, store.now());
    store.assert_enqueued_count::<Index>(1);
}
