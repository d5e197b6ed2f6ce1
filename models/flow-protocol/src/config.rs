//! What one exploration covers: its size, its faults, and whether the
//! protocol is the sound one or one of the known-bad variants.

/// How many times something may happen, at the most, in one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chance {
    /// A parent's worker dies. (A relay or a sweeper may die at any time.)
    Crash,
    /// The lock of a parent's live worker expires and is recovered.
    LockLoss,
    /// A plain child's worker dies or loses its lock.
    ChildStall,
    /// A store does what it was asked, and its answer is lost.
    LostReply,
    /// A request hangs in the network and arrives late, or never.
    LateRequest,
    /// A store goes down for a while.
    Outage,
    /// A collect run fails.
    CollectFails,
    /// An operator cancels the parent.
    CancelParent,
    /// An operator retries the failed parent.
    RetryParent,
    /// An operator removes the parent.
    RemoveParent,
    /// The parent is enqueued again under its old id.
    EnqueueParentAgain,
    /// An operator cancels a child.
    CancelChild,
    /// An operator retries a failed child.
    RetryChild,
    /// An operator removes a child.
    RemoveChild,
}

const CHANCES: usize = Chance::RemoveChild as usize + 1;

const CHANCE_NAMES: [(Chance, &str); CHANCES] = [
    (Chance::Crash, "a parent's worker dies"),
    (Chance::LockLoss, "it loses its lock"),
    (Chance::ChildStall, "a child stalls"),
    (Chance::LostReply, "a lost reply"),
    (Chance::LateRequest, "a late request"),
    (Chance::Outage, "a store goes down"),
    (Chance::CollectFails, "collect fails"),
    (Chance::CancelParent, "parent cancelled"),
    (Chance::RetryParent, "parent retried"),
    (Chance::RemoveParent, "parent removed"),
    (Chance::EnqueueParentAgain, "parent enqueued again"),
    (Chance::CancelChild, "a child cancelled"),
    (Chance::RetryChild, "a child retried"),
    (Chance::RemoveChild, "a child removed"),
];

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget([u8; CHANCES]);

impl Budget {
    /// Whether it may still happen.
    pub fn has(self, chance: Chance) -> bool {
        self.0[chance as usize] > 0
    }

    /// Takes one away, if there is one.
    pub fn spend(&mut self, chance: Chance) -> Option<()> {
        let left = &mut self.0[chance as usize];
        *left = left.checked_sub(1)?;
        Some(())
    }

    /// The same with so many chances of this kind.
    #[must_use]
    pub fn with(mut self, chance: Chance, times: u8) -> Self {
        self.0[chance as usize] = times;
        self
    }
}

/// How the children's runs may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildRuns {
    /// Well.
    EndWell,
    /// Well or badly.
    EndEitherWay,
}

/// What becomes of records of ended jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// They stay.
    Keep,
    /// Children's records go at some time after their end, at once or later.
    PruneChildren,
    /// The parent's record goes too.
    PruneAll,
}

/// What is assumed of the time between a decision to enqueue a child and the
/// moment its job lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// If the flow closes in between, it lands within a flow interval of that,
    /// or not at all.
    WithinInterval,
    /// It may land at any time, but then its sender lives to look again.
    SenderLooksAgain,
    /// Neither.
    Unbounded,
}

/// The protocol, or a way to break it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// The protocol as it is.
    Sound,
    /// A child's worker reports to the parent's store before it acks, instead
    /// of leaving the report to the outbox.
    ReportBeforeAck,
    /// A sweeper enqueues a missing child without asking whether it is still
    /// pending.
    SweepWithoutParentCheck,
    /// A cancel that finds no child is marked cascaded at once.
    MissingMarkedAtOnce,
    /// A sweeper asks the parent's store before it reads the outbox.
    ParentBeforeOutbox,
    /// Child ids, rows and reports carry no manifest.
    NoManifestMark,
    /// A report applies to its row whatever the row's status.
    NoRowGuard,
    /// A cancel that finds the child ended is marked cascaded at once.
    EndedMarkedAtOnce,
    /// After its fan-out ack a worker asks only whether the parent is parked
    /// under its manifest.
    WorkerChecksFlowOnly,
    /// After its fan-out ack a worker does not read the outbox.
    WorkerSkipsOutbox,
    /// After its fan-out ack a worker enqueues without reading the parent.
    WorkerChecksNothing,
    /// Who enqueued a child does not look again.
    NoLookAgain,
    /// Staged rows are purged without regard to a live lock's mark.
    PurgeWithoutLockCheck,
    /// A relay deletes a report before it is recorded.
    DeleteBeforeRecord,
    /// Retention prunes a parent while it owes cancels.
    PruneWhileOwing,
    /// The protocol as it is, with the exception to "a finished child is not
    /// run again" taken for a fault: this shows the exception.
    ExceptionForbidden,
    /// The protocol as it is, with a child that an unbounded enqueue leaves
    /// running taken for a fault: this shows what the bound is good for.
    StrayForbidden,
}

/// One exploration.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its name in tests and docs.
    pub name: &'static str,
    /// How many children the outermost parent has.
    pub children: u8,
    /// In how many pages its manifest is staged.
    pub pages: u8,
    /// Whether its first child is a flow itself, with one child.
    pub nested: bool,
    /// Whether the first failed child fails its parent.
    pub fail_fast: bool,
    /// How the children's runs may end.
    pub child_runs: ChildRuns,
    /// What becomes of records of ended jobs.
    pub retention: Retention,
    /// How many workers may hold or have held runs of parents at once.
    pub workers: u8,
    /// How many relays run.
    pub relays: u8,
    /// How many sweepers run.
    pub sweepers: u8,
    /// How many stalls a job survives.
    pub max_stalled_count: u8,
    /// What is assumed of enqueues under way.
    pub timing: Timing,
    /// What may happen.
    pub budget: Budget,
    /// The protocol, or a way to break it.
    pub variant: Variant,
}

impl Config {
    /// One child, one of each process, nothing that goes wrong.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            children: 1,
            pages: 1,
            nested: false,
            fail_fast: false,
            child_runs: ChildRuns::EndWell,
            retention: Retention::Keep,
            workers: 2,
            relays: 1,
            sweepers: 1,
            max_stalled_count: 3,
            timing: Timing::WithinInterval,
            budget: Budget::default(),
            variant: Variant::Sound,
        }
    }

    /// The same, and this may happen so many times.
    #[must_use]
    pub fn may(mut self, chance: Chance, times: u8) -> Self {
        self.budget = self.budget.with(chance, times);
        self
    }

    /// What it covers, in words.
    pub fn covers(&self) -> String {
        let mut covers = vec![match (self.children, self.pages) {
            (1, _) => "one child".to_owned(),
            (children, 1) => format!("{children} children"),
            (children, pages) => format!("{children} children in {pages} pages"),
        }];
        let mut add = |is_so: bool, what: &str| {
            if is_so {
                covers.push(what.to_owned());
            }
        };
        add(self.nested, "a flow itself, with one child");
        add(self.fail_fast, "fail-fast");
        add(
            self.child_runs == ChildRuns::EndEitherWay,
            "children complete or fail",
        );
        add(
            self.retention == Retention::PruneChildren,
            "children pruned at some time",
        );
        add(
            self.retention == Retention::PruneAll,
            "all pruned at some time",
        );
        add(self.workers == 1, "one worker at a time");
        add(self.relays > 1, "2 relays");
        add(self.sweepers > 1, "2 sweepers");
        add(self.max_stalled_count == 0, "the first stall fails a job");
        add(
            self.timing == Timing::SenderLooksAgain,
            "enqueues land at any time, senders live",
        );
        add(
            self.timing == Timing::Unbounded,
            "enqueues land at any time, senders may die",
        );
        for (chance, what) in CHANCE_NAMES {
            match self.budget.0[chance as usize] {
                0 => {}
                1 => covers.push(what.to_owned()),
                times => covers.push(format!("{times} × {what}")),
            }
        }
        covers.join("; ")
    }

    /// The same with another protocol.
    #[must_use]
    pub fn broken(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }
}
