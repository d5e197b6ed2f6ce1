//! Decides from the logs alone whether a run went as it must.

mod hold;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::clock::Instant;
use crate::event::{Answer, Event, Held};
use hold::Hold;

/// How much earlier than it seems a lock may end: the server's clock is another
/// one, and may be adjusted meanwhile.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(50);

/// The log of one process.
pub(crate) struct Log {
    pub(crate) process: String,
    pub(crate) events: Vec<Event>,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// Two handlers of one job ran at one instant, both under live locks.
    RanTwiceAtOnce { id: String, tokens: [String; 2] },
    /// A job was claimed while another claim's lock on it was live.
    ClaimedWhileHeld { id: String, tokens: [String; 2] },
    /// One claim's job was begun twice.
    BegunTwice { held: Held },
    /// More than one run ended the job for good.
    EndedTwice { id: String },
    /// A run ended the job although its lock had been lost to another.
    EndedByLoser { held: Held, holder: String },
    /// A lock was refused that was live.
    RefusedWhileHeld { held: Held },
    /// Something that must not happen, in words.
    Surprise { what: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RanTwiceAtOnce { id, tokens } => {
                write!(
                    f,
                    "{id} ran twice at once, under {} and {}",
                    tokens[0], tokens[1]
                )
            }
            Self::ClaimedWhileHeld { id, tokens } => {
                write!(
                    f,
                    "{id} was held by {} when {} got it",
                    tokens[0], tokens[1]
                )
            }
            Self::BegunTwice { held } => {
                write!(f, "{} was begun twice under {}", held.id, held.token)
            }
            Self::EndedTwice { id } => write!(f, "{id} ended twice"),
            Self::EndedByLoser { held, holder } => {
                write!(f, "{} ended {}, which {holder} held", held.token, held.id)
            }
            Self::RefusedWhileHeld { held } => {
                write!(
                    f,
                    "{} was refused to {}, which held it",
                    held.id, held.token
                )
            }
            Self::Surprise { what } => f.write_str(what),
        }
    }
}

/// What happened, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) accepted: u64,
    pub(crate) claimed: u64,
    pub(crate) runs: u64,
    pub(crate) kills: u64,
    /// Kills of workers that held at least one live lock.
    pub(crate) kills_holding: u64,
    /// Acks that ended a run.
    pub(crate) applied: u64,
    /// Acks that were answered as repeated.
    pub(crate) repeated: u64,
    /// Acks that were refused, because the lock was lost.
    pub(crate) refused: u64,
    /// Acks whose answer never came.
    pub(crate) in_doubt: u64,
}

/// What the logs say.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) accepted: BTreeSet<String>,
    /// Jobs whose handler began at least once.
    pub(crate) ran: BTreeSet<String>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) tally: Tally,
}

/// Reads all logs of a run.
pub(crate) fn check(logs: &[Log]) -> Findings {
    let kills = kills(logs);
    let mut findings = Findings {
        accepted: BTreeSet::new(),
        ran: BTreeSet::new(),
        violations: Vec::new(),
        tally: Tally::default(),
    };
    let mut holds: BTreeMap<String, BTreeMap<String, Hold>> = BTreeMap::new();
    for log in logs {
        // A process asks its store in an order of its own, so each log is read on
        // its own; only then are the runs of a job compared.
        let killed = kills.get(log.process.as_str()).copied();
        for (held, hold) in hold::read(&log.events, killed, &mut findings.violations) {
            holds.entry(held.id).or_default().insert(held.token, hold);
        }
        for event in &log.events {
            findings.note(event);
        }
    }
    findings.tally.kills = kills.len().try_into().unwrap_or(u64::MAX);
    findings.tally.kills_holding = holding(&holds);
    for (id, of_job) in &holds {
        hold::compare(id, of_job, &mut findings.violations);
    }
    findings.violations.sort();
    findings.violations.dedup();
    findings
}

impl Findings {
    fn note(&mut self, event: &Event) {
        let tally = &mut self.tally;
        match event {
            Event::Accepted { ids, .. } => {
                self.accepted.extend(ids.iter().cloned());
                tally.accepted = self.accepted.len().try_into().unwrap_or(u64::MAX);
            }
            Event::Claimed { ids, .. } => tally.claimed += ids.len() as u64,
            Event::Started { held, .. } => {
                tally.runs += 1;
                self.ran.insert(held.id.clone());
            }
            Event::Acked { answer, .. } => match answer {
                Answer::Applied => tally.applied += 1,
                Answer::Repeated => tally.repeated += 1,
                Answer::Refused => tally.refused += 1,
                Answer::InDoubt => tally.in_doubt += 1,
            },
            Event::Surprise { what, .. } => self
                .violations
                .push(Violation::Surprise { what: what.clone() }),
            _ => {}
        }
    }
}

/// When each process was killed that was.
fn kills(logs: &[Log]) -> BTreeMap<&str, Instant> {
    let events = logs.iter().flat_map(|log| &log.events);
    events
        .filter_map(|event| match event {
            Event::Killed { at, worker } => Some((worker.as_str(), *at)),
            _ => None,
        })
        .collect()
}

/// How many kills struck a process that held a live lock.
fn holding(holds: &BTreeMap<String, BTreeMap<String, Hold>>) -> u64 {
    let all = holds.values().flat_map(BTreeMap::values);
    let struck: BTreeSet<Instant> = all.filter_map(Hold::killed_while_live).collect();
    struck.len() as u64
}
