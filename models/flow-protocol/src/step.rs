//! Everything that can happen next, and what it does. Each step is atomic, and
//! happens at one store or in one process.

use crate::config::{Chance, ChildRuns, Config, Retention, Variant};
use crate::id::{Child, JobId, Store};
use crate::operator::Operator;
use crate::process::{Delivery, Process};
use crate::record::{Job, JobState, Outcome};
use crate::request::Request;
use crate::sweeper::Task;
use crate::world::World;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A worker claims a parent.
    ClaimParent(JobId),
    /// A process makes its next request: the one it has this number for, if
    /// it has a choice.
    Call(Process, usize, Delivery),
    /// A process dies.
    Crash(Process),
    /// A hanging request arrives; nobody waits for its answer.
    Arrive(usize),
    /// Every hanging request is lost for good.
    Vanish,
    /// A parent's lock has expired and is recovered.
    RecoverParent(JobId),
    /// A worker claims a plain child.
    ClaimChild(JobId),
    /// The run of a plain child is acked.
    AckChild(JobId, Outcome),
    /// A plain child's worker tells the parent's store how the run ended.
    ReportChild(JobId, Outcome),
    /// A plain child's lock has expired and is recovered.
    RecoverChild(JobId),
    /// A relay reads an outbox.
    PeekOutbox(Store),
    /// A sweeper gets a row that has been pending for long.
    SweepReconcile(Child),
    /// A sweeper gets a row that owes a cancel.
    SweepCascade(Child),
    /// A cancel has been owed for a whole flow interval.
    OwedForAnInterval(Child),
    /// Retention prunes the record of an ended job.
    Prune(JobId),
    /// Rows that nobody will ever see are deleted.
    PurgeRows(JobId),
    /// A store goes down.
    GoDown(Store),
    /// It comes back.
    ComeBack,
    /// An operator steps in.
    Operate(Operator),
}

impl Config {
    /// What may happen next. Some of it may turn out to be impossible when it
    /// is [taken](Self::take).
    pub fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        self.process_steps(world, steps);
        for (id, job) in &world.jobs {
            self.job_steps(*id, job, steps);
        }
        for store in Store::ALL {
            if !world.outbox[store as usize].is_empty() {
                steps.push(Step::PeekOutbox(store));
            }
            if world.budget.has(Chance::Outage) {
                steps.push(Step::GoDown(store));
            }
        }
        if world.down.is_some() {
            steps.push(Step::ComeBack);
        }
        self.row_steps(world, steps);
        let ideas = Operator::ideas(world).filter(|idea| world.budget.has(idea.chance()));
        steps.extend(ideas.map(Step::Operate));
    }

    fn process_steps(&self, world: &World, steps: &mut Vec<Step>) {
        for process in world.processes() {
            for choice in 0..world.requests(process, self).len() {
                steps.push(Step::Call(process, choice, Delivery::Prompt));
                if world.budget.has(Chance::LostReply) {
                    steps.push(Step::Call(process, choice, Delivery::ReplyLost));
                }
                if world.budget.has(Chance::LateRequest) {
                    steps.push(Step::Call(process, choice, Delivery::Late));
                }
            }
            steps.push(Step::Crash(process));
        }
        steps.extend((0..world.late.len()).map(Step::Arrive));
    }

    fn job_steps(&self, id: JobId, job: &Job, steps: &mut Vec<Step>) {
        match (job.state, self.is_parent(id)) {
            (JobState::Waiting, true) => steps.push(Step::ClaimParent(id)),
            (JobState::Waiting, false) => steps.push(Step::ClaimChild(id)),
            (JobState::Active(_), true) => steps.push(Step::RecoverParent(id)),
            (JobState::Active(_), false) => {
                steps.push(Step::AckChild(id, Outcome::Completed));
                if self.child_runs == ChildRuns::EndEitherWay {
                    steps.push(Step::AckChild(id, Outcome::Failed));
                }
                if job.cancel_requested {
                    steps.push(Step::AckChild(id, Outcome::Cancelled));
                }
                if self.variant == Variant::ReportBeforeAck {
                    steps.push(Step::ReportChild(id, Outcome::Completed));
                }
                steps.push(Step::RecoverChild(id));
            }
            (JobState::Ended(_), _) if self.retention != Retention::Keep => {
                steps.push(Step::Prune(id));
            }
            _ => {}
        }
    }

    fn row_steps(&self, world: &World, steps: &mut Vec<Step>) {
        let mut seen = None;
        for row in &world.rows {
            let child = row.child;
            if seen.replace(child.flow) != Some(child.flow)
                && !world.purgeable(child.flow, self).is_empty()
            {
                steps.push(Step::PurgeRows(child.flow));
            }
            if world.is_pending(child) {
                steps.push(Step::SweepReconcile(child));
            }
            if world.is_owed(child) {
                steps.push(Step::SweepCascade(child));
                steps.push(Step::OwedForAnInterval(child));
            }
        }
    }

    /// The state after a step; none if it is not possible.
    pub fn take(&self, world: &World, step: Step) -> Option<World> {
        if world.violation.is_some() || !self.is_reachable(world, step) {
            return None;
        }
        let mut next = world.clone();
        self.change(&mut next, step)?;
        next.sort();
        (next != *world).then_some(next)
    }

    /// Whether the store that a step happens at is up.
    fn is_reachable(&self, world: &World, step: Step) -> bool {
        let Some(down) = world.down else {
            return true;
        };
        let at = match step {
            Step::Call(process, choice, _) => world
                .requests(process, self)
                .get(choice)
                .map(Request::store),
            Step::Arrive(at) => world.late.get(at).map(Request::store),
            Step::ClaimParent(id)
            | Step::RecoverParent(id)
            | Step::ClaimChild(id)
            | Step::AckChild(id, _)
            | Step::RecoverChild(id)
            | Step::Prune(id)
            | Step::PurgeRows(id) => Some(id.store()),
            Step::ReportChild(id, _) => id.as_child().map(|child| child.flow.store()),
            Step::PeekOutbox(store) => Some(store),
            Step::SweepReconcile(child) | Step::SweepCascade(child) => Some(child.flow.store()),
            Step::Operate(operator) => Some(operator.job().store()),
            Step::Crash(_)
            | Step::Vanish
            | Step::OwedForAnInterval(_)
            | Step::GoDown(_)
            | Step::ComeBack => None,
        };
        at != Some(down)
    }

    fn change(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::ClaimParent(id) => self.claim_parent(world, id),
            Step::Call(process, choice, delivery) => self.call(world, process, choice, delivery),
            Step::Crash(process) => self.crash(world, process),
            Step::Arrive(at) => {
                let request = world.late.remove(at);
                world.ask(&request, self);
                Some(())
            }
            Step::Vanish => {
                world.late.clear();
                Some(())
            }
            Step::RecoverParent(id) => self.recover_parent(world, id),
            Step::ClaimChild(id) => self.claim_child(world, id),
            Step::AckChild(id, outcome) => self.ack_child(world, id, outcome),
            Step::ReportChild(id, outcome) => self.report_child(world, id, outcome),
            Step::RecoverChild(id) => self.recover_child(world, id),
            Step::PeekOutbox(store) => self.peek_outbox(world, store),
            Step::SweepReconcile(child) => self.sweep(world, child, Task::Reconcile),
            Step::SweepCascade(child) => self.sweep(world, child, Task::Cascade),
            Step::OwedForAnInterval(child) => self.owed_for_an_interval(world, child),
            Step::Prune(id) => self.prune(world, id),
            Step::PurgeRows(id) => {
                let purged = world.purgeable(id, self);
                world.rows.retain(|row| !purged.contains(&row.child));
                Some(())
            }
            Step::GoDown(store) => {
                if world.down.is_some() {
                    return None;
                }
                world.budget.spend(Chance::Outage)?;
                world.down = Some(store);
                Some(())
            }
            Step::ComeBack => {
                world.down = None;
                Some(())
            }
            Step::Operate(operator) => {
                world.budget.spend(operator.chance())?;
                operator.operate(world, self)
            }
        }
    }
}
