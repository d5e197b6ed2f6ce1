//! Each attribute of `#[derive(Job)]` yields the trait value it stands for.

#![cfg(feature = "derive")]

use std::time::Duration;

use mq_core::{
    Backoff, Dedupe, DefaultStore, Failure, Job, JobDefaults, Keep, Metadata, Retention, StoreName,
};
use serde::{Deserialize, Serialize};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const DAY: Duration = seconds(24 * 60 * 60);

/// Holds if the two types are one.
trait Is<T> {}
impl<T> Is<T> for T {}

fn types<J, S, O, E>()
where
    J: Job,
    J::Store: Is<S>,
    J::Output: Is<O>,
    J::Error: Is<E>,
{
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "plain")]
struct Plain;

#[test]
fn a_name_is_all_a_job_needs() {
    assert_eq!(Plain::NAME, "plain");
    assert_eq!(Plain::QUEUE, "default");
    assert_eq!(Plain::defaults(), JobDefaults::default());
    assert_eq!(Plain.idempotency_key(), None);
    assert_eq!(Plain.dedupe(), None);
    assert_eq!(Plain.metadata(), Metadata::new());
    assert!(Plain::retryable(&Failure::new("any")));
    types::<Plain, DefaultStore, (), Failure>();
}

struct Durable;
impl StoreName for Durable {
    const NAME: &'static str = "durable";
}

#[derive(Serialize, Deserialize)]
enum SendError {
    Busy,
    NoSuchAddress,
}

impl SendError {
    fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(
    name = "send-email",
    queue = "email",
    store = Durable,
    output = Vec<(u64, String)>,
    error = SendError,
    attempts = 5,
    backoff = exponential("1s", factor = 1.5, max = "5m", jitter = 0.1),
    timeout = "1m 30s",
    priority = -2147483648,
    keep(completed(count = 100, age = "1d"), failed = "30d", cancelled = 0),
    key = Self::message,
    dedupe = Self::recipient,
    metadata = labels,
    retryable = SendError::is_busy,
)]
struct SendEmail {
    to: String,
    message: u64,
}

impl SendEmail {
    fn message(&self) -> String {
        self.message.to_string()
    }

    fn recipient(&self) -> Dedupe {
        Dedupe::key(&*self.to).ttl(seconds(60))
    }
}

fn labels(email: &SendEmail) -> [(String, String); 1] {
    [("to".into(), email.to.clone())]
}

#[test]
fn every_attribute_reaches_the_trait() {
    assert_eq!(SendEmail::NAME, "send-email");
    assert_eq!(SendEmail::QUEUE, "email");
    types::<SendEmail, Durable, Vec<(u64, String)>, SendError>();
    let expected = JobDefaults {
        priority: i32::MIN,
        attempts: 5,
        backoff: Some(Backoff::Exponential {
            delay: seconds(1),
            factor: 1.5,
            max: Some(seconds(300)),
            jitter: Some(0.1),
        }),
        timeout: Some(seconds(90)),
        keep: Some(Keep {
            completed: Some(Retention {
                count: Some(100),
                age: Some(DAY),
            }),
            failed: Some(Retention::age(30 * DAY)),
            cancelled: Some(Retention::count(0)),
        }),
    };
    assert_eq!(SendEmail::defaults(), expected);

    let email = SendEmail {
        to: "ada@example.org".into(),
        message: 7,
    };
    assert_eq!(email.idempotency_key().as_deref(), Some("7"));
    assert_eq!(
        email.dedupe(),
        Some(Dedupe::key("ada@example.org").ttl(seconds(60)))
    );
    assert_eq!(email.metadata()["to"], "ada@example.org");
    assert!(SendEmail::retryable(&SendError::Busy));
    assert!(!SendEmail::retryable(&SendError::NoSuchAddress));
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "short", backoff = "250ms", keep = "1d", key = short_key, dedupe = no_dedupe)]
#[job(priority = 7)]
enum Short {
    Keyed(String),
    Keyless,
}

fn short_key(job: &Short) -> Option<String> {
    match job {
        Short::Keyed(key) => Some(key.clone()),
        Short::Keyless => None,
    }
}

fn no_dedupe(_: &Short) -> Option<Dedupe> {
    None
}

#[test]
fn the_short_forms_mean_what_they_say() {
    let defaults = Short::defaults();
    assert_eq!(
        defaults.backoff,
        Some(Backoff::fixed(Duration::from_millis(250)))
    );
    assert_eq!(defaults.keep, Some(Keep::all(Retention::age(DAY))));
    assert_eq!(defaults.priority, 7);
    assert_eq!(Short::Keyed("k".into()).idempotency_key().unwrap(), "k");
    assert_eq!(Short::Keyless.idempotency_key(), None);
    assert_eq!(Short::Keyless.dedupe(), None);
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "counted", backoff = fixed("0s"), keep = 100)]
struct Counted;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "doubled", backoff = exponential("1s",), keep(failed(age = "0s")))]
struct Doubled;

#[test]
fn what_is_left_out_of_a_policy_has_its_default() {
    let counted = Counted::defaults();
    assert_eq!(counted.backoff, Some(Backoff::fixed(Duration::ZERO)));
    assert_eq!(counted.keep, Some(Keep::all(Retention::count(100))));
    let doubled = Doubled::defaults();
    assert_eq!(doubled.backoff, Some(Backoff::exponential(seconds(1))));
    let keep = doubled.keep.unwrap();
    assert_eq!(keep.failed, Some(Retention::age(Duration::ZERO)));
    assert_eq!((keep.completed, keep.cancelled), (None, None));
}

mod framework {
    pub(super) mod jobs {
        pub(crate) use mq_core::*;
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "elsewhere", crate = framework::jobs)]
struct Elsewhere;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "r#raw", queue = "r")]
struct r#Struct {
    r#type: String,
}

#[test]
fn unusual_places_and_names_are_fine() {
    assert_eq!(Elsewhere::NAME, "elsewhere");
    assert_eq!(r#Struct::NAME, "r#raw");
    let job = r#Struct { r#type: "a".into() };
    assert_eq!(job.r#type, "a");
}
