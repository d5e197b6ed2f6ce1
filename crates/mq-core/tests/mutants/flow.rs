//! An in-memory store with one flaw in its flow room.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, AckOutcome, Acked, AdminOps, CascadeRow, ChildKey, ChildStatus, FlowChild, FlowCounts,
    FlowOps, FlowState, FlowSweepWork, InspectOps, JobId, JobRecord, JobState, ListFilter,
    LockToken, MemoryStore, OutboxEntry, OutboxId, OutboxPage, QueueName, ReconcileRow, Report,
    ReportApplied, ReportOutcome, Result, ResultPage, RunOps, StoreKey, Swept, WakeCursor,
};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowFlaw {
    ReplacesManifests,
    EndsBeforeTheFanOut,
    UsesAttempts,
    NoWakeOnSettle,
    IgnoresManifests,
    SettlesTwice,
    AppliesLateReports,
    SettlesOneByOne,
    GoesOnInATie,
    DecidesByKey,
    FlagsEveryReport,
    RecordsOnePage,
    MiscountsOnClose,
    PendingWhenClosed,
    NeverRearms,
    Starves,
    ForgetsPolicies,
    CascadesLate,
    OwesSinceNow,
    PaysTwice,
    PrunesDebtors,
    KeepsRowsOfTheRemoved,
    SortsByLetter,
    DropsTheLastChild,
    LosesCancelledReports,
    NewestFirst,
    CursorsNeedTheirEntry,
    DeletesAnySpelling,
    FindsAnyManifestsReports,
}

/// What a broken store remembers beside the store inside.
#[derive(Default)]
struct Memory {
    asleep: bool,
    /// The rows given out by the last sweep.
    swept: Vec<ReconcileRow>,
    backlog: VecDeque<ReconcileRow>,
    marked: HashSet<(JobId, ChildKey)>,
    rows: HashMap<JobId, ResultPage>,
    flows: HashMap<JobId, FlowState>,
}

/// The in-memory store, with one flaw.
#[derive(Clone)]
pub(crate) struct BrokenFlows {
    inner: MemoryStore,
    flaw: FlowFlaw,
    memory: Arc<Mutex<Memory>>,
}

impl BrokenFlows {
    pub(crate) fn new(inner: MemoryStore, flaw: FlowFlaw) -> Self {
        Self {
            inner,
            flaw,
            memory: Arc::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn flow(&self, id: &JobId) -> Option<FlowState> {
        self.inner.get_job(id).await.ok()??.flow
    }

    async fn pending(&self, id: &JobId) -> u64 {
        self.flow(id).await.map_or(0, |flow| flow.counts.pending)
    }

    /// What becomes of a fan-out before the store inside gets it.
    async fn spoil_fan_out(&self, ack: &mut Ack) {
        let AckOutcome::FanOut { fail_fast, .. } = ack.outcome else {
            return;
        };
        let record = self.inner.get_job(&ack.lock.id).await.ok().flatten();
        let Some(record) = record.filter(|record| record.state == JobState::Active) else {
            return;
        };
        match self.flaw {
            FlowFlaw::ReplacesManifests if record.flow.is_some() => {
                let flow = FlowState {
                    manifest: ack.lock.token.clone(),
                    fail_fast,
                    counts: FlowCounts::default(),
                };
                self.memory().flows.insert(ack.lock.id.clone(), flow);
            }
            FlowFlaw::EndsBeforeTheFanOut if record.cancel_requested => {
                ack.outcome = AckOutcome::Cancelled;
            }
            _ => {}
        }
    }

    async fn spoil_report(&self, report: &mut Report) {
        let Some(flow) = self.flow(&report.flow_id).await else {
            return;
        };
        match self.flaw {
            FlowFlaw::IgnoresManifests => report.manifest = flow.manifest,
            FlowFlaw::GoesOnInATie if flow.counts.pending == 2 => {
                report.outcome = match report.outcome {
                    ReportOutcome::Failed => ReportOutcome::Cancelled,
                    other => other,
                };
            }
            _ => {}
        }
    }

    async fn spoil_answer(&self, id: &JobId, answer: &mut ReportApplied) {
        let Some(flow) = self.flow(id).await else {
            return;
        };
        let over = flow.counts.pending == 0;
        match self.flaw {
            FlowFlaw::SettlesTwice if over => {
                answer.parent_settled |= !answer.applied;
                answer.applied = true;
            }
            FlowFlaw::AppliesLateReports => answer.applied |= flow.counts.cancelled > 0,
            FlowFlaw::FlagsEveryReport => answer.parent_settled |= over && answer.applied,
            _ => {}
        }
    }

    fn spoil_record(&self, record: &mut JobRecord) {
        if let Some(flow) = self.memory().flows.get(&record.id) {
            record.flow = Some(flow.clone());
        }
        let Some(flow) = &mut record.flow else {
            return;
        };
        match self.flaw {
            FlowFlaw::UsesAttempts => record.attempts_made += 1,
            FlowFlaw::MiscountsOnClose if record.state == JobState::Cancelled => {
                flow.counts.cancelled = flow.counts.cancelled.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Gives out rows flow by flow, the oldest flow first, however many it has.
    async fn sweep_in_order(&self, age: Duration, limit: u32) -> Result<FlowSweepWork> {
        let mut work = self.inner.flow_sweep_work(age, 250).await?;
        let mut more = work.more;
        while more {
            let next = self.inner.flow_sweep_work(age, 250).await?;
            work.reconcile.extend(next.reconcile);
            work.cascade.extend(next.cascade);
            more = next.more;
        }
        let first = work.reconcile.first().map(|row| row.flow_id.clone());
        work.reconcile
            .sort_by_key(|row| Some(&row.flow_id) != first.as_ref());
        let mut memory = self.memory();
        memory.backlog.extend(work.reconcile);
        let most = memory.backlog.len().min(limit as usize);
        work.reconcile = memory.backlog.drain(..most).collect();
        work.more = !memory.backlog.is_empty();
        Ok(work)
    }

    /// Marks another owed row for each that is marked again.
    async fn pay_twice(&self, id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<()> {
        let again = {
            let mut memory = self.memory();
            let first = |key: &&ChildKey| !memory.marked.insert((id.clone(), (*key).clone()));
            keys.iter().filter(first).count()
        };
        let rows = self.inner.list_child_results(id, None, None).await?.items;
        let others: Vec<ChildKey> = {
            let memory = self.memory();
            let unmarked = rows
                .into_iter()
                .filter(|row| !memory.marked.contains(&(id.clone(), row.key.clone())));
            unmarked.map(|row| row.key).take(again).collect()
        };
        self.inner
            .mark_children_cascaded(id, manifest, &others)
            .await
    }
}

#[mq_core::async_trait]
impl StoreLayer for BrokenFlows {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    async fn ack_many(&self, mut acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        for ack in &mut acks {
            self.spoil_fan_out(ack).await;
        }
        self.inner.ack_many(acks).await
    }

    async fn await_wake(&self, queues: &[QueueName], wake: WakeCursor) -> Result<()> {
        if self.memory().asleep {
            std::future::pending().await
        }
        self.inner.await_wake(queues, wake).await
    }

    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>> {
        let mut answers = self.inner.get_jobs(ids).await?;
        for record in answers
            .iter_mut()
            .filter_map(|it| it.as_mut().ok()?.as_mut())
        {
            self.spoil_record(record);
        }
        Ok(answers)
    }

    async fn sweep_history(&self, limit: u32) -> Result<Swept> {
        if self.flaw == FlowFlaw::PrunesDebtors {
            let parents = ListFilter {
                flow_parents: true,
                ..ListFilter::default()
            };
            for parent in self.inner.list(parents).await?.items {
                if parent.state.is_terminal() && parent.spec.keep.is_some() {
                    self.inner.remove(&parent.id).await?;
                }
            }
        }
        self.inner.sweep_history(limit).await
    }

    async fn record_child_results(&self, mut reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        let batch = reports.len();
        let mut places: Vec<usize> = (0..batch).collect();
        match self.flaw {
            FlowFlaw::SettlesOneByOne => {
                let mut answers = Vec::new();
                for report in reports {
                    answers.extend(self.inner.record_child_results(vec![report]).await?);
                }
                return Ok(answers);
            }
            FlowFlaw::RecordsOnePage => reports.truncate(250),
            FlowFlaw::DecidesByKey => {
                places.sort_by_key(|place| reports[*place].child_key.clone());
                reports.sort_by_key(|report| report.child_key.clone());
            }
            FlowFlaw::GoesOnInATie if batch < 2 => {}
            _ => {
                for report in &mut reports {
                    self.spoil_report(report).await;
                }
            }
        }
        let ids: Vec<JobId> = reports.iter().map(|it| it.flow_id.clone()).collect();
        let mut found = self.inner.record_child_results(reports).await?;
        for (id, answer) in ids.iter().zip(&mut found) {
            self.spoil_answer(id, answer).await;
        }
        let settled = found.iter().any(|answer| answer.parent_settled);
        self.memory().asleep |= settled && self.flaw == FlowFlaw::NoWakeOnSettle;
        let mut answers = vec![ReportApplied::default(); batch];
        for (place, answer) in places.into_iter().zip(found) {
            answers[place] = answer;
        }
        Ok(answers)
    }

    async fn list_child_results(
        &self,
        id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage> {
        let mut page = self.inner.list_child_results(id, cursor, limit).await?;
        match self.flaw {
            FlowFlaw::KeepsRowsOfTheRemoved if page.items.is_empty() => {
                page = self.memory().rows.get(id).cloned().unwrap_or_default();
            }
            FlowFlaw::KeepsRowsOfTheRemoved => {
                self.memory().rows.insert(id.clone(), page.clone());
            }
            FlowFlaw::SortsByLetter => page.items.sort_by_key(|row| row.key.to_lowercase()),
            FlowFlaw::DropsTheLastChild if page.cursor.is_some() => {
                page.items.pop();
            }
            _ => {}
        }
        Ok(page)
    }

    async fn pending_children(
        &self,
        id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        let mut pending = self.inner.pending_children(id, manifest, keys).await?;
        if self.flaw == FlowFlaw::PendingWhenClosed && self.pending(id).await == 0 {
            let rows = self.inner.list_child_results(id, None, None).await?.items;
            let called_off = rows
                .into_iter()
                .filter(|row| row.status == ChildStatus::Cancelled && keys.contains(&row.key));
            pending.extend(called_off.map(|row| row.key));
        }
        Ok(pending)
    }

    async fn flow_sweep_work(&self, age: Duration, limit: u32) -> Result<FlowSweepWork> {
        if self.flaw == FlowFlaw::Starves {
            return self.sweep_in_order(age, limit).await;
        }
        let mut work = self.inner.flow_sweep_work(age, limit).await?;
        match self.flaw {
            FlowFlaw::NeverRearms => {
                let mut memory = self.memory();
                let before = std::mem::replace(&mut memory.swept, work.reconcile.clone());
                work.reconcile.extend(before);
            }
            FlowFlaw::ForgetsPolicies => {
                let forget = |FlowChild { job, .. }: &mut FlowChild| job.spec.backoff = None;
                let children = work.reconcile.iter_mut().map(|row| &mut row.child);
                children.for_each(forget);
            }
            FlowFlaw::CascadesLate => work.cascade.retain(|row| row.owed_for >= age),
            FlowFlaw::OwesSinceNow => {
                let forget = |row: &mut CascadeRow| row.owed_for = Duration::ZERO;
                work.cascade.iter_mut().for_each(forget);
            }
            _ => {}
        }
        Ok(work)
    }

    async fn mark_children_cascaded(
        &self,
        id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<()> {
        self.inner
            .mark_children_cascaded(id, manifest, keys)
            .await?;
        if self.flaw == FlowFlaw::PaysTwice {
            self.pay_twice(id, manifest, keys).await?;
        }
        Ok(())
    }

    async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage> {
        let mut after = after;
        if self.flaw == FlowFlaw::CursorsNeedTheirEntry {
            let all = self.inner.peek_outbox(None, 1_000).await?.entries;
            after = after.filter(|after| all.iter().any(|entry| entry.id == **after));
        }
        let mut page = self.inner.peek_outbox(after, limit).await?;
        match self.flaw {
            FlowFlaw::LosesCancelledReports => {
                let kept = |entry: &OutboxEntry| entry.report.outcome != ReportOutcome::Cancelled;
                page.entries.retain(kept);
            }
            FlowFlaw::NewestFirst => page.entries.reverse(),
            _ => {}
        }
        Ok(page)
    }

    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()> {
        let mut ids = ids.to_vec();
        if self.flaw == FlowFlaw::DeletesAnySpelling {
            let plain = |id: &OutboxId| OutboxId::from(id.trim().trim_start_matches(['0', '+']));
            ids = ids.iter().map(plain).collect();
        }
        self.inner.delete_outbox(&ids).await
    }

    async fn undelivered_reports(
        &self,
        parent_store: &StoreKey,
        id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>> {
        if self.flaw == FlowFlaw::FindsAnyManifestsReports {
            let mut all = self.inner.peek_outbox(None, 1_000).await?.entries;
            all.retain(|entry| {
                let report = &entry.report;
                report.flow_id == *id && keys.contains(&report.child_key)
            });
            return Ok(all);
        }
        self.inner
            .undelivered_reports(parent_store, id, manifest, keys)
            .await
    }
}
