//! Flows, by the contract's section on them.

use std::time::Duration;

use mq_core::{
    AttemptOutcome, CascadeRow, ChildKey, ChildResult, ChildStatus, FlowChild, FlowCounts,
    FlowState, FlowSweepWork, JobId, JobState, LockToken, OutboxEntry, RawJson, ReconcileRow,
    Report, ReportApplied, ReportOutcome, StoreKey, Timestamp,
};

use super::{End, Job, Naive};

pub(super) struct Row {
    child: FlowChild,
    status: ChildStatus,
    exit: Option<RawJson>,
    reason: Option<String>,
    cascaded: bool,
    pending_since: Timestamp,
    called_off_at: Timestamp,
    /// When a sweep last named it to be cancelled.
    cancel_named_at: Option<Timestamp>,
}

impl Job {
    pub(super) fn owes(&self) -> bool {
        self.rows.iter().any(Row::is_owed)
    }

    fn has_manifest(&self, manifest: &LockToken) -> bool {
        let flow = self.record.flow.as_ref();
        flow.is_some_and(|flow| flow.manifest == *manifest)
    }

    fn counts(&mut self) -> &mut FlowCounts {
        let flow = self.record.flow.as_mut();
        &mut flow.expect("its flow state is there").counts
    }

    /// Calls off what is pending.
    pub(super) fn close(&mut self, now: Timestamp) {
        if self.record.flow.is_none() {
            return;
        }
        let counts = self.counts();
        counts.cancelled += counts.pending;
        counts.pending = 0;
        for row in &mut self.rows {
            if row.status == ChildStatus::Pending {
                row.status = ChildStatus::Cancelled;
                row.called_off_at = now;
            }
        }
    }
}

impl Row {
    fn is_owed(&self) -> bool {
        self.status == ChildStatus::Cancelled && !self.cascaded
    }
}

fn is_over(since: Timestamp, age: Duration, now: Timestamp) -> bool {
    let passed = now.as_millis().saturating_sub(since.as_millis());
    u128::from(passed) >= age.as_millis()
}

impl Naive {
    /// The ack of a run that named its children.
    pub(super) fn fan_out(&mut self, place: usize, fail_fast: bool, children: &[FlowChild]) {
        let now = self.now;
        let job = &mut self.jobs[place];
        job.note(AttemptOutcome::FannedOut, None, now);
        let (token, _) = job.lock.take().expect("the lock is held");
        if job.record.flow.is_none() {
            job.record.flow = Some(FlowState {
                manifest: token,
                fail_fast,
                counts: FlowCounts {
                    pending: children.len() as u64,
                    ..FlowCounts::default()
                },
            });
            job.rows = children.iter().map(|child| row(child, now)).collect();
            job.rows
                .sort_by(|one, other| one.child.key.cmp(&other.child.key));
        }
        let queue = job.record.spec.queue.clone();
        let cancelled = job.record.cancel_requested;
        let pending = job.counts().pending;
        self.stirs.push(queue.clone());
        if self.queue(&queue).max_active.is_some() {
            self.wake(&queue);
        }
        let job = &mut self.jobs[place];
        if cancelled {
            job.close(now);
            self.finish(place, End::cancelled());
        } else if pending == 0 {
            self.resume(place);
        } else {
            job.record.state = JobState::WaitingChildren;
        }
    }

    fn resume(&mut self, place: usize) {
        let now = self.now;
        let job = &mut self.jobs[place];
        job.put_at(now, now);
        let queue = job.record.spec.queue.clone();
        self.wake(&queue);
    }

    /// Puts the end of a child into the outbox.
    pub(super) fn report_end(&mut self, place: usize, reason: Option<String>) {
        let record = &self.jobs[place].record;
        let Some(parent) = &record.parent else { return };
        self.outbox.push(OutboxEntry {
            id: "".into(),
            flow_name: parent.flow_name.clone(),
            parent_store: parent.parent_store.clone(),
            report: Report {
                flow_id: parent.flow_id.clone(),
                manifest: parent.manifest.clone(),
                child_key: parent.child_key.clone(),
                outcome: match record.state {
                    JobState::Completed => ReportOutcome::Completed,
                    JobState::Failed => ReportOutcome::Failed,
                    _ => ReportOutcome::Cancelled,
                },
                exit: record.exit.clone(),
                failed_reason: reason,
            },
        });
    }

    pub(super) fn record_results(&mut self, reports: &[Report]) -> Vec<ReportApplied> {
        let mut answers: Vec<_> = reports.iter().map(|report| self.apply(report)).collect();
        let mut flows: Vec<&JobId> = reports.iter().map(|report| &report.flow_id).collect();
        flows.sort();
        flows.dedup();
        for flow in flows {
            let applied: Vec<usize> = (0..reports.len())
                .filter(|at| reports[*at].flow_id == *flow && answers[*at].applied)
                .collect();
            let Some(last) = applied.last() else { continue };
            let place = self.find(flow).expect("a report was applied to it");
            let state = self.jobs[place].record.flow.as_ref();
            let (fail_fast, pending) =
                state.map_or((false, 0), |flow| (flow.fail_fast, flow.counts.pending));
            let is_failure = |at: &&usize| reports[**at].outcome == ReportOutcome::Failed;
            let failure = applied.iter().find(is_failure).filter(|_| fail_fast);
            if let Some(decided) = failure {
                answers[*decided].parent_settled = true;
                let key = &reports[*decided].child_key;
                let end = End {
                    reason: Some(format!("flow child \"{key}\" failed")),
                    ..End::bare(JobState::Failed, AttemptOutcome::Failed)
                };
                let now = self.now;
                self.jobs[place].close(now);
                self.finish(place, end);
            } else if pending == 0 {
                answers[*last].parent_settled = true;
                self.resume(place);
            }
        }
        answers
    }

    fn apply(&mut self, report: &Report) -> ReportApplied {
        let Some(place) = self.parked(&report.flow_id, &report.manifest) else {
            return ReportApplied::default();
        };
        let job = &mut self.jobs[place];
        let is_meant = |row: &&mut Row| {
            row.child.key == report.child_key && row.status == ChildStatus::Pending
        };
        let Some(row) = job.rows.iter_mut().find(is_meant) else {
            return ReportApplied::default();
        };
        row.exit = report.exit.clone();
        row.reason = report.failed_reason.clone();
        row.cascaded = true;
        row.status = match report.outcome {
            ReportOutcome::Completed => ChildStatus::Completed,
            ReportOutcome::Failed => ChildStatus::Failed,
            ReportOutcome::Cancelled => ChildStatus::Cancelled,
        };
        let counts = job.counts();
        counts.pending -= 1;
        *match report.outcome {
            ReportOutcome::Completed => &mut counts.completed,
            ReportOutcome::Failed => &mut counts.failed,
            ReportOutcome::Cancelled => &mut counts.cancelled,
        } += 1;
        ReportApplied {
            applied: true,
            parent_settled: false,
        }
    }

    fn parked(&self, flow: &JobId, manifest: &LockToken) -> Option<usize> {
        let place = self.find(flow)?;
        let job = &self.jobs[place];
        let parked = job.state() == JobState::WaitingChildren && job.has_manifest(manifest);
        parked.then_some(place)
    }

    pub(super) fn children(&self, flow: &JobId) -> Vec<ChildResult> {
        let Some(place) = self.find(flow) else {
            return Vec::new();
        };
        let read = |row: &Row| ChildResult {
            key: row.child.key.clone(),
            name: row.child.job.spec.name.clone(),
            store: row.child.store.clone(),
            job_id: row.child.job.id.clone().expect("children have ids"),
            status: row.status,
            exit: row.exit.clone(),
            failed_reason: row.reason.clone(),
        };
        self.jobs[place].rows.iter().map(read).collect()
    }

    /// In order of the keys.
    pub(super) fn pending_children(
        &self,
        flow: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Vec<ChildKey> {
        let Some(place) = self.parked(flow, manifest) else {
            return Vec::new();
        };
        let rows = self.jobs[place].rows.iter();
        rows.filter(|row| row.status == ChildStatus::Pending && keys.contains(&row.child.key))
            .map(|row| row.child.key.clone())
            .collect()
    }

    /// All that there is to do, in order of flows and keys.
    pub(super) fn flow_sweep(&mut self, age: Duration) -> FlowSweepWork {
        let now = self.now;
        let mut work = FlowSweepWork::default();
        let mut jobs: Vec<&mut Job> = self.jobs.iter_mut().collect();
        jobs.sort_by(|one, other| one.record.id.cmp(&other.record.id));
        for job in jobs {
            let Some(state) = &job.record.flow else {
                continue;
            };
            let (flow_id, manifest) = (job.record.id.clone(), state.manifest.clone());
            let parked = job.record.state == JobState::WaitingChildren;
            for row in &mut job.rows {
                let pending = row.status == ChildStatus::Pending;
                if parked && pending && is_over(row.pending_since, age, now) {
                    row.pending_since = now;
                    work.reconcile.push(ReconcileRow {
                        flow_id: flow_id.clone(),
                        manifest: manifest.clone(),
                        child: row.child.clone(),
                    });
                }
                let named = row.cancel_named_at;
                if row.is_owed() && named.is_none_or(|at| is_over(at, age, now)) {
                    row.cancel_named_at = Some(now);
                    let owed_for = now.as_millis() - row.called_off_at.as_millis();
                    work.cascade.push(CascadeRow {
                        flow_id: flow_id.clone(),
                        manifest: manifest.clone(),
                        child_key: row.child.key.clone(),
                        store: row.child.store.clone(),
                        job_id: row.child.job.id.clone().expect("children have ids"),
                        owed_for: Duration::from_millis(owed_for),
                    });
                }
            }
        }
        work
    }

    pub(super) fn mark(&mut self, flow: &JobId, manifest: &LockToken, keys: &[ChildKey]) {
        let Some(place) = self.find(flow) else { return };
        let job = &mut self.jobs[place];
        if job.has_manifest(manifest) {
            let owed = job.rows.iter_mut().filter(|row| row.is_owed());
            for row in owed.filter(|row| keys.contains(&row.child.key)) {
                row.cascaded = true;
            }
        }
    }

    /// Undelivered reports, oldest first, under no ids.
    pub(in crate::model) fn outbox(&self) -> &[OutboxEntry] {
        &self.outbox
    }

    pub(super) fn delete_outbox(&mut self, places: &[usize]) {
        let mut place = 0..;
        self.outbox
            .retain(|_| !places.contains(&place.next().expect("there is no end")));
    }

    /// By key, then oldest first.
    pub(super) fn undelivered(
        &self,
        store: &StoreKey,
        flow: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Vec<OutboxEntry> {
        let is_meant = |entry: &&OutboxEntry| {
            let report = &entry.report;
            entry.parent_store == *store
                && report.flow_id == *flow
                && report.manifest == *manifest
                && keys.contains(&report.child_key)
        };
        let mut found: Vec<_> = self.outbox.iter().filter(is_meant).cloned().collect();
        found.sort_by(|one, other| one.report.child_key.cmp(&other.report.child_key));
        found
    }
}

fn row(child: &FlowChild, now: Timestamp) -> Row {
    Row {
        child: child.clone(),
        status: ChildStatus::Pending,
        exit: None,
        reason: None,
        cascaded: false,
        pending_since: now,
        called_off_at: now,
        cancel_named_at: None,
    }
}
