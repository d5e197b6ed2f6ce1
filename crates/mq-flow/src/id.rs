//! The ids of children's jobs.

use mq_core::{ChildKey, JobId, LockToken, StoreKey};

/// The id of a child's job.
///
/// The lengths keep distinct parts distinct whatever they hold. The manifest
/// keeps a parent that is enqueued again under its old id from meeting its
/// former children.
pub(crate) fn child_job_id(
    parent_store: &StoreKey,
    flow_id: &JobId,
    manifest: &LockToken,
    key: &ChildKey,
) -> JobId {
    let (store, flow) = (parent_store.len(), flow_id.len());
    JobId::from(format!(
        "flow/{store}.{flow}/{parent_store}/{flow_id}/{manifest}/{key}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(store: &str, flow: &str, manifest: &str, key: &str) -> JobId {
        child_job_id(&store.into(), &flow.into(), &manifest.into(), &key.into())
    }

    #[test]
    fn an_id_has_the_documented_form() {
        assert_eq!(
            id("durable", "a/1", "t", "ada"),
            "flow/7.3/durable/a/1/t/ada"
        );
    }

    #[test]
    fn parts_that_differ_give_ids_that_differ() {
        assert_ne!(id("a", "b/c", "t", "k"), id("a/b", "c", "t", "k"));
        assert_ne!(id("a", "b", "c/t", "k"), id("a", "b/c", "t", "k"));
        assert_ne!(id("a", "é", "t", "k"), id("a", "e", "t", "k"));
    }
}
