//! An operator, or a producer that enqueues the parent again.

use std::fmt;

use crate::config::{Chance, Config};
use crate::id::JobId;
use crate::record::{Job, JobState, Life, Outcome};
use crate::world::World;

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Cancels a job.
    Cancel(JobId),
    /// Retries a failed job.
    Retry(JobId),
    /// Removes a job that is neither active nor parked.
    Remove(JobId),
    /// Enqueues the parent under its old id, if that is free.
    EnqueueAgain,
}

impl Operator {
    /// Everything an operator could think of.
    pub fn ideas(world: &World) -> impl Iterator<Item = Self> + '_ {
        world
            .jobs
            .iter()
            .flat_map(|(id, _)| [Self::Cancel(*id), Self::Retry(*id), Self::Remove(*id)])
            .chain([Self::EnqueueAgain])
    }

    /// The chance it takes.
    pub fn chance(self) -> Chance {
        match self {
            Self::Cancel(JobId::PARENT) => Chance::CancelParent,
            Self::Cancel(_) => Chance::CancelChild,
            Self::Retry(JobId::PARENT) => Chance::RetryParent,
            Self::Retry(_) => Chance::RetryChild,
            Self::Remove(JobId::PARENT) => Chance::RemoveParent,
            Self::Remove(_) => Chance::RemoveChild,
            Self::EnqueueAgain => Chance::EnqueueParentAgain,
        }
    }

    /// The job it is about.
    pub fn job(self) -> JobId {
        match self {
            Self::Cancel(id) | Self::Retry(id) | Self::Remove(id) => id,
            Self::EnqueueAgain => JobId::PARENT,
        }
    }

    /// Does it, if the store does not refuse.
    pub fn operate(self, world: &mut World, config: &Config) -> Option<()> {
        match self {
            Self::Cancel(id) => {
                let job = world.job(id)?;
                if job.has_ended() || job.cancel_requested {
                    return None;
                }
                world.cancel(id, config);
            }
            Self::Retry(id) => {
                let job = world.job_mut(id)?;
                if job.state != JobState::Ended(Outcome::Failed) {
                    return None;
                }
                job.state = JobState::Waiting;
                job.stalled_count = 0;
                job.life = Life::Retried;
            }
            Self::Remove(id) => {
                let job = world.job(id)?;
                if matches!(job.state, JobState::Active(_) | JobState::Parked) {
                    return None;
                }
                world.delete(id);
            }
            Self::EnqueueAgain => {
                if world.job(JobId::PARENT).is_some() {
                    return None;
                }
                let job = Job::waiting(Default::default(), Life::First);
                world.insert(JobId::PARENT, job);
            }
        }
        Some(())
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancel(id) => write!(f, "cancel {id}"),
            Self::Retry(id) => write!(f, "retry {id}"),
            Self::Remove(id) => write!(f, "remove {id}"),
            Self::EnqueueAgain => write!(f, "enqueue {} again", JobId::PARENT),
        }
    }
}
