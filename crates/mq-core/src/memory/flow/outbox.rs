//! Reports of this store's flow children that nobody has fetched for good yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use crate::id::{ChildKey, JobId, LockToken, OutboxId, StoreKey};
use crate::memory::job::Job;
use crate::record::{JobState, OutboxEntry, Report, ReportOutcome};
use crate::store::OutboxPage;
use crate::validate::MAX_PAGE_BYTES;

/// Whom a report is about, and its number.
type ChildPlace = (StoreKey, JobId, LockToken, ChildKey, u64);

/// Reports by their number, which is drawn as they come.
#[derive(Default)]
pub(in crate::memory) struct Outbox {
    entries: BTreeMap<u64, OutboxEntry>,
    by_child: BTreeSet<ChildPlace>,
    last_number: u64,
}

impl Outbox {
    /// Appends the report of a job that has ended, if it is a flow's child.
    pub(in crate::memory) fn append(&mut self, job: &Job) {
        let outcome = match job.state {
            JobState::Completed => ReportOutcome::Completed,
            JobState::Failed => ReportOutcome::Failed,
            JobState::Cancelled => ReportOutcome::Cancelled,
            _ => return,
        };
        let Some((extra, parent)) = job.extra.as_ref().and_then(|extra| {
            let parent = extra.parent.as_ref()?;
            Some((extra, parent))
        }) else {
            return;
        };
        self.last_number += 1;
        let entry = OutboxEntry {
            id: OutboxId::from(self.last_number.to_string()),
            flow_name: parent.flow_name.clone(),
            parent_store: parent.parent_store.clone(),
            report: Report {
                flow_id: parent.flow_id.clone(),
                manifest: parent.manifest.clone(),
                child_key: parent.child_key.clone(),
                outcome,
                exit: job.exit.clone(),
                failed_reason: extra.failed_reason.clone(),
            },
        };
        self.by_child.insert(child_place(&entry, self.last_number));
        self.entries.insert(self.last_number, entry);
    }

    pub(super) fn page(&self, after: Option<&OutboxId>, limit: usize) -> OutboxPage {
        let after = after.and_then(|id| self.number(id));
        let mut rest = self
            .entries
            .range((after.map_or(Unbounded, Excluded), Unbounded))
            .map(|(_, entry)| entry)
            .peekable();
        let mut page = OutboxPage::default();
        let mut bytes = 0;
        while page.entries.len() < limit
            && let Some(entry) = rest.peek()
        {
            bytes += entry
                .report
                .exit
                .as_ref()
                .map_or(0, |exit| exit.get().len());
            if bytes > MAX_PAGE_BYTES && !page.entries.is_empty() {
                break;
            }
            page.entries.extend(rest.next().cloned());
        }
        page.more = rest.peek().is_some();
        page
    }

    pub(super) fn delete(&mut self, id: &OutboxId) {
        if let Some(number) = self.number(id)
            && let Some(entry) = self.entries.remove(&number)
        {
            self.by_child.remove(&child_place(&entry, number));
        }
    }

    /// The reports about a child, oldest first: more than one if it was retried.
    pub(super) fn of_child(
        &self,
        parent_store: &StoreKey,
        flow_id: &JobId,
        manifest: &LockToken,
        key: &ChildKey,
    ) -> Vec<OutboxEntry> {
        let place = |number| {
            let (store, flow) = (parent_store.clone(), flow_id.clone());
            (store, flow, manifest.clone(), key.clone(), number)
        };
        self.by_child
            .range(place(0)..=place(u64::MAX))
            .filter_map(|(.., number)| self.entries.get(number).cloned())
            .collect()
    }

    /// The number an id was made of, if this outbox issued it. Numbers can be
    /// written in more ways than the one that was given out.
    fn number(&self, id: &OutboxId) -> Option<u64> {
        let number: u64 = id.parse().ok()?;
        let issued = (1..=self.last_number).contains(&number);
        (issued && number.to_string() == **id).then_some(number)
    }

    #[cfg(test)]
    pub(in crate::memory) fn check(&self) {
        let places: BTreeSet<_> = self
            .entries
            .iter()
            .map(|(number, entry)| child_place(entry, *number))
            .collect();
        assert_eq!(places, self.by_child);
    }

    #[cfg(test)]
    pub(in crate::memory) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn child_place(entry: &OutboxEntry, number: u64) -> ChildPlace {
    let report = &entry.report;
    (
        entry.parent_store.clone(),
        report.flow_id.clone(),
        report.manifest.clone(),
        report.child_key.clone(),
        number,
    )
}
