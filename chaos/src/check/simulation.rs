//! A store and its workers in one thread, to try the checker on: it keeps its
//! promises, or breaks one of them.

use std::time::Duration;

use super::Log;
use crate::clock::Instant;
use crate::event::{Answer, Event, Held, Outcome};

/// What the store gets wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breakage {
    None,
    /// Acks are applied whoever holds the lock.
    TokenCheck,
    /// Jobs are given out although they are locked.
    LockCheck,
    /// Extensions are answered, and forgotten.
    Extension,
    /// Locks are forgotten before their time.
    Amnesia,
}

const WORKERS: usize = 4;
const JOBS: usize = 6;
const STEPS: usize = 600;
const LOCK: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default)]
struct Job {
    lock: Option<(String, Instant)>,
    last_acked: Option<String>,
    over: bool,
}

struct Worker {
    log: Log,
    held: Vec<(Held, Stage)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Claimed,
    Runs,
    Ran,
    InDoubt(Outcome),
}

struct Simulation {
    chance: fastrand::Rng,
    breakage: Breakage,
    now: Instant,
    jobs: Vec<Job>,
    workers: Vec<Worker>,
    gone: Vec<Log>,
    harness: Vec<Event>,
    tokens: u64,
}

/// The logs of a random run.
pub(super) fn run(seed: u64, breakage: Breakage) -> Vec<Log> {
    let mut simulation = Simulation {
        chance: fastrand::Rng::with_seed(seed),
        breakage,
        now: Instant(1),
        jobs: vec![Job::default(); JOBS],
        workers: (0..WORKERS).map(worker).collect(),
        gone: Vec::new(),
        harness: Vec::new(),
        tokens: 0,
    };
    for _ in 0..STEPS {
        simulation.step();
    }
    let living = simulation.workers.into_iter().map(|worker| worker.log);
    let harness = Log {
        process: "harness".into(),
        events: simulation.harness,
    };
    simulation
        .gone
        .into_iter()
        .chain(living)
        .chain([harness])
        .collect()
}

fn worker(number: usize) -> Worker {
    Worker {
        log: Log {
            process: format!("worker-{number}"),
            events: Vec::new(),
        },
        held: Vec::new(),
    }
}

impl Simulation {
    fn step(&mut self) {
        let at = self.chance.usize(..WORKERS);
        match self.chance.u8(0..100) {
            0..30 => self.claim(at),
            30..55 => self.start_or_end(at),
            55..75 => self.ack(at),
            75..90 => self.extend(at),
            90..92 => self.kill(at),
            _ => {
                self.pass(LOCK / 2);
            }
        }
    }

    /// Lets up to this much time pass.
    fn pass(&mut self, longest: Duration) -> Instant {
        let nanoseconds = u64::try_from(longest.as_nanos()).unwrap();
        self.now = Instant(self.now.0 + 1 + self.chance.u64(0..nanoseconds));
        self.now
    }

    fn tick(&mut self) -> Instant {
        self.pass(Duration::from_millis(20))
    }

    fn claim(&mut self, worker: usize) {
        let asked = self.tick();
        let now = self.tick();
        self.tokens += 1;
        let token = format!("token-{}", self.tokens);
        let mut ids = Vec::new();
        for (number, job) in self.jobs.iter_mut().enumerate() {
            let expired = job.lock.as_ref().is_none_or(|(_, end)| *end <= now);
            let ignored = self.breakage == Breakage::LockCheck && self.chance.u8(..20) == 0;
            if !job.over && (expired || ignored) && self.chance.bool() {
                job.lock = Some((token.clone(), now + LOCK));
                ids.push(number.to_string());
            }
        }
        let at = self.tick();
        let worker = &mut self.workers[worker];
        worker.held.extend(ids.iter().map(|id| {
            let held = Held {
                id: id.clone(),
                token: token.clone(),
            };
            (held, Stage::Claimed)
        }));
        worker.log.events.push(Event::Claimed {
            asked,
            at,
            lock_for: LOCK,
            token,
            ids,
        });
    }

    fn start_or_end(&mut self, worker: usize) {
        let at = self.tick();
        let worker = &mut self.workers[worker];
        let mut ready = worker.held.iter_mut();
        let Some((held, stage)) =
            ready.find(|(_, stage)| matches!(stage, Stage::Claimed | Stage::Runs))
        else {
            return;
        };
        let held = held.clone();
        worker.log.events.push(match *stage {
            Stage::Claimed => {
                *stage = Stage::Runs;
                Event::Started { at, held }
            }
            _ => {
                *stage = Stage::Ran;
                Event::Ended { at, held }
            }
        });
    }

    fn ack(&mut self, worker: usize) {
        let asked = self.tick();
        let found = self.workers[worker]
            .held
            .iter()
            .position(|(_, stage)| matches!(stage, Stage::Ran | Stage::InDoubt(_)));
        let Some(place) = found else { return };
        let (held, stage) = self.workers[worker].held.remove(place);
        let outcome = match stage {
            Stage::InDoubt(outcome) => outcome,
            _ if self.chance.u8(..3) == 0 => Outcome::Again,
            _ => Outcome::Final,
        };
        self.workers[worker].log.events.push(Event::Acking {
            at: asked,
            held: held.clone(),
            outcome,
        });
        // A network may keep a request for long.
        match self.chance.u8(..10) {
            0 => self.pass(2 * LOCK),
            _ => self.tick(),
        };
        let mut answer = match self.chance.u8(..20) {
            0 => Answer::InDoubt,
            _ => self.apply(&held, outcome),
        };
        // The answer may be lost on its way.
        if self.chance.u8(..10) == 0 {
            answer = Answer::InDoubt;
        }
        if answer == Answer::InDoubt {
            let again = (held.clone(), Stage::InDoubt(outcome));
            self.workers[worker].held.push(again);
        }
        let at = self.tick();
        self.workers[worker]
            .log
            .events
            .push(Event::Acked { at, held, answer });
    }

    fn apply(&mut self, held: &Held, outcome: Outcome) -> Answer {
        let job = &mut self.jobs[held.id.parse::<usize>().unwrap()];
        if job.last_acked.as_ref() == Some(&held.token) {
            return Answer::Repeated;
        }
        let holds = job
            .lock
            .as_ref()
            .is_some_and(|(token, _)| *token == held.token);
        let ignored = self.breakage == Breakage::TokenCheck && !job.over;
        if !holds && !ignored {
            return Answer::Refused;
        }
        job.lock = None;
        job.last_acked = Some(held.token.clone());
        job.over = outcome == Outcome::Final;
        Answer::Applied
    }

    fn extend(&mut self, worker: usize) {
        let asked = self.tick();
        let now = self.tick();
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for (held, _) in &self.workers[worker].held {
            let job = &mut self.jobs[held.id.parse::<usize>().unwrap()];
            match &mut job.lock {
                Some((token, end)) if *token == held.token => {
                    if self.breakage != Breakage::Extension {
                        *end = now + LOCK;
                    }
                    if self.breakage == Breakage::Amnesia && self.chance.u8(..10) == 0 {
                        job.lock = None;
                    }
                    kept.push(held.clone());
                }
                _ => lost.push(held.clone()),
            }
        }
        let at = self.tick();
        let events = &mut self.workers[worker].log.events;
        events.push(Event::Extended {
            asked,
            at,
            lock_for: LOCK,
            held: kept,
        });
        events.push(Event::Lost { at, held: lost });
    }

    fn kill(&mut self, number: usize) {
        let at = self.tick();
        let next = worker(WORKERS + self.gone.len());
        let killed = std::mem::replace(&mut self.workers[number], next);
        self.harness.push(Event::Killed {
            at,
            worker: killed.log.process.clone(),
        });
        self.gone.push(killed.log);
    }
}
