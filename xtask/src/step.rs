//! Steps: named, timed, and run in order until one fails.

use std::time::{Duration, Instant};

use anyhow::bail;
use xshell::Shell;

/// Something to run under a name.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// What it is called, here and on the command line.
    pub(crate) name: &'static str,
    /// What runs.
    pub(crate) run: fn(&Shell) -> anyhow::Result<()>,
}

/// Runs steps in order, and sums up what each took. The first failure ends it
/// and says how to repeat that step alone.
pub(crate) fn run(shell: &Shell, steps: &[Step]) -> anyhow::Result<()> {
    let mut took = Vec::with_capacity(steps.len());
    for step in steps {
        eprintln!("\n── {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(shell);
        took.push((step.name, started.elapsed()));
        if let Err(error) = outcome {
            summarise(&took, "failed");
            let name = step.name;
            bail!("{name} failed: {error:#}\nto repeat it: cargo xtask ci {name}");
        }
        eprintln!("── {} took {}", step.name, seconds(started.elapsed()));
    }
    summarise(&took, "passed");
    Ok(())
}

/// Prints what each step took, and what became of the last one.
fn summarise(took: &[(&str, Duration)], last: &str) {
    eprintln!();
    let count = took.len();
    for (index, (name, time)) in took.iter().enumerate() {
        let outcome = if index + 1 == count { last } else { "passed" };
        eprintln!("{name:<12} {outcome} {:>9}", seconds(*time));
    }
    let total = took.iter().map(|(_, time)| *time).sum();
    eprintln!("{:<12} {last} {:>9}", "all", seconds(total));
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
