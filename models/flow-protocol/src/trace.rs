//! Traces that a reader can follow.

use crate::config::Config;
use crate::process::{Delivery, Process};
use crate::step::Step;
use crate::world::World;

impl Config {
    /// One line that says what a step did.
    pub fn describe(&self, before: &World, step: Step, after: &World) -> String {
        match step {
            Step::ClaimParent(id) => {
                let phase = match before.job(id).and_then(|job| job.flow) {
                    Some(_) => "collect",
                    None => "fan out",
                };
                format!("worker: claim {id} under {}, to {phase}", after.last_token)
            }
            Step::Call(process, choice, delivery) => {
                self.describe_call(before, process, choice, delivery)
            }
            Step::Crash(process) => format!("{}: dies", name(before, process)),
            Step::Arrive(at) => format!("network: late arrival: {}", before.late[at]),
            Step::Vanish => "network: what hangs is lost".to_owned(),
            Step::RecoverParent(id) | Step::RecoverChild(id) => {
                format!("store: the lock on {id} has expired and is recovered")
            }
            Step::ClaimChild(id) => format!("child's worker: claim {id}"),
            Step::AckChild(id, outcome) => format!("child's worker: ack of {id}: {outcome}"),
            Step::ReportChild(id, outcome) => {
                format!("child's worker: record {id} {outcome}, before its ack")
            }
            Step::PeekOutbox(store) => format!("relay of {store}: peek"),
            Step::SweepReconcile(child) => format!("sweeper: gets {child} to reconcile"),
            Step::SweepCascade(child) => format!("sweeper: gets {child} to cascade"),
            Step::OwedForAnInterval(child) => {
                format!("time: the cancel of {child} has been owed for a flow interval")
            }
            Step::Prune(id) => format!("retention: prune {id}"),
            Step::PurgeRows(id) => format!("store: purge rows of {id} that nobody sees"),
            Step::GoDown(store) => format!("{store} goes down"),
            Step::ComeBack => "the store comes back".to_owned(),
            Step::Operate(operator) => format!("operator: {operator}"),
        }
    }

    fn describe_call(
        &self,
        before: &World,
        process: Process,
        choice: usize,
        delivery: Delivery,
    ) -> String {
        let name = name(before, process);
        let requests = before.requests(process, self);
        let Some(request) = requests.get(choice) else {
            return name;
        };
        match delivery {
            Delivery::Prompt => {
                let reply = before.clone().ask(request, self);
                format!("{name}: {request} → {reply}")
            }
            Delivery::ReplyLost => format!("{name}: {request} → done, the reply is lost"),
            Delivery::Late => format!("{name}: {request} → hangs in the network"),
        }
    }
}

fn name(world: &World, process: Process) -> String {
    match process {
        Process::Worker(at) => world.workers[at].to_string(),
        Process::Relay(at) => world.relays[at].to_string(),
        Process::Sweeper(at) => world.sweepers[at].to_string(),
    }
}
