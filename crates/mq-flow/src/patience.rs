//! Calls to stores that may never answer.

use std::time::Duration;

use mq_core::{Result, StoreError};

/// How long one call to a store may take. Whether it took effect is unknown
/// then, as after a lost answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a store's answer, but not for ever.
pub(crate) async fn patiently<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, call)
        .await
        .unwrap_or_else(|_| {
            Err(StoreError::unavailable(format!(
                "it did not answer within {PATIENCE:?}"
            )))
        })
}
