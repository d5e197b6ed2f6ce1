//! Dedupe entries: which job holds which key.
//!
//! An entry lives as long as its window or its job's record, whichever is
//! longer. Nothing happens to it when its job ends: whether it still stands
//! for the job is asked when the key comes again.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::id::{DedupeKey, JobId, JobName};
use crate::time::Timestamp;

/// A dedupe key within the job name it is scoped to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ScopedKey {
    pub(super) name: JobName,
    pub(super) key: DedupeKey,
}

#[derive(Clone, Debug)]
pub(super) struct DedupeEntry {
    pub(super) job: JobId,
    /// The end of its window; `None` if it is held until the job ends.
    pub(super) window: Option<Timestamp>,
    /// Whether its job's record is gone, so that only the window keeps it.
    orphaned: bool,
}

#[derive(Default)]
pub(super) struct Dedupes {
    entries: HashMap<ScopedKey, DedupeEntry>,
    /// Entries whose job's record is gone, by the end of their window.
    orphans: BTreeSet<(Timestamp, ScopedKey)>,
}

impl Dedupes {
    pub(super) fn get(&self, key: &ScopedKey) -> Option<&DedupeEntry> {
        self.entries.get(key)
    }

    /// Lets a job take a key over.
    pub(super) fn hold(&mut self, key: ScopedKey, job: JobId, window: Option<Timestamp>) {
        let entry = DedupeEntry {
            job,
            window,
            orphaned: false,
        };
        let orphan = self.entries.insert(key.clone(), entry);
        if let Some(DedupeEntry {
            window: Some(end),
            orphaned: true,
            ..
        }) = orphan
        {
            self.orphans.remove(&(end, key));
        }
    }

    /// Moves the end of an entry's window.
    pub(super) fn set_window(&mut self, key: &ScopedKey, to: Timestamp) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let from = entry.window.replace(to);
        if entry.orphaned {
            if let Some(from) = from {
                self.orphans.remove(&(from, key.clone()));
            }
            self.orphans.insert((to, key.clone()));
        }
    }

    /// Notes that a job's record is gone; a newer job's entry stays.
    pub(super) fn job_removed(&mut self, key: ScopedKey, job: &JobId, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.job != *job || entry.orphaned {
            return;
        }
        match entry.window {
            Some(end) if now < end => {
                entry.orphaned = true;
                self.orphans.insert((end, key));
            }
            _ => drop(self.entries.remove(&key)),
        }
    }

    /// Deletes dead entries, `most` at the most, and says whether there are more.
    pub(super) fn sweep(&mut self, now: Timestamp, most: usize) -> bool {
        let is_dead = |orphans: &BTreeSet<(Timestamp, ScopedKey)>| {
            orphans.first().is_some_and(|(end, _)| *end <= now)
        };
        for _ in 0..most {
            if !is_dead(&self.orphans) {
                return false;
            }
            if let Some((_, key)) = self.orphans.pop_first() {
                self.entries.remove(&key);
            }
        }
        is_dead(&self.orphans)
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> impl Iterator<Item = (&ScopedKey, &DedupeEntry, bool)> {
        self.entries
            .iter()
            .map(|(key, entry)| (key, entry, entry.orphaned))
    }

    #[cfg(test)]
    pub(super) fn orphans(&self) -> &BTreeSet<(Timestamp, ScopedKey)> {
        &self.orphans
    }
}
