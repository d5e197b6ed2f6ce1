//! The one way from the worker to its store: every call is bounded in time,
//! survives a panic in the store, and tells the [`Contact`] how it went.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mq_core::{Result, Store, StoreError};

use crate::contact::Contact;
use crate::panic;

/// The worker's way to its store.
pub(crate) struct Link {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) contact: Contact,
    /// How long an answer is waited for: a call without one for a whole lock
    /// is better repeated, as all that it might have locked has expired.
    patience: Duration,
}

impl Link {
    pub(crate) fn new(store: Arc<dyn Store>, contact: Contact, patience: Duration) -> Self {
        Self {
            store,
            contact,
            patience,
        }
    }

    /// Makes a call, and waits for its answer so long.
    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.call_within(self.patience, operation, call).await
    }

    /// Makes a call whose answer is of no use after `patience`.
    pub(crate) async fn call_within<T>(
        &self,
        patience: Duration,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // In a block, so that the guard is there when a late call is dropped.
        let in_time = async move {
            let answer = tokio::time::timeout(patience, call).await;
            answer.unwrap_or_else(|_| {
                Err(StoreError::unavailable(format!(
                    "{operation} gave no answer within {patience:?}"
                )))
            })
        };
        let answer = self.guarded(operation, in_time).await;
        self.note(operation, answer)
    }

    /// Makes a call that may take as long as it likes.
    pub(crate) async fn call_at_leisure<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let answer = self.guarded(operation, call).await;
        self.note(operation, answer)
    }

    /// Turns a panic in the store, or while its call is dropped, into an error whose outcome is unknown.
    async fn guarded<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        AssertUnwindSafe(call)
            .catch_unwind()
            .await
            .unwrap_or_else(|payload| {
                Err(StoreError::unavailable(format!(
                    "{operation} panicked in the store: {}",
                    panic::message(payload)
                )))
            })
    }

    fn note<T>(&self, operation: &'static str, answer: Result<T>) -> Result<T> {
        match &answer {
            Err(error) if error.is_transient() => self.contact.failed(operation, error),
            _ => self.contact.answered(operation),
        }
        answer
    }
}
