//! Whether the store answers, since when, and what is logged of it.

use std::collections::BTreeMap;
use std::time::Duration;

use mq_core::StoreError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::backoff;

/// The worker's contact with its store.
#[derive(Debug)]
pub(crate) struct Contact {
    store: &'static str,
    lock_duration: Duration,
    /// A gap between two answers at least this long, with a failure in it, is
    /// an outage: long enough for locks to expire that nobody could extend.
    outage: Duration,
    state: Mutex<State>,
    established: Notify,
}

#[derive(Debug)]
struct State {
    /// When the store answered first, at start or after an outage.
    since: Option<Instant>,
    last_answer: Option<Instant>,
    /// When the last heartbeat began after which every lock held.
    last_beat: Instant,
    /// How many calls in a row failed.
    failures: u32,
    trouble: Trouble,
}

/// What is logged as one outage: from the first failure until every operation
/// that failed has answered.
#[derive(Debug, Default)]
struct Trouble {
    since: Option<Instant>,
    failures: u32,
    told: bool,
    failing: BTreeMap<&'static str, Failing>,
}

#[derive(Debug)]
struct Failing {
    in_a_row: u32,
    last: Instant,
}

/// How many failures in a row are worth a warning: one is a blip.
const WORTH_A_WARNING: u32 = 2;

impl Contact {
    /// Contact for a worker with such locks and heartbeats.
    pub(crate) fn new(
        store: &'static str,
        lock_duration: Duration,
        heartbeat_interval: Duration,
    ) -> Self {
        Self {
            store,
            lock_duration,
            outage: heartbeat_interval.min(lock_duration.saturating_sub(heartbeat_interval)),
            state: Mutex::new(State {
                since: None,
                last_answer: None,
                last_beat: Instant::now(),
                failures: 0,
                trouble: Trouble::default(),
            }),
            established: Notify::new(),
        }
    }

    /// The store has answered.
    pub(crate) fn answered(&self, operation: &'static str) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let failures = std::mem::take(&mut state.failures);
        let last_answer = state.last_answer.replace(now);
        let silent_for = last_answer.map(|last| now.duration_since(last));
        let was_out = failures > 0 && silent_for.is_none_or(|silence| silence >= self.outage);
        if state.since.is_none() || was_out {
            state.since = Some(now);
        }
        if failures > 0 || last_answer.is_none() {
            self.established.notify_waiters();
        }
        if state.trouble.since.is_none() {
            return;
        }
        // What has not failed for so long is not asked for any more.
        let forgotten = self.lock_duration.saturating_add(2 * backoff::LONGEST);
        let trouble = &mut state.trouble;
        trouble.failing.remove(operation);
        trouble
            .failing
            .retain(|_, failing| now.duration_since(failing.last) < forgotten);
        if trouble.failing.is_empty() {
            let over = std::mem::take(trouble);
            if over.told {
                info!(
                    store = self.store,
                    outage = ?over.since.map(|begun| now.duration_since(begun)),
                    failures = over.failures,
                    "the store answers again"
                );
            }
        }
    }

    /// The store could not be reached, or its answer was lost.
    pub(crate) fn failed(&self, operation: &'static str, error: &StoreError) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        let in_a_row = state.failures;
        let trouble = &mut state.trouble;
        trouble.since.get_or_insert(now);
        trouble.failures = trouble.failures.saturating_add(1);
        let failing = trouble.failing.entry(operation).or_insert(Failing {
            in_a_row: 0,
            last: now,
        });
        failing.in_a_row = failing.in_a_row.saturating_add(1);
        failing.last = now;
        if in_a_row.max(failing.in_a_row) >= WORTH_A_WARNING
            && !std::mem::replace(&mut trouble.told, true)
        {
            warn!(
                store = self.store,
                operation,
                %error,
                "the store does not answer; trying again until it does"
            );
        }
    }

    /// A heartbeat that began then has extended every lock.
    pub(crate) fn beaten(&self, begun: Instant) {
        let mut state = self.state.lock();
        let gap = begun.saturating_duration_since(state.last_beat);
        state.last_beat = begun;
        if gap >= self.lock_duration {
            // For so long, nobody may have been able to do anything.
            state.since = state.since.map(|_| Instant::now());
            self.established.notify_waiters();
        }
    }

    /// Since when the store answers, and this worker's own locks hold: the end
    /// of the last outage, or the first answer. Waits while it is not so.
    pub(crate) async fn since(&self) -> Instant {
        loop {
            let mut established = std::pin::pin!(self.established.notified());
            // Listens before it looks, so that no answer falls in between.
            established.as_mut().enable();
            {
                let state = self.state.lock();
                let holds = state.failures == 0 && state.last_beat.elapsed() < self.lock_duration;
                if let Some(since) = state.since.filter(|_| holds) {
                    return since;
                }
            }
            established.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact() -> Contact {
        Contact::new("test", Duration::from_secs(30), Duration::from_secs(10))
    }

    /// Lets time pass in which heartbeats succeed.
    async fn pass(contact: &Contact, duration: Duration) {
        tokio::time::advance(duration).await;
        contact.beaten(Instant::now());
    }

    fn down(contact: &Contact) {
        contact.failed("claim", &StoreError::unavailable("refused"));
    }

    #[tokio::test(start_paused = true)]
    async fn contact_begins_with_the_first_answer() {
        let contact = contact();
        down(&contact);
        pass(&contact, Duration::from_secs(60)).await;
        contact.answered("claim");
        assert_eq!(contact.since().await, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_between_two_answers_is_no_outage() {
        let contact = contact();
        contact.answered("claim");
        let begun = Instant::now();
        for _ in 0..100 {
            pass(&contact, Duration::from_secs(1)).await;
            down(&contact);
            contact.answered("claim");
        }
        assert_eq!(contact.since().await, begun);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_worker_has_no_outage_unless_a_call_fails() {
        let contact = contact();
        contact.answered("claim");
        let begun = Instant::now();
        for _ in 0..6 {
            pass(&contact, Duration::from_secs(10)).await;
        }
        contact.answered("claim");
        assert_eq!(contact.since().await, begun);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_contact_while_calls_fail() {
        let contact = contact();
        contact.answered("claim");
        down(&contact);
        let none = tokio::time::timeout(Duration::from_secs(20), contact.since());
        assert!(none.await.is_err());
        contact.answered("claim");
        assert_eq!(contact.since().await, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn contact_begins_anew_after_an_outage() {
        let contact = contact();
        contact.answered("claim");
        down(&contact);
        pass(&contact, Duration::from_secs(10)).await;
        contact.answered("claim");
        assert_eq!(contact.since().await, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn with_late_heartbeats_a_shorter_gap_is_an_outage() {
        let contact = Contact::new("test", Duration::from_secs(30), Duration::from_secs(25));
        contact.answered("claim");
        down(&contact);
        pass(&contact, Duration::from_secs(5)).await;
        contact.answered("claim");
        assert_eq!(contact.since().await, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_contact_while_own_locks_may_have_expired() {
        let contact = contact();
        contact.answered("claim");
        tokio::time::advance(Duration::from_secs(30)).await;
        contact.answered("claim");
        let none = tokio::time::timeout(Duration::from_secs(1), contact.since());
        assert!(none.await.is_err());
        contact.beaten(Instant::now());
        assert_eq!(contact.since().await, Instant::now());
    }
}
