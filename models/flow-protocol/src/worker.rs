//! A parent's worker: it runs the phase that the claim found, and after a
//! fan-out ack it enqueues the children.

use std::fmt;

use crate::config::{Chance, Config, Variant};
use crate::id::{Child, JobId, Keys, Token};
use crate::record::Outcome;
use crate::request::{Manifest, Reply, Request};
use crate::world::World;

/// A worker with a run of a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// The token of its claim.
    pub token: Token,
    /// The parent.
    pub job: JobId,
    /// What it does next.
    pub at: At,
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// Send this page of the fan-out ack.
    Stage(u8),
    /// Ask the children's store for undelivered reports.
    ReadOutbox,
    /// Ask which children are pending.
    ReadParent {
        /// Those it means to enqueue.
        keys: Keys,
        /// Those that had ended when it asked for reports.
        ended: Keys,
    },
    /// Enqueue the children, one after the other.
    EnqueueChildren {
        /// Those to come.
        left: Keys,
        /// All of them.
        batch: Keys,
        /// Those that had ended when it decided.
        ended: Keys,
    },
    /// Ask again which of them are pending.
    LookAgain(Keys),
    /// Cancel those that are not.
    CancelChildren(Keys),
    /// Ack the collect run.
    AckCollect,
}

impl Worker {
    /// A worker that has just claimed a parent.
    pub fn new(token: Token, job: JobId, has_manifest: bool) -> Self {
        let at = if has_manifest {
            At::AckCollect
        } else {
            At::Stage(0)
        };
        Self { token, job, at }
    }

    fn manifest(&self, config: &Config) -> Manifest {
        Manifest {
            flow: self.job,
            mark: config.mark(self.token),
            origin: self.token,
        }
    }

    /// Whether it has decided to enqueue this child.
    pub fn will_enqueue(&self, child: Child, config: &Config) -> bool {
        match self.at {
            _ if config.variant == Variant::WorkerChecksNothing => false,
            At::EnqueueChildren { left, .. } => left
                .iter()
                .any(|key| self.manifest(config).child(key) == child),
            _ => false,
        }
    }

    /// What it may ask for next, the usual thing first.
    pub fn requests(&self, world: &World, config: &Config) -> Vec<Request> {
        let Self { token, job, .. } = *self;
        let manifest = self.manifest(config);
        let ack = |outcome| Request::Ack {
            job,
            token,
            outcome,
        };
        // The heartbeat brings a cancel; the worker may heed it or not.
        let is_cancelled = world
            .job(job)
            .is_some_and(|job| job.is_locked_by(token) && job.cancel_requested);
        let mut requests = vec![match self.at {
            At::Stage(page) => Request::StagePage { job, token, page },
            At::ReadOutbox => Request::UndeliveredReports(manifest, config.children_of(job)),
            At::ReadParent { .. } if config.variant == Variant::WorkerChecksFlowOnly => {
                Request::ReadParent(manifest)
            }
            At::ReadParent { keys, .. } => Request::PendingChildren(manifest, keys),
            At::EnqueueChildren { left, ended, .. } => {
                let key = left.iter().next().unwrap_or(crate::id::Key(0));
                Request::EnqueueChild {
                    child: manifest.child(key),
                    origin: token,
                    // Who has looked at nothing decides as it sends.
                    had_ended: match config.variant {
                        Variant::WorkerChecksNothing => {
                            world.ends(manifest.child(key), token).is_some()
                        }
                        _ => ended.has(key),
                    },
                }
            }
            At::LookAgain(_) if config.variant == Variant::WorkerChecksFlowOnly => {
                Request::ReadParent(manifest)
            }
            At::LookAgain(batch) => Request::PendingChildren(manifest, batch),
            At::CancelChildren(left) => {
                let key = left.iter().next().unwrap_or(crate::id::Key(0));
                Request::CancelChild(manifest.child(key))
            }
            At::AckCollect => ack(Outcome::Completed),
        }];
        if matches!(self.at, At::Stage(_) | At::AckCollect) && is_cancelled {
            requests.push(ack(Outcome::Cancelled));
        }
        if self.at == At::AckCollect && world.budget.has(Chance::CollectFails) {
            requests.push(ack(Outcome::Failed));
        }
        requests
    }

    /// What it does next after this answer; nothing more if none.
    pub fn receive(
        &self,
        request: &Request,
        reply: &Reply,
        world: &World,
        config: &Config,
    ) -> Option<Self> {
        let all = config.children_of(self.job);
        let at = match (self.at, reply) {
            (_, Reply::LockLost) | (At::AckCollect, _) => return None,
            (At::Stage(_), _) if matches!(request, Request::Ack { .. }) => return None,
            (At::Stage(page), _) if page + 1 < config.pages_of(self.job) => At::Stage(page + 1),
            (At::Stage(_), _) => match config.variant {
                Variant::WorkerSkipsOutbox | Variant::WorkerChecksFlowOnly => At::ReadParent {
                    keys: all,
                    ended: Keys::NONE,
                },
                Variant::WorkerChecksNothing => enqueue(all, Keys::NONE)?,
                _ => At::ReadOutbox,
            },
            (At::ReadOutbox, Reply::Reports { found, ended }) => {
                let reported = found.iter().map(|report| report.child.key).collect();
                At::ReadParent {
                    keys: all.minus(reported),
                    ended: *ended,
                }
            }
            (At::ReadParent { ended, .. }, Reply::Pending(keys)) => {
                let reads_outbox = !matches!(
                    config.variant,
                    Variant::WorkerSkipsOutbox | Variant::WorkerChecksFlowOnly
                );
                // Whoever reads no outbox decides here.
                let ended = if reads_outbox {
                    ended
                } else {
                    world.ended_keys(self.manifest(config), *keys)
                };
                enqueue(*keys, ended)?
            }
            (At::EnqueueChildren { left, batch, ended }, _) => {
                let sent = left.iter().next()?;
                let left = left.without(sent);
                match config.variant {
                    _ if !left.is_empty() => At::EnqueueChildren { left, batch, ended },
                    Variant::NoLookAgain => return None,
                    _ => At::LookAgain(batch),
                }
            }
            (At::LookAgain(batch), Reply::Pending(keys)) => cancel(batch.minus(*keys))?,
            (At::CancelChildren(left), _) => cancel(left.without(left.iter().next()?))?,
            _ => return None,
        };
        Some(Self { at, ..*self })
    }
}

fn enqueue(keys: Keys, ended: Keys) -> Option<At> {
    (!keys.is_empty()).then_some(At::EnqueueChildren {
        left: keys,
        batch: keys,
        ended,
    })
}

fn cancel(keys: Keys) -> Option<At> {
    (!keys.is_empty()).then_some(At::CancelChildren(keys))
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker of {} under {}", self.job, self.token)
    }
}
