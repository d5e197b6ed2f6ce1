//! How a run ends, as handlers and phase runners say it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mq_core::{Defect, DefectKind, Exit, FlowChild, HandlerError, Job, RawJson};
use serde::Serialize;

use crate::panic;

/// How a run ended. Handlers say it with a `Result`; a
/// [`PhaseRunner`](crate::PhaseRunner) says it with this.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEnd {
    /// Well.
    Completed {
        /// `{"ok": value}`.
        exit: RawJson,
    },
    /// Badly.
    Failed {
        /// `{"err": error}` or `{"defect": …}`.
        exit: RawJson,
        /// Whether and when to try again.
        retry: Retry,
    },
    /// It put itself off; no attempt is used.
    Snoozed {
        /// How long from now.
        delay: Duration,
    },
    /// It named the children of a flow; no attempt is used.
    FannedOut {
        /// Whether the first failed child fails the job.
        fail_fast: bool,
        /// The children.
        children: Vec<FlowChild>,
    },
}

/// Whether and when a failed run is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// While attempts are left, after the job's backoff.
    ByPolicy,
    /// While attempts are left, after this long.
    After(Duration),
    /// Not at all.
    Never,
}

impl RunEnd {
    /// What the result of a handler of `J` means. A value that does not encode
    /// fails the job for good: its side effects are done.
    pub fn of<J: Job>(result: Result<J::Output, HandlerError<J::Error>>) -> Self {
        match result {
            Ok(output) => Self::completed(&output),
            Err(HandlerError::Error(error)) => {
                let retry = match J::retryable(&error) {
                    true => Retry::ByPolicy,
                    false => Retry::Never,
                };
                Self::failed(&error, retry)
            }
            Err(HandlerError::Unrecoverable(error)) => Self::failed(&error, Retry::Never),
            Err(HandlerError::RetryAfter(delay, error)) => {
                Self::failed(&error, Retry::After(delay))
            }
            Err(HandlerError::Snooze(delay)) => Self::Snoozed { delay },
        }
    }

    /// A run that returned a value.
    pub fn completed<T: Serialize>(value: &T) -> Self {
        match encode(&Exit::<&T, ()>::Ok(value)) {
            Ok(exit) => Self::Completed { exit },
            Err(error) => {
                let message = format!("the result does not encode to JSON: {error}");
                Self::defect(&Defect::new(DefectKind::Encode, message), Retry::Never)
            }
        }
    }

    /// A run that returned an error.
    pub fn failed<E: Serialize>(error: &E, retry: Retry) -> Self {
        match encode(&Exit::<(), &E>::Err(error)) {
            Ok(exit) => Self::Failed { exit, retry },
            Err(unencodable) => {
                let message = format!("the error does not encode to JSON: {unencodable}");
                Self::defect(&Defect::new(DefectKind::Encode, message), retry)
            }
        }
    }

    /// A run that ended in a way no handler chose.
    pub fn defect(defect: &Defect, retry: Retry) -> Self {
        Self::Failed {
            exit: defect_exit(defect),
            retry,
        }
    }
}

/// Encodes what a handler ended with; a panic on the way is not the handler's.
fn encode<T: Serialize>(exit: &T) -> Result<RawJson, String> {
    catch_unwind(AssertUnwindSafe(|| RawJson::encode(exit)))
        .map_err(|payload| format!("panicked: {}", panic::message(payload)))?
        .map_err(|error| error.to_string())
}

/// `{"defect": …}`.
pub(crate) fn defect_exit(defect: &Defect) -> RawJson {
    // A kind and a message always encode.
    RawJson::encode(&Exit::<(), ()>::Defect(defect.clone())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_value_that_does_not_encode_is_never_tried_again() {
        let unencodable = HashMap::from([((1, 2), 3)]);
        let RunEnd::Failed { exit, retry } = RunEnd::completed(&unencodable) else {
            panic!("a map with tuples for keys is not JSON");
        };
        assert_eq!(retry, Retry::Never);
        assert!(exit.get().starts_with(r#"{"defect":{"kind":"encode""#));
    }

    #[test]
    fn an_error_that_does_not_encode_is_tried_again_like_any_other() {
        let unencodable = HashMap::from([((1, 2), 3)]);
        let RunEnd::Failed { exit, retry } = RunEnd::failed(&unencodable, Retry::ByPolicy) else {
            panic!("an error is a failure");
        };
        assert_eq!(retry, Retry::ByPolicy);
        assert!(exit.get().starts_with(r#"{"defect":{"kind":"encode""#));
    }
}
