//! Whether the store answers, since when, and what is logged of it.

use std::time::Duration;

use mq_core::StoreError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{info, warn};

/// The worker's contact with its store.
#[derive(Debug)]
pub(crate) struct Contact {
    /// A gap between two answers at least this long, with a failure in it, is
    /// an outage: long enough for locks that nobody could extend to expire.
    outage: Duration,
    store: &'static str,
    state: Mutex<State>,
    established: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the store answered first, at start or after an outage.
    since: Option<Instant>,
    last_answer: Option<Instant>,
    failures: u32,
    failing_since: Option<Instant>,
}

/// How many failures in a row are worth a warning: one is a blip.
const WORTH_A_WARNING: u32 = 2;

impl Contact {
    pub(crate) fn new(store: &'static str, outage: Duration) -> Self {
        Self {
            outage,
            store,
            state: Mutex::default(),
            established: Notify::new(),
        }
    }

    /// The store has answered.
    pub(crate) fn answered(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let failures = std::mem::take(&mut state.failures);
        let failing_since = state.failing_since.take();
        let last_answer = state.last_answer.replace(now);
        let silent_for = last_answer.map(|last| now.duration_since(last));
        let was_out = failures > 0 && silent_for.is_none_or(|silence| silence >= self.outage);
        if state.since.is_none() || was_out {
            state.since = Some(now);
        }
        if failures > 0 || last_answer.is_none() {
            self.established.notify_waiters();
        }
        if let Some(begun) = failing_since.filter(|_| failures >= WORTH_A_WARNING) {
            info!(
                store = self.store,
                outage = ?now.duration_since(begun),
                failures,
                "the store answers again"
            );
        }
    }

    /// The store could not be reached, or its answer was lost.
    pub(crate) fn failed(&self, operation: &'static str, error: &StoreError) {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        state.failing_since.get_or_insert_with(Instant::now);
        if state.failures == WORTH_A_WARNING {
            warn!(
                store = self.store,
                operation,
                %error,
                "the store does not answer; trying again until it does"
            );
        }
    }

    /// Since when the store answers: the end of the last outage, or the first
    /// answer. Waits while it does not.
    pub(crate) async fn since(&self) -> Instant {
        loop {
            let mut established = std::pin::pin!(self.established.notified());
            // Listens before it looks, so that no answer falls in between.
            established.as_mut().enable();
            {
                let state = self.state.lock();
                if let Some(since) = state.since.filter(|_| state.failures == 0) {
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
        Contact::new("test", Duration::from_secs(10))
    }

    fn down(contact: &Contact) {
        contact.failed("claim", &StoreError::unavailable("refused"));
    }

    #[tokio::test(start_paused = true)]
    async fn contact_begins_with_the_first_answer() {
        let contact = contact();
        down(&contact);
        tokio::time::advance(Duration::from_secs(60)).await;
        contact.answered();
        assert_eq!(contact.since().await, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_between_two_answers_is_no_outage() {
        let contact = contact();
        contact.answered();
        let begun = Instant::now();
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
            down(&contact);
            contact.answered();
        }
        assert_eq!(contact.since().await, begun);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_worker_has_no_outage_unless_a_call_fails() {
        let contact = contact();
        contact.answered();
        let begun = Instant::now();
        tokio::time::advance(Duration::from_secs(60)).await;
        contact.answered();
        assert_eq!(contact.since().await, begun);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_contact_while_calls_fail() {
        let contact = contact();
        contact.answered();
        down(&contact);
        let none = tokio::time::timeout(Duration::from_secs(60), contact.since());
        assert!(none.await.is_err());
        contact.answered();
        assert_eq!(contact.since().await, Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn contact_begins_anew_after_an_outage() {
        let contact = contact();
        contact.answered();
        down(&contact);
        tokio::time::advance(Duration::from_secs(10)).await;
        contact.answered();
        assert_eq!(contact.since().await, Instant::now());
    }
}
