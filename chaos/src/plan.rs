//! Which faults strike, and when: the same for the same seed.

use std::time::Duration;

/// How many faults of each kind a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) worker_kills: u32,
    pub(crate) server_kills: u32,
    pub(crate) freezes: u32,
    pub(crate) cuts: u32,
}

/// Something that goes wrong. What strikes a worker picks it by a number from
/// chance, among those it can strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A worker that holds locks is killed, and another one started.
    KillWorker { pick: usize },
    /// A worker's process stands still.
    FreezeProcess { pick: usize, time: Duration },
    /// Nothing moves between a worker and the server.
    FreezeNetwork { pick: usize, time: Duration },
    /// All connections of a worker are reset.
    CutConnections { pick: usize },
    /// A connection of a worker is reset when an answer is due.
    LoseReply { pick: usize },
    /// All connections to the server are reset, the producer's, too.
    CutAll,
    /// The server is killed, and started again on its data.
    KillServer { down: Duration },
}

/// A fault, and how many runs have ended when it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) after: u64,
    pub(crate) fault: Fault,
}

/// The plan of a run over this many jobs. Faults are spread over it, but for its
/// end, which shows that what is left settles in peace. Freezes last up to twice as
/// long as a lock: the worker comes back while another runs its jobs.
pub(crate) fn plan(seed: u64, jobs: u64, amounts: Amounts, lock: Duration) -> Vec<Step> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut steps = Vec::new();
    let mut add = |count: u32, fault: &mut dyn FnMut(&mut fastrand::Rng) -> Fault| {
        for _ in 0..count {
            steps.push(Step {
                after: chance.u64(jobs / 100..=jobs * 9 / 10),
                fault: fault(&mut chance),
            });
        }
    };
    add(amounts.worker_kills, &mut |chance| Fault::KillWorker {
        pick: chance.usize(..),
    });
    add(amounts.server_kills, &mut |chance| Fault::KillServer {
        down: Duration::from_millis(chance.u64(0..300)),
    });
    add(amounts.freezes, &mut |chance| {
        let pick = chance.usize(..);
        let time = lock.mul_f64(0.1 + 1.9 * chance.f64());
        match chance.bool() {
            true => Fault::FreezeProcess { pick, time },
            false => Fault::FreezeNetwork { pick, time },
        }
    });
    add(amounts.cuts, &mut |chance| match chance.u8(0..8) {
        0 => Fault::CutAll,
        1..4 => Fault::CutConnections {
            pick: chance.usize(..),
        },
        _ => Fault::LoseReply {
            pick: chance.usize(..),
        },
    });
    steps.sort_by_key(|step| step.after);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMOUNTS: Amounts = Amounts {
        worker_kills: 20,
        server_kills: 5,
        freezes: 10,
        cuts: 30,
    };
    const LOCK: Duration = Duration::from_secs(2);

    #[test]
    fn a_seed_decides_everything() {
        let once = plan(7, 1000, AMOUNTS, LOCK);
        assert_eq!(plan(7, 1000, AMOUNTS, LOCK), once);
        assert_ne!(plan(8, 1000, AMOUNTS, LOCK), once);
    }

    #[test]
    fn a_plan_holds_the_faults_asked_for_in_order_and_none_at_the_end() {
        let steps = plan(7, 1000, AMOUNTS, LOCK);
        let count = |of: fn(&Fault) -> bool| steps.iter().filter(|step| of(&step.fault)).count();
        assert_eq!(count(|fault| matches!(fault, Fault::KillWorker { .. })), 20);
        assert_eq!(count(|fault| matches!(fault, Fault::KillServer { .. })), 5);
        assert_eq!(steps.len(), 65);
        assert!(steps.is_sorted_by_key(|step| step.after));
        assert!(steps.iter().all(|step| (10..=900).contains(&step.after)));
        for step in steps {
            if let Fault::FreezeProcess { time, .. } | Fault::FreezeNetwork { time, .. } =
                step.fault
            {
                assert!(time < 2 * LOCK);
            }
        }
    }
}
