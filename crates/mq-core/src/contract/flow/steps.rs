//! Short words for flows.

use std::time::Duration;

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, ack, job, ms, request_for};
use crate::id::{ChildKey, JobId, LockToken, OutboxId, StoreKey};
use crate::record::{
    ChildResult, ChildStatus, FlowChild, FlowCounts, FlowState, NewJob, OutboxEntry,
    ParentEnvelope, Report, ReportOutcome,
};
use crate::store::{
    AckOutcome, CascadeRow, FlowSweepWork, Lock, ReconcileRow, ReportApplied, ResultPage,
};

pub(super) use crate::record::ReportOutcome::{Cancelled, Completed, Failed};

/// The store that children go to unless a case says otherwise.
pub(super) const CHILDREN: &str = "children";
/// How long a row rests between sweeps unless a case says otherwise, in
/// milliseconds.
pub(super) const AGE: u64 = 1_000;

/// What a report does that applies and settles nothing.
pub(super) const APPLIED: ReportApplied = ReportApplied {
    applied: true,
    parent_settled: false,
};
/// What a report does that decides its flow.
pub(super) const SETTLED: ReportApplied = ReportApplied {
    applied: true,
    parent_settled: true,
};
/// What a report does that does not apply.
pub(super) const DROPPED: ReportApplied = ReportApplied {
    applied: false,
    parent_settled: false,
};

/// A parent that has fanned out.
#[derive(Clone, Debug)]
pub(in crate::contract) struct Parent {
    pub(in crate::contract) id: JobId,
    pub(super) manifest: LockToken,
}

impl Parent {
    /// The lock its fan-out was acked with.
    pub(super) fn lock(&self) -> Lock {
        Lock {
            id: self.id.clone(),
            token: self.manifest.clone(),
        }
    }

    /// The report of a child of this parent.
    pub(super) fn report(&self, key: impl Into<ChildKey>, outcome: ReportOutcome) -> Report {
        Report {
            flow_id: self.id.clone(),
            manifest: self.manifest.clone(),
            child_key: key.into(),
            outcome,
            exit: None,
            failed_reason: None,
        }
    }

    /// The reports of these children, all with one outcome.
    pub(super) fn reports(&self, keys: &[&str], outcome: ReportOutcome) -> Vec<Report> {
        keys.iter().map(|key| self.report(*key, outcome)).collect()
    }
}

/// A child of this key, as a fan-out names it.
pub(in crate::contract) fn child(key: &str) -> FlowChild {
    FlowChild {
        key: key.into(),
        store: CHILDREN.into(),
        job: job().name("child").id(format!("child {key}")),
    }
}

/// Children of these keys.
pub(super) fn children(keys: &[&str]) -> Vec<FlowChild> {
    keys.iter().map(|key| child(key)).collect()
}

/// So many keys, in byte order.
pub(super) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:05}")).collect()
}

/// So many children.
pub(super) fn many(count: usize) -> Vec<FlowChild> {
    keys(count).iter().map(|key| child(key)).collect()
}

pub(super) fn child_keys(keys: &[&str]) -> Vec<ChildKey> {
    keys.iter().map(|key| ChildKey::from(*key)).collect()
}

/// The end of a run that named its children.
pub(in crate::contract) fn fan_out(children: Vec<FlowChild>) -> AckOutcome {
    AckOutcome::FanOut {
        fail_fast: false,
        children,
    }
}

/// The same, for a flow that fails with its first child.
pub(super) fn fail_fast(children: Vec<FlowChild>) -> AckOutcome {
    AckOutcome::FanOut {
        fail_fast: true,
        children,
    }
}

/// Counters: pending, completed, failed, cancelled.
pub(super) fn counts(pending: u64, completed: u64, failed: u64, cancelled: u64) -> FlowCounts {
    FlowCounts {
        pending,
        completed,
        failed,
        cancelled,
    }
}

/// What a child knows of a parent elsewhere.
pub(super) fn envelope(key: &str) -> ParentEnvelope {
    ParentEnvelope {
        flow_name: "flow name".into(),
        flow_id: "parent".into(),
        manifest: "manifest".into(),
        child_key: key.into(),
        parent_store: "parents".into(),
        depth: 1,
    }
}

/// A job that is the child of a parent elsewhere.
pub(super) fn child_job(key: &str) -> NewJob {
    NewJob {
        parent: Some(envelope(key)),
        ..job()
    }
}

/// Parents.
impl Fixture {
    /// A parked parent of these children.
    pub(super) async fn park(&self, keys: &[&str]) -> Parent {
        self.park_as(job(), fan_out(children(keys))).await
    }

    /// A parked parent of so many children.
    pub(super) async fn park_many(&self, count: usize) -> Parent {
        self.park_as(job(), fan_out(many(count))).await
    }

    /// A parked parent that fails with its first child.
    pub(super) async fn park_fail_fast(&self, keys: &[&str]) -> Parent {
        self.park_as(job(), fail_fast(children(keys))).await
    }

    /// Enqueues a job, claims it and lets it fan out.
    pub(in crate::contract) async fn park_as(&self, job: NewJob, outcome: AckOutcome) -> Parent {
        let held = self.start(job).await;
        self.ack(&held, outcome).await;
        Parent {
            id: held.id,
            manifest: held.token,
        }
    }

    /// A parent that a cancel closed with all its children pending.
    pub(super) async fn closed(&self, keys: &[&str]) -> Parent {
        let parent = self.park(keys).await;
        self.store.cancel(&parent.id).await.must();
        parent
    }

    /// The state of a flow that must exist.
    pub(super) async fn flow(&self, parent: &Parent) -> FlowState {
        match self.job(&parent.id).await.flow {
            Some(flow) => flow,
            None => panic!("expected {:?} to have a flow", parent.id),
        }
    }

    /// A flow's counters.
    pub(super) async fn flow_counts(&self, parent: &Parent) -> FlowCounts {
        self.flow(parent).await.counts
    }
}

/// Rows.
impl Fixture {
    pub(super) async fn record(&self, reports: Vec<Report>) -> Vec<ReportApplied> {
        let count = reports.len();
        let answers = self.store.record_child_results(reports).await.must();
        assert_eq!(answers.len(), count, "one answer for each report");
        answers
    }

    /// Records one report.
    pub(super) async fn record_one(&self, report: Report) -> ReportApplied {
        self.record(vec![report]).await[0]
    }

    /// A page of a flow's children.
    pub(super) async fn page(
        &self,
        parent: &Parent,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> ResultPage {
        let cursor = cursor.map(ChildKey::from);
        let page = self
            .store
            .list_child_results(&parent.id, cursor.as_ref(), limit);
        page.await.must()
    }

    /// All children of a flow.
    pub(super) async fn results(&self, parent: &Parent) -> Vec<ChildResult> {
        let mut results: Vec<ChildResult> = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.page(parent, cursor.as_deref(), None).await;
            results.extend(page.items);
            match page.cursor {
                None => return results,
                Some(key) => cursor = Some(key.to_string()),
            }
        }
    }

    /// The statuses of a flow's children, in the order of their keys.
    pub(super) async fn statuses(&self, parent: &Parent) -> Vec<ChildStatus> {
        let results = self.results(parent).await;
        results.into_iter().map(|result| result.status).collect()
    }

    /// Which of these children are pending.
    pub(super) async fn pending(&self, parent: &Parent, keys: &[&str]) -> Vec<ChildKey> {
        let keys = child_keys(keys);
        self.store
            .pending_children(&parent.id, &parent.manifest, &keys)
            .await
            .must()
    }

    pub(super) async fn mark(&self, parent: &Parent, keys: &[&str]) {
        let keys = child_keys(keys);
        self.store
            .mark_children_cascaded(&parent.id, &parent.manifest, &keys)
            .await
            .must();
    }

    /// One page of what sweepers have to look after.
    pub(super) async fn sweep_page(&self, age: u64, limit: u32) -> FlowSweepWork {
        self.store.flow_sweep_work(ms(age), limit).await.must()
    }

    /// All that sweepers have to look after now.
    pub(super) async fn sweep(&self) -> FlowSweepWork {
        self.sweep_in_pages_of(250).await
    }

    /// All that sweepers have to look after now, read in pages of this size.
    pub(super) async fn sweep_in_pages_of(&self, limit: u32) -> FlowSweepWork {
        let mut all = FlowSweepWork::default();
        loop {
            let work = self.sweep_page(AGE, limit).await;
            all.reconcile.extend(work.reconcile);
            all.cascade.extend(work.cascade);
            if !work.more {
                return all;
            }
        }
    }

    /// The keys of the rows to look for, and of those to cancel, each sorted.
    pub(super) async fn swept_keys(&self) -> (Vec<String>, Vec<String>) {
        let work = self.sweep().await;
        (to_look_for(&work.reconcile), to_cancel(&work.cascade))
    }
}

/// The keys of these rows, sorted.
pub(super) fn to_look_for(rows: &[ReconcileRow]) -> Vec<String> {
    let mut keys: Vec<_> = rows.iter().map(|row| row.child.key.to_string()).collect();
    keys.sort_unstable();
    keys
}

/// The keys of these rows, sorted.
pub(super) fn to_cancel(rows: &[CascadeRow]) -> Vec<String> {
    let mut keys: Vec<_> = rows.iter().map(|row| row.child_key.to_string()).collect();
    keys.sort_unstable();
    keys
}

/// Children and their reports.
impl Fixture {
    /// Runs a child of a parent elsewhere to its end.
    pub(super) async fn end_child(&self, key: &str, outcome: AckOutcome) -> JobId {
        self.finish(child_job(key), outcome).await
    }

    /// Ends so many children of a parent elsewhere, in the order of their keys.
    pub(super) async fn end_children(&self, count: usize) -> Vec<OutboxEntry> {
        let jobs = keys(count).iter().map(|key| child_job(key)).collect();
        self.enqueue_all(jobs).await;
        for _ in 0..count.div_ceil(250) {
            let locks = self
                .claim_locks(request_for(&[crate::contract::make::NAME], 250))
                .await;
            let acks = locks
                .iter()
                .map(|lock| ack(lock, AckOutcome::Complete { exit: None }));
            for answer in self.store.ack_many(acks.collect()).await.must() {
                assert!(answer.must().applied);
            }
        }
        self.outbox().await
    }

    /// All undelivered reports, oldest first.
    pub(super) async fn outbox(&self) -> Vec<OutboxEntry> {
        self.outbox_after(None).await
    }

    /// All undelivered reports from past an entry.
    pub(super) async fn outbox_after(&self, after: Option<&OutboxId>) -> Vec<OutboxEntry> {
        let mut entries: Vec<OutboxEntry> = Vec::new();
        loop {
            let last = entries.last().map(|entry| entry.id.clone());
            let page = self.store.peek_outbox(last.as_ref().or(after), 1_000);
            let page = page.await.must();
            entries.extend(page.entries);
            if !page.more {
                return entries;
            }
        }
    }

    /// The reports, without the ids of their entries.
    pub(super) async fn reports(&self) -> Vec<Report> {
        let entries = self.outbox().await;
        entries.into_iter().map(|entry| entry.report).collect()
    }

    /// The undelivered reports about children of the parent elsewhere.
    pub(super) async fn undelivered(&self, keys: &[&str]) -> Vec<OutboxEntry> {
        let envelope = envelope("");
        self.store
            .undelivered_reports(
                &StoreKey::from("parents"),
                &envelope.flow_id,
                &envelope.manifest,
                &child_keys(keys),
            )
            .await
            .must()
    }
}

/// The keys that entries are about, in their order.
pub(super) fn about(entries: &[OutboxEntry]) -> Vec<String> {
    let key = |entry: &OutboxEntry| entry.report.child_key.to_string();
    entries.iter().map(key).collect()
}

/// The report of the child of a parent elsewhere.
pub(super) fn report_of(key: &str, outcome: ReportOutcome) -> Report {
    let ParentEnvelope {
        flow_id, manifest, ..
    } = envelope(key);
    Report {
        flow_id,
        manifest,
        child_key: key.into(),
        outcome,
        exit: None,
        failed_reason: None,
    }
}

/// How long the cancel of each of these rows has been owed.
pub(super) fn owed_for(rows: &[CascadeRow]) -> Vec<Duration> {
    rows.iter().map(|row| row.owed_for).collect()
}
