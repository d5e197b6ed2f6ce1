//! The model: a store written from the contract alone, with plain lists that are searched
//! and sorted each time: slow, and too simple to be wrong in the same places.

mod admin;
mod answer;
mod enqueue;
mod flow;
mod look;
mod run;
mod schedule;

use std::time::Duration;

use mq_core::{
    AttemptOutcome, AttemptRecord, HistoryCeiling, JobId, JobRecord, JobState, LockToken,
    OutboxEntry, QueueName, Rate, RawJson, Retention, ScheduleRecord, Timestamp,
};

pub(in crate::model) const MINUTE: Duration = Duration::from_secs(60);

pub(in crate::model) struct Naive {
    pub(in crate::model) now: Timestamp,
    pub(in crate::model) ceiling: Option<HistoryCeiling>,
    jobs: Vec<Job>,
    keys: Vec<Key>,
    queues: Vec<Queue>,
    calls: Vec<Call>,
    schedules: Vec<ScheduleRecord>,
    outbox: Vec<OutboxEntry>,
    /// Versions of schedules given so far.
    versions: u64,
    /// Arrival numbers given so far.
    arrivals: u64,
    /// The queues that had to be woken, one after the other.
    pub(in crate::model) wakes: Vec<QueueName>,
    /// The queues of which anything changed: others must not be woken.
    pub(in crate::model) stirs: Vec<QueueName>,
    /// The watched jobs that ended or were deleted, one after the other.
    pub(in crate::model) ends: Vec<JobId>,
}

struct Job {
    record: JobRecord,
    ledger: Vec<AttemptRecord>,
    /// Its first arrival number, which tells it from others of its id.
    birth: u64,
    arrival: u64,
    lock: Option<(LockToken, Timestamp)>,
    last_acked: Option<LockToken>,
    watched: bool,
    /// Its children, by key.
    rows: Vec<flow::Row>,
    /// Whether its keep has to act again once it is spared no more.
    keep_is_due: bool,
}

/// A dedupe entry.
struct Key {
    name: String,
    key: String,
    id: JobId,
    birth: u64,
    window: Option<Timestamp>,
}

struct Queue {
    name: QueueName,
    paused: bool,
    max_active: Option<u32>,
    rate: Option<Rate>,
    /// In microseconds, as in the contract.
    tat: u128,
}

/// A claim call.
struct Call {
    token: LockToken,
    births: Vec<u64>,
    at: Timestamp,
}

impl Naive {
    pub(in crate::model) fn new(now: Timestamp, ceiling: Option<HistoryCeiling>) -> Self {
        Self {
            now,
            ceiling,
            jobs: Vec::new(),
            keys: Vec::new(),
            queues: Vec::new(),
            calls: Vec::new(),
            schedules: Vec::new(),
            outbox: Vec::new(),
            versions: 0,
            arrivals: 0,
            wakes: Vec::new(),
            stirs: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn find(&self, id: &JobId) -> Option<usize> {
        self.jobs.iter().position(|job| job.record.id == *id)
    }

    fn born(&self, birth: u64) -> Option<usize> {
        self.jobs.iter().position(|job| job.birth == birth)
    }

    fn queue(&mut self, name: &QueueName) -> &mut Queue {
        if let Some(place) = self.queues.iter().position(|queue| queue.name == *name) {
            return &mut self.queues[place];
        }
        self.queues.push(Queue {
            name: name.clone(),
            paused: false,
            max_active: None,
            rate: None,
            tat: 0,
        });
        self.queues.last_mut().expect("it was just pushed")
    }

    fn wake(&mut self, queue: &QueueName) {
        self.wakes.push(queue.clone());
        self.stirs.push(queue.clone());
    }

    /// Ends a job, by whatever path.
    fn finish(&mut self, place: usize, end: End) {
        let arrival = self.arrive();
        let now = self.now;
        let job = &mut self.jobs[place];
        job.note(end.outcome, end.ledger_exit, now);
        let was_active = job.lock.take().is_some();
        job.arrival = arrival;
        job.keep_is_due = job.watched || job.owes();
        job.record.state = end.state;
        job.record.cancel_requested = false;
        job.record.finished_at = Some(now);
        job.record.exit = end.exit;
        if end.reason.is_some() {
            job.record.failed_reason.clone_from(&end.reason);
        }
        let spec = job.record.spec.clone();
        if job.watched {
            self.ends.push(job.record.id.clone());
        }
        self.stirs.push(spec.queue.clone());
        if was_active && self.queue(&spec.queue).max_active.is_some() {
            self.wake(&spec.queue);
        }
        self.report_end(place, end.reason);
        if let Some(retention) = spec.keep.and_then(|keep| keep.of(end.state)) {
            self.apply_keep(&spec.name, end.state, retention);
        }
    }

    fn apply_keep(&mut self, name: &str, state: JobState, retention: Retention) {
        loop {
            let mut group: Vec<usize> = (0..self.jobs.len())
                .filter(|place| {
                    let record = &self.jobs[*place].record;
                    record.spec.name == *name && record.state == state
                })
                .collect();
            group.sort_by_key(|place| {
                let job = &self.jobs[*place];
                (job.record.finished_at, job.arrival)
            });
            let goes = |(rank, place): (usize, &usize)| {
                let job = &self.jobs[*place];
                let newer = group.len() - 1 - rank;
                let beyond = retention.count.is_some_and(|count| newer >= count as usize);
                let old = retention
                    .age
                    .is_some_and(|age| job.is_older_than(age, self.now));
                (!job.is_spared(self.now) && (beyond || old)).then_some(*place)
            };
            match group.iter().enumerate().find_map(goes) {
                Some(place) => self.delete(place),
                None => return,
            }
        }
    }

    fn delete(&mut self, place: usize) {
        let job = self.jobs.remove(place);
        if job.watched {
            self.ends.push(job.record.id);
        }
        self.stirs.push(job.record.spec.queue);
    }
}

/// How a job ends.
struct End {
    state: JobState,
    outcome: AttemptOutcome,
    exit: Option<RawJson>,
    ledger_exit: Option<RawJson>,
    reason: Option<String>,
}

impl End {
    fn completed(exit: Option<RawJson>) -> Self {
        Self {
            ledger_exit: exit.clone(),
            exit,
            ..Self::bare(JobState::Completed, AttemptOutcome::Completed)
        }
    }

    fn failed(exit: Option<RawJson>) -> Self {
        Self {
            ledger_exit: exit.clone(),
            exit,
            ..Self::bare(JobState::Failed, AttemptOutcome::Failed)
        }
    }

    fn cancelled() -> Self {
        Self::bare(JobState::Cancelled, AttemptOutcome::Cancelled)
    }

    fn bare(state: JobState, outcome: AttemptOutcome) -> Self {
        Self {
            state,
            outcome,
            exit: None,
            ledger_exit: None,
            reason: None,
        }
    }
}

impl Job {
    fn state(&self) -> JobState {
        self.record.state
    }

    fn holds(&self, token: &LockToken) -> bool {
        self.lock.as_ref().is_some_and(|(held, _)| held == token)
    }

    /// Appends to the ledger.
    fn note(&mut self, outcome: AttemptOutcome, exit: Option<RawJson>, now: Timestamp) {
        self.record.attempts_recorded += 1;
        self.ledger.push(AttemptRecord {
            attempt: self.record.attempts_recorded,
            started_at: self.record.processed_at.filter(|_| self.lock.is_some()),
            finished_at: now,
            outcome,
            exit,
        });
    }

    fn is_older_than(&self, age: Duration, now: Timestamp) -> bool {
        let finished = self.record.finished_at;
        finished.is_some_and(|at| at.saturating_add(age) <= now)
    }

    /// Whether automatic retention leaves it alone for now.
    fn is_spared(&self, now: Timestamp) -> bool {
        self.owes() || (self.watched && !self.is_older_than(MINUTE, now))
    }

    /// Lets it wait or be delayed until `run_at`.
    fn put_at(&mut self, run_at: Timestamp, now: Timestamp) {
        self.record.run_at = run_at;
        self.record.state = if run_at > now {
            JobState::Delayed
        } else {
            JobState::Waiting
        };
    }
}

/// A duration in whole milliseconds, rounded up.
fn whole(duration: Duration) -> Duration {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).expect("it is in range"))
}
