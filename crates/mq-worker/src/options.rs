//! The worker's options: defaults, and what is refused at start.

use std::collections::BTreeMap;
use std::time::Duration;

use mq_core::{LONGEST, LockToken, QueueName, WorkerId, validate};

use crate::error::{DurationRule, StartError};

/// What happens to a run whose lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLockLost {
    /// Its handler is signalled, then dropped after the cancel grace: another
    /// worker may be running the job already.
    #[default]
    Cancel,
    /// Its handler goes on to its end, which the store then refuses.
    Finish,
}

/// The shortest interval: stores tell time in milliseconds.
const SHORTEST: Duration = Duration::from_millis(1);

/// How long the store remembers a worker after its last report.
const MEMORY_OF_WORKERS: Duration = Duration::from_secs(60);

/// The options as they were set; `None` is a default that depends on others.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) concurrency: u32,
    pub(crate) concurrency_by_queue: BTreeMap<QueueName, u32>,
    pub(crate) lock_duration: Duration,
    pub(crate) heartbeat_interval: Option<Duration>,
    pub(crate) stalled_interval: Duration,
    pub(crate) max_stalled_count: u32,
    pub(crate) on_lock_lost: OnLockLost,
    pub(crate) cancel_grace: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) schedule_interval: Duration,
    pub(crate) history_interval: Duration,
    pub(crate) report_interval: Duration,
    pub(crate) id: Option<WorkerId>,
    pub(crate) version: String,
    pub(crate) shutdown_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 10,
            concurrency_by_queue: BTreeMap::new(),
            lock_duration: Duration::from_secs(30),
            heartbeat_interval: None,
            stalled_interval: Duration::from_secs(15),
            max_stalled_count: 3,
            on_lock_lost: OnLockLost::default(),
            cancel_grace: Duration::from_secs(5),
            poll_interval: Duration::from_secs(5),
            schedule_interval: Duration::from_secs(5),
            history_interval: Duration::from_secs(60),
            report_interval: Duration::from_secs(10),
            id: None,
            version: String::new(),
            shutdown_grace: Duration::from_secs(20),
        }
    }
}

impl Options {
    /// How often locks are extended: a third of the lock unless set.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.heartbeat_interval
            .unwrap_or((self.lock_duration / 3).max(Duration::from_micros(1)))
    }

    /// How many handlers run at once on this queue.
    pub(crate) fn concurrency_of(&self, queue: &QueueName) -> u32 {
        self.concurrency_by_queue
            .get(queue)
            .copied()
            .unwrap_or(self.concurrency)
    }

    /// Refuses what cannot work; `served` are the queues taken from.
    pub(crate) fn check(&self, served: &[QueueName]) -> Result<(), StartError> {
        for (queue, &handlers) in &self.concurrency_by_queue {
            nonzero(handlers, || format!("concurrency of queue {queue:?}"))?;
            if !served.contains(queue) {
                return Err(StartError::UnservedQueue {
                    queue: queue.clone(),
                });
            }
        }
        nonzero(self.concurrency, || "default_concurrency".to_owned())?;
        for (option, interval) in [
            ("lock_duration", self.lock_duration),
            (
                "heartbeat_interval",
                self.heartbeat_interval.unwrap_or(SHORTEST),
            ),
            ("stalled_interval", self.stalled_interval),
            ("poll_interval", self.poll_interval),
            ("schedule_interval", self.schedule_interval),
            ("history_interval", self.history_interval),
            ("report_interval", self.report_interval),
        ] {
            bounded(option, interval)?;
            if interval < SHORTEST {
                return Err(refused(option, interval, DurationRule::TooShort));
            }
        }
        bounded("cancel_grace", self.cancel_grace)?;
        bounded("shutdown_grace", self.shutdown_grace)?;
        if self.heartbeat_interval() >= self.lock_duration {
            return Err(refused(
                "heartbeat_interval",
                self.heartbeat_interval(),
                DurationRule::NotShorterThanLock {
                    lock_duration: self.lock_duration,
                },
            ));
        }
        if self.report_interval >= MEMORY_OF_WORKERS {
            return Err(refused(
                "report_interval",
                self.report_interval,
                DurationRule::NotShorterThanMemory,
            ));
        }
        served.iter().try_for_each(validate::queue_name)?;
        Ok(())
    }
}

fn nonzero(number: u32, option: impl FnOnce() -> String) -> Result<(), StartError> {
    if number == 0 {
        return Err(StartError::ZeroConcurrency { option: option() });
    }
    Ok(())
}

fn bounded(option: &'static str, value: Duration) -> Result<(), StartError> {
    if value > LONGEST {
        return Err(refused(option, value, DurationRule::TooLong));
    }
    Ok(())
}

fn refused(option: &'static str, value: Duration, rule: DurationRule) -> StartError {
    StartError::Duration {
        option,
        value,
        rule,
    }
}

/// The name of the machine this runs on.
pub(crate) fn host() -> String {
    hostname::get().map_or_else(
        |_| "unknown-host".to_owned(),
        |name| name.to_string_lossy().replace('\0', ""),
    )
}

/// A worker id that no other worker has: host, process, and something drawn.
pub(crate) fn drawn_id(host: &str) -> WorkerId {
    /// Leaves room for the other parts within the limit on ids.
    const MOST_OF_HOST: usize = 48;
    let host: String = host.chars().take(MOST_OF_HOST).collect();
    WorkerId::from(format!(
        "{host}-{}-{}",
        std::process::id(),
        LockToken::random()
    ))
}
