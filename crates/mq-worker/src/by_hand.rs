//! A worker that tests drive by hand: it does what is due, and moves its
//! store's clock to what is due next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use mq_core::validate::MAX_BATCH;
use mq_core::{Clock, ManualClock, QueueName, StoreError, StoreName, Timestamp, WakeCursor};

use crate::builder::Parts;
use crate::extension::MaintenanceTask;
use crate::fetch::Fetcher;
use crate::maintenance::{Patience, own_tasks};
use crate::worker::Worker;

/// After so many looks in a row that found nothing, there is nothing: what
/// one maintenance task leaves to another is done by the second.
const FRUITLESS_LOOKS: u32 = 2;

/// What drives a worker by hand. Made by
/// [`start_by_hand`](crate::WorkerBuilder::start_by_hand).
pub struct ByHand {
    clock: ManualClock,
    fetchers: Vec<Fetcher>,
    own: Vec<Arc<dyn MaintenanceTask>>,
    added: Vec<Arc<dyn MaintenanceTask>>,
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHand")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// What a worker that was driven by hand has done, and what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Idle {
    /// How many runs it has begun, all of which have ended.
    pub runs: u64,
    /// When the next job of the worker's queues is due: one that was put off or
    /// is to be tried again. Of a job that another worker has locked it is when
    /// to look whether that one died: a `stalled_interval` from now.
    pub next_job: Option<Timestamp>,
    /// When the next slot of a schedule is due.
    pub next_slot: Option<Timestamp>,
}

/// What one look around found.
struct Look {
    started: u64,
    /// Where to wait from for more, if a queue was asked.
    wake: Option<WakeCursor>,
    next_run_at: Option<Timestamp>,
    /// The first instant after which a task asks to be called again.
    next_round: Timestamp,
}

/// Whether the clock stops for slots and rounds, or only for jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stops {
    Everything,
    Jobs,
}

impl<S: StoreName> Worker<S, ByHand> {
    pub(crate) fn drive(mut parts: Parts, clock: ManualClock) -> Self {
        let added = std::mem::take(&mut parts.maintenance);
        let mut worker = Worker::still(
            parts,
            ByHand {
                clock,
                fetchers: Vec::new(),
                own: Vec::new(),
                added,
            },
        );
        let shared = &worker.shared;
        let fetcher = |queue: &QueueName| Fetcher::new(Arc::clone(shared), queue.clone());
        worker.mode.fetchers = shared.queues.iter().map(fetcher).collect();
        worker.mode.own = own_tasks(shared, Patience::None).into();
        worker
    }

    /// Does everything that is due by the store's clock, which stands still:
    /// runs jobs, also those that they enqueue, decides slots, takes back jobs
    /// whose worker died, deletes old history, and does a round of each
    /// maintenance task, so that reports of flows arrive. Returns once nothing
    /// is left, every run has been acknowledged and `on_failure` has ended.
    ///
    /// Handlers run as they do in any worker, as many at once; what they wait
    /// for by tokio's time, and their time-outs, are not the store's. A job that
    /// enqueues itself at once, for ever, keeps this from returning.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mq_core::{Job, ManualClock, MemoryStore, StoreHandle};
    /// use mq_worker::Worker;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Job)]
    /// #[job(name = "remind")]
    /// struct Remind;
    ///
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::default();
    /// let store = MemoryStore::builder().time(clock.clone()).build();
    /// let store: StoreHandle = StoreHandle::bind(store).await?;
    /// let mut worker = Worker::builder(store.clone())
    ///     .register(|_: Remind, _| async { Ok(()) })
    ///     .start_by_hand(clock)
    ///     .await?;
    ///
    /// let day = Duration::from_secs(24 * 3600);
    /// store.client().enqueue(Remind).await?;
    /// store.client().enqueue(Remind).delay(day).await?;
    /// assert_eq!(worker.run_until_idle().await?.runs, 1);
    /// assert_eq!(worker.advance(day - Duration::from_millis(1)).await?.runs, 0);
    /// assert_eq!(worker.advance(Duration::from_millis(1)).await?.runs, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the store answered to a maintenance task; call it again to go on.
    pub async fn run_until_idle(&mut self) -> Result<Idle, StoreError> {
        let (runs, look) = self.exhaust().await?;
        self.idle(runs, &look).await
    }

    /// Moves the store's clock by `duration`, and does on the way what is due,
    /// each at its own instant: jobs that were put off or are to be tried
    /// again, and slots of schedules. Jobs whose worker died are looked for each
    /// `stalled_interval`, and, while a flow's parent is parked, lost children
    /// each `flow_interval`.
    ///
    /// # Errors
    /// As [`run_until_idle`](Self::run_until_idle); the clock stands where it
    /// came to.
    pub async fn advance(&mut self, duration: Duration) -> Result<Idle, StoreError> {
        let end = self.mode.clock.now().saturating_add(duration);
        let mut runs = 0;
        loop {
            let (begun, look) = self.exhaust().await?;
            runs += begun;
            if self.mode.clock.now() >= end {
                return self.idle(runs, &look).await;
            }
            let next = self.next(&look, Stops::Everything).await?;
            self.mode.clock.set(next.map_or(end, |next| next.min(end)));
        }
    }

    /// Moves the store's clock from job to job until none is due any more:
    /// delayed ones, retries, and those whose worker died. The slots that fall
    /// due meanwhile are decided, and their jobs run, but none is waited for. A
    /// parent stays parked if its children are on a store that another worker
    /// serves.
    ///
    /// A job that puts itself off for ever keeps this from returning.
    ///
    /// # Errors
    /// As [`run_until_idle`](Self::run_until_idle).
    pub async fn drain(&mut self) -> Result<Idle, StoreError> {
        let mut runs = 0;
        loop {
            let (begun, look) = self.exhaust().await?;
            runs += begun;
            match self.next(&look, Stops::Jobs).await? {
                Some(next) => self.mode.clock.set(next),
                None => return self.idle(runs, &look).await,
            }
        }
    }

    /// Does what is due now; answers how many runs that began.
    async fn exhaust(&mut self) -> Result<(u64, Look), StoreError> {
        let mut runs = 0;
        let mut fruitless = 0;
        loop {
            let held = self.shared.held.count();
            let look = self.look().await?;
            runs += look.started;
            let is_quiet = held == 0 && look.started == 0 && !self.is_full();
            fruitless = if is_quiet { fruitless + 1 } else { 0 };
            if fruitless >= FRUITLESS_LOOKS {
                self.shared.failures.told().await;
                return Ok((runs, look));
            }
            if !is_quiet && look.started == 0 {
                self.something_happens(held, look.wake).await;
            }
        }
    }

    /// Does a round of everything, and claims once from each queue.
    async fn look(&self) -> Result<Look, StoreError> {
        let mut look = Look {
            started: 0,
            wake: None,
            next_run_at: None,
            next_round: Timestamp::MAX,
        };
        for task in &self.mode.own {
            task.round().await?;
        }
        for task in &self.mode.added {
            let wait = task.round().await?;
            let next = self.mode.clock.now().saturating_add(wait);
            look.next_round = look.next_round.min(next);
        }
        for fetcher in &self.mode.fetchers {
            let Some(turn) = fetcher.turn().await else {
                continue;
            };
            look.started += turn.started as u64;
            // The first is the earliest.
            look.wake.get_or_insert(turn.wake);
            look.next_run_at = earlier(look.next_run_at, turn.next_run_at);
        }
        Ok(look)
    }

    fn is_full(&self) -> bool {
        self.mode.fetchers.iter().any(Fetcher::is_full)
    }

    /// Waits for a run to settle, a slot to become free, or work to come.
    async fn something_happens(&self, held: usize, wake: Option<WakeCursor>) {
        let shared = &self.shared;
        let woken = async {
            match wake {
                Some(wake) => {
                    let woken = shared.link.store.await_wake(&shared.queues, wake);
                    // Out of reach: the next look says so.
                    let _ = shared.link.call_at_leisure("await_wake", woken).await;
                }
                None => std::future::pending().await,
            }
        };
        let full = self
            .mode
            .fetchers
            .iter()
            .filter(|fetcher| fetcher.is_full());
        let mut slots: Vec<_> = full.map(|fetcher| Box::pin(fetcher.has_a_slot())).collect();
        let free = async {
            match slots.is_empty() {
                true => std::future::pending().await,
                false => drop(select_all(slots.iter_mut()).await),
            }
        };
        tokio::select! {
            () = shared.held.fewer_than(held) => {}
            () = woken => {}
            () = free => {}
        }
    }

    /// What is left after everything that is due has been done.
    async fn idle(&self, runs: u64, look: &Look) -> Result<Idle, StoreError> {
        Ok(Idle {
            runs,
            next_job: self.next_job(look).await?,
            next_slot: self.next_slot().await?,
        })
    }

    /// The next instant to stop at.
    async fn next(&self, look: &Look, stops: Stops) -> Result<Option<Timestamp>, StoreError> {
        let mut next = self.next_job(look).await?;
        if stops == Stops::Everything {
            next = earlier(next, self.next_slot().await?);
            let counts = self.shared.link.store.counts(None).await?;
            if counts.waiting_children > 0 {
                next = earlier(next, self.to_come(look.next_round));
            }
        }
        Ok(next)
    }

    async fn next_job(&self, look: &Look) -> Result<Option<Timestamp>, StoreError> {
        let shared = &self.shared;
        let mut next = look.next_run_at.and_then(|at| self.to_come(at));
        for queue in &shared.queues {
            // None of them are this worker's own.
            if shared.link.store.counts(Some(queue)).await?.active > 0 {
                let sweep = self.mode.clock.now();
                let sweep = sweep.saturating_add(shared.options.stalled_interval);
                next = earlier(next, self.to_come(sweep));
            }
        }
        Ok(next)
    }

    async fn next_slot(&self) -> Result<Option<Timestamp>, StoreError> {
        let due = self.shared.link.store.due_schedules(MAX_BATCH).await?;
        Ok(due.next_due.and_then(|at| self.to_come(at)))
    }

    /// An instant, if it is still to come.
    fn to_come(&self, at: Timestamp) -> Option<Timestamp> {
        Some(at).filter(|at| *at > self.mode.clock.now())
    }
}

/// The earlier of two instants.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
