//! The fault-free drain: from a state, everybody does what is due, one step
//! after the other, until nothing is due. Hanging requests are lost, and no
//! plain child of a closed flow runs by itself: only a cancel ends it.

use crate::config::{Chance, Config, Timing, Variant};
use crate::id::{JobId, Store};
use crate::process::Delivery;
use crate::record::{Flow, Job, JobState, Life, Outcome, Row, Status};
use crate::step::Step;
use crate::world::World;

/// No drain of these small configurations is longer, unless it goes in
/// circles.
pub const LONGEST: usize = 500;

/// What a drain leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing that is not settled.
    Settled,
    /// It goes through a step that must not happen: the checker, which goes
    /// there too, says so by that step's own property.
    Violated,
    /// Something that nobody will settle.
    Unsettled(String),
    /// A child that nobody will cancel, though its flow is closed.
    ChildLeft(JobId),
}

impl Config {
    /// The next step of the drain, and the state after it; none at its end.
    pub fn drain_step(&self, world: &World) -> Option<(Step, World)> {
        let mut due = Vec::new();
        if world.down.is_some() {
            due.push(Step::ComeBack);
        }
        if !world.late.is_empty() {
            due.push(Step::Vanish);
        }
        let call = |process| Step::Call(process, 0, Delivery::Prompt);
        due.extend(world.processes().map(call));
        let is_filled = |store: &Store| !world.outbox[*store as usize].is_empty();
        due.extend(
            Store::ALL
                .into_iter()
                .filter(is_filled)
                .map(Step::PeekOutbox),
        );
        self.runs_due(world, &mut due);
        self.sweeps_due(world, &mut due);
        due.into_iter()
            .find_map(|step| Some((step, self.take(world, step)?)))
    }

    fn runs_due(&self, world: &World, due: &mut Vec<Step>) {
        for (id, job) in &world.jobs {
            let may_run = !self.is_called_off(world, *id, job);
            match job.state {
                JobState::Active(_) if self.is_parent(*id) => due.push(Step::RecoverParent(*id)),
                JobState::Active(_) if job.cancel_requested => {
                    due.push(Step::AckChild(*id, Outcome::Cancelled));
                }
                JobState::Active(_) if may_run => {
                    due.push(Step::AckChild(*id, Outcome::Completed));
                    if self.variant == Variant::ReportBeforeAck {
                        due.push(Step::ReportChild(*id, Outcome::Completed));
                    }
                }
                JobState::Waiting if may_run => due.push(if self.is_parent(*id) {
                    Step::ClaimParent(*id)
                } else {
                    Step::ClaimChild(*id)
                }),
                _ => {}
            }
        }
    }

    fn sweeps_due(&self, world: &World, due: &mut Vec<Step>) {
        for row in &world.rows {
            let child = row.child;
            if !world.purgeable(child.flow, self).is_empty() {
                due.push(Step::PurgeRows(child.flow));
            }
            let job = world.job(child.job());
            let is_live = job.is_some_and(|job| !job.has_ended());
            let is_told = job.is_some_and(|job| job.cancel_requested);
            if !world.is_owed(child) {
                if !is_live && world.is_pending(child) {
                    due.push(Step::SweepReconcile(child));
                }
            } else if is_live && !is_told || row.owed_long {
                due.push(Step::SweepCascade(child));
            } else {
                due.push(Step::OwedForAnInterval(child));
            }
        }
    }

    /// Whether a child should not run any more: its flow closed before its
    /// result was in, or is gone for another reason than an operator's remove.
    /// What a remove leaves behind runs to its end, and so do a child that an
    /// operator retried, what comes of an enqueue that nothing bounds, and the
    /// second life of a child whose result is recorded.
    fn is_called_off(&self, world: &World, id: JobId, job: &Job) -> bool {
        let Some(child) = id.as_child() else {
            return false;
        };
        let is_stray = self.timing == Timing::Unbounded && self.variant != Variant::StrayForbidden;
        if is_stray || job.life == Life::Retried {
            return false;
        }
        match world.flow_of(child) {
            Some(flow) => {
                let is_open = |row: &Row| row.status == Status::Pending;
                flow.closed && world.row(child).is_some_and(is_open)
            }
            None => job.life == Life::First && !self.budget.has(Chance::RemoveParent),
        }
    }

    /// What a state at the end of its drain has left.
    pub fn left_behind(&self, world: &World) -> Drained {
        if world.violation.is_some() {
            return Drained::Violated;
        }
        for (id, job) in &world.jobs {
            if !job.has_ended() {
                return if self.is_called_off(world, *id, job) {
                    Drained::ChildLeft(*id)
                } else {
                    Drained::Unsettled(format!("{id} has not ended"))
                };
            }
            if let Some(flow) = job.flow.filter(|flow| flow.pending + flow.owed > 0) {
                let Flow { pending, owed, .. } = flow;
                return Drained::Unsettled(format!("{id} has {pending} pending, {owed} owed"));
            }
        }
        for store in Store::ALL {
            if let Some(entry) = world.outbox[store as usize].first() {
                let child = entry.report.child;
                return Drained::Unsettled(format!("the report of {child} is undelivered"));
            }
        }
        Drained::Settled
    }

    /// Drains a state, as far as that is not known to end well.
    pub fn drain(&self, from: &World, mut is_known: impl FnMut(&World) -> bool) -> Drained {
        let mut world = from.clone();
        for _ in 0..LONGEST {
            if is_known(&world) {
                return Drained::Settled;
            }
            match self.drain_step(&world) {
                Some((_, next)) => world = next,
                None => return self.left_behind(&world),
            }
        }
        Drained::Unsettled("the drain goes in circles".to_owned())
    }
}
