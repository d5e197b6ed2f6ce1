//! A store that fails on purpose.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mq_core::layer::{Operation, StoreLayer};
use mq_core::*;
use parking_lot::Mutex;
use tokio::sync::watch;

/// What goes wrong with one call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing: the call goes through.
    None,
    /// The call is unavailable, and has no effect.
    Before,
    /// The call takes effect, and its answer is lost.
    After,
    /// The call takes effect this much later.
    LateEffect(Duration),
    /// The call takes effect at once, and answers this much later.
    LateAnswer(Duration),
    /// The call has no effect, and never answers.
    Hang,
    /// The call fails with this error, and has no effect.
    Error(StoreError),
    /// The call panics, and has no effect.
    Panic,
}

/// A store around another one, whose calls go wrong as its [`Faults`] say.
///
/// ```
/// use mq_core::layer::Operation;
/// use mq_core::{InspectOps, MemoryStore};
/// use mq_testkit::{Fault, Faults, FaultyStore};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let faults = Faults::none();
/// let store = FaultyStore::new(MemoryStore::new(), &faults);
///
/// faults.script(Operation::Now, [Fault::Before]);
/// assert!(store.now().await.unwrap_err().is_transient());
/// assert!(store.now().await.is_ok());
/// assert_eq!(faults.calls(Operation::Now), 2);
/// # }
/// ```
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    faults: Faults,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps a store; the test keeps `faults` to steer it.
    pub fn new(inner: S, faults: &Faults) -> Self {
        Self {
            inner,
            faults: faults.clone(),
        }
    }
}

/// What goes wrong, and when. Clones steer the same faults.
///
/// For each call, in this order: while the store is [down](Self::go_down) it
/// fails; while the operation is [held](Self::hold) it waits; then the next
/// scripted fault of its operation applies, or chance decides.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    held: watch::Sender<BTreeMap<Operation, HeldCalls>>,
    calls: watch::Sender<BTreeMap<Operation, u64>>,
}

#[derive(Debug)]
struct State {
    down: bool,
    chance: fastrand::Rng,
    fail_before: f64,
    fail_after: f64,
    lose_wakes: f64,
    delay: f64,
    longest_delay: Duration,
    scripts: BTreeMap<Operation, VecDeque<Fault>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct HeldCalls {
    holds: usize,
    waiting: usize,
}

impl Faults {
    /// Nothing goes wrong until the test says so.
    pub fn none() -> Self {
        Self::seeded(0)
    }

    /// As [`none`](Self::none), with this seed for what is left to chance.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                down: false,
                chance: fastrand::Rng::with_seed(seed),
                fail_before: 0.0,
                fail_after: 0.0,
                lose_wakes: 0.0,
                delay: 0.0,
                longest_delay: Duration::ZERO,
                scripts: BTreeMap::new(),
            }),
            held: watch::Sender::new(BTreeMap::new()),
            calls: watch::Sender::new(BTreeMap::new()),
        }))
    }

    /// Lets this share of calls (0 to 1) fail without effect.
    #[must_use]
    pub fn fail_before(self, share: f64) -> Self {
        self.0.state.lock().fail_before = share;
        self
    }

    /// Lets this share of calls (0 to 1) take effect and lose their answer.
    #[must_use]
    pub fn fail_after(self, share: f64) -> Self {
        self.0.state.lock().fail_after = share;
        self
    }

    /// Loses this share (0 to 1) of wake-ups: `await_wake` and
    /// `await_finished` then never return.
    #[must_use]
    pub fn lose_wakes(self, share: f64) -> Self {
        self.0.state.lock().lose_wakes = share;
        self
    }

    /// Delays this share of calls (0 to 1), each by a random time up to
    /// `longest`.
    #[must_use]
    pub fn delay(self, share: f64, longest: Duration) -> Self {
        {
            let mut state = self.0.state.lock();
            state.delay = share;
            state.longest_delay = longest;
        }
        self
    }

    /// Decides the next calls of an operation, one fault each, in turn with
    /// what was scripted before.
    pub fn script(&self, operation: Operation, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.0.state.lock();
        state.scripts.entry(operation).or_default().extend(faults);
    }

    /// Lets every call fail without effect, as if the server were gone.
    pub fn go_down(&self) {
        self.0.state.lock().down = true;
    }

    /// Ends an outage.
    pub fn come_back(&self) {
        self.0.state.lock().down = false;
    }

    /// Stops all calls of an operation before their effect, until the hold is
    /// dropped.
    #[must_use = "the calls go on once the hold is dropped"]
    pub fn hold(&self, operation: Operation) -> Hold {
        self.change_held(operation, |held| held.holds += 1);
        Hold {
            faults: self.clone(),
            operation,
        }
    }

    /// How many calls of an operation were made, whatever became of them.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.0.calls.borrow().get(&operation).copied().unwrap_or(0)
    }

    /// Returns once so many calls of an operation were made.
    pub async fn called(&self, operation: Operation, times: u64) {
        let mut calls = self.0.calls.subscribe();
        let enough = |calls: &BTreeMap<Operation, u64>| {
            calls.get(&operation).is_some_and(|made| *made >= times)
        };
        // The sender lives in `self`, so the channel cannot close.
        let _ = calls.wait_for(enough).await;
    }

    fn change_held(&self, operation: Operation, change: impl FnOnce(&mut HeldCalls)) {
        self.0
            .held
            .send_modify(|held| change(held.entry(operation).or_default()));
    }

    /// What happens before the effect; answers what happens after it.
    async fn before(&self, operation: Operation) -> Result<Fault> {
        self.0
            .calls
            .send_modify(|calls| *calls.entry(operation).or_default() += 1);
        if self.0.state.lock().down {
            return Err(unavailable(operation, "failed: the store is down"));
        }
        self.pass_hold(operation).await;
        let fault = self.0.state.lock().draw(operation);
        match fault {
            Fault::Before => Err(unavailable(operation, "failed before its effect")),
            Fault::Error(error) => Err(error),
            Fault::Panic => panic!("{} panicked (an injected fault)", operation.as_str()),
            Fault::Hang => std::future::pending().await,
            Fault::LateEffect(late) => {
                tokio::time::sleep(late).await;
                Ok(Fault::None)
            }
            fault => Ok(fault),
        }
    }

    async fn pass_hold(&self, operation: Operation) {
        let mut held = self.0.held.subscribe();
        let is_held = |held: &BTreeMap<Operation, HeldCalls>| {
            held.get(&operation).is_some_and(|calls| calls.holds > 0)
        };
        if is_held(&held.borrow()) {
            self.change_held(operation, |calls| calls.waiting += 1);
            let leave = OnDrop(|| self.change_held(operation, |calls| calls.waiting -= 1));
            // The sender lives in `self`, so the channel cannot close.
            let _ = held.wait_for(|held| !is_held(held)).await;
            drop(leave);
        }
    }

    async fn after(&self, operation: Operation, fault: Fault) -> Result<()> {
        if matches!(operation, Operation::AwaitWake | Operation::AwaitFinished)
            && self.0.state.lock().wake_is_lost()
        {
            std::future::pending::<()>().await;
        }
        match fault {
            Fault::After => Err(unavailable(operation, "took effect, its answer was lost")),
            Fault::LateAnswer(late) => {
                tokio::time::sleep(late).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn unavailable(operation: Operation, what: &str) -> StoreError {
    StoreError::unavailable(format!("{} {what} (an injected fault)", operation.as_str()))
}

impl State {
    fn draw(&mut self, operation: Operation) -> Fault {
        if let Some(fault) = self
            .scripts
            .get_mut(&operation)
            .and_then(VecDeque::pop_front)
        {
            return fault;
        }
        let drawn = self.chance.f64();
        if drawn < self.fail_before {
            Fault::Before
        } else if drawn < self.fail_before + self.fail_after {
            Fault::After
        } else if self.delay > 0.0 && self.chance.f64() < self.delay {
            Fault::LateEffect(self.longest_delay.mul_f64(self.chance.f64()))
        } else {
            Fault::None
        }
    }

    fn wake_is_lost(&mut self) -> bool {
        self.lose_wakes > 0.0 && self.chance.f64() < self.lose_wakes
    }
}

/// Holds all calls of an operation back while it lives.
#[derive(Debug)]
pub struct Hold {
    faults: Faults,
    operation: Operation,
}

impl Hold {
    /// Returns once a call is being held back.
    pub async fn reached(&self) {
        let mut held = self.faults.0.held.subscribe();
        let is_reached = |held: &BTreeMap<Operation, HeldCalls>| {
            held.get(&self.operation)
                .is_some_and(|calls| calls.waiting > 0)
        };
        // The sender lives in `self`, so the channel cannot close.
        let _ = held.wait_for(is_reached).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.faults
            .change_held(self.operation, |held| held.holds -= 1);
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

macro_rules! inject {
    ($(
        impl $room:ident {
            $($variant:ident: async fn $operation:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*
        }
    )*) => {
        #[mq_core::async_trait]
        impl<S: Store> StoreLayer for FaultyStore<S> {
            type Inner = S;

            fn inner(&self) -> &S {
                &self.inner
            }

            $($(
                async fn $operation(&self $(, $argument: $type)*) -> $answer {
                    let fault = self.faults.before(Operation::$variant).await?;
                    let answer = self.inner.$operation($($argument),*).await;
                    self.faults.after(Operation::$variant, fault).await?;
                    answer
                }
            )*)*
        }
    };
}

mq_core::__for_each_operation!(inject);
