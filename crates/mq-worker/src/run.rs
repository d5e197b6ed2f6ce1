//! A run: one claimed job under its lock, and the signal that stops it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mq_core::{JobRecord, Lock, RawJson};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Why a run is told to stop. A later reason of higher rank replaces an
/// earlier one: a lost lock decides over a cancel, a cancel over a time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum StopReason {
    /// The worker shuts down and its grace is over; the job will run again.
    Shutdown = 1,
    /// The run took longer than its time-out.
    Timeout = 2,
    /// The job was called off.
    Cancel = 3,
    /// The lock is lost: another worker may be running the job already.
    LockLost = 4,
}

impl StopReason {
    fn of(rank: u8) -> Option<Self> {
        match rank {
            1 => Some(Self::Shutdown),
            2 => Some(Self::Timeout),
            3 => Some(Self::Cancel),
            4 => Some(Self::LockLost),
            _ => None,
        }
    }
}

const UNBEGUN: u8 = 0;
const BLOCKING: u8 = 1;
const CALLED_OFF: u8 = 2;

/// One claimed job under its lock.
#[derive(Debug)]
pub(crate) struct Run {
    /// The run's place among those this worker holds.
    pub(crate) number: u64,
    pub(crate) job: JobRecord,
    pub(crate) lock: Lock,
    /// What the handler last reported.
    progress: Mutex<Option<RawJson>>,
    stop: AtomicU8,
    stopped: Notify,
    lost: AtomicBool,
    handled: AtomicBool,
    /// Whether a thread of the blocking pool has begun the handler.
    blocking: AtomicU8,
    task: Mutex<Option<AbortHandle>>,
}

impl Run {
    pub(crate) fn new(number: u64, job: JobRecord, lock: Lock) -> Self {
        Self {
            number,
            progress: Mutex::new(job.progress.clone()),
            job,
            lock,
            stop: AtomicU8::new(0),
            stopped: Notify::new(),
            lost: AtomicBool::new(false),
            handled: AtomicBool::new(false),
            blocking: AtomicU8::new(UNBEGUN),
            task: Mutex::new(None),
        }
    }

    /// Which attempt this is, 1-based.
    pub(crate) fn attempt(&self) -> u32 {
        self.job.attempts_made.saturating_add(1)
    }

    /// Tells the handler to stop.
    pub(crate) fn stop(&self, reason: StopReason) {
        let before = self.stop.fetch_max(reason as u8, Ordering::SeqCst);
        if before == 0 {
            self.stopped.notify_waiters();
        }
    }

    /// Why the handler is to stop, if it is.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        StopReason::of(self.stop.load(Ordering::SeqCst))
    }

    /// Returns once the handler is to stop.
    pub(crate) async fn stopped(&self) -> StopReason {
        loop {
            let mut notified = std::pin::pin!(self.stopped.notified());
            // Listens before it looks, so that no signal falls in between.
            notified.as_mut().enable();
            if let Some(reason) = self.stop_reason() {
                return reason;
            }
            notified.await;
        }
    }

    /// Notes that the lock is lost; false if that was known.
    pub(crate) fn lose(&self) -> bool {
        !self.lost.swap(true, Ordering::SeqCst)
    }

    /// Whether the lock is known to be lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Notes that the handler has ended; false if that was known.
    pub(crate) fn end(&self) -> bool {
        !self.handled.swap(true, Ordering::SeqCst)
    }

    /// Whether the handler has ended, and only the answer to the store is due.
    pub(crate) fn has_ended(&self) -> bool {
        self.handled.load(Ordering::SeqCst)
    }

    /// Notes that the handler begins on the blocking pool; false if it must not,
    /// as it was called off.
    pub(crate) fn begins_to_block(&self) -> bool {
        self.leaves_queue(BLOCKING)
    }

    /// Sees to it that the handler never begins on the blocking pool; false if
    /// it has begun.
    pub(crate) fn call_off(&self) -> bool {
        self.leaves_queue(CALLED_OFF)
    }

    fn leaves_queue(&self, to: u8) -> bool {
        let (order, blocking) = (Ordering::SeqCst, &self.blocking);
        blocking.compare_exchange(UNBEGUN, to, order, order).is_ok()
    }

    /// Whether a handler runs that cannot be stopped.
    pub(crate) fn cannot_be_stopped(&self) -> bool {
        self.blocking.load(Ordering::SeqCst) == BLOCKING && !self.has_ended()
    }

    pub(crate) fn progress(&self) -> Option<RawJson> {
        self.progress.lock().clone()
    }

    pub(crate) fn remember_progress(&self, progress: RawJson) {
        *self.progress.lock() = Some(progress);
    }

    /// Remembers the task that runs the handler, so that it can be dropped.
    pub(crate) fn is_run_by(&self, task: AbortHandle) {
        *self.task.lock() = Some(task);
    }

    /// Drops the handler where it stands; one that blocks, and tasks that the
    /// handler began, can only be told.
    pub(crate) fn abort(&self) {
        self.stop(StopReason::Shutdown);
        self.call_off();
        if let Some(task) = &*self.task.lock() {
            task.abort();
        }
    }
}
