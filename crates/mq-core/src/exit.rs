//! How runs end, as handlers say it and as it is stored.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a finished job's exit holds, decoded: `{"ok": value}`, `{"err": error}`
/// or `{"defect": {"kind": …, "message": …}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit<T, E> {
    /// The handler returned a value.
    Ok(T),
    /// The handler returned an error.
    Err(E),
    /// The run ended without either.
    Defect(Defect),
}

/// An end that no handler chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Defect {
    /// Which kind of end.
    pub kind: DefectKind,
    /// What is known of it.
    pub message: String,
}

impl Defect {
    /// A defect of this kind.
    pub fn new(kind: DefectKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The kinds of end that no handler chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DefectKind {
    /// The handler panicked.
    Panic,
    /// The run took longer than its time-out.
    Timeout,
    /// The payload does not decode into the registered type.
    Decode,
    /// The result does not encode.
    Encode,
    /// The result is larger than the store takes.
    TooLarge,
    /// The job has fanned out, but its handler has no phase to go on with.
    NoPhase,
}

impl DefectKind {
    /// The kind's name as it is stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Decode => "decode",
            Self::Encode => "encode",
            Self::TooLarge => "too-large",
            Self::NoPhase => "no-phase",
        }
    }
}

impl fmt::Display for DefectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of jobs that declare none of their own: the message of any
/// [`std::error::Error`], and those of its causes.
///
/// It is not an `Error` itself, so that `?` can make it from every type that is.
///
/// ```
/// use mq_core::Failure;
///
/// fn parse(text: &str) -> Result<u8, Failure> {
///     Ok(text.parse::<u8>()?)
/// }
/// assert_eq!(parse("x").unwrap_err().message, "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub message: String,
    /// Why, outermost cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl Failure {
    /// A failure without causes.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
        }
    }
}

impl<E: StdError> From<E> for Failure {
    fn from(error: E) -> Self {
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        Self {
            message: error.to_string(),
            causes: causes.map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes
            .iter()
            .try_for_each(|cause| write!(f, ": {cause}"))
    }
}

/// What a handler returns when it does not succeed.
///
/// `?` turns a job's own error into [`Error`](Self::Error); for jobs whose
/// error is [`Failure`], it does so with every [`std::error::Error`]. An error
/// that is to become the job's own first is mapped: `.map_err(SendError::from)?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError<E> {
    /// The run failed: it is tried again if attempts are left and
    /// [`Job::retryable`](crate::Job::retryable) agrees.
    Error(E),
    /// The run failed, and no other would succeed.
    Unrecoverable(E),
    /// The run failed, and is to be tried again after this long, whatever the
    /// backoff says.
    RetryAfter(Duration, E),
    /// The job is put off for this long; no attempt is used.
    Snooze(Duration),
}

impl<E> From<E> for HandlerError<E> {
    fn from(error: E) -> Self {
        Self::Error(error)
    }
}

impl<E: StdError> From<E> for HandlerError<Failure> {
    fn from(error: E) -> Self {
        Self::Error(Failure::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_have_their_persisted_form() {
        let text = |exit: &Exit<u8, Failure>| serde_json::to_string(exit).unwrap();
        assert_eq!(text(&Exit::Ok(1)), r#"{"ok":1}"#);
        assert_eq!(
            text(&Exit::Err(Failure::new("no"))),
            r#"{"err":{"message":"no"}}"#
        );
        let defect = Defect::new(DefectKind::TooLarge, "2 MiB");
        assert_eq!(
            text(&Exit::Defect(defect)),
            r#"{"defect":{"kind":"too-large","message":"2 MiB"}}"#
        );
    }

    /// Takes a handler as the worker does.
    fn handler<E, F>(_: impl Fn(String) -> F)
    where
        F: Future<Output = Result<u8, HandlerError<E>>>,
    {
    }

    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("no number")]
    struct NoNumber(#[from] std::num::ParseIntError);

    #[test]
    fn question_marks_in_handlers_need_no_types() {
        // The error of a job that declares none takes any error, and itself.
        handler::<Failure, _>(|text| async move {
            let number: u8 = text.parse()?;
            let text = String::from_utf8(vec![number])?;
            if text.is_empty() {
                Err(Failure::new("empty"))?;
            }
            Ok(number)
        });
        // A job's own error takes itself, and the other ends of a run.
        handler::<NoNumber, _>(|text| async move {
            let number = text.parse::<u8>().map_err(NoNumber::from)?;
            let again: Result<u8, NoNumber> = text.parse().map_err(NoNumber);
            match number {
                0 => Err(HandlerError::Snooze(Duration::from_secs(1))),
                _ => Ok(again?),
            }
        });
        let wrong = "x".parse::<u8>().unwrap_err();
        let failure = HandlerError::<Failure>::from(wrong.clone());
        assert_eq!(failure, HandlerError::Error(Failure::from(wrong.clone())));
        let own = HandlerError::from(NoNumber(wrong.clone()));
        assert_eq!(own, HandlerError::Error(NoNumber(wrong)));
    }

    #[test]
    fn a_failure_lists_the_causes_outermost_first() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot send")]
        struct Outer(#[source] std::num::ParseIntError);
        let failure = Failure::from(Outer("x".parse::<u8>().unwrap_err()));
        assert_eq!(
            failure.to_string(),
            "cannot send: invalid digit found in string"
        );
    }
}
