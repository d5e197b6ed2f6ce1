//! Processes that talk to both stores, and what the network and death do to
//! them.

use crate::config::{Chance, Config, Timing};
use crate::id::{Child, Store};
use crate::record::Outcome;
use crate::relay::Relay;
use crate::request::Request;
use crate::sweeper::{self, Sweep, Task};
use crate::worker;
use crate::world::World;

/// One of the processes, by its place in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// A parent's worker.
    Worker(usize),
    /// A relay.
    Relay(usize),
    /// A sweeper.
    Sweeper(usize),
}

/// What the network does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It arrives, and so does the answer.
    Prompt,
    /// It arrives; the answer is lost, and the process will repeat it.
    ReplyLost,
    /// It hangs; the process will repeat it.
    Late,
}

impl World {
    /// The processes that are in the middle of something.
    pub fn processes(&self) -> impl Iterator<Item = Process> + use<> {
        (0..self.workers.len())
            .map(Process::Worker)
            .chain((0..self.relays.len()).map(Process::Relay))
            .chain((0..self.sweepers.len()).map(Process::Sweeper))
    }

    /// What a process may ask for next, the usual thing first.
    pub fn requests(&self, process: Process, config: &Config) -> Vec<Request> {
        match process {
            Process::Worker(at) => self.workers[at].requests(self, config),
            Process::Relay(at) => vec![self.relays[at].request(config)],
            Process::Sweeper(at) => vec![self.sweepers[at].request()],
        }
    }
}

impl Config {
    pub(crate) fn call(
        &self,
        world: &mut World,
        process: Process,
        choice: usize,
        delivery: Delivery,
    ) -> Option<()> {
        let request = world.requests(process, self).into_iter().nth(choice)?;
        if let Request::Ack {
            outcome: Outcome::Failed,
            ..
        } = request
        {
            world.budget.spend(Chance::CollectFails)?;
        }
        match delivery {
            Delivery::Prompt => self.call_promptly(world, process, &request),
            _ if !request.writes() => return None,
            Delivery::ReplyLost => {
                world.budget.spend(Chance::LostReply)?;
                world.ask(&request, self);
            }
            Delivery::Late => {
                world.budget.spend(Chance::LateRequest)?;
                world.late.push(request);
            }
        }
        Some(())
    }

    fn call_promptly(&self, world: &mut World, process: Process, request: &Request) {
        let reply = world.ask(request, self);
        match process {
            Process::Worker(at) => {
                let worker = world.workers.remove(at);
                let next = worker.receive(request, &reply, world, self);
                world.workers.extend(next);
            }
            Process::Relay(at) => {
                let relay = world.relays.remove(at);
                world.relays.extend(relay.receive());
            }
            Process::Sweeper(at) => {
                let sweep = world.sweepers.remove(at);
                world.sweepers.extend(sweep.receive(&reply, self));
            }
        }
    }

    pub(crate) fn crash(&self, world: &mut World, process: Process) -> Option<()> {
        match process {
            Process::Worker(at) => {
                use worker::At::{CancelChildren, EnqueueChildren, LookAgain};
                let worker = world.workers.remove(at);
                let is_bound = matches!(
                    worker.at,
                    EnqueueChildren { .. } | LookAgain(_) | CancelChildren(_)
                );
                world.budget.spend(Chance::Crash)?;
                self.may_die(is_bound)
            }
            Process::Relay(at) => {
                world.relays.remove(at);
                Some(())
            }
            Process::Sweeper(at) => {
                use sweeper::At::{CancelChild, EnqueueChild, LookAgain};
                let sweep = world.sweepers.remove(at);
                let is_bound = matches!(sweep.at, EnqueueChild { .. } | LookAgain | CancelChild);
                self.may_die(is_bound)
            }
        }
    }

    /// Whether a process may die that is bound to look at what it enqueued.
    fn may_die(&self, is_bound: bool) -> Option<()> {
        (!is_bound || self.timing != Timing::SenderLooksAgain).then_some(())
    }

    pub(crate) fn peek_outbox(&self, world: &mut World, store: Store) -> Option<()> {
        let page = world.outbox[store as usize].clone();
        if page.is_empty() || world.relays.len() >= usize::from(self.relays) {
            return None;
        }
        world.relays.push(Relay {
            store,
            page,
            half_done: false,
        });
        Some(())
    }

    pub(crate) fn sweep(&self, world: &mut World, child: Child, task: Task) -> Option<()> {
        let is_due = match task {
            Task::Reconcile => world.is_pending(child),
            Task::Cascade => world.is_owed(child),
        };
        if !is_due || world.sweepers.len() >= usize::from(self.sweepers) {
            return None;
        }
        let sweep = Sweep::new(world.row(child)?, task);
        world.sweepers.push(sweep);
        Some(())
    }
}
