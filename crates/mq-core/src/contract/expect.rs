//! What cases expect of an answer; each says what came instead.

use std::fmt::Debug;

use crate::error::{InvalidInput, StoreError};
use crate::id::JobId;
use crate::record::JobState;
use crate::store::Result;

/// An answer that must not be an error.
pub(super) trait Must<T> {
    /// The answer; panics if it is an error.
    fn must(self) -> T;
}

impl<T> Must<T> for Result<T> {
    #[track_caller]
    fn must(self) -> T {
        match self {
            Ok(answer) => answer,
            Err(error) => panic!("expected an answer, got the error: {error}"),
        }
    }
}

#[track_caller]
pub(super) fn expect_lock_lost<T: Debug>(answer: Result<T>, id: &JobId) {
    match answer {
        Err(StoreError::LockLost { id: named }) => assert_eq!(named, *id, "the id of LockLost"),
        other => panic!("expected LockLost for job {id:?}, got {other:?}"),
    }
}

#[track_caller]
pub(super) fn expect_not_found<T: Debug>(answer: Result<T>, id: &JobId) {
    match answer {
        Err(StoreError::NotFound { id: named }) => assert_eq!(named, *id, "the id of NotFound"),
        other => panic!("expected NotFound for job {id:?}, got {other:?}"),
    }
}

#[track_caller]
pub(super) fn expect_illegal<T: Debug>(answer: Result<T>, id: &JobId, state: JobState) {
    match answer {
        Err(StoreError::IllegalState {
            id: named,
            state: found,
            ..
        }) => assert_eq!((&named, found), (id, state), "what IllegalState names"),
        other => panic!("expected IllegalState for job {id:?}, which is {state}, got {other:?}"),
    }
}

/// Expects `InvalidInput` whose field, named in full or at its end, is `field`.
#[track_caller]
pub(super) fn expect_refused<T: Debug>(answer: Result<T>, field: &str) -> InvalidInput {
    match answer {
        Err(StoreError::InvalidInput(invalid)) => {
            assert!(
                invalid.field.ends_with(field),
                "expected the field {field:?} to be refused, got: {invalid}"
            );
            invalid
        }
        other => panic!("expected {field:?} to be refused as invalid, got {other:?}"),
    }
}
