//! Runs of jobs: claims, acks of plain children, stalls, retention.

use crate::config::{Chance, ChildRuns, Config, Retention, Variant};
use crate::id::{Child, JobId, Token};
use crate::record::{Job, JobState, Life, Outcome, Report};
use crate::request::Request;
use crate::worker::Worker;
use crate::world::{Violation, World};

impl World {
    fn locked(&self, id: JobId) -> Option<Token> {
        match self.job(id)?.state {
            JobState::Active(token) => Some(token),
            _ => None,
        }
    }

    /// Locks a waiting job, and sees whether it should run at all.
    fn lock(&mut self, id: JobId, token: Token, config: &Config) -> Option<Job> {
        let job = self.job_mut(id)?;
        if job.state != JobState::Waiting {
            return None;
        }
        job.state = JobState::Active(token);
        let job = *job;
        let is_wrong = match job.life {
            Life::First | Life::Retried => false,
            Life::Excused => config.variant == Variant::ExceptionForbidden,
            Life::Again => true,
        };
        if is_wrong {
            let child = id.as_child()?;
            self.violation = Some(Violation::FinishedChildRuns(child));
        }
        Some(job)
    }
}

impl Config {
    pub(crate) fn claim_parent(&self, world: &mut World, id: JobId) -> Option<()> {
        if world.workers.len() >= usize::from(self.workers) {
            return None;
        }
        let token = Token(world.last_token.0 + 1);
        let job = world.lock(id, token, self)?;
        world.last_token = token;
        world
            .workers
            .push(Worker::new(token, id, job.flow.is_some()));
        Some(())
    }

    pub(crate) fn recover_parent(&self, world: &mut World, id: JobId) -> Option<()> {
        let token = world.locked(id)?;
        let has_worker = world
            .workers
            .iter()
            .any(|worker| worker.token == token && worker.job == id);
        if has_worker {
            world.budget.spend(Chance::LockLoss)?;
        }
        world.recover_stalled(id, self);
        Some(())
    }

    pub(crate) fn claim_child(&self, world: &mut World, id: JobId) -> Option<()> {
        world.lock(id, Token::default(), self)?;
        Some(())
    }

    pub(crate) fn recover_child(&self, world: &mut World, id: JobId) -> Option<()> {
        world.locked(id)?;
        world.budget.spend(Chance::ChildStall)?;
        world.recover_stalled(id, self);
        Some(())
    }

    pub(crate) fn ack_child(&self, world: &mut World, id: JobId, outcome: Outcome) -> Option<()> {
        world.locked(id)?;
        let job = world.job(id)?;
        let is_possible = match outcome {
            Outcome::Completed => true,
            Outcome::Failed => self.child_runs == ChildRuns::EndEitherWay,
            Outcome::Cancelled => job.cancel_requested,
        };
        let is_told = self.variant != Variant::ReportBeforeAck
            || outcome == Outcome::Cancelled
            || job.told == Some(outcome);
        (is_possible && is_told).then(|| world.end(id, outcome, self))
    }

    pub(crate) fn report_child(
        &self,
        world: &mut World,
        id: JobId,
        outcome: Outcome,
    ) -> Option<()> {
        world.locked(id)?;
        let child = id.as_child()?;
        let job = world.job_mut(id)?;
        if job.told.is_some() {
            return None;
        }
        job.told = Some(outcome);
        let origin = job.origin;
        world.note_end(child, origin, outcome);
        let report = Report {
            child,
            origin,
            outcome,
        };
        world.ask(&Request::Record(vec![report]), self);
        Some(())
    }

    pub(crate) fn prune(&self, world: &mut World, id: JobId) -> Option<()> {
        let is_meant = match self.retention {
            Retention::Keep => false,
            Retention::PruneChildren => id != JobId::PARENT,
            Retention::PruneAll => true,
        };
        let job = world.job(id)?;
        let is_spared = job.owes_cancels() && self.variant != Variant::PruneWhileOwing;
        if !is_meant || !job.has_ended() || is_spared {
            return None;
        }
        world.delete(id);
        Some(())
    }

    pub(crate) fn owed_for_an_interval(&self, world: &mut World, child: Child) -> Option<()> {
        if !world.is_owed(child) || world.has_enqueue_under_way(child, self) {
            return None;
        }
        world.row_mut(child)?.owed_long = true;
        Some(())
    }
}
