//! Wake-ups: who waits for work in a queue, and who for the end of a job.
//!
//! What this handle does it tells its own waiters at once, and other processes
//! by `NOTIFY` ([`notify`]); what they do arrives by `LISTEN` ([`listen`]).
//! Each wake-up has a place in this handle's stream; a cursor is such a place,
//! so what happens between a claim and the wait after it is seen by comparing.

pub(crate) mod listen;
pub(crate) mod notify;

use std::collections::HashMap;
use std::sync::Arc;

use mq_core::{JobId, QueueName};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many watched jobs a handle keeps in mind before it forgets those that
/// nobody waits for, which ends older waits early.
const MOST_WATCHED: usize = 100_000;

/// What can be waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// Something may be runnable in this queue.
    Queue(QueueName),
    /// This job may have ended.
    Job(JobId),
}

#[derive(Debug, Default)]
pub(crate) struct Wakes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// The place of the last moment from which nothing is sure: everybody who
    /// waits from before it is told.
    outage: u64,
    topics: HashMap<Topic, Entry>,
    watched: usize,
}

#[derive(Debug, Default)]
struct Entry {
    /// The place of its last wake-up; 0 before.
    last: u64,
    waiters: Vec<Arc<Notify>>,
}

impl Wakes {
    /// The place to wait from for what happens after now. It is never 0, from
    /// which no wait lasts.
    pub(crate) fn cursor(&self) -> u64 {
        let mut state = self.state.lock();
        state.last = state.last.max(1);
        state.last
    }

    /// Tells those of this handle who wait for one of these.
    pub(crate) fn tell<'a>(&self, topics: impl IntoIterator<Item = &'a Topic>) {
        let mut told = Vec::new();
        let mut state = self.state.lock();
        for topic in topics {
            state.last = state.last.max(1) + 1;
            let place = state.last;
            let entry = match topic {
                Topic::Queue(_) => state.topics.entry(topic.clone()).or_default(),
                // Nobody here watches it.
                Topic::Job(_) => match state.topics.get_mut(topic) {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            entry.last = place;
            told.extend(entry.waiters.iter().cloned());
        }
        drop(state);
        told.iter().for_each(|waiter| waiter.notify_one());
    }

    /// Tells everybody: something may have been missed.
    pub(crate) fn tell_all(&self) {
        let mut state = self.state.lock();
        state.last = state.last.max(1) + 1;
        state.outage = state.last;
        let waiters = state.topics.values().flat_map(|entry| &entry.waiters);
        let told: Vec<_> = waiters.cloned().collect();
        drop(state);
        told.iter().for_each(|waiter| waiter.notify_one());
    }

    /// Keeps jobs in mind whose ends matter to this handle, and answers the
    /// place to wait from.
    pub(crate) fn watch(&self, ids: &[JobId]) -> u64 {
        let mut state = self.state.lock();
        state.last = state.last.max(1);
        if state.watched + ids.len() > MOST_WATCHED {
            state.forget_unawaited();
        }
        for id in ids {
            let before = state.topics.len();
            state.topics.entry(Topic::Job(id.clone())).or_default();
            state.watched += state.topics.len() - before;
        }
        state.last
    }

    /// Returns when one of these was told of since `cursor`.
    pub(crate) async fn wait(&self, topics: &[Topic], cursor: u64) {
        let waiter = Arc::new(Notify::new());
        let _waiting = Waiting {
            wakes: self,
            topics,
            waiter: &waiter,
        };
        loop {
            {
                let mut state = self.state.lock();
                if state.is_told(topics, cursor) {
                    return;
                }
                for topic in topics {
                    let entry = state.topics.entry(topic.clone()).or_default();
                    if !entry
                        .waiters
                        .iter()
                        .any(|other| Arc::ptr_eq(other, &waiter))
                    {
                        entry.waiters.push(Arc::clone(&waiter));
                    }
                }
            }
            waiter.notified().await;
        }
    }
}

impl State {
    fn is_told(&self, topics: &[Topic], cursor: u64) -> bool {
        cursor == 0
            || self.outage > cursor
            || topics.iter().any(|topic| match self.topics.get(topic) {
                Some(entry) => entry.last > cursor,
                // A job that this handle does not keep in mind: its end may
                // have been told already.
                None => matches!(topic, Topic::Job(_)),
            })
    }

    fn forget_unawaited(&mut self) {
        self.topics
            .retain(|topic, entry| matches!(topic, Topic::Queue(_)) || !entry.waiters.is_empty());
        self.watched = self
            .topics
            .keys()
            .filter(|topic| matches!(topic, Topic::Job(_)))
            .count();
    }
}

/// Takes a waiter off its topics, however the wait ends.
struct Waiting<'a> {
    wakes: &'a Wakes,
    topics: &'a [Topic],
    waiter: &'a Arc<Notify>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.wakes.state.lock();
        for topic in self.topics {
            if let Some(entry) = state.topics.get_mut(topic) {
                entry
                    .waiters
                    .retain(|other| !Arc::ptr_eq(other, self.waiter));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn queue(name: &str) -> Topic {
        Topic::Queue(name.into())
    }

    #[test]
    fn a_wake_up_between_cursor_and_wait_is_seen() {
        let wakes = Wakes::default();
        let cursor = wakes.cursor();
        wakes.tell(&[queue("a")]);
        assert!(wakes.wait(&[queue("a")], cursor).now_or_never().is_some());
        assert!(wakes.wait(&[queue("b")], cursor).now_or_never().is_none());
        let later = wakes.cursor();
        assert!(wakes.wait(&[queue("a")], later).now_or_never().is_none());
    }

    #[test]
    fn after_an_outage_nobody_waits_from_before_it() {
        let wakes = Wakes::default();
        let cursor = wakes.cursor();
        wakes.tell_all();
        assert!(wakes.wait(&[queue("a")], cursor).now_or_never().is_some());
        let later = wakes.cursor();
        assert!(wakes.wait(&[queue("a")], later).now_or_never().is_none());
    }

    #[test]
    fn a_dropped_wait_leaves_nothing_behind() {
        let wakes = Wakes::default();
        let cursor = wakes.cursor();
        assert!(wakes.wait(&[queue("a")], cursor).now_or_never().is_none());
        assert!(wakes.state.lock().topics[&queue("a")].waiters.is_empty());
    }
}
