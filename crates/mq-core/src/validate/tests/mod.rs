//! Each rule at its edge: what just passes, what just does not, and what the
//! message says.

mod admin;
mod enqueue;
mod flow;
mod run;
mod schedule;
mod text;

use std::fmt::Debug;
use std::time::Duration;

use super::*;
use crate::json::RawJson;
use crate::record::{JobSpec, NewJob};
use crate::time::LONGEST;

/// One millisecond more than any duration may be.
const TOO_LONG: Duration = LONGEST.saturating_add(Duration::from_millis(1));
/// What a message says of it.
const SPAN: &str = "is out of range: at most 253,402,300,799,999 ms, the span from 1970 to 9999";

fn limits() -> Limits {
    Limits { max_payload: 100 }
}

fn spec() -> JobSpec {
    JobSpec::new("job", "queue", RawJson::null())
}

fn job() -> NewJob {
    NewJob::new(spec())
}

fn json(text: impl Into<String>) -> RawJson {
    RawJson::parse(text).unwrap()
}

/// The message of a refusal.
#[track_caller]
fn refusal<T: Debug>(answer: Validated<T>) -> String {
    answer.unwrap_err().to_string()
}

/// Checks that an answer is a refusal with exactly this message.
#[track_caller]
fn refuses<T: Debug>(answer: Validated<T>, message: &str) {
    assert_eq!(refusal(answer), message);
}

#[track_caller]
fn passes<T: Debug>(answer: Validated<T>) {
    assert!(answer.is_ok(), "refused: {answer:?}");
}
