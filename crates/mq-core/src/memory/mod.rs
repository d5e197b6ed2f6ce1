//! The in-memory store: the reference for what every store does.
//!
//! All of it is one [`State`] under one lock, which no operation holds while
//! it waits, draws ids or asks the clock. There is a file for each room, under
//! its trait's name; every terminal transition goes through `terminal`.

mod admin;
mod arena;
mod claim;
mod dedupe;
mod enqueue;
mod flow;
mod history;
mod inspect;
mod job;
mod limits;
mod listing;
mod merge;
mod run;
mod schedule;
mod stall;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod tokens;
mod wake;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use self::state::State;
use crate::id::{IdGenerator, uuid_v7};
use crate::record::HistoryCeiling;
use crate::time::{TimeSource, Timestamp};
use crate::validate::{Limits, MAX_BATCH};

/// A store that lives in this process's memory and ends with it.
///
/// It keeps every promise that the other stores keep, but for surviving the
/// process. It is fit for tests, for work that may be lost, and
/// as the reference that other stores are compared with. Clones are handles on
/// the same data.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> mq_core::Result<()> {
/// use mq_core::{EnqueueOps, InspectOps, JobSpec, JobState, MemoryStore, NewJob, RawJson};
///
/// let store = MemoryStore::new();
/// let job = NewJob::new(JobSpec::new("greet", "default", RawJson::null()));
/// let enqueued = store.enqueue(job).await?;
/// let record = store.get_job(&enqueued.id).await?.expect("it was just enqueued");
/// assert_eq!(record.state, JobState::Waiting);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    time: TimeSource,
    limits: Limits,
    draw_id: IdGenerator,
}

impl MemoryStore {
    /// An empty store on the machine's clock, with the default limits.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// An empty store with other options than the defaults.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder {
            time: TimeSource::Server,
            limits: Limits::default(),
            ceiling: None,
            draw_id: uuid_v7(),
        }
    }

    fn read_clock(&self) -> Timestamp {
        match &self.shared.time {
            TimeSource::Server => Timestamp::of_this_machine(),
            TimeSource::Clock(clock) => clock.now(),
        }
    }

    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Does one atomic step, then tells those who wait for what it did.
    fn step<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        // What is gone is dropped last, when the lock is free again.
        let (answer, to_tell, _gone) = {
            let mut state = self.shared.state.lock();
            let answer = step(&mut state);
            state.flush_wakes();
            let gone = std::mem::take(&mut state.gone_flows);
            (answer, state.wakes.take_to_tell(), gone)
        };
        for waiter in to_tell {
            waiter.notify_one();
        }
        answer
    }

    /// Handles a batch in pages, each an atomic step at its own time, and
    /// collects the answers.
    fn in_pages<T, A>(
        &self,
        batch: impl IntoIterator<Item = T>,
        mut page: impl FnMut(&mut State, &mut dyn Iterator<Item = T>, Timestamp) -> Vec<A>,
    ) -> Vec<A> {
        let mut batch = batch.into_iter().peekable();
        let mut answers = Vec::with_capacity(batch.size_hint().0);
        while batch.peek().is_some() {
            let now = self.read_clock();
            answers.extend(
                self.step(|state| page(state, &mut batch.by_ref().take(MAX_BATCH as usize), now)),
            );
        }
        answers
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("time", &self.shared.time)
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

/// The options of a [`MemoryStore`].
#[must_use]
pub struct MemoryStoreBuilder {
    time: TimeSource,
    limits: Limits,
    ceiling: Option<HistoryCeiling>,
    draw_id: IdGenerator,
}

impl MemoryStoreBuilder {
    /// Where the time comes from: the machine's clock unless this says otherwise.
    pub fn time(mut self, source: impl Into<TimeSource>) -> Self {
        self.time = source.into();
        self
    }

    /// The largest payload, result or progress value, in bytes of JSON; 1 MiB
    /// by default.
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.limits.max_payload = bytes;
        self
    }

    /// How long finished jobs are kept at the most; without end by default.
    pub fn history_ceiling(mut self, ceiling: HistoryCeiling) -> Self {
        self.ceiling = Some(ceiling);
        self
    }

    /// What draws the ids of jobs that are enqueued without one;
    /// [`uuid_v7`](crate::uuid_v7) by default.
    pub fn id_generator(mut self, draw: IdGenerator) -> Self {
        self.draw_id = draw;
        self
    }

    /// The store.
    pub fn build(self) -> MemoryStore {
        MemoryStore {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(self.ceiling)),
                time: self.time,
                limits: self.limits,
                draw_id: self.draw_id,
            }),
        }
    }
}

impl fmt::Debug for MemoryStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStoreBuilder")
            .field("time", &self.time)
            .field("limits", &self.limits)
            .field("ceiling", &self.ceiling)
            .finish_non_exhaustive()
    }
}
