//! Concurrent single calls, gathered into batches.
//!
//! While one batch is in flight, later calls queue up and form the next; with
//! nothing in flight a call is sent at once, so nobody waits for company. Under
//! load a round trip is so shared by all who came during the one before.
//!
//! No task is spawned and no runtime needed: a batch is polled by whoever waits
//! for an answer, its own callers and those queued behind it.

mod state;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};

use state::{Answer, Batch, Flight, State};

/// Gathers concurrent [`call`](Self::call)s into batches of one function.
///
/// ```
/// use mq_core::coalesce::Coalescer;
/// use futures::executor::block_on;
///
/// let double = Coalescer::new(250, |numbers: Vec<u32>| async move {
///     numbers.into_iter().map(|number| 2 * number).collect()
/// });
/// assert_eq!(block_on(double.call(21)), 42);
/// ```
///
/// A call whose future is dropped is not made if it is still queued. If it is
/// in flight, it goes on as long as anybody waits for this or a later batch;
/// with the last of them the batch is dropped, as a single call would be.
/// Nobody else's call suffers from it, nor from a future that is kept but not
/// polled.
pub struct Coalescer<I, A> {
    shared: Arc<Shared<I, A>>,
}

struct Shared<I, A> {
    run: Box<dyn Fn(Vec<I>) -> Batch<A> + Send + Sync>,
    most: usize,
    state: Mutex<State<I, A>>,
}

impl<I: Send + 'static, A: Send + 'static> Coalescer<I, A> {
    /// Gathers calls into batches of at most `most` items, which `run` answers
    /// in their places.
    pub fn new<F>(most: usize, run: impl Fn(Vec<I>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Vec<A>> + Send + 'static,
    {
        Self {
            shared: Arc::new(Shared {
                run: Box::new(move |items| Box::pin(run(items))),
                most: most.max(1),
                state: Mutex::new(State::new()),
            }),
        }
    }

    /// Sends `item` with the next batch and returns its answer. Items are sent
    /// in the order in which these futures are first polled.
    ///
    /// # Panics
    /// If the function panics over the batch, or does not answer each of its
    /// items: then every call in that batch does, and later ones do not.
    pub async fn call(&self, item: I) -> A {
        let waiter = Waiter {
            shared: &self.shared,
            item: Some(item),
            key: None,
        };
        match waiter.await {
            Answer::Value(value) => value,
            Answer::Panicked(message) => resume_unwind(Box::new(message.to_string())),
        }
    }
}

impl<I, A> Clone for Coalescer<I, A> {
    /// Another handle on the same batches.
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<I, A> fmt::Debug for Coalescer<I, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalescer")
            .field("most", &self.shared.most)
            .finish_non_exhaustive()
    }
}

/// The future of one call.
struct Waiter<'a, I, A> {
    shared: &'a Arc<Shared<I, A>>,
    item: Option<I>,
    key: Option<usize>,
}

// Nothing in it is ever pinned.
impl<I, A> Unpin for Waiter<'_, I, A> {}

impl<I: Send + 'static, A: Send + 'static> Future for Waiter<'_, I, A> {
    type Output = Answer<A>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer<A>> {
        let this = self.get_mut();
        let key = match this.key {
            Some(key) => key,
            None => *this
                .key
                .insert(this.shared.state.lock().join(this.item.take())),
        };
        let answer = this.shared.poll_call(key, cx);
        if answer.is_ready() {
            this.key = None;
        }
        answer
    }
}

impl<I, A> Drop for Waiter<'_, I, A> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut state = self.shared.state.lock();
        let abandoned = state.abandon(key);
        let batch = state.give_up_unless_awaited();
        drop(state);
        drop((abandoned, batch));
    }
}

impl<I: Send + 'static, A: Send + 'static> Shared<I, A> {
    /// Polls for the answer of one call, and, where that is due, the batch.
    fn poll_call(self: &Arc<Self>, key: usize, cx: &Context<'_>) -> Poll<Answer<A>> {
        let mut state = self.state.lock();
        let mut yielded = false;
        loop {
            if let Some(answer) = state.take_answer(key) {
                self.leave(state);
                return Poll::Ready(answer);
            }
            if yielded || !state.is_due() {
                let replaced = state.set_waker(key, cx.waker());
                drop(state);
                drop(replaced);
                if yielded {
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            state = self.advance(state);
            // A batch that asks for another poll from within one wants the
            // task to yield first.
            yielded = state.is_resting() && state.woken;
        }
    }

    /// Lets the others go on without this call. Whoever leaves starts the next
    /// batch: this task runs, which those of the queued calls need not.
    fn leave<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State<I, A>>) {
        if state.is_idle() && state.is_due() {
            state = self.advance(state);
        }
        let wakers = if state.is_due() {
            state.take_wakers()
        } else {
            Vec::new()
        };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Polls the batch in flight, or forms the next and polls that.
    fn advance<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State<I, A>>,
    ) -> MutexGuard<'a, State<I, A>> {
        state.woken = false;
        let next = match std::mem::replace(&mut state.flight, Flight::Polled) {
            Flight::Resting(batch) => Next::GoOn(batch),
            Flight::None | Flight::Polled => Next::Begin(state.board(self.most)),
        };
        drop(state);

        let waker = Waker::from(Arc::clone(self));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut batch = match next {
                Next::GoOn(batch) => batch,
                Next::Begin(items) => (self.run)(items),
            };
            match batch.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answers) => Polled::Landed(answers),
                Poll::Pending => Polled::Resting(batch),
            }
        }))
        .unwrap_or_else(|panic| Polled::Crashed(message_of(&*panic)));

        let mut state = self.state.lock();
        let rest = match polled {
            Polled::Landed(answers) => state.land(answers),
            Polled::Resting(batch) => state.rest(batch),
            Polled::Crashed(message) => state.crash(&message),
        };
        if rest.is_empty() {
            return state;
        }
        drop(state);
        rest.settle();
        self.state.lock()
    }
}

enum Next<I, A> {
    GoOn(Batch<A>),
    Begin(Vec<I>),
}

enum Polled<A> {
    Landed(Vec<A>),
    Resting(Batch<A>),
    Crashed(String),
}

impl<I: Send + 'static, A: Send + 'static> Wake for Shared<I, A> {
    /// Wakes all who wait: any of them may be held by a task that does not
    /// poll it for now.
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock();
        let wakers = match state.flight {
            Flight::Resting(_) if !state.woken => state.take_wakers(),
            _ => Vec::new(),
        };
        state.woken = true;
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the batch function panicked".to_owned())
}
