//! Who waits, who is queued, and what is in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use futures::future::BoxFuture;
use slab::Slab;

pub(super) type Batch<A> = BoxFuture<'static, Vec<A>>;

/// Nothing that belongs to callers (batches, items, answers, wakers) is called
/// or dropped while this is locked, since it may call back.
pub(super) struct State<I, A> {
    calls: Slab<Call<I, A>>,
    /// Calls that no batch has taken, oldest first.
    queue: VecDeque<usize>,
    /// Calls of the batch in flight, in its order.
    aboard: Vec<usize>,
    pub(super) flight: Flight<A>,
    /// Whether the batch has asked to be polled since it was last.
    pub(super) woken: bool,
    /// How many calls somebody waits for.
    pub(super) waiting: usize,
}

pub(super) enum Call<I, A> {
    Waiting {
        /// Until a batch takes it.
        item: Option<I>,
        /// Until it is woken.
        waker: Option<Waker>,
    },
    Answered(Answer<A>),
    /// Its future was dropped; the queue or the batch still counts it.
    Abandoned,
}

pub(super) enum Answer<A> {
    Value(A),
    /// The function panicked with this message.
    Panicked(Arc<str>),
}

pub(super) enum Flight<A> {
    None,
    /// In flight, until it asks to be polled.
    Resting(Batch<A>),
    /// Somebody is polling it.
    Polled,
}

/// What is left to do once the state is unlocked.
pub(super) struct Rest<A> {
    wake: Vec<Waker>,
    unwanted: Vec<Answer<A>>,
    given_up: Option<Batch<A>>,
}

impl<A> Rest<A> {
    pub(super) fn is_empty(&self) -> bool {
        self.wake.is_empty() && self.unwanted.is_empty() && self.given_up.is_none()
    }

    pub(super) fn settle(self) {
        self.wake.into_iter().for_each(Waker::wake);
    }
}

impl<I, A> State<I, A> {
    pub(super) fn new() -> Self {
        Self {
            calls: Slab::new(),
            queue: VecDeque::new(),
            aboard: Vec::new(),
            flight: Flight::None,
            woken: false,
            waiting: 0,
        }
    }

    pub(super) fn join(&mut self, item: Option<I>) -> usize {
        let key = self.calls.insert(Call::Waiting { item, waker: None });
        self.queue.push_back(key);
        self.waiting += 1;
        key
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.flight, Flight::None)
    }

    pub(super) fn is_resting(&self) -> bool {
        matches!(self.flight, Flight::Resting(_))
    }

    /// Whether a call that waits has to poll now.
    pub(super) fn is_due(&self) -> bool {
        match self.flight {
            Flight::None => self.waiting > 0,
            Flight::Resting(_) => self.woken,
            Flight::Polled => false,
        }
    }

    pub(super) fn set_waker(&mut self, key: usize, new: &Waker) -> Option<Waker> {
        match &mut self.calls[key] {
            Call::Waiting { waker, .. } => match waker {
                Some(current) if current.will_wake(new) => None,
                _ => waker.replace(new.clone()),
            },
            Call::Answered(_) | Call::Abandoned => None,
        }
    }

    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        let waker = |call: &mut Call<I, A>| match call {
            Call::Waiting { waker, .. } => waker.take(),
            Call::Answered(_) | Call::Abandoned => None,
        };
        self.calls
            .iter_mut()
            .filter_map(|(_, call)| waker(call))
            .collect()
    }

    pub(super) fn take_answer(&mut self, key: usize) -> Option<Answer<A>> {
        if !matches!(self.calls[key], Call::Answered(_)) {
            return None;
        }
        match self.calls.remove(key) {
            Call::Answered(answer) => Some(answer),
            Call::Waiting { .. } | Call::Abandoned => None,
        }
    }

    /// Forgets a call whose future is gone; answers what is to be dropped.
    pub(super) fn abandon(&mut self, key: usize) -> Call<I, A> {
        if matches!(self.calls[key], Call::Answered(_)) {
            return self.calls.remove(key);
        }
        self.waiting -= 1;
        std::mem::replace(&mut self.calls[key], Call::Abandoned)
    }

    /// If nobody waits any more, nobody will poll: clears what is left.
    pub(super) fn give_up_unless_awaited(&mut self) -> Option<Batch<A>> {
        if self.waiting > 0 || matches!(self.flight, Flight::Polled) {
            return None;
        }
        for key in self.aboard.drain(..).chain(self.queue.drain(..)) {
            self.calls.remove(key);
        }
        match std::mem::replace(&mut self.flight, Flight::None) {
            Flight::Resting(batch) => Some(batch),
            Flight::None | Flight::Polled => None,
        }
    }

    /// Takes the oldest calls of the queue aboard, and their items.
    pub(super) fn board(&mut self, most: usize) -> Vec<I> {
        let mut items = Vec::with_capacity(most.min(self.queue.len()));
        while items.len() < most {
            let Some(key) = self.queue.pop_front() else {
                break;
            };
            match &mut self.calls[key] {
                Call::Waiting { item, .. } => {
                    items.extend(item.take());
                    self.aboard.push(key);
                }
                Call::Answered(_) | Call::Abandoned => drop(self.calls.remove(key)),
            }
        }
        items
    }

    /// Puts the batch down until it asks to be polled.
    pub(super) fn rest(&mut self, batch: Batch<A>) -> Rest<A> {
        self.flight = Flight::Resting(batch);
        Rest {
            // Asked for while it was being polled: nobody was woken then.
            wake: if self.woken {
                self.take_wakers()
            } else {
                Vec::new()
            },
            unwanted: Vec::new(),
            given_up: self.give_up_unless_awaited(),
        }
    }

    /// Hands out the answers of a batch.
    pub(super) fn land(&mut self, answers: Vec<A>) -> Rest<A> {
        let (items, count) = (self.aboard.len(), answers.len());
        let answers = answers.into_iter().map(Answer::Value);
        if items == count {
            return self.hand_out(answers);
        }
        let mut rest = self.crash(&format!("a batch of {items} items got {count} answers"));
        rest.unwanted.extend(answers);
        rest
    }

    /// Tells all aboard that the function panicked.
    pub(super) fn crash(&mut self, message: &str) -> Rest<A> {
        let message: Arc<str> = message.into();
        self.hand_out(std::iter::repeat_with(|| {
            Answer::Panicked(Arc::clone(&message))
        }))
    }

    pub(super) fn hand_out(&mut self, answers: impl Iterator<Item = Answer<A>>) -> Rest<A> {
        self.flight = Flight::None;
        let mut wake = Vec::with_capacity(self.aboard.len());
        let mut unwanted = Vec::new();
        for (key, answer) in self.aboard.drain(..).zip(answers) {
            match &mut self.calls[key] {
                Call::Waiting { waker, .. } => {
                    wake.extend(waker.take());
                    self.calls[key] = Call::Answered(answer);
                    self.waiting -= 1;
                }
                Call::Answered(_) | Call::Abandoned => {
                    unwanted.push(answer);
                    self.calls.remove(key);
                }
            }
        }
        Rest {
            wake,
            unwanted,
            given_up: None,
        }
    }
}
