//! The slots of one queue: how many handlers may run at once, and who waits
//! for one to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The slots of one queue. One fetcher takes them; whoever holds a [`Slot`]
/// gives it back by dropping it.
#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    taken: AtomicUsize,
    /// How many free slots the fetcher waits for; none while it does not.
    wanted: AtomicUsize,
    freed: Notify,
}

const NOBODY_WAITS: usize = usize::MAX;

impl Slots {
    pub(crate) fn new(limit: u32) -> Arc<Self> {
        Arc::new(Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX - 1),
            taken: AtomicUsize::new(0),
            wanted: AtomicUsize::new(NOBODY_WAITS),
            freed: Notify::new(),
        })
    }

    /// How many slots there are.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// How many slots are free.
    pub(crate) fn free(&self) -> usize {
        self.limit.saturating_sub(self.taken.load(Ordering::SeqCst))
    }

    /// Takes a slot; the fetcher has seen that one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        self.taken.fetch_add(1, Ordering::SeqCst);
        Slot(Arc::clone(self))
    }

    /// Returns once so many slots are free. Only the queue's fetcher waits.
    pub(crate) async fn wait_for(&self, count: usize) {
        self.wanted.store(count, Ordering::SeqCst);
        while self.free() < count {
            self.freed.notified().await;
        }
        self.wanted.store(NOBODY_WAITS, Ordering::SeqCst);
    }
}

/// A taken slot.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
        if self.0.free() >= self.0.wanted.load(Ordering::SeqCst) {
            self.0.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiter_is_woken_when_enough_slots_are_free_and_not_before() {
        let slots = Slots::new(3);
        let taken = [slots.take(), slots.take(), slots.take()];
        let mut waiting = tokio_test_task(slots.wait_for(2));
        let mut taken = taken.into_iter();
        assert!(!waiting.is_ready());
        drop(taken.next());
        assert!(!waiting.is_ready());
        drop(taken.next());
        assert!(waiting.is_ready());
        assert_eq!(slots.free(), 2);
    }

    struct Polled<F>(std::pin::Pin<Box<F>>);

    fn tokio_test_task<F: Future<Output = ()>>(future: F) -> Polled<F> {
        Polled(Box::pin(future))
    }

    impl<F: Future<Output = ()>> Polled<F> {
        fn is_ready(&mut self) -> bool {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            self.0.as_mut().poll(&mut context).is_ready()
        }
    }
}
