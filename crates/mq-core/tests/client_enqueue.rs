//! What the client sends to the store, and how it answers.

#![cfg(all(feature = "derive", feature = "memory"))]
#![allow(clippy::unwrap_used)]

mod client_support;

use std::collections::BTreeMap;
use std::time::Duration;

use client_support::{ack, claim, client, fail, labels};
use futures::future::join_all;
use futures::poll;
use mq_core::{
    Backoff, Cancelled, ClientError, Clock, Dedupe, InspectOps, Job, JobState, Keep, ListFilter,
    Retention, Rule, StoreError, When,
};
use serde::{Deserialize, Serialize};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[derive(Serialize, Deserialize, Job)]
#[job(
    name = "send", queue = "email", attempts = 5, backoff = "5s", timeout = "30s",
    priority = 2, keep = "1d", metadata = Self::labels
)]
struct Send {
    to: String,
}

impl Send {
    fn to(to: &str) -> Self {
        Self { to: to.into() }
    }

    fn labels(&self) -> [(String, String); 2] {
        [
            ("to".into(), self.to.clone()),
            ("kind".into(), "mail".into()),
        ]
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "keyed", key = Self::key)]
struct Keyed(String);

impl Keyed {
    fn key(&self) -> Option<String> {
        (self.0 != "none").then(|| self.0.clone())
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "deduped", dedupe = Self::dedupe)]
struct Deduped(u32);

impl Deduped {
    fn dedupe(&self) -> Dedupe {
        Dedupe::key("only-one")
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "numbered")]
struct Numbered(u32);

#[derive(Serialize, Deserialize, Job)]
#[job(name = "unencodable")]
struct Unencodable(BTreeMap<Vec<u8>, u8>);

#[derive(Serialize, Deserialize, Job)]
#[job(name = "texts")]
struct Texts(String);

#[tokio::test]
async fn a_job_goes_out_as_its_kind_says() {
    let (client, _, _) = client().await;
    let handle = client.enqueue(Send::to("ada")).await.unwrap();
    assert!(!handle.is_duplicate());
    let spec = handle.record().await.unwrap().unwrap().spec;
    assert_eq!((&*spec.name, &*spec.queue), ("send", "email"));
    assert_eq!(spec.payload.get(), r#"{"to":"ada"}"#);
    assert_eq!(spec.metadata, labels(&[("to", "ada"), ("kind", "mail")]));
    assert_eq!((spec.priority, spec.attempts_max), (2, 5));
    assert_eq!(spec.backoff, Some(Backoff::fixed(seconds(5))));
    assert_eq!(spec.timeout, Some(seconds(30)));
    let day = Retention::age(seconds(24 * 60 * 60));
    assert_eq!(spec.keep, Some(Keep::all(day)));
}

#[tokio::test]
async fn what_is_set_at_enqueue_overrides_what_the_kind_says() {
    let (client, _, _) = client().await;
    let handle = client
        .enqueue(Send::to("ada"))
        .id("chosen")
        .queue("slow")
        .metadata([("kind", "letter"), ("tenant", "a")])
        .priority(-1)
        .attempts(1)
        .backoff(Backoff::exponential(seconds(1)))
        .keep(Keep::all(Retention::count(3)))
        .timeout(seconds(1))
        .await
        .unwrap();
    assert_eq!(*handle.id(), "chosen");
    let spec = handle.record().await.unwrap().unwrap().spec;
    assert_eq!(spec.queue, "slow");
    let merged = [("to", "ada"), ("kind", "letter"), ("tenant", "a")];
    assert_eq!(spec.metadata, labels(&merged));
    assert_eq!((spec.priority, spec.attempts_max), (-1, 1));
    assert_eq!(spec.backoff, Some(Backoff::exponential(seconds(1))));
    assert_eq!(spec.keep, Some(Keep::all(Retention::count(3))));
    assert_eq!(spec.timeout, Some(seconds(1)));
}

#[tokio::test]
async fn what_the_kind_says_can_be_taken_back() {
    let (client, _, _) = client().await;
    let request = client.enqueue(Send::to("ada")).backoff(None);
    let handle = request.keep(None).timeout(None).await.unwrap();
    let spec = handle.record().await.unwrap().unwrap().spec;
    assert_eq!((spec.backoff, spec.keep, spec.timeout), (None, None, None));
}

#[tokio::test]
async fn a_key_makes_the_id_and_a_second_job_a_duplicate() {
    let (client, _, _) = client().await;
    let first = client.enqueue(Keyed("a/b".into())).await.unwrap();
    assert_eq!(*first.id(), "keyed/a/b");
    assert!(!first.is_duplicate());
    let second = client.enqueue(Keyed("a/b".into())).await.unwrap();
    assert_eq!(second.id(), first.id());
    assert!(second.is_duplicate());
    let keyless = client.enqueue(Keyed("none".into())).await.unwrap();
    assert!(!keyless.id().starts_with("keyed/"));
    let chosen = client.enqueue(Keyed("a/b".into())).id("c").await.unwrap();
    assert_eq!(*chosen.id(), "c");
    assert!(!chosen.is_duplicate());
}

fn rule(error: ClientError) -> (String, Rule) {
    match error {
        ClientError::Store(StoreError::InvalidInput(input)) => (input.field, input.rule),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ids_that_the_library_builds_cannot_be_chosen() {
    let (client, _, _) = client().await;
    for id in ["sched/a/1", "flow/x"] {
        let error = client.enqueue(Numbered(1)).id(id).await.unwrap_err();
        assert!(error.to_string().contains("kept for ids"), "{error}");
        assert_eq!(rule(error).0, "job id");
    }
    let error = client.enqueue(Keyed(String::new())).await.unwrap_err();
    assert_eq!(rule(error), ("idempotency key".to_owned(), Rule::Empty));
    let error = client.enqueue(Numbered(1)).id("").await.unwrap_err();
    assert_eq!(rule(error), ("job id".to_owned(), Rule::Empty));
    assert_eq!(client.store().counts(None).await.unwrap().total(), 0);
    client.enqueue(Numbered(1)).id("schedule/a").await.unwrap();
}

#[tokio::test]
async fn an_id_of_another_kind_of_job_is_an_error() {
    let (client, _, _) = client().await;
    client.enqueue(Numbered(1)).id("one").await.unwrap();
    let error = client.enqueue(Send::to("ada")).id("one").await.unwrap_err();
    let ClientError::IdTaken { id, name } = &error else {
        panic!("{error:?}");
    };
    assert_eq!((&**id, &**name), ("one", "numbered"));
    assert!(!error.is_transient());
    // So is a look at it through a handle of the wrong kind.
    let error = client.handle::<Send>("one").poll().await.unwrap_err();
    assert!(matches!(error, ClientError::IdTaken { .. }), "{error:?}");
    let handle = client.handle::<Numbered>("one");
    assert!(handle.poll().await.unwrap().is_none());
}

#[tokio::test]
async fn the_kind_decides_what_is_a_duplicate_unless_told_otherwise() {
    let (client, _, _) = client().await;
    let first = client.enqueue(Deduped(1)).await.unwrap();
    let second = client.enqueue(Deduped(2)).await.unwrap();
    assert_eq!(second.id(), first.id());
    assert!(second.is_duplicate());
    let other = client.enqueue(Deduped(3)).dedupe(Dedupe::key("other"));
    assert!(!other.await.unwrap().is_duplicate());
    let none = client.enqueue(Deduped(4)).dedupe(None).await.unwrap();
    assert!(!none.is_duplicate());
}

#[tokio::test]
async fn times_are_resolved_by_the_stores_clock() {
    let (client, _, clock) = client().await;
    let state_and_time = async |handle: mq_core::JobHandle<Numbered>| {
        let record = handle.record().await.unwrap().unwrap();
        (record.state, record.run_at)
    };
    let now = clock.now();
    let soon = now.saturating_add(seconds(60));

    let delayed = client.enqueue(Numbered(1)).delay(seconds(60)).await;
    let expected = (JobState::Delayed, soon);
    assert_eq!(state_and_time(delayed.unwrap()).await, expected);
    let at = client.enqueue(Numbered(2)).at(soon).await.unwrap();
    assert_eq!(state_and_time(at.clone()).await, expected);
    let past = now.saturating_sub(seconds(60));
    let late = client.enqueue(Numbered(3)).at(past).await.unwrap();
    assert_eq!(state_and_time(late).await, (JobState::Waiting, now));

    at.promote().await.unwrap();
    assert_eq!(state_and_time(at).await, (JobState::Waiting, now));
}

#[tokio::test]
async fn a_job_that_does_not_encode_is_named() {
    let (client, probe, _) = client().await;
    let job = Unencodable(BTreeMap::from([(vec![1], 1)]));
    let error = client.enqueue(job).priority(1).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ClientError::Encode { .. }), "{error:?}");
    assert!(text.contains("\"unencodable\""), "{text}");
    assert_eq!(probe.enqueues(), 0);
}

#[tokio::test]
async fn many_jobs_are_enqueued_in_their_order_with_one_call() {
    let (client, probe, _) = client().await;
    let handles = client.enqueue_many((0..100).map(Numbered)).await.unwrap();
    assert_eq!(probe.enqueues(), 1);
    let claimed = claim(&client, "default", "numbered").await;
    let ids = handles.iter().map(|handle| handle.id());
    assert!(ids.eq(claimed.iter().map(|(job, _)| &job.id)));
    let payloads: Vec<u32> = claimed
        .iter()
        .map(|(job, _)| job.spec.payload.decode().unwrap())
        .collect();
    assert!(payloads.into_iter().eq(0..100));
}

#[tokio::test]
async fn each_of_many_jobs_may_have_options() {
    let (client, _, _) = client().await;
    let requests = (0..3).map(|n| {
        mq_core::Request::new(Numbered(n))
            .when(When::After(seconds(n.into())))
            .id(format!("n{n}"))
    });
    let handles = client.enqueue_many(requests).await.unwrap();
    let states = join_all(handles.iter().map(|handle| handle.record())).await;
    let states: Vec<_> = states
        .into_iter()
        .map(|record| record.unwrap().unwrap().state)
        .collect();
    use JobState::{Delayed, Waiting};
    assert_eq!(states, [Waiting, Delayed, Delayed]);
    assert_eq!(*handles[2].id(), "n2");
    let none: Vec<Numbered> = Vec::new();
    assert!(client.enqueue_many(none).await.unwrap().is_empty());
}

#[tokio::test]
async fn many_jobs_of_which_one_breaks_a_rule_are_all_refused() {
    let (client, _, _) = client().await;
    let jobs = ["a", &"long".repeat(1_000), "b"].map(|text| Texts(text.into()));
    let error = client.enqueue_many(jobs).await.unwrap_err();
    let (field, rule) = rule(error);
    assert_eq!(field, "job 1 of 3: payload");
    assert!(matches!(rule, Rule::TooLong { most: 1_000, .. }), "{rule}");
    assert_eq!(client.store().counts(None).await.unwrap().total(), 0);
}

#[tokio::test]
async fn many_jobs_of_which_one_has_a_foreign_id_are_enqueued_but_for_that() {
    let (client, _, _) = client().await;
    client.enqueue(Send::to("ada")).id("n1").await.unwrap();
    let requests = (0..3).map(|n| mq_core::Request::new(Numbered(n)).id(format!("n{n}")));
    let error = client.enqueue_many(requests).await.unwrap_err();
    assert!(matches!(error, ClientError::IdTaken { id, .. } if id == "n1"));
    let filter = ListFilter {
        name: Some("numbered".into()),
        ..ListFilter::default()
    };
    assert_eq!(client.store().list(filter).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn concurrent_enqueues_share_round_trips_and_keep_their_order() {
    let (client, probe, _) = client().await;
    probe.hold();
    let clones: Vec<_> = (0..100).map(|_| client.clone()).collect();
    let enqueues = clones
        .iter()
        .zip(0..)
        .map(|(client, n)| async move { client.enqueue(Numbered(n)).await.unwrap() });
    let mut enqueues = Box::pin(join_all(enqueues));
    assert!(poll!(&mut enqueues).is_pending());
    probe.let_through(2);
    enqueues.await;
    assert_eq!(probe.enqueues(), 2);
    let claimed = claim(&client, "default", "numbered").await;
    let payloads = claimed.iter().map(|(job, _)| job.spec.payload.get());
    assert!(payloads.eq((0..100).map(|n| n.to_string())));
}

#[tokio::test]
async fn a_job_that_is_refused_does_not_fail_those_it_was_sent_with() {
    let (client, probe, _) = client().await;
    probe.hold();
    let texts: Vec<String> = (0..20_usize)
        .map(|n| match n {
            7 | 8 => "x".repeat(2_000),
            n => n.to_string(),
        })
        .collect();
    let enqueues = texts.iter().map(|text| {
        let client = client.clone();
        async move { client.enqueue(Texts(text.clone())).await }
    });
    let mut enqueues = Box::pin(join_all(enqueues));
    assert!(poll!(&mut enqueues).is_pending());
    probe.let_through(100);
    for (n, answer) in enqueues.await.into_iter().enumerate() {
        match (n, answer) {
            (7 | 8, answer) => assert_eq!(rule(answer.unwrap_err()).0, "payload"),
            (_, answer) => assert!(!answer.unwrap().is_duplicate()),
        }
    }
    // Not one call for each: halves that hold no culprit go in one.
    assert!(probe.enqueues() < 15, "{}", probe.enqueues());
    let claimed = claim(&client, "default", "texts").await;
    let payloads = claimed.iter().map(|(job, _)| job.spec.payload.decode());
    let payloads: Vec<String> = payloads.map(Result::unwrap).collect();
    let expected = texts.iter().filter(|text| text.len() < 1_000);
    assert!(payloads.iter().eq(expected), "{payloads:?}");
}

#[tokio::test]
async fn an_outage_is_told_to_all_who_were_in_the_batch_and_is_transient() {
    let (client, probe, _) = client().await;
    probe.set_down(true);
    let enqueues = (0..10).map(|n| {
        let client = client.clone();
        async move { client.enqueue(Numbered(n)).await }
    });
    for answer in join_all(enqueues).await {
        assert!(answer.unwrap_err().is_transient());
    }
    probe.set_down(false);
    client.enqueue(Numbered(1)).await.unwrap();
}

#[tokio::test]
async fn jobs_are_acted_on_by_handle_by_id_and_by_key() {
    let (client, _, _) = client().await;
    let state = async |id: &mq_core::JobId| client.job(id).await.unwrap().unwrap().state;

    let waiting = client.enqueue(Numbered(1)).await.unwrap();
    assert_eq!(waiting.cancel().await.unwrap(), Cancelled::Ended);
    assert_eq!(state(waiting.id()).await, JobState::Cancelled);
    let again = client.cancel(waiting.id()).await.unwrap_err();
    assert!(again.to_string().contains("cancelled"), "{again}");
    assert!(client.remove(waiting.id()).await.unwrap());
    assert!(client.job(waiting.id()).await.unwrap().is_none());
    assert!(!client.remove(waiting.id()).await.unwrap());

    let deduped = client.enqueue(Deduped(1)).await.unwrap();
    assert!(client.cancel_by_key::<Deduped>("only-one").await.unwrap());
    assert_eq!(state(deduped.id()).await, JobState::Cancelled);
    assert!(!client.cancel_by_key::<Deduped>("only-one").await.unwrap());

    let failing = client.enqueue(Numbered(2)).await.unwrap();
    let [(_, lock)] = &claim(&client, "default", "numbered").await[..] else {
        panic!("one job waits");
    };
    ack(&client, lock.clone(), fail(r#"{"err":{"message":"no"}}"#)).await;
    assert_eq!(failing.attempts().await.unwrap().len(), 1);
    failing.retry().await.unwrap();
    assert_eq!(state(failing.id()).await, JobState::Waiting);
    let error = client.retry(failing.id()).await.unwrap_err();
    assert!(error.to_string().contains("waiting"), "{error}");

    let delayed = client.enqueue(Numbered(3)).delay(seconds(9)).await.unwrap();
    client.promote(delayed.id()).await.unwrap();
    assert_eq!(state(delayed.id()).await, JobState::Waiting);
}

#[tokio::test]
async fn a_paused_queue_yields_nothing_until_it_is_resumed() {
    let (client, _, _) = client().await;
    client.enqueue(Numbered(1)).await.unwrap();
    client.pause("default").await.unwrap();
    assert!(claim(&client, "default", "numbered").await.is_empty());
    client.resume("default").await.unwrap();
    assert_eq!(claim(&client, "default", "numbered").await.len(), 1);
}
