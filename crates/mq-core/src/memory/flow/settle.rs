//! The steps in the life of a flow: fan-out, reports, the settle, the close.

use std::collections::BTreeMap;

use super::rows::Flow;
use crate::id::{ChildKey, JobId, LockToken};
use crate::memory::job::Slot;
use crate::memory::state::State;
use crate::memory::terminal::{End, Removals};
use crate::record::{AttemptOutcome, JobState, Report, ReportOutcome};
use crate::store::ReportApplied;
use crate::time::Timestamp;

/// A flow to which reports of a page were applied.
struct Touched {
    slot: Slot,
    /// The report that was applied last.
    last: usize,
    /// The first applied failure.
    failure: Option<(usize, ChildKey)>,
}

impl State {
    pub(super) fn flow_of(&self, id: &JobId) -> Option<&Flow> {
        self.jobs[self.slot_of(id)?].flow()
    }

    pub(super) fn flow_of_manifest(&self, id: &JobId, manifest: &LockToken) -> Option<&Flow> {
        let flow = self.flow_of(id)?;
        (flow.state().manifest == *manifest).then_some(flow)
    }

    /// Ends the run of a parent that named its children. A parent that has a
    /// manifest keeps it, and a cancel that raced wins.
    pub(in crate::memory) fn fan_out(
        &mut self,
        slot: Slot,
        flow: Box<Flow>,
        now: Timestamp,
        removals: &mut Removals,
    ) {
        let job = &mut self.jobs[slot];
        let cancel = job.cancel_requested;
        let extra = job.extra_mut();
        let pending = extra.flow.get_or_insert(flow).state().counts.pending;
        self.update(slot, |job| {
            job.record_attempt(AttemptOutcome::FannedOut, None, now);
            job.lock = None;
            job.state = JobState::WaitingChildren;
        });
        self.replan(slot);
        self.slot_freed(self.queue_of(&self.jobs[slot]));
        if cancel {
            self.finish(slot, End::cancelled(), now, removals);
        } else if pending == 0 {
            self.resume(slot, now);
        }
    }

    /// Lets a parent wait for its second phase, in its old place.
    fn resume(&mut self, slot: Slot, now: Timestamp) {
        self.update(slot, |job| {
            job.state = JobState::Waiting;
            job.run_at = now;
        });
        self.wake(self.queue_of(&self.jobs[slot]));
    }

    /// Calls off what is still pending under a parent that ends. The parent
    /// must not be in the index of its state.
    pub(in crate::memory) fn close_flow(&mut self, slot: Slot, now: Timestamp) {
        let Some(flow) = self.jobs[slot].flow_mut() else {
            return;
        };
        if flow.state().counts.pending > 0 {
            self.flow_sweeps.forget(slot, flow);
            flow.close(now);
            self.flow_sweeps.replan(slot, flow);
        }
    }

    fn replan(&mut self, slot: Slot) {
        if let Some(flow) = self.jobs[slot].flow_mut() {
            self.flow_sweeps.replan(slot, flow);
        }
    }

    /// Applies a page of reports: all rows first, then each flow settles, once
    /// at the most.
    pub(super) fn record_reports(
        &mut self,
        reports: impl Iterator<Item = Report>,
        now: Timestamp,
    ) -> Vec<ReportApplied> {
        let mut answers = Vec::new();
        let mut touched = BTreeMap::new();
        for (place, report) in reports.enumerate() {
            answers.push(ReportApplied {
                applied: self.apply(report, place, &mut touched),
                parent_settled: false,
            });
        }
        let mut removals = Removals::of_one_page();
        for (_, touched) in touched {
            self.replan(touched.slot);
            if let Some(place) = self.settle(touched, now, &mut removals) {
                answers[place].parent_settled = true;
            }
        }
        answers
    }

    fn apply(
        &mut self,
        report: Report,
        place: usize,
        touched: &mut BTreeMap<JobId, Touched>,
    ) -> bool {
        let Some(slot) = self.slot_of(&report.flow_id) else {
            return false;
        };
        let Some(flow) = self.jobs[slot].flow_mut() else {
            return false;
        };
        if flow.state().manifest != report.manifest {
            return false;
        }
        let id = report.flow_id.clone();
        let failure =
            (report.outcome == ReportOutcome::Failed).then(|| (place, report.child_key.clone()));
        let applied = flow.apply(report);
        if applied {
            let touched = touched.entry(id).or_insert(Touched {
                slot,
                last: place,
                failure: None,
            });
            touched.last = place;
            touched.failure = touched.failure.take().or(failure);
        }
        applied
    }

    /// Settles a flow if it is decided, and answers which report decided it.
    fn settle(
        &mut self,
        touched: Touched,
        now: Timestamp,
        removals: &mut Removals,
    ) -> Option<usize> {
        let Touched {
            slot,
            last,
            failure,
        } = touched;
        let flow = self.jobs[slot].flow()?.state();
        let failure = failure.filter(|_| flow.fail_fast);
        let is_last = flow.counts.pending == 0;
        match failure {
            Some((place, key)) => {
                let reason = format!("flow child \"{key}\" failed");
                self.finish(slot, End::failed_by_store(reason), now, removals);
                Some(place)
            }
            None if is_last => {
                self.resume(slot, now);
                Some(last)
            }
            None => None,
        }
    }

    /// Takes note that cancels went out. A parent that owed the last of them
    /// may be removed by retention from now on.
    pub(super) fn mark_cascaded(
        &mut self,
        id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
        now: Timestamp,
    ) {
        if self.flow_of_manifest(id, manifest).is_none() {
            return;
        }
        let Some(slot) = self.slot_of(id) else {
            return;
        };
        let ceiling = self.ceiling;
        self.update(slot, |job| {
            let owed_before = job.owes();
            if let Some(flow) = job.flow_mut() {
                keys.iter().for_each(|key| flow.mark_cascaded(key));
            }
            if owed_before && !job.owes() {
                job.sweep_what_is_paid_off(ceiling, now);
            }
        });
        self.replan(slot);
    }
}
