//! An in-memory store with one flaw.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, AckOutcome, Acked, AdminOps, AttemptRecord, Change, Claim, ClaimRequest, DedupeKey,
    EnqueueOps, Enqueued, Extended, InspectOps, JobId, JobRecord, JobState, ListFilter, ListPage,
    Lock, LockToken, MemoryStore, NewJob, NewSchedule, OrderBy, QueueName, QueueSettings, RawJson,
    Recovered, Result, RunOps, ScheduleFilter, ScheduleOps, ScheduleRecord, StateCounts,
    StoreError, StoreKey, Swept, Tick, Timestamp, WakeCursor, WatchCursor, When,
};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    DropsDedupe,
    KeyAsId,
    ForgetsToReplace,
    TurnsBatches,
    RoundsPriorities,
    RewritesJson,
    CutsDelays,
    WritesBeforeABrokenItem,
    NoWakeOnDelay,
    NoWakeOnRelease,
    WakesEveryone,
    ForgetsWakesBeforeTheWait,
    NeverAnnounces,
    LooksOnlyAtStates,
    HandsOutTwice,
    ClaimsOtherNames,
    ClaimsAnewWhenRepeated,
    HidesTheNextRun,
    ShortensLocks,
    ForgetsLimits,
    DoublesRates,
    IgnoresTokens,
    ForgetsAckedTokens,
    TakesSecondEntries,
    StopsAtTheFirstRefusal,
    RetriesOnRelease,
    HidesCancels,
    AllowsOneMoreStall,
    SaysNothingRemains,
    SkipsTies,
    DropsLabels,
    MiscountsByOne,
    TurnsTheLedger,
    ForgetsKeep,
    SweepsTwice,
    RetriesAnything,
    TakesAnyName,
    TicksWithoutLooking,
    MovesTheNextSlot,
    KeepsAcrossNames,
    DeletesNewerKeys,
    PromotesToTheBack,
}

/// What a broken store remembers beside the store inside.
#[derive(Default)]
struct Memory {
    /// Whether wake-ups are held back from now on.
    asleep: bool,
    /// The last claim that got something.
    claimed: Option<JobRecord>,
    tokens: HashSet<LockToken>,
    /// Which token holds which job, as far as claims told.
    holders: HashMap<JobId, LockToken>,
    /// Dedupe keys of jobs that were removed.
    freed: HashSet<DedupeKey>,
    /// When the last job of the last page was enqueued.
    page_end: Option<Timestamp>,
}

/// The in-memory store, with one flaw.
#[derive(Clone)]
pub(crate) struct Broken {
    inner: MemoryStore,
    flaw: Flaw,
    memory: Arc<Mutex<Memory>>,
}

impl Broken {
    pub(crate) fn new(inner: MemoryStore, flaw: Flaw) -> Self {
        Self {
            inner,
            flaw,
            memory: Arc::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the newest finished job of any name stay, and no other.
    async fn keep_one_of_all(&self) -> Result<()> {
        let finished = ListFilter {
            states: Some(vec![JobState::Completed, JobState::Failed]),
            order_by: OrderBy::FinishedAt,
            ..ListFilter::default()
        };
        for job in self.inner.list(finished).await?.items.iter().skip(1) {
            self.inner.remove(&job.id).await?;
        }
        Ok(())
    }

    fn spoil(&self, job: &mut NewJob) {
        match self.flaw {
            Flaw::DropsDedupe => job.dedupe = None,
            Flaw::KeyAsId => {
                if let Some(dedupe) = &job.dedupe {
                    job.id = Some(JobId::from(dedupe.key.as_str()));
                }
            }
            Flaw::ForgetsToReplace => {
                if let Some(dedupe) = &mut job.dedupe {
                    dedupe.replace = false;
                }
            }
            Flaw::RoundsPriorities => job.spec.priority = job.spec.priority as f32 as i32,
            Flaw::RewritesJson => {
                let value: serde_json::Result<serde_json::Value> = job.spec.payload.decode();
                if let Ok(text) = value.and_then(|value| RawJson::encode(&value)) {
                    job.spec.payload = text;
                }
            }
            Flaw::CutsDelays => {
                if let When::After(delay) = &mut job.when {
                    *delay = Duration::from_millis(delay.as_millis() as u64);
                }
            }
            Flaw::ForgetsKeep => job.spec.keep = None,
            Flaw::DeletesNewerKeys => {
                let freed = &self.memory().freed;
                job.dedupe = job.dedupe.take().filter(|it| !freed.contains(&it.key));
            }
            _ => {}
        }
    }
}

#[mq_core::async_trait]
impl StoreLayer for Broken {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn enqueue_many(&self, mut jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        jobs.iter_mut().for_each(|job| self.spoil(job));
        match self.flaw {
            Flaw::TurnsBatches => {
                jobs.reverse();
                let mut answers = self.inner.enqueue_many(jobs).await?;
                answers.reverse();
                return Ok(answers);
            }
            Flaw::WritesBeforeABrokenItem if jobs.len() > 1 => {
                let mut answers = Vec::new();
                for (place, job) in jobs.into_iter().enumerate() {
                    match self.inner.enqueue(job).await {
                        Err(StoreError::InvalidInput(mut invalid)) => {
                            invalid.field = format!("job {place}: {}", invalid.field);
                            return Err(invalid.into());
                        }
                        answer => answers.push(answer?),
                    }
                }
                return Ok(answers);
            }
            Flaw::NoWakeOnDelay => {
                self.memory().asleep = jobs.iter().any(|job| job.when != When::NOW);
            }
            _ => {}
        }
        self.inner.enqueue_many(jobs).await
    }

    async fn claim(&self, mut request: ClaimRequest) -> Result<Claim> {
        match self.flaw {
            Flaw::ClaimsOtherNames => {
                request.names = request
                    .names
                    .iter()
                    .cloned()
                    .chain(["other".into()])
                    .collect();
            }
            Flaw::ClaimsAnewWhenRepeated if !self.memory().tokens.insert(request.token.clone()) => {
                request.token = LockToken::random();
            }
            Flaw::ShortensLocks => request.lock_for -= Duration::from_millis(1),
            _ => {}
        }
        let token = request.token.clone();
        let mut claim = self.inner.claim(request).await?;
        match self.flaw {
            Flaw::HidesTheNextRun => claim.next_run_at = None,
            Flaw::PromotesToTheBack => {
                claim.jobs.sort_by_key(|job| job.run_at > job.enqueued_at);
            }
            Flaw::HandsOutTwice => {
                let mut memory = self.memory();
                if claim.jobs.is_empty() {
                    claim.jobs.extend(memory.claimed.take());
                } else {
                    memory.claimed = claim.jobs.last().cloned();
                }
            }
            Flaw::IgnoresTokens => {
                let held = claim.jobs.iter().map(|job| (job.id.clone(), token.clone()));
                self.memory().holders.extend(held);
            }
            _ => {}
        }
        Ok(claim)
    }

    async fn ack_many(&self, mut acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        match self.flaw {
            Flaw::IgnoresTokens => {
                let memory = self.memory();
                for ack in &mut acks {
                    if let Some(token) = memory.holders.get(&ack.lock.id) {
                        ack.lock.token = token.clone();
                    }
                }
            }
            Flaw::TakesSecondEntries => {
                let mut answers = Vec::new();
                for ack in acks {
                    answers.push(self.inner.ack(ack).await);
                }
                return Ok(answers);
            }
            Flaw::StopsAtTheFirstRefusal => {
                let mut answers = Vec::new();
                for ack in acks {
                    answers.push(Ok(self.inner.ack(ack).await?));
                }
                return Ok(answers);
            }
            _ => {}
        }
        let ids: Vec<_> = acks.iter().map(|ack| ack.lock.id.clone()).collect();
        let mut answers = self.inner.ack_many(acks).await?;
        if self.flaw == Flaw::KeepsAcrossNames {
            self.keep_one_of_all().await?;
        }
        if self.flaw == Flaw::ForgetsAckedTokens {
            for (answer, id) in answers.iter_mut().zip(ids) {
                if matches!(answer, Ok(Acked { applied: false })) {
                    *answer = Err(StoreError::LockLost { id });
                }
            }
        }
        Ok(answers)
    }

    async fn release_many(&self, locks: Vec<Lock>) -> Result<Vec<Result<()>>> {
        if self.flaw == Flaw::RetriesOnRelease {
            let retry = |lock| Ack {
                lock,
                outcome: AckOutcome::Retry {
                    delay: Duration::ZERO,
                    exit: None,
                },
            };
            let answers = self
                .inner
                .ack_many(locks.into_iter().map(retry).collect())
                .await?;
            return Ok(answers.into_iter().map(|answer| answer.map(drop)).collect());
        }
        self.memory().asleep = self.flaw == Flaw::NoWakeOnRelease;
        self.inner.release_many(locks).await
    }

    async fn extend_locks(&self, locks: Vec<Lock>, lock_for: Duration) -> Result<Extended> {
        let mut extended = self.inner.extend_locks(locks, lock_for).await?;
        if self.flaw == Flaw::HidesCancels {
            extended.cancel_requested.clear();
        }
        Ok(extended)
    }

    async fn recover_stalled(&self, mut most: u32, limit: u32) -> Result<Recovered> {
        most += u32::from(self.flaw == Flaw::AllowsOneMoreStall);
        let mut recovered = self.inner.recover_stalled(most, limit).await?;
        recovered.more &= self.flaw != Flaw::SaysNothingRemains;
        Ok(recovered)
    }

    async fn await_wake(&self, queues: &[QueueName], mut wake: WakeCursor) -> Result<()> {
        let mut queues = queues.to_vec();
        match self.flaw {
            Flaw::WakesEveryone => {
                queues.extend(self.inner.queues().await?.into_iter().map(|it| it.queue));
            }
            Flaw::ForgetsWakesBeforeTheWait => {
                let request = ClaimRequest {
                    queue: queues[0].clone(),
                    names: [].into(),
                    token: LockToken::random(),
                    lock_for: Duration::from_secs(1),
                    limit: 1,
                };
                wake = self.inner.claim(request).await?.wake;
            }
            _ if self.memory().asleep => std::future::pending().await,
            _ => {}
        }
        self.inner.await_wake(&queues, wake).await
    }

    async fn await_finished(&self, ids: &[JobId], mut cursor: WatchCursor) -> Result<()> {
        match self.flaw {
            Flaw::NeverAnnounces => std::future::pending().await,
            Flaw::LooksOnlyAtStates => {
                let watch = self.inner.watch(ids).await?;
                if !watch.finished.is_empty() {
                    return Ok(());
                }
                cursor = watch.cursor;
            }
            _ => {}
        }
        self.inner.await_finished(ids, cursor).await
    }

    async fn get_attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>> {
        let mut ledger = self.inner.get_attempts(id).await?;
        if self.flaw == Flaw::TurnsTheLedger {
            ledger.reverse();
        }
        Ok(ledger)
    }

    async fn list(&self, mut filter: ListFilter) -> Result<ListPage> {
        if self.flaw == Flaw::DropsLabels {
            filter.metadata.clear();
        }
        let goes_on = filter.cursor.is_some();
        let mut page = self.inner.list(filter).await?;
        if self.flaw == Flaw::SkipsTies {
            let mut memory = self.memory();
            let before = memory.page_end.filter(|_| goes_on);
            page.items.retain(|job| Some(job.enqueued_at) != before);
            if let Some(last) = page.items.last() {
                memory.page_end = Some(last.enqueued_at);
            }
        }
        Ok(page)
    }

    async fn counts(&self, queue: Option<&QueueName>) -> Result<StateCounts> {
        let mut counts = self.inner.counts(queue).await?;
        counts.completed += u64::from(self.flaw == Flaw::MiscountsByOne);
        Ok(counts)
    }

    async fn retry(&self, id: &JobId) -> Result<()> {
        match self.inner.retry(id).await {
            Err(StoreError::IllegalState { .. }) if self.flaw == Flaw::RetriesAnything => Ok(()),
            answer => answer,
        }
    }

    async fn remove(&self, id: &JobId) -> Result<bool> {
        let record = self.inner.get_job(id).await?;
        let key = record.and_then(|record| record.dedupe_key);
        self.memory().freed.extend(key);
        self.inner.remove(id).await
    }

    async fn set_queue(&self, queue: &QueueName, mut settings: QueueSettings) -> Result<()> {
        match (self.flaw, &mut settings.rate) {
            (Flaw::ForgetsLimits, _) => settings.max_active = Change::Keep,
            (Flaw::DoublesRates, Change::Set(rate)) => rate.count *= 2,
            _ => {}
        }
        self.inner.set_queue(queue, settings).await
    }

    async fn sweep_history(&self, limit: u32) -> Result<Swept> {
        let mut swept = self.inner.sweep_history(limit).await?;
        if self.flaw == Flaw::SweepsTwice {
            swept.deleted += self.inner.sweep_history(limit).await?.deleted;
        }
        swept.more &= self.flaw != Flaw::SaysNothingRemains;
        Ok(swept)
    }

    async fn bind_name(&self, name: &StoreKey) -> Result<()> {
        match self.inner.bind_name(name).await {
            Err(StoreError::NameMismatch { .. }) if self.flaw == Flaw::TakesAnyName => Ok(()),
            answer => answer,
        }
    }

    async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord> {
        if self.flaw == Flaw::MovesTheNextSlot {
            self.inner.remove_schedule(&schedule.key).await?;
        }
        self.inner.upsert_schedule(schedule).await
    }

    async fn tick_schedule(&self, mut tick: Tick) -> Result<bool> {
        if self.flaw == Flaw::TicksWithoutLooking {
            let all = self.inner.list_schedules(ScheduleFilter::default()).await?;
            if let Some(stored) = all.into_iter().find(|stored| stored.key == tick.key) {
                (tick.version, tick.expected) = (stored.version, stored.next_run_at);
            }
        }
        self.inner.tick_schedule(tick).await
    }
}
