//! The model as the checker takes it: first state, steps, properties.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use stateright::{Model, Property};

use crate::config::Config;
use crate::drain::Drained;
use crate::record::{JobState, Outcome, Status};
use crate::step::Step;
use crate::world::{Violation, World};

/// Every manifest is decided once.
pub const SETTLES_ONCE: &str = "a flow settles exactly once per manifest";
/// Every flow's counters are what its rows say.
pub const COUNTERS: &str = "counters sum to the manifest, and match its rows";
/// A parent waits for children exactly while it is parked.
pub const PARKED: &str = "a parent is parked exactly while children are pending";
/// Every recorded result is true.
pub const RESULTS: &str = "a recorded result is one that this child ended with";
/// No finished child runs again.
pub const RUNS_ONCE: &str = "a finished child is not run again, but for the stated exception";
/// Nothing is stuck, nothing is lost.
pub const DRAINS: &str = "a fault-free drain settles everything";
/// Closed flows reach their children.
pub const CALLED_OFF: &str = "no child of a closed flow is left running";

/// All of them, in the order in which they are reported.
pub const PROPERTIES: [&str; 7] = [
    SETTLES_ONCE,
    COUNTERS,
    PARKED,
    RESULTS,
    RUNS_ONCE,
    DRAINS,
    CALLED_OFF,
];

/// One exploration, as the checker takes it.
#[derive(Debug)]
pub struct FlowModel {
    /// What it covers.
    pub config: Config,
    known_to_drain: Mutex<HashSet<u64>>,
    refuted: OnceLock<(&'static str, World)>,
}

impl FlowModel {
    /// A model that nothing is known of yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            known_to_drain: Mutex::default(),
            refuted: OnceLock::new(),
        }
    }

    /// Whether the property holds in this state. The first refutation is the
    /// only one, so that the shortest trace is what is reported.
    fn holds(&self, name: &'static str, world: &World, check: impl FnOnce() -> bool) -> bool {
        if self.refuted.get().is_some() || check() {
            return true;
        }
        self.refuted.set((name, world.clone())).is_err()
    }

    /// Drains a state, and remembers every state on the way that ends well.
    fn drain(&self, world: &World) -> Drained {
        let mut on_the_way = Vec::new();
        let drained = self.config.drain(world, |world| {
            let print = BuildHasherDefault::<DefaultHasher>::default().hash_one(world);
            on_the_way.push(print);
            self.known().contains(&print)
        });
        if drained == Drained::Settled {
            self.known().extend(on_the_way);
        }
        drained
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.known_to_drain
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for FlowModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.config)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.config.steps(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        self.config.take(world, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SETTLES_ONCE, |model, world| {
                model.holds(SETTLES_ONCE, world, || world.settles_once())
            }),
            Property::always(COUNTERS, |model, world| {
                model.holds(COUNTERS, world, || world.counters_match())
            }),
            Property::always(PARKED, |model, world| {
                model.holds(PARKED, world, || world.parked_while_pending())
            }),
            Property::always(RESULTS, |model, world| {
                model.holds(RESULTS, world, || {
                    !matches!(world.violation, Some(Violation::WrongResult(_)))
                })
            }),
            Property::always(RUNS_ONCE, |model, world| {
                model.holds(RUNS_ONCE, world, || {
                    !matches!(world.violation, Some(Violation::FinishedChildRuns(_)))
                })
            }),
            Property::always(DRAINS, |model, world| {
                model.holds(DRAINS, world, || {
                    !matches!(model.drain(world), Drained::Unsettled(_))
                })
            }),
            Property::always(CALLED_OFF, |model, world| {
                model.holds(CALLED_OFF, world, || {
                    !matches!(model.drain(world), Drained::ChildLeft(_))
                })
            }),
        ]
    }
}

impl World {
    fn settles_once(&self) -> bool {
        self.jobs
            .iter()
            .filter_map(|(_, job)| job.flow)
            .all(|flow| flow.settled <= 1)
    }

    fn counters_match(&self) -> bool {
        self.jobs.iter().all(|(id, job)| {
            let Some(flow) = job.flow else {
                return true;
            };
            let rows: Vec<_> = self
                .rows
                .iter()
                .filter(|row| row.child.flow == *id && row.child.mark == flow.manifest)
                .collect();
            let recorded = |outcome| {
                let is = |row: &&&crate::record::Row| row.status == Status::Recorded(outcome);
                rows.iter().filter(is).count()
            };
            let open = rows.iter().filter(|row| row.status == Status::Pending);
            let owed = open.clone().filter(|row| flow.closed && !row.cascaded);
            let open = open.count();
            let (pending, called_off) = if flow.closed { (0, open) } else { (open, 0) };
            usize::from(flow.pending) == pending
                && usize::from(flow.completed) == recorded(Outcome::Completed)
                && usize::from(flow.failed) == recorded(Outcome::Failed)
                && usize::from(flow.cancelled) == recorded(Outcome::Cancelled) + called_off
                && usize::from(flow.owed) == owed.count()
                && rows.len() == usize::from(flow.size)
        })
    }

    fn parked_while_pending(&self) -> bool {
        self.jobs.iter().all(|(_, job)| {
            let is_parked = job.state == JobState::Parked;
            is_parked == job.flow.is_some_and(|flow| flow.pending > 0)
        })
    }
}
