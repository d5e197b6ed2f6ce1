//! What the tasks of one worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mq_core::{QueueName, WorkerId};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::acknowledge::{self, Pending, Say};
use crate::extension::AfterAck;
use crate::failure::Failures;
use crate::held::Held;
use crate::link::Link;
use crate::options::{OnLockLost, Options};
use crate::registry::Registry;
use crate::run::{Run, StopReason};
use crate::stats::Counters;
use crate::verdict::Verdict;

/// What the tasks of one worker share.
pub(crate) struct Shared {
    pub(crate) id: WorkerId,
    pub(crate) host: String,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) options: Options,
    pub(crate) link: Link,
    pub(crate) registry: Registry,
    pub(crate) held: Held,
    pub(crate) counters: Counters,
    pub(crate) failures: Failures,
    pub(crate) after_ack: Vec<AfterAck>,
    /// Where ended runs wait to be acknowledged.
    pub(crate) acks: mpsc::Sender<Pending>,
    /// Makes the heartbeat come at once.
    pub(crate) beat_now: Notify,
    /// The worker takes no more jobs.
    pub(crate) stopping: CancellationToken,
    /// The worker is gone; nothing may go on.
    pub(crate) gone: AtomicBool,
}

impl Shared {
    /// Notes that a run's lock is lost, and does about it what the options say.
    pub(crate) fn lock_lost(&self, run: &Run) {
        if !run.lose() {
            return;
        }
        self.counters.locks_lost.one();
        let job = &run.job;
        warn!(
            job_id = %job.id,
            job_name = %job.spec.name,
            queue = %job.spec.queue,
            "the lock is lost: the job may be running elsewhere"
        );
        if self.options.on_lock_lost == OnLockLost::Cancel {
            run.stop(StopReason::LockLost);
        }
    }

    /// Sees to it that the store learns of the end of a run. Returns once that
    /// is in good hands.
    pub(crate) async fn settle(self: &Arc<Self>, run: Arc<Run>, verdict: Verdict) {
        let say = match verdict {
            Verdict::Abandon => {
                self.held.let_go([&run]);
                return;
            }
            Verdict::Release => Say::Release,
            Verdict::Ack(outcome) => Say::Ack(outcome),
        };
        let pending = Pending::new(run, say);
        if pending.is_fan_out() {
            // May take long, and would hold up the others.
            acknowledge::alone(self, pending).await;
            return;
        }
        // Fails only if the worker is gone; then the lock expires.
        let _ = self.acks.send(pending).await;
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}
