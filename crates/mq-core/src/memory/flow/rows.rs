//! A flow: its children's rows, how many are in which status, and when each is
//! to be looked after.
//!
//! Closing a flow changes no row. A row that is stored as pending is read as
//! cancelled, and owes a cancel, from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use super::sweep::{Place, SweepPage};
use crate::id::{ChildKey, JobId, LockToken};
use crate::json::RawJson;
use crate::record::{
    ChildResult, ChildStatus, FlowChild, FlowCounts, FlowState, Report, ReportOutcome,
};
use crate::store::ResultPage;
use crate::time::Timestamp;
use crate::validate::MAX_PAGE_BYTES;

/// The state of a flow and its rows.
#[derive(Debug)]
pub(in crate::memory) struct Flow {
    state: FlowState,
    closed_at: Option<Timestamp>,
    /// How many rows owe a cancel to their child's store.
    owed: u64,
    rows: BTreeMap<ChildKey, Row>,
    /// Rows that owe a cancel and were not given to a sweeper for it yet.
    fresh: BTreeSet<(Armed, ChildKey)>,
    /// The other rows that are pending or owe a cancel.
    armed: BTreeSet<(Armed, ChildKey)>,
    /// Its place in the sweeps' rotation.
    pub(super) place: Place,
}

/// Since when a row waits to be looked after: the instant, and the sweep that
/// gave it out then, 0 if none did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Armed {
    at: Timestamp,
    sweep: u64,
}

#[derive(Debug)]
struct Row {
    child: FlowChild,
    job_id: JobId,
    stored: ChildStatus,
    exit: Option<RawJson>,
    failed_reason: Option<String>,
    /// Whether no cancel is owed to the child's store any more.
    cascaded: bool,
    armed: Armed,
}

/// A call for work: what is due at `now` after an age, unless this sweep has
/// given it out.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    pub(super) now: Timestamp,
    pub(super) age: Duration,
    pub(super) number: u64,
}

impl Sweep {
    /// Whether the age has passed since then. Compared as time that has passed:
    /// as instants, every age would be over once the clock stands at the last.
    pub(super) fn is_over(&self, since: Timestamp) -> bool {
        self.now >= since && self.now.since(since) >= self.age
    }
}

/// When a flow has something to look after.
pub(super) enum NextWork {
    AtOnce,
    /// An age after this.
    Since(Timestamp),
}

impl Flow {
    pub(in crate::memory) fn new(
        manifest: LockToken,
        fail_fast: bool,
        children: Vec<FlowChild>,
        now: Timestamp,
    ) -> Self {
        let armed = Armed { at: now, sweep: 0 };
        let row = |child: FlowChild| {
            let id = child.job.id.clone();
            let row = Row {
                job_id: id.expect("validation refuses a child without an id"),
                child: child.whole(),
                stored: ChildStatus::Pending,
                exit: None,
                failed_reason: None,
                cascaded: false,
                armed,
            };
            (row.child.key.clone(), row)
        };
        let rows: BTreeMap<_, _> = children.into_iter().map(row).collect();
        Self {
            state: FlowState {
                manifest,
                fail_fast,
                counts: FlowCounts {
                    pending: rows.len() as u64,
                    ..FlowCounts::default()
                },
            },
            closed_at: None,
            owed: 0,
            armed: rows.keys().map(|key| (armed, key.clone())).collect(),
            fresh: BTreeSet::new(),
            rows,
            place: Place::Nowhere,
        }
    }

    pub(in crate::memory) fn state(&self) -> &FlowState {
        &self.state
    }

    pub(in crate::memory) fn owed(&self) -> u64 {
        self.owed
    }

    pub(super) fn closed_at(&self) -> Option<Timestamp> {
        self.closed_at
    }

    pub(super) fn child(&self, key: &ChildKey) -> Option<&FlowChild> {
        self.rows.get(key).map(|row| &row.child)
    }

    pub(super) fn job_id(&self, key: &ChildKey) -> Option<&JobId> {
        self.rows.get(key).map(|row| &row.job_id)
    }

    /// Calls off what is pending. The same work for any number of rows.
    pub(super) fn close(&mut self, now: Timestamp) {
        let counts = &mut self.state.counts;
        self.owed += counts.pending;
        counts.cancelled += counts.pending;
        counts.pending = 0;
        self.closed_at = Some(now);
        self.fresh = std::mem::take(&mut self.armed);
    }

    pub(super) fn is_pending(&self, key: &ChildKey) -> bool {
        self.closed_at.is_none()
            && self
                .rows
                .get(key)
                .is_some_and(|row| row.stored == ChildStatus::Pending)
    }

    /// Applies a report to its row; false, and nothing changes, unless the row
    /// is pending.
    pub(super) fn apply(&mut self, report: Report) -> bool {
        if self.closed_at.is_some() {
            return false;
        }
        let pending = |row: &&mut Row| row.stored == ChildStatus::Pending;
        let Some(row) = self.rows.get_mut(&report.child_key).filter(pending) else {
            return false;
        };
        let counts = &mut self.state.counts;
        counts.pending -= 1;
        row.stored = match report.outcome {
            ReportOutcome::Completed => {
                counts.completed += 1;
                ChildStatus::Completed
            }
            ReportOutcome::Failed => {
                counts.failed += 1;
                ChildStatus::Failed
            }
            ReportOutcome::Cancelled => {
                counts.cancelled += 1;
                ChildStatus::Cancelled
            }
        };
        row.exit = report.exit;
        row.failed_reason = report.failed_reason;
        row.cascaded = true;
        self.armed.remove(&(row.armed, report.child_key));
        true
    }

    /// Takes note that a row's cancel went out, if it owes one.
    pub(super) fn mark_cascaded(&mut self, key: &ChildKey) {
        let owes = |row: &&mut Row| row.stored == ChildStatus::Pending && !row.cascaded;
        if self.closed_at.is_none() {
            return;
        }
        if let Some(row) = self.rows.get_mut(key).filter(owes) {
            row.cascaded = true;
            self.owed -= 1;
            let place = (row.armed, key.clone());
            self.armed.remove(&place);
            self.fresh.remove(&place);
        }
    }

    pub(super) fn page(&self, after: Option<&ChildKey>, limit: usize) -> ResultPage {
        let mut rest = self
            .rows
            .range::<ChildKey, _>((after.map_or(Unbounded, Excluded), Unbounded))
            .peekable();
        let mut page = ResultPage::default();
        let mut bytes = 0;
        while page.items.len() < limit
            && let Some((_, row)) = rest.peek()
        {
            bytes += row.exit.as_ref().map_or(0, |exit| exit.get().len());
            if bytes > MAX_PAGE_BYTES && !page.items.is_empty() {
                break;
            }
            page.items.push(self.result(row));
            rest.next();
        }
        if rest.peek().is_some() {
            page.cursor = page.items.last().map(|last| last.key.clone());
        }
        page
    }

    fn result(&self, row: &Row) -> ChildResult {
        let FlowChild { key, store, job } = &row.child;
        let called_off = self.closed_at.is_some() && row.stored == ChildStatus::Pending;
        ChildResult {
            key: key.clone(),
            name: job.spec.name.clone(),
            store: store.clone(),
            job_id: row.job_id.clone(),
            status: if called_off {
                ChildStatus::Cancelled
            } else {
                row.stored
            },
            exit: row.exit.clone(),
            failed_reason: row.failed_reason.clone(),
        }
    }

    // ---- what sweepers have to look after

    /// When there is something to look after, if ever.
    pub(super) fn next_work(&self) -> Option<NextWork> {
        if !self.fresh.is_empty() {
            return Some(NextWork::AtOnce);
        }
        let (armed, _) = self.armed.first()?;
        Some(NextWork::Since(armed.at))
    }

    /// The row that is due for the longest time.
    pub(super) fn next_due(&self, sweep: &Sweep) -> Option<&ChildKey> {
        if let Some((_, key)) = self.fresh.first() {
            return Some(key);
        }
        let (armed, key) = self.armed.first()?;
        let due = armed.sweep < sweep.number && sweep.is_over(armed.at);
        due.then_some(key)
    }

    /// Gives out rows that are due, in the order of their keys, as far as the
    /// page has room. They are due again an age later.
    pub(super) fn take_due(&mut self, sweep: &Sweep, page: &mut SweepPage) -> Vec<ChildKey> {
        let mut taken = Vec::new();
        while let Some(key) = self.next_due(sweep).cloned() {
            let bytes = match (self.closed_at, self.child(&key)) {
                (None, Some(child)) => child.job.spec.payload.get().len(),
                _ => 0,
            };
            if !page.has_room_for(bytes) {
                break;
            }
            self.rearm(&key, sweep);
            taken.push(key);
        }
        taken.sort_unstable();
        taken
    }

    fn rearm(&mut self, key: &ChildKey, sweep: &Sweep) {
        if let Some(row) = self.rows.get_mut(key) {
            let place = (row.armed, key.clone());
            self.fresh.remove(&place);
            self.armed.remove(&place);
            row.armed = Armed {
                at: sweep.now,
                sweep: sweep.number,
            };
            self.armed.insert((row.armed, key.clone()));
        }
    }

    /// Panics unless the counters and the indexes say what the rows say.
    #[cfg(test)]
    pub(in crate::memory) fn check(&self) {
        let mut counts = FlowCounts::default();
        let mut owed = 0;
        let mut unsettled = BTreeSet::new();
        for (key, row) in &self.rows {
            assert_eq!(*key, row.child.key);
            let closed = self.closed_at.is_some();
            match row.stored {
                ChildStatus::Pending if closed => counts.cancelled += 1,
                ChildStatus::Pending => counts.pending += 1,
                ChildStatus::Completed => counts.completed += 1,
                ChildStatus::Failed => counts.failed += 1,
                ChildStatus::Cancelled => counts.cancelled += 1,
            }
            if row.stored == ChildStatus::Pending && !row.cascaded {
                owed += u64::from(closed);
                unsettled.insert((row.armed, key.clone()));
            }
            assert!(row.cascaded || row.stored == ChildStatus::Pending);
        }
        assert_eq!(counts, self.state.counts);
        assert_eq!(owed, self.owed);
        assert!(self.fresh.is_disjoint(&self.armed));
        let indexed: BTreeSet<_> = self.fresh.union(&self.armed).cloned().collect();
        assert_eq!(unsettled, indexed);
        assert!(self.closed_at.is_some() || self.fresh.is_empty());
    }
}
