//! What is known of one claim's hold on one job.

use std::collections::BTreeMap;

use super::{TOLERANCE, Violation};
use crate::clock::Instant;
use crate::event::{Answer, Event, Held, Outcome};

/// From a claim to the end of its lock.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// When the claim had been answered.
    claimed: Instant,
    /// When the claim was asked for.
    asked: Instant,
    /// Until when the lock is live for sure, unless its holder gave it up: every
    /// extension counts from the instant before it was asked for.
    live_until: Instant,
    /// When its holder began to give it up, by an ack or a release.
    given_up: Option<Instant>,
    started: Option<Instant>,
    ended: Option<Instant>,
    killed: Option<Instant>,
    /// An ack that was answered as applied, and what it was to do.
    applied: Option<Outcome>,
    acks: u32,
    outcome: Option<Outcome>,
}

/// Follows the holds of one process through its log.
pub(super) fn read(
    events: &[Event],
    killed: Option<Instant>,
    violations: &mut Vec<Violation>,
) -> BTreeMap<Held, Hold> {
    let mut holds = BTreeMap::new();
    for event in events {
        apply(event, killed, &mut holds, violations);
    }
    holds
}

fn apply(
    event: &Event,
    killed: Option<Instant>,
    holds: &mut BTreeMap<Held, Hold>,
    violations: &mut Vec<Violation>,
) {
    match event {
        Event::Claimed {
            asked,
            at,
            lock_for,
            token,
            ids,
        } => {
            for id in ids {
                let held = Held {
                    id: id.clone(),
                    token: token.clone(),
                };
                let live_until = *asked + *lock_for;
                // A claim that is repeated with its token extends what it has.
                let hold = holds
                    .entry(held)
                    .or_insert_with(|| Hold::new(*asked, *at, killed));
                hold.live_until = hold.live_until.max(live_until);
            }
        }
        Event::Extended {
            asked,
            at,
            lock_for,
            held,
        } => {
            for held in held {
                // A store may pass over a row that another transaction holds, and
                // does not say so. If the lock was over, that may be its recovery.
                if let Some(hold) = holds.get_mut(held)
                    && hold.is_in_time(*at)
                {
                    hold.live_until = hold.live_until.max(*asked + *lock_for);
                }
            }
        }
        Event::Lost { at, held } => {
            for held in held {
                if let Some(hold) = holds.get(held)
                    && hold.is_live(*at)
                {
                    violations.push(Violation::RefusedWhileHeld { held: held.clone() });
                }
            }
        }
        Event::Started { at, held } => match holds.get_mut(held) {
            Some(hold) if hold.started.is_none() => hold.started = Some(*at),
            Some(_) => violations.push(Violation::BegunTwice { held: held.clone() }),
            None => violations.push(Violation::Surprise {
                what: format!("{} ran under {}, which was no claim's", held.id, held.token),
            }),
        },
        Event::Ended { at, held } => {
            if let Some(hold) = holds.get_mut(held) {
                hold.ended = Some(*at);
            }
        }
        Event::Acking { at, held, outcome } => {
            if let Some(hold) = holds.get_mut(held) {
                hold.given_up.get_or_insert(*at);
                hold.outcome = Some(*outcome);
                hold.acks += 1;
            }
        }
        Event::Acked { at, held, answer } => {
            if let Some(hold) = holds.get_mut(held) {
                match answer {
                    Answer::Applied => hold.applied = hold.outcome,
                    Answer::Refused if hold.is_refused_unjustly(*at) => {
                        violations.push(Violation::RefusedWhileHeld { held: held.clone() });
                    }
                    _ => {}
                }
            }
        }
        Event::Releasing { at, held } => {
            if let Some(hold) = holds.get_mut(held) {
                hold.given_up.get_or_insert(*at);
            }
        }
        Event::Accepted { .. }
        | Event::Killed { .. }
        | Event::Struck { .. }
        | Event::Surprise { .. } => {}
    }
}

impl Hold {
    fn new(asked: Instant, claimed: Instant, killed: Option<Instant>) -> Self {
        Self {
            claimed,
            asked,
            live_until: asked,
            given_up: None,
            started: None,
            ended: None,
            killed,
            applied: None,
            acks: 0,
            outcome: None,
        }
    }

    /// Whether the lock holds at this instant for sure.
    fn is_live(&self, at: Instant) -> bool {
        self.is_in_time(at) && self.given_up.is_none_or(|given_up| at < given_up)
    }

    /// Whether its time has not run out.
    fn is_in_time(&self, at: Instant) -> bool {
        at + TOLERANCE < self.live_until
    }

    /// Whether the first ack is refused in time. A later one may be, because an
    /// earlier one landed; and an ack for another run may be, because the driver
    /// sends one again by itself.
    fn is_refused_unjustly(&self, at: Instant) -> bool {
        self.is_in_time(at) && self.acks == 1 && self.outcome == Some(Outcome::Final)
    }

    /// When a handler runs under it: a kill ends it.
    fn run(&self) -> Option<(Instant, Instant)> {
        let started = self.started?;
        let end = self.ended.or(self.killed).unwrap_or(Instant::END);
        Some((started, end))
    }

    /// When its process was killed, if the lock was live then.
    pub(super) fn killed_while_live(&self) -> Option<Instant> {
        self.killed
            .filter(|at| self.claimed <= *at && self.is_live(*at))
    }
}

/// Compares the holds on one job, by token.
pub(super) fn compare(id: &str, holds: &BTreeMap<String, Hold>, violations: &mut Vec<Violation>) {
    let mut in_order: Vec<(&String, &Hold)> = holds.iter().collect();
    in_order.sort_by_key(|(_, hold)| hold.claimed);
    for (at, (token, hold)) in in_order.iter().enumerate() {
        for (later_token, later) in &in_order[at + 1..] {
            let tokens = || [(*token).clone(), (*later_token).clone()];
            if claimed_though_held(hold, later) {
                violations.push(Violation::ClaimedWhileHeld {
                    id: id.to_owned(),
                    tokens: tokens(),
                });
            }
            if run_at_once(hold, later) {
                violations.push(Violation::RanTwiceAtOnce {
                    id: id.to_owned(),
                    tokens: tokens(),
                });
            }
            if ended_though_lost(hold, later) {
                violations.push(Violation::EndedByLoser {
                    held: Held {
                        id: id.to_owned(),
                        token: (*token).clone(),
                    },
                    holder: (*later_token).clone(),
                });
            }
        }
    }
    let ends = holds
        .values()
        .filter(|hold| hold.applied == Some(Outcome::Final));
    if ends.count() > 1 {
        violations.push(Violation::EndedTwice { id: id.to_owned() });
    }
}

/// Whether a claim got the job while the hold was live. The answer to a claim may
/// come so late that its own lock is over; if it was also asked for early, it may
/// well have been the first of the two.
fn claimed_though_held(hold: &Hold, later: &Hold) -> bool {
    let in_order = later.asked > hold.claimed;
    hold.is_live(later.claimed) && (in_order || later.is_in_time(later.claimed))
}

/// Whether handlers ran under both at one instant, while both were live.
fn run_at_once(one: &Hold, other: &Hold) -> bool {
    let (Some((start, end)), Some((other_start, other_end))) = (one.run(), other.run()) else {
        return false;
    };
    let both = start.max(other_start);
    both < end.min(other_end) && one.is_in_time(both) && other.is_in_time(both)
}

/// Whether a hold ended the run although a later claim had taken the job. Nobody
/// can claim a job that is over, so an end for good is never followed by a claim.
fn ended_though_lost(hold: &Hold, later: &Hold) -> bool {
    let followed = later.asked > hold.claimed;
    match hold.applied {
        Some(Outcome::Final) => followed,
        Some(Outcome::Again) => {
            followed && hold.given_up.is_some_and(|acking| acking > later.claimed)
        }
        None => false,
    }
}
