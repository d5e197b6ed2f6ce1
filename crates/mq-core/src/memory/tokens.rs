//! The tokens of recent claims, so that a repeated claim finds what the first
//! one locked.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;

use super::job::Slot;
use crate::id::LockToken;
use crate::time::Timestamp;

/// How long a token is remembered after its claim, or after it was last found
/// to hold a lock.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// How many tokens are remembered before those that hold nothing are forgotten
/// early.
const MOST_REMEMBERED: usize = 50_000;
/// How many tokens a claim looks at to forget them: more than it adds.
pub(super) const FORGOTTEN_PER_CLAIM: usize = 2;

#[derive(Default)]
pub(super) struct Tokens {
    /// What each claim locked, best first. Slots are used again, so the lock
    /// on what lies there now decides.
    locked: HashMap<LockToken, Vec<Slot>>,
    /// When to see whether a token can be forgotten.
    review: VecDeque<(Timestamp, LockToken)>,
}

impl Tokens {
    pub(super) fn get(&self, token: &LockToken) -> Option<&[Slot]> {
        self.locked.get(token).map(Vec::as_slice)
    }

    pub(super) fn remember(&mut self, token: LockToken, slots: Vec<Slot>, now: Timestamp) {
        self.locked.insert(token.clone(), slots);
        self.review
            .push_back((now.saturating_add(REMEMBERED_FOR), token));
    }

    /// Forgets tokens that hold nothing any more, looking at `most`.
    pub(super) fn forget(
        &mut self,
        now: Timestamp,
        most: usize,
        holds: impl Fn(&LockToken, Slot) -> bool,
    ) {
        for _ in 0..most {
            let crowded = self.review.len() > MOST_REMEMBERED;
            if !crowded && self.review.front().is_none_or(|(due, _)| now < *due) {
                return;
            }
            let Some((_, token)) = self.review.pop_front() else {
                return;
            };
            let Some(slots) = self.locked.get_mut(&token) else {
                continue;
            };
            slots.retain(|slot| holds(&token, *slot));
            if slots.is_empty() {
                self.locked.remove(&token);
            } else {
                self.review
                    .push_back((now.saturating_add(REMEMBERED_FOR), token));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert!(self.locked.len() <= self.review.len());
        self.review.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.locked.is_empty() && self.review.is_empty()
    }
}
