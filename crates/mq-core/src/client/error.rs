//! What goes wrong on the producer's side.

use crate::error::{InvalidInput, StoreError};
use crate::id::{JobId, JobName};

/// Why a client did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The store did not do it, or input broke a rule.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A job does not encode as JSON.
    #[error("job {name:?} does not encode as JSON: {source}")]
    Encode {
        /// The kind of job.
        name: JobName,
        /// What serde says.
        source: serde_json::Error,
    },
    /// The id belongs to a job of another kind; nothing became of the request.
    #[error(
        "job id {id:?} belongs to a job of another kind, {name:?}: choose another id to enqueue, or read it as that kind"
    )]
    IdTaken {
        /// The id that was asked for.
        id: JobId,
        /// The name of the job that has it.
        name: JobName,
    },
}

impl ClientError {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }
}

impl From<InvalidInput> for ClientError {
    fn from(error: InvalidInput) -> Self {
        Self::Store(error.into())
    }
}
