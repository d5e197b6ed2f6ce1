//! Queries.

use super::job::metadata;
use super::number::nonzero;
use super::{DEFAULT_LIST, MAX_PAGE, Validated, job_name, queue_name};
use crate::store::ListFilter;

/// `list`, but for its cursor, which is the driver's own: answers the page's size.
pub fn list(filter: &ListFilter) -> Validated<u32> {
    filter.queue.as_ref().map_or(Ok(()), queue_name)?;
    filter.name.as_ref().map_or(Ok(()), job_name)?;
    metadata(&filter.metadata)?;
    page_limit(filter.limit.unwrap_or(DEFAULT_LIST))
}

/// `peek_outbox` and other pages of records: answers the clamped limit.
pub fn page_limit(limit: u32) -> Validated<u32> {
    nonzero("limit", limit, "1").map(|limit| limit.min(MAX_PAGE))
}
