//! The finished jobs of one name and state, and which of them goes next.

use std::collections::BTreeMap;
use std::time::Duration;

use super::job::{Slot, TimeKey};
use crate::record::Retention;
use crate::time::Timestamp;

/// How long automatic retention spares a watched job from its end.
pub(super) const SPARED_FOR: Duration = Duration::from_secs(60);

/// Why a finished job is spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sparing {
    /// It was watched: for 60 s from its end.
    ForAWhile,
    /// It is a flow's parent, and its rows are the only record of cancels
    /// that are due.
    WhileItOwes,
}

/// Finished jobs in the order they ended. Those that are spared for now count
/// but stay, so they lie apart: what may go is found without walking them.
#[derive(Default)]
pub(super) struct History {
    removable: BTreeMap<TimeKey, Slot>,
    spared: BTreeMap<TimeKey, Slot>,
    /// Those of the spared that time lets go.
    spared_for_a_while: BTreeMap<TimeKey, Slot>,
    /// How many of the spared ended before the oldest removable did.
    spared_before: usize,
}

impl History {
    pub(super) fn insert(&mut self, key: TimeKey, slot: Slot) {
        let oldest = self.oldest();
        self.removable.insert(key, slot);
        match oldest {
            Some(oldest) if oldest < key => {}
            _ => self.spared_before = self.spared_older_than(key),
        }
    }

    pub(super) fn insert_spared(&mut self, key: TimeKey, slot: Slot, sparing: Sparing) {
        self.spared.insert(key, slot);
        if sparing == Sparing::ForAWhile {
            self.spared_for_a_while.insert(key, slot);
        }
        if self.oldest().is_some_and(|oldest| key < oldest) {
            self.spared_before += 1;
        }
    }

    pub(super) fn remove(&mut self, key: TimeKey) {
        let oldest = self.oldest();
        if self.spared.remove(&key).is_some() {
            self.spared_for_a_while.remove(&key);
            if oldest.is_some_and(|oldest| key < oldest) {
                self.spared_before -= 1;
            }
        } else if self.removable.remove(&key).is_some() && oldest == Some(key) {
            // Each spared job is passed once on the way to newer ones.
            self.spared_before += match self.oldest() {
                Some(next) => self.spared.range(key..next).count(),
                None => 0,
            };
        }
    }

    /// A job whose sparing for having been watched is over at `now`.
    pub(super) fn spared_too_long(&self, now: Timestamp) -> Option<Slot> {
        let (key, slot) = self.spared_for_a_while.first_key_value()?;
        (key.at.saturating_add(SPARED_FOR) <= now).then_some(*slot)
    }

    /// The job that `retention` gives up next: the oldest that is not spared,
    /// if it is beyond the count or past the age.
    pub(super) fn next_to_go(&self, retention: Retention, now: Timestamp) -> Option<Slot> {
        let (key, slot) = self.removable.first_key_value()?;
        let newer = self.len() - self.spared_before - 1;
        let beyond = |count: u32| newer >= count as usize;
        let past = |age| key.at.saturating_add(age) <= now;
        (retention.count.is_some_and(beyond) || retention.age.is_some_and(past)).then_some(*slot)
    }

    /// The ordered parts that together hold every job.
    pub(super) fn parts(&self) -> [&BTreeMap<TimeKey, Slot>; 2] {
        [&self.removable, &self.spared]
    }

    pub(super) fn len(&self) -> usize {
        self.removable.len() + self.spared.len()
    }

    fn oldest(&self) -> Option<TimeKey> {
        self.removable.first_key_value().map(|(key, _)| *key)
    }

    fn spared_older_than(&self, key: TimeKey) -> usize {
        // Mostly the newest of all, and all the spared are older.
        match self.spared.last_key_value() {
            Some((newest, _)) if *newest < key => self.spared.len(),
            _ => self.spared.range(..key).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::arena::Ix;

    impl History {
        /// Panics unless the count that saves walking is right.
        pub(in crate::memory) fn check(&self) {
            if let Some(oldest) = self.oldest() {
                assert_eq!(self.spared_before, self.spared.range(..oldest).count());
            }
            for (key, slot) in &self.spared_for_a_while {
                assert_eq!(self.spared.get(key), Some(slot));
            }
        }

        /// What `next_to_go` answers, found by walking.
        fn walk_to_next(&self, retention: Retention, now: Timestamp) -> Option<Slot> {
            let mut all: Vec<TimeKey> = Vec::new();
            for part in self.parts() {
                all.extend(part.keys());
            }
            all.sort_unstable();
            let beyond = retention
                .count
                .map_or(0, |count| all.len().saturating_sub(count as usize));
            let goes = |(rank, key): (usize, &TimeKey)| {
                let old = retention
                    .age
                    .is_some_and(|age| key.at.saturating_add(age) <= now);
                let slot = self.removable.get(key).copied();
                slot.filter(|_| rank < beyond || old)
            };
            all.iter().enumerate().find_map(goes)
        }
    }

    proptest! {
        #[test]
        fn what_goes_next_is_what_a_walk_would_find(
            steps in prop::collection::vec((0_u8..6, 0_u64..40), 1..120),
            count in prop::option::of(0_u32..12),
            age in prop::option::of(0_u64..40),
        ) {
            let mut history = History::default();
            let retention = Retention { count, age: age.map(Duration::from_millis) };
            let now = Timestamp::saturating_from_millis(40);
            for (seq, (step, number)) in steps.into_iter().enumerate() {
                let slot = Ix::at(seq as u32);
                let key = TimeKey {
                    at: Timestamp::saturating_from_millis(number),
                    seq: seq as u64,
                };
                match step {
                    0 | 1 => history.insert(key, slot),
                    2 => history.insert_spared(key, slot, Sparing::ForAWhile),
                    3 => history.insert_spared(key, slot, Sparing::WhileItOwes),
                    4 => {
                        let mut all: Vec<TimeKey> = Vec::new();
                        for part in history.parts() {
                            all.extend(part.keys());
                        }
                        if !all.is_empty() {
                            history.remove(all[number as usize % all.len()]);
                        }
                    }
                    _ => {
                        if let Some((key, slot)) = history.spared.first_key_value() {
                            let (key, slot) = (*key, *slot);
                            history.remove(key);
                            history.insert(key, slot);
                        }
                    }
                }
                history.check();
                prop_assert_eq!(
                    history.next_to_go(retention, now),
                    history.walk_to_next(retention, now)
                );
            }
        }
    }
}
