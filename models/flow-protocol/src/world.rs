//! A state of the whole: both stores, all processes, the network.

use crate::config::{Budget, Config, Timing, Variant};
use crate::id::{Child, JobId, Key, Keys, Store, Token};
use crate::record::{Ends, Entry, Flow, Job, JobState, Life, Outcome, Report, Row, Status};
use crate::relay::Relay;
use crate::request::{Manifest, Request};
use crate::sweeper::Sweep;
use crate::worker::Worker;

/// What must not happen in a step, and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// A finished child was run again.
    FinishedChildRuns(Child),
    /// A result was recorded that its child never ended with.
    WrongResult(Child),
}

/// A state of the whole. Lists are sorted, so that states that differ only in
/// the order of like things are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The jobs of both stores, by id.
    pub jobs: Vec<(JobId, Job)>,
    /// The children's rows of both stores, by child.
    pub rows: Vec<Row>,
    /// The outbox of each store, oldest first.
    pub outbox: [Vec<Entry>; 2],
    /// How many entries each outbox has issued.
    pub issued: [u8; 2],
    /// The last token a claim was made with.
    pub last_token: Token,
    /// The workers of parents that hold, or believe they hold, a run.
    pub workers: Vec<Worker>,
    /// The relays that hold a page.
    pub relays: Vec<Relay>,
    /// The sweepers that hold a row.
    pub sweepers: Vec<Sweep>,
    /// Requests that hang in the network.
    pub late: Vec<Request>,
    /// The store that is down.
    pub down: Option<Store>,
    /// What may still happen.
    pub budget: Budget,
    /// How children have ended; for the checks alone.
    pub ends: Vec<Ends>,
    /// What must not happen, and did.
    pub violation: Option<Violation>,
}

impl World {
    /// The parent waits in its store; nothing else is there.
    pub fn new(config: &Config) -> Self {
        Self {
            jobs: vec![(JobId::PARENT, Job::waiting(Token::default(), Life::First))],
            rows: Vec::new(),
            outbox: [Vec::new(), Vec::new()],
            issued: [0; 2],
            last_token: Token::default(),
            workers: Vec::new(),
            relays: Vec::new(),
            sweepers: Vec::new(),
            late: Vec::new(),
            down: None,
            budget: config.budget,
            ends: Vec::new(),
            violation: None,
        }
    }

    /// Puts like things in order.
    pub fn sort(&mut self) {
        self.rows.sort_unstable();
        self.workers.sort_unstable();
        self.relays.sort_unstable();
        self.sweepers.sort_unstable();
        self.late.sort_unstable();
        self.ends.sort_unstable();
    }

    /// A job.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        let at = self.jobs.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.jobs[at].1)
    }

    /// A job, to be changed.
    pub fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        let at = self.jobs.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&mut self.jobs[at].1)
    }

    /// Inserts a job whose id is free.
    pub fn insert(&mut self, id: JobId, job: Job) {
        let at = self.jobs.partition_point(|(other, _)| *other < id);
        self.jobs.insert(at, (id, job));
    }

    /// Deletes a job's record; the rows of its flow are invisible from now on.
    pub fn delete(&mut self, id: JobId) {
        self.jobs.retain(|(other, _)| *other != id);
    }

    /// The flow a child belongs to, if that manifest is the parent's.
    pub fn flow_of(&self, child: Child) -> Option<&Flow> {
        let flow = self.job(child.flow)?.flow.as_ref()?;
        (flow.manifest == child.mark).then_some(flow)
    }

    /// A child's row, if it is visible: if its manifest is the parent's.
    pub fn row(&self, child: Child) -> Option<&Row> {
        self.flow_of(child)?;
        self.rows.iter().find(|row| row.child == child)
    }

    /// A visible row, to be changed.
    pub fn row_mut(&mut self, child: Child) -> Option<&mut Row> {
        self.flow_of(child)?;
        self.rows.iter_mut().find(|row| row.child == child)
    }

    /// Whether a child is pending under a parked parent.
    pub fn is_pending(&self, child: Child) -> bool {
        self.job(child.flow)
            .is_some_and(|job| job.state == JobState::Parked)
            && self.flow_of(child).is_some_and(|flow| !flow.closed)
            && self
                .row(child)
                .is_some_and(|row| row.status == Status::Pending)
    }

    /// Whether a child's cancel is owed.
    pub fn is_owed(&self, child: Child) -> bool {
        self.flow_of(child).is_some_and(|flow| flow.closed)
            && self
                .row(child)
                .is_some_and(|row| row.status == Status::Pending && !row.cascaded)
    }

    /// Ends a job: clears its lock and its cancel flag, and leaves a report.
    pub fn end(&mut self, id: JobId, outcome: Outcome, config: &Config) {
        let Some(job) = self.job_mut(id) else {
            return;
        };
        job.state = JobState::Ended(outcome);
        job.cancel_requested = false;
        let origin = job.origin;
        let Some(child) = id.as_child() else {
            return;
        };
        self.note_end(child, origin, outcome);
        if config.variant != Variant::ReportBeforeAck {
            let store = id.store() as usize;
            self.issued[store] += 1;
            let report = Report {
                child,
                origin,
                outcome,
            };
            self.outbox[store].push(Entry {
                id: self.issued[store],
                report,
            });
        }
    }

    /// Closes a parked or racing parent's flow and ends it.
    pub fn close(&mut self, id: JobId, outcome: Outcome, config: &Config) {
        if let Some(flow) = self.job_mut(id).and_then(|job| job.flow.as_mut()) {
            flow.close();
        }
        self.end(id, outcome, config);
    }

    /// Remembers that a child has ended.
    pub fn note_end(&mut self, child: Child, origin: Token, outcome: Outcome) {
        let known = |ends: &&mut Ends| ends.child == child && ends.origin == origin;
        match self.ends.iter_mut().find(known) {
            Some(ends) => ends.add(outcome),
            None => {
                let mut ends = Ends::new(child, origin);
                ends.add(outcome);
                self.ends.push(ends);
            }
        }
    }

    /// How a child has ended so far.
    pub fn ends(&self, child: Child, origin: Token) -> Option<&Ends> {
        self.ends
            .iter()
            .find(|ends| ends.child == child && ends.origin == origin)
    }

    /// Which children of a manifest have ended so far.
    pub fn ended_keys(&self, manifest: Manifest, keys: Keys) -> Keys {
        keys.iter()
            .filter(|key| self.ends(manifest.child(*key), manifest.origin).is_some())
            .collect()
    }

    /// Whether somebody's enqueue of this child may still land, as far as
    /// time is taken to bound that.
    pub fn has_enqueue_under_way(&self, child: Child, config: &Config) -> bool {
        let hangs = || {
            self.late
                .iter()
                .any(|request| request.enqueues() == Some(child))
        };
        let is_decided = || {
            self.workers
                .iter()
                .any(|worker| worker.will_enqueue(child, config))
                || self.sweepers.iter().any(|sweep| sweep.will_enqueue(child))
        };
        match config.timing {
            Timing::WithinInterval => hangs() || is_decided(),
            Timing::SenderLooksAgain => hangs(),
            Timing::Unbounded => false,
        }
    }
}

impl Config {
    /// The mark that a fan-out under this token puts on its manifest.
    pub fn mark(&self, token: Token) -> Token {
        match self.variant {
            Variant::NoManifestMark => Token::default(),
            _ => token,
        }
    }

    /// The children that a job fans out into; none if it is a plain job.
    pub fn children_of(&self, id: JobId) -> Keys {
        match id.as_child() {
            None => Keys::range(0, self.children),
            Some(child) if self.nested && child.flow == JobId::PARENT && child.key == Key(0) => {
                Keys::range(0, 1)
            }
            Some(_) => Keys::NONE,
        }
    }

    /// Whether a job is a flow's parent.
    pub fn is_parent(&self, id: JobId) -> bool {
        !self.children_of(id).is_empty()
    }

    /// The number of pages of a job's manifest.
    pub fn pages_of(&self, id: JobId) -> u8 {
        if id == JobId::PARENT { self.pages } else { 1 }
    }

    /// The children on one page of a job's manifest.
    pub fn page(&self, id: JobId, page: u8) -> Keys {
        let all = self.children_of(id);
        let pages = self.pages_of(id);
        all.iter().filter(|key| key.0 % pages == page).collect()
    }
}
