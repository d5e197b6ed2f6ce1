//! Enqueue children: the steps that keep a child from running twice, and from
//! being left behind by a flow that closed meanwhile.

use std::collections::HashSet;

use mq_core::{
    ChildKey, FlowChild, InvalidInput, JobId, LockToken, NewJob, OutboxEntry, Report,
    ReportOutcome, Result, StoreError, StoreKey,
};
use tracing::warn;

use crate::hub::{Held, Hub};
use crate::patience::patiently;
use crate::record::record;

/// Enqueues children of one manifest into one store, batch after batch.
pub(crate) struct Enqueuer<'a> {
    pub(crate) hub: &'a Hub,
    /// The parent's store.
    pub(crate) parents: &'a Held,
    /// The children's store.
    pub(crate) children: &'a Held,
    pub(crate) flow_id: &'a JobId,
    pub(crate) manifest: &'a LockToken,
    /// What may have been enqueued, and was not looked at since.
    unseen: Vec<(ChildKey, JobId)>,
}

impl<'a> Enqueuer<'a> {
    pub(crate) fn new(
        hub: &'a Hub,
        parents: &'a Held,
        children: &'a Held,
        flow_id: &'a JobId,
        manifest: &'a LockToken,
    ) -> Self {
        Self {
            hub,
            parents,
            children,
            flow_id,
            manifest,
            unseen: Vec::new(),
        }
    }

    /// Enqueues those of a batch that are pending and have no report, and
    /// answers the reports that it found. The batch before is looked at again
    /// on the way.
    pub(crate) async fn enqueue(&mut self, batch: &[&FlowChild]) -> Result<Vec<OutboxEntry>> {
        let keys: Vec<_> = batch.iter().map(|child| child.key.clone()).collect();
        // The outbox first, then the parent: a child that has ended by now has
        // its report there, or its row is pending no more.
        let (flow_id, manifest) = (self.flow_id, self.manifest);
        let store = &self.children.store;
        let reports =
            patiently(store.undelivered_reports(&self.hub.own, flow_id, manifest, &keys)).await?;
        let reported: HashSet<_> = reports
            .iter()
            .map(|entry| &entry.report.child_key)
            .collect();
        let pending = self.look_again(&keys).await?;
        let missing: Vec<_> = batch
            .iter()
            .filter(|child| pending.contains(&child.key) && !reported.contains(&child.key))
            .collect();
        // Also what fails may have landed.
        self.unseen = missing
            .iter()
            .filter_map(|child| Some((child.key.clone(), child.job.id.clone()?)))
            .collect();
        let jobs = missing.iter().map(|child| child.job.clone()).collect();
        match self.insert(jobs).await {
            Err(StoreError::InvalidInput(_)) => {
                for child in missing {
                    match self.insert(vec![child.job.clone()]).await {
                        Err(StoreError::InvalidInput(reason)) => {
                            self.refused(child, &reason).await?
                        }
                        answer => answer?,
                    }
                }
            }
            answer => answer?,
        }
        Ok(reports)
    }

    /// Looks at the last batch again: who is not pending any more is cancelled.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        match self.unseen.is_empty() {
            true => Ok(()),
            false => self.look_again(&[]).await.map(drop),
        }
    }

    /// Asks which of the next batch are pending, and in the same call of the
    /// last one; cancels those of the last one that are not.
    async fn look_again(&mut self, next: &[ChildKey]) -> Result<HashSet<ChildKey>> {
        let last = self.unseen.iter().map(|(key, _)| key);
        let keys: Vec<_> = next.iter().chain(last).cloned().collect();
        let asked = self
            .parents
            .store
            .pending_children(self.flow_id, self.manifest, &keys);
        let pending: HashSet<_> = patiently(asked).await?.into_iter().collect();
        let stray: Vec<_> = self
            .unseen
            .iter()
            .filter(|(key, _)| !pending.contains(key))
            .map(|(_, id)| id.clone())
            .collect();
        if !stray.is_empty() {
            // Those that have ended by themselves are the usual ones.
            patiently(self.children.store.cancel_many(&stray)).await?;
            self.children.relay.send();
            self.hub.sweep.send();
        }
        self.unseen.clear();
        Ok(pending)
    }

    async fn insert(&self, jobs: Vec<NewJob>) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        patiently(self.children.store.enqueue_many(jobs))
            .await
            .map(drop)
    }

    /// A child that its store never takes has failed.
    async fn refused(&self, child: &FlowChild, reason: &InvalidInput) -> Result<()> {
        let failed = failed(
            self.flow_id,
            self.manifest,
            &child.key,
            refusal(&child.store, reason),
        );
        record(self.hub, &self.hub.own, self.parents, vec![failed]).await
    }
}

fn refusal(store: &StoreKey, reason: &InvalidInput) -> String {
    warn!(%store, %reason, "a child's store does not take it; it counts as failed");
    format!("the store {store:?} does not take the child: {reason}")
}

/// The report of a child that cannot report by itself.
pub(crate) fn failed(
    flow_id: &JobId,
    manifest: &LockToken,
    key: &ChildKey,
    reason: String,
) -> Report {
    Report {
        flow_id: flow_id.clone(),
        manifest: manifest.clone(),
        child_key: key.clone(),
        outcome: ReportOutcome::Failed,
        exit: None,
        failed_reason: Some(reason),
    }
}
