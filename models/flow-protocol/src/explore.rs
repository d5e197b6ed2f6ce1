//! Explores a configuration to its end, or to the first refutation.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::config::Config;
use crate::drain::{Drained, LONGEST};
use crate::model::{FlowModel, PROPERTIES};
use crate::step::Step;
use crate::world::World;

/// What an exploration found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// How many different states there are.
    pub states: usize,
    /// How many steps lead to them.
    pub steps: usize,
    /// How many steps the longest shortest history has.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What does not hold.
    pub refuted: Option<Refutation>,
}

/// A property that does not hold, and how that shows.
#[derive(Clone, Debug)]
pub struct Refutation {
    /// The property.
    pub property: &'static str,
    /// A shortest history that shows it, one line a step.
    pub trace: Vec<String>,
    /// The drain from there, and what it leaves, if that is what shows it.
    pub drain: Vec<String>,
}

/// Explores a configuration, on one thread, so that the trace is always the
/// same.
pub fn explore(config: Config) -> Findings {
    let started = Instant::now();
    let checker = FlowModel::new(config)
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let refuted = PROPERTIES.into_iter().find_map(|property| {
        let path = checker.discovery(property)?;
        Some(refutation(&config, property, path))
    });
    Findings {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        took: started.elapsed(),
        refuted,
    }
}

fn refutation(config: &Config, property: &'static str, path: Path<World, Step>) -> Refutation {
    let last = path.last_state().clone();
    let history = path.into_vec();
    let trace = history
        .windows(2)
        .filter_map(|pair| {
            let (before, step) = &pair[0];
            Some(config.describe(before, (*step)?, &pair[1].0))
        })
        .collect();
    Refutation {
        property,
        trace,
        drain: drain_lines(config, last),
    }
}

fn drain_lines(config: &Config, mut world: World) -> Vec<String> {
    let what = match config.drain(&world, |_| false) {
        Drained::Settled | Drained::Violated => return Vec::new(),
        Drained::Unsettled(what) => what,
        Drained::ChildLeft(id) => format!("{id} is left running, and its flow is closed"),
    };
    let mut lines = Vec::new();
    while let Some((step, next)) = config.drain_step(&world) {
        lines.push(config.describe(&world, step, &next));
        world = next;
        if lines.len() > LONGEST {
            return vec![what];
        }
    }
    lines.push(what);
    lines
}
