//! What a store answers when it does not do what it was asked.

use std::fmt;
use std::sync::Arc;

use crate::id::{JobId, StoreKey};
use crate::record::JobState;

/// Why a store did not do what it was asked.
///
/// [`is_transient`](Self::is_transient) says whether the same call may succeed
/// later. Every operation may be repeated with its id or token after a
/// transient error, whether or not the first try took effect.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The input breaks a rule. Nothing was written. Permanent.
    #[error(transparent)]
    InvalidInput(#[from] InvalidInput),
    /// There is no such job, or no longer. Permanent.
    #[error(
        "job {id:?} does not exist: it was never enqueued here, was removed, or its retention ended"
    )]
    NotFound {
        /// The id that was asked for.
        id: JobId,
    },
    /// The lock's token does not hold the job. Nothing was written. Permanent.
    #[error(
        "the lock on job {id:?} is lost: it expired and was recovered, was released, or the run has ended"
    )]
    LockLost {
        /// The job whose lock it was.
        id: JobId,
    },
    /// The job is in a state that the operation does not take. Permanent.
    #[error("cannot {operation} job {id:?}: it is {state}, and must be {required}")]
    IllegalState {
        /// What was asked for, as a verb: `retry`, `cancel`, `promote`, `remove`.
        operation: &'static str,
        /// The job.
        id: JobId,
        /// The state it is in.
        state: JobState,
        /// The states the operation takes, in words.
        required: &'static str,
    },
    /// The store does not serve this operation or query. Permanent.
    #[error("this store does not support {operation}: {remedy}")]
    Unsupported {
        /// The operation or query.
        operation: &'static str,
        /// Why, and what to do instead.
        remedy: &'static str,
    },
    /// What is stored under this id cannot be decoded. Permanent.
    #[error("job {id:?} is stored in a form that cannot be decoded: {detail}")]
    Corrupt {
        /// The id of the record.
        id: JobId,
        /// What is wrong with it.
        detail: String,
    },
    /// The store was first bound to another name. Permanent.
    #[error(
        "this store is named {bound:?}, not {asked:?}: open it under its own name, or use another store"
    )]
    NameMismatch {
        /// The name the store remembers.
        bound: StoreKey,
        /// The name it was asked to take.
        asked: StoreKey,
    },
    /// Every id drawn for a job was taken already. Permanent.
    #[error("{tries} drawn ids were all taken, the last {last:?}: the id generator repeats itself")]
    IdsTaken {
        /// How many ids were drawn.
        tries: u32,
        /// The last of them.
        last: JobId,
    },
    /// The store cannot be reached, is overloaded, or its answer was lost:
    /// whether the operation took effect is unknown. Transient.
    #[error("the store is unavailable: {message}")]
    Unavailable {
        /// What happened, and to which server.
        message: String,
        /// The error underneath.
        source: Option<Cause>,
    },
    /// The store failed in a way that a repetition does not mend. Permanent.
    #[error("the store failed: {message}")]
    Backend {
        /// What happened, and what to do about it.
        message: String,
        /// The error underneath.
        source: Option<Cause>,
    },
}

/// An underlying error, shared by all who waited for the same call.
#[derive(Clone, Debug)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// Keeps an error as a cause.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl StoreError {
    /// Whether the same call may succeed later: true only for
    /// [`Unavailable`](Self::Unavailable).
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// An [`Unavailable`](Self::Unavailable) without an error underneath.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable {
            message: message.into(),
            source: None,
        }
    }
}

/// Input that breaks a rule: the field, its value (shortened), and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {}{rule}", quoted(value))]
#[non_exhaustive]
pub struct InvalidInput {
    /// Which field, such as `queue name` or `metadata "tenant"`.
    pub field: String,
    /// The value as given, shortened to 64 characters; empty for payloads,
    /// results and progress, which must not end up in logs.
    pub value: String,
    /// The rule it breaks.
    pub rule: Rule,
}

impl InvalidInput {
    /// Says that `field`, whose value is `value`, breaks `rule`.
    pub fn new(field: impl Into<String>, value: impl fmt::Debug, rule: Rule) -> Self {
        Self {
            field: field.into(),
            value: shortened(&format!("{value:?}")),
            rule,
        }
    }

    /// Says that `field` breaks `rule`, without its value: for what belongs to
    /// the user and must not end up in logs.
    pub fn unquoted(field: impl Into<String>, rule: Rule) -> Self {
        Self {
            field: field.into(),
            value: String::new(),
            rule,
        }
    }
}

/// A value and the space after it, if there is one to show.
fn quoted(value: &str) -> String {
    if value.is_empty() {
        String::new()
    } else {
        format!("{value} ")
    }
}

/// The first 64 characters of a text, and a mark if there were more.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 64;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A rule that input can break; printed, it completes the sentence that the
/// field and the value begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// It must not be empty.
    #[error("is empty: give it at least one character")]
    Empty,
    /// It must not hold a NUL character.
    #[error("holds a NUL character (U+0000): remove it")]
    Nul,
    /// It has a maximum length, in bytes of UTF-8 or JSON text.
    #[error("is {bytes} bytes long, at most {most}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The most that is allowed.
        most: usize,
    },
    /// Its arrays and objects must not nest deeper than this.
    #[error("is nested deeper than {most} levels")]
    TooDeep {
        /// The most that is allowed.
        most: usize,
    },
    /// It must not be zero.
    #[error("is zero, must be at least {least}")]
    Zero {
        /// The least that is allowed, with its unit.
        least: &'static str,
    },
    /// It must lie in a range.
    #[error("is out of range: {range}")]
    OutOfRange {
        /// The range, in words.
        range: &'static str,
    },
    /// Any other rule, in words that complete the sentence.
    #[error("{0}")]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_field_the_value_and_the_rule() {
        let error = InvalidInput::new(
            "queue name",
            "q".repeat(300),
            Rule::TooLong {
                bytes: 300,
                most: 256,
            },
        );
        assert_eq!(
            error.to_string(),
            format!(
                "queue name \"{}… is 300 bytes long, at most 256",
                "q".repeat(63)
            )
        );
    }

    #[test]
    fn a_message_without_a_value_names_the_field_and_the_rule() {
        let error = InvalidInput::unquoted("payload", Rule::TooDeep { most: 100 });
        assert_eq!(
            error.to_string(),
            "payload is nested deeper than 100 levels"
        );
    }

    #[test]
    fn only_unavailability_is_worth_a_repetition() {
        assert!(StoreError::unavailable("connection refused").is_transient());
        assert!(!StoreError::NotFound { id: "a".into() }.is_transient());
    }
}
