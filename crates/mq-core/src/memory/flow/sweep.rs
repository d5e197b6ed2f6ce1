//! What sweepers have to look after, flow by flow in turn, so that no flow
//! waits behind a giant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rows::{Flow, NextWork, Sweep};
use crate::id::ChildKey;
use crate::memory::arena::Arena;
use crate::memory::job::{Job, Slot};
use crate::memory::state::State;
use crate::store::{CascadeRow, FlowSweepWork, ReconcileRow};
use crate::time::Timestamp;
use crate::validate::MAX_PAGE_BYTES;

/// The flows that have something to look after: open ones, whose pending
/// children may be missing, and closed ones, which owe cancels.
#[derive(Default)]
pub(in crate::memory) struct FlowSweeps {
    reconcile: Rotation,
    cascade: Rotation,
    last_sweep: u64,
}

/// Flows, those first that are due and were not served for the longest time.
#[derive(Default)]
struct Rotation {
    /// Flows in line, by their turn. Some may not be due yet: how long a row
    /// rests is for each call to say.
    in_line: BTreeMap<u64, Slot>,
    /// The others, by since when their first row waits.
    resting: BTreeSet<(Timestamp, Slot)>,
    last_turn: u64,
}

/// Where a flow stands in its rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    InLine(u64),
    Resting(Timestamp),
}

/// The room in one page of work.
pub(super) struct SweepPage {
    rows_left: usize,
    bytes: usize,
    is_empty: bool,
    is_full: bool,
}

impl SweepPage {
    fn of(rows: usize) -> Self {
        Self {
            rows_left: rows,
            bytes: 0,
            is_empty: true,
            is_full: false,
        }
    }

    /// Takes room for a row; once there was none, the page is full.
    pub(super) fn has_room_for(&mut self, bytes: usize) -> bool {
        let too_large = !self.is_empty && self.bytes + bytes > MAX_PAGE_BYTES;
        if self.is_full || self.rows_left == 0 || too_large {
            self.is_full = true;
            return false;
        }
        self.rows_left -= 1;
        self.bytes += bytes;
        self.is_empty = false;
        true
    }
}

impl Rotation {
    fn leave(&mut self, slot: Slot, flow: &mut Flow) {
        match std::mem::replace(&mut flow.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::InLine(turn) => drop(self.in_line.remove(&turn)),
            Place::Resting(since) => drop(self.resting.remove(&(since, slot))),
        }
    }

    fn line_up(&mut self, slot: Slot, flow: &mut Flow) {
        self.leave(slot, flow);
        self.last_turn += 1;
        self.in_line.insert(self.last_turn, slot);
        flow.place = Place::InLine(self.last_turn);
    }

    /// Puts a flow where its next work belongs, out of the line.
    fn rest(&mut self, slot: Slot, flow: &mut Flow) {
        match flow.next_work() {
            None => self.leave(slot, flow),
            Some(NextWork::AtOnce) => self.line_up(slot, flow),
            Some(NextWork::Since(since)) => {
                self.leave(slot, flow);
                self.resting.insert((since, slot));
                flow.place = Place::Resting(since);
            }
        }
    }

    /// Lines up a flow that rests and is due.
    fn line_up_next(&mut self, jobs: &mut Arena<Box<Job>>, sweep: &Sweep) -> bool {
        let Some((since, slot)) = self.resting.first().copied() else {
            return false;
        };
        let due = sweep.is_over(since);
        if due && let Some(flow) = jobs[slot].flow_mut() {
            self.line_up(slot, flow);
        }
        due
    }

    /// The first in line that is due for this sweep; those that are not step out.
    fn next(&mut self, jobs: &mut Arena<Box<Job>>, sweep: &Sweep) -> Option<Slot> {
        while let Some((_, slot)) = self.in_line.first_key_value() {
            let slot = *slot;
            let flow = jobs[slot].flow_mut()?;
            if flow.next_due(sweep).is_some() {
                return Some(slot);
            }
            self.rest(slot, flow);
        }
        None
    }

    /// Gives out up to `limit` rows, and says whether more are due.
    fn sweep(
        &mut self,
        jobs: &mut Arena<Box<Job>>,
        sweep: &Sweep,
        limit: usize,
    ) -> (Vec<(Slot, Vec<ChildKey>)>, bool) {
        let mut page = SweepPage::of(limit);
        // One more than can be served, to tell whether there is more.
        for _ in 0..=limit {
            if !self.line_up_next(jobs, sweep) {
                break;
            }
        }
        let mut served = Vec::new();
        while let Some(slot) = self.next(jobs, sweep) {
            let Some(flow) = jobs[slot].flow_mut() else {
                break;
            };
            let taken = flow.take_due(sweep, &mut page);
            if taken.is_empty() {
                break;
            }
            self.leave(slot, flow);
            served.push((slot, taken));
        }
        let mut more = !self.in_line.is_empty();
        for (slot, _) in &served {
            if let Some(flow) = jobs[*slot].flow_mut() {
                if flow.next_due(sweep).is_some() {
                    more = true;
                    self.line_up(*slot, flow);
                } else {
                    self.rest(*slot, flow);
                }
            }
        }
        (served, more)
    }
}

impl FlowSweeps {
    fn rotation(&mut self, flow: &Flow) -> &mut Rotation {
        match flow.closed_at() {
            None => &mut self.reconcile,
            Some(_) => &mut self.cascade,
        }
    }

    /// Puts a flow in its place after its rows have changed.
    pub(super) fn replan(&mut self, slot: Slot, flow: &mut Flow) {
        let has_work = flow.next_work().is_some();
        let rotation = self.rotation(flow);
        // Who stands in line keeps the place.
        if !(has_work && matches!(flow.place, Place::InLine(_))) {
            rotation.rest(slot, flow);
        }
    }

    pub(in crate::memory) fn forget(&mut self, slot: Slot, flow: &mut Flow) {
        self.rotation(flow).leave(slot, flow);
    }

    #[cfg(test)]
    pub(in crate::memory) fn check(&self, jobs: &Arena<Box<Job>>) {
        let mut places = 0;
        for (slot, flow) in jobs
            .iter()
            .filter_map(|(slot, job)| Some((slot, job.flow()?)))
        {
            let rotation = match flow.closed_at() {
                None => &self.reconcile,
                Some(_) => &self.cascade,
            };
            match flow.place {
                Place::Nowhere => assert!(flow.next_work().is_none()),
                Place::InLine(turn) => assert_eq!(rotation.in_line.get(&turn), Some(&slot)),
                Place::Resting(since) => {
                    assert!(rotation.resting.contains(&(since, slot)));
                    let next = flow.next_work();
                    assert!(matches!(next, Some(NextWork::Since(at)) if at == since));
                }
            }
            places += usize::from(flow.place != Place::Nowhere);
        }
        let count = |rotation: &Rotation| rotation.in_line.len() + rotation.resting.len();
        assert_eq!(places, count(&self.reconcile) + count(&self.cascade));
    }
}

impl State {
    pub(super) fn sweep_flows(
        &mut self,
        age: Duration,
        limit: usize,
        now: Timestamp,
    ) -> FlowSweepWork {
        self.flow_sweeps.last_sweep += 1;
        let sweep = Sweep {
            now,
            age,
            number: self.flow_sweeps.last_sweep,
        };
        let jobs = &mut self.jobs;
        let (reconcile, more_to_reconcile) = self.flow_sweeps.reconcile.sweep(jobs, &sweep, limit);
        let (cascade, more_to_cascade) = self.flow_sweeps.cascade.sweep(jobs, &sweep, limit);
        FlowSweepWork {
            reconcile: self.rows_to_reconcile(reconcile),
            cascade: self.rows_to_cascade(cascade, now),
            more: more_to_reconcile || more_to_cascade,
        }
    }

    fn rows_to_reconcile(&self, served: Vec<(Slot, Vec<ChildKey>)>) -> Vec<ReconcileRow> {
        let mut rows = Vec::new();
        for (slot, keys) in served {
            let job = &self.jobs[slot];
            let Some(flow) = job.flow() else { continue };
            rows.extend(keys.iter().filter_map(|key| {
                Some(ReconcileRow {
                    flow_id: job.id.clone(),
                    manifest: flow.state().manifest.clone(),
                    child: flow.child(key)?.clone(),
                })
            }));
        }
        rows
    }

    fn rows_to_cascade(
        &self,
        served: Vec<(Slot, Vec<ChildKey>)>,
        now: Timestamp,
    ) -> Vec<CascadeRow> {
        let mut rows = Vec::new();
        for (slot, keys) in served {
            let job = &self.jobs[slot];
            let Some(flow) = job.flow() else { continue };
            let owed_for = flow.closed_at().map(|at| now.since(at));
            rows.extend(keys.into_iter().filter_map(|key| {
                let child = flow.child(&key)?;
                Some(CascadeRow {
                    flow_id: job.id.clone(),
                    manifest: flow.state().manifest.clone(),
                    store: child.store.clone(),
                    job_id: flow.job_id(&key)?.clone(),
                    child_key: key,
                    owed_for: owed_for?,
                })
            }));
        }
        rows
    }
}
