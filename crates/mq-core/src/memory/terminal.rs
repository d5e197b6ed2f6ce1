//! The one way into a terminal state, and what retention does on the way.

use super::State;
use super::arena::Ix;
use super::history::SPARED_FOR;
use super::job::{Job, Slot};
use super::state::{Name, terminal_index};
use crate::json::RawJson;
use crate::record::{AttemptOutcome, HistoryCeiling, JobState, Retention};
use crate::time::Timestamp;
use crate::validate::MAX_BATCH;

/// How a job ends.
pub(super) struct End {
    state: JobState,
    outcome: AttemptOutcome,
    /// For the record and the ledger.
    exit: Option<RawJson>,
    /// For the ledger only.
    ledger_exit: Option<RawJson>,
    failed_reason: Option<String>,
}

impl End {
    pub(super) fn completed(exit: Option<RawJson>) -> Self {
        Self {
            exit,
            ..Self::new(JobState::Completed, AttemptOutcome::Completed)
        }
    }

    pub(super) fn failed(exit: Option<RawJson>) -> Self {
        Self {
            exit,
            ..Self::new(JobState::Failed, AttemptOutcome::Failed)
        }
    }

    pub(super) fn stalled(reason: String) -> Self {
        Self {
            failed_reason: Some(reason),
            ..Self::new(JobState::Failed, AttemptOutcome::Stalled)
        }
    }

    /// Failed for what became of others.
    pub(super) fn failed_by_store(reason: String) -> Self {
        Self {
            failed_reason: Some(reason),
            ..Self::failed(None)
        }
    }

    pub(super) fn cancelled() -> Self {
        Self::new(JobState::Cancelled, AttemptOutcome::Cancelled)
    }

    /// Cancelled when it was to be tried again: what the last run returned
    /// goes to the ledger only.
    pub(super) fn cancelled_instead_of_retried(exit: Option<RawJson>) -> Self {
        Self {
            ledger_exit: exit,
            ..Self::cancelled()
        }
    }

    fn new(state: JobState, outcome: AttemptOutcome) -> Self {
        Self {
            state,
            outcome,
            exit: None,
            ledger_exit: None,
            failed_reason: None,
        }
    }
}

/// How many jobs retention may still remove on behalf of one page of
/// transitions; later transitions go on where it stops.
pub(super) struct Removals(usize);

impl Removals {
    pub(super) fn of_one_page() -> Self {
        Self(MAX_BATCH as usize)
    }

    pub(super) fn up_to(most: usize) -> Self {
        Self(most)
    }

    pub(super) fn left(&self) -> usize {
        self.0
    }
}

impl State {
    /// Ends a job: every terminal transition, by whatever path, goes through
    /// here. The job's own `keep` may remove it at once.
    ///
    /// A flow's parent calls off what is pending under it, and a flow's child
    /// leaves its report in the outbox, in the same step.
    pub(super) fn finish(&mut self, slot: Slot, end: End, now: Timestamp, removals: &mut Removals) {
        self.unfile(slot);
        self.close_flow(slot, now);
        let seq = self.next_seq();
        let announced = self.jobs[slot].watched.then(|| self.wakes.next_end());
        let ceiling = self.ceiling;
        let job = &mut self.jobs[slot];
        job.record_attempt(
            end.outcome,
            end.ledger_exit.or_else(|| end.exit.clone()),
            now,
        );
        let frees_a_slot = job.lock.take().is_some();
        job.state = end.state;
        job.cancel_requested = false;
        job.finished_at = Some(now);
        job.seq = seq;
        job.exit = end.exit;
        if end.failed_reason.is_some() {
            job.extra_mut().failed_reason = end.failed_reason;
        }
        self.outbox.append(job);
        if let Some(place) = announced {
            job.extra_mut().announced = place;
            self.wakes.ended(&job.id);
        }
        job.spared = job.watched;
        job.schedule_sweep(ceiling);
        let retention = job.retention();
        let group = job.group;
        self.file(slot);
        if frees_a_slot {
            self.slot_freed(self.groups[group].queue);
        }
        if let Some(retention) = retention {
            let name = self.groups[group].name;
            self.apply_keep(name, end.state, retention, now, removals);
        }
    }

    /// Removes what `retention` gives up among the jobs of a name and state.
    pub(super) fn apply_keep(
        &mut self,
        name: Ix<Name>,
        state: JobState,
        retention: Retention,
        now: Timestamp,
        removals: &mut Removals,
    ) {
        let Some(index) = terminal_index(state) else {
            return;
        };
        for _ in 0..MAX_BATCH {
            let Some(slot) = self.names[name].finished[index].spared_too_long(now) else {
                break;
            };
            self.update(slot, |job| job.spared = false);
        }
        while removals.0 > 0 {
            // The name goes with the last of its jobs.
            let Some(name) = self.names.get(name) else {
                return;
            };
            let Some(slot) = name.finished[index].next_to_go(retention, now) else {
                return;
            };
            self.remove(slot, now);
            removals.0 -= 1;
        }
    }

    /// Sweeps finished jobs whose time has come, and says how many it removed
    /// and whether there are more.
    pub(super) fn sweep(&mut self, now: Timestamp, most: usize) -> (usize, bool) {
        let mut removals = Removals::up_to(most);
        let due = |state: &Self| {
            let (key, slot) = state.sweeps.first_key_value()?;
            (key.at <= now).then_some(*slot)
        };
        let mut looked_at = 0;
        while let Some(slot) = due(self) {
            if removals.left() == 0 || looked_at == most {
                return (most - removals.left(), true);
            }
            looked_at += 1;
            self.sweep_job(slot, now, &mut removals);
        }
        (most - removals.left(), false)
    }

    fn sweep_job(&mut self, slot: Slot, now: Timestamp, removals: &mut Removals) {
        let ceiling = self.ceiling;
        self.update(slot, |job| {
            job.spared = false;
            if job.owes() {
                job.sweep_at = None;
            }
        });
        let job = &self.jobs[slot];
        if job.owes() {
            return;
        }
        if job.outlives(ceiling).is_some_and(|end| end <= now) {
            self.remove(slot, now);
            removals.0 -= 1;
            return;
        }
        // It was spared, so its keep has yet to act.
        let (id, state, retention) = (job.id.clone(), job.state, job.retention());
        let name = self.groups[job.group].name;
        if let Some(retention) = retention {
            self.apply_keep(name, state, retention, now, removals);
        }
        // If it is still there, its age is what is left to wait for. If the
        // page is full, the keep has more to do: the next sweep comes back.
        if removals.left() > 0 && self.slot_of(&id) == Some(slot) {
            self.update(slot, |job| job.sweep_at = job.outlives(ceiling));
        }
    }
}

impl Job {
    /// Until when a finished job is kept at the most, whatever the count:
    /// `None` is for ever.
    fn outlives(&self, ceiling: Option<HistoryCeiling>) -> Option<Timestamp> {
        let own = self.retention().and_then(|retention| retention.age);
        let ceiling = ceiling.and_then(|ceiling| ceiling.of(self.state));
        let age = match (own, ceiling) {
            (Some(own), Some(ceiling)) => own.min(ceiling),
            (own, ceiling) => own.or(ceiling)?,
        };
        Some(self.finished_at?.saturating_add(age))
    }

    /// Spares a job that has ended already, if its time for that is not over.
    pub(super) fn spare(&mut self, ceiling: Option<HistoryCeiling>, now: Timestamp) {
        let spared_until = self.finished_at.map(|at| at.saturating_add(SPARED_FOR));
        if spared_until.is_some_and(|until| now < until) {
            self.spared = true;
            self.schedule_sweep(ceiling);
        }
    }

    /// Until when automatic retention spares it, if it is spared.
    fn spared_until(&self) -> Option<Timestamp> {
        let finished_at = self.finished_at?;
        self.spared.then(|| finished_at.saturating_add(SPARED_FOR))
    }

    /// Lets the sweep look at a parent that owes no cancel any more.
    pub(super) fn sweep_what_is_paid_off(
        &mut self,
        ceiling: Option<HistoryCeiling>,
        now: Timestamp,
    ) {
        if self.state.is_terminal() && !self.spared {
            // A keep by count that could not act has to act now.
            self.sweep_at = match self.retention() {
                Some(keep) if keep.count.is_some() => Some(now),
                _ => self.outlives(ceiling),
            };
        }
    }

    /// Decides when the sweep looks at a finished job.
    fn schedule_sweep(&mut self, ceiling: Option<HistoryCeiling>) {
        let outlives = self.outlives(ceiling);
        self.sweep_at = match self.spared_until() {
            None if self.owes() => None,
            None => outlives,
            // A keep by count that could not act has to act then.
            Some(until) if self.retention().is_some_and(|keep| keep.count.is_some()) => Some(until),
            Some(until) => outlives.map(|end| end.max(until)),
        };
    }
}
