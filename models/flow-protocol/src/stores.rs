//! The stores' side: what each request does, in one atomic step.

use crate::config::{Config, Variant};
use crate::id::{Child, JobId, Keys, Token};
use crate::record::{Flow, Job, JobState, Life, Outcome, Report, Row, Status};
use crate::request::{Manifest, Reply, Request};
use crate::world::{Violation, World};

impl World {
    /// Does what a store is asked, and answers.
    pub fn ask(&mut self, request: &Request, config: &Config) -> Reply {
        match request {
            Request::StagePage { job, token, page } => self.fan_out(*job, *token, *page, config),
            Request::Ack {
                job,
                token,
                outcome,
            } => self.ack(*job, *token, *outcome, config),
            Request::ReadParent(manifest) => self.read_parent(*manifest, config),
            Request::UndeliveredReports(manifest, keys) => {
                self.undelivered_reports(*manifest, *keys)
            }
            Request::PendingChildren(manifest, keys) => Reply::Pending(
                keys.iter()
                    .filter(|key| self.is_pending(manifest.child(*key)))
                    .collect(),
            ),
            Request::GetChild(child) => self.get_child(*child),
            Request::EnqueueChild {
                child,
                origin,
                had_ended,
            } => self.enqueue_child(*child, *origin, *had_ended),
            Request::CancelChild(child) => self.cancel(child.job(), config),
            Request::Record(reports) => self.record(reports, config),
            Request::MarkCascaded(child) => self.mark_cascaded(*child),
            Request::DeleteReports(store, ids) => {
                self.outbox[*store as usize].retain(|entry| !ids.contains(&entry.id));
                Reply::Done
            }
        }
    }

    /// One page of a fan-out ack, under the parent's lock. Only the last page
    /// makes anything visible.
    fn fan_out(&mut self, id: JobId, token: Token, page: u8, config: &Config) -> Reply {
        let is_last = page + 1 == config.pages_of(id);
        let Some(job) = self.job(id) else {
            return Reply::LockLost;
        };
        if !job.is_locked_by(token) {
            let was_acked = is_last && job.last_acked == token;
            return if was_acked {
                Reply::Done
            } else {
                Reply::LockLost
            };
        }
        let manifest = Manifest {
            flow: id,
            mark: config.mark(token),
            origin: token,
        };
        self.stage(manifest, config.page(id, page));
        if is_last {
            self.park(manifest, config);
        }
        Reply::Done
    }

    fn stage(&mut self, manifest: Manifest, keys: Keys) {
        for key in keys.iter() {
            let child = manifest.child(key);
            self.rows.retain(|row| row.child != child);
            self.rows.push(Row::pending(child, manifest.origin));
        }
    }

    fn park(&mut self, manifest: Manifest, config: &Config) {
        let id = manifest.flow;
        let children = config.children_of(id).iter().count();
        let Some(job) = self.job_mut(id) else {
            return;
        };
        job.last_acked = manifest.origin;
        let flow = job.flow.get_or_insert_with(|| {
            Flow::new(
                manifest.mark,
                manifest.origin,
                u8::try_from(children).unwrap_or(u8::MAX),
            )
        });
        job.state = if flow.pending == 0 {
            JobState::Waiting
        } else {
            JobState::Parked
        };
        if job.cancel_requested {
            self.close(id, Outcome::Cancelled, config);
        }
    }

    fn ack(&mut self, id: JobId, token: Token, outcome: Outcome, config: &Config) -> Reply {
        let Some(job) = self.job_mut(id) else {
            return Reply::LockLost;
        };
        if !job.is_locked_by(token) {
            return if job.last_acked == token {
                Reply::Done
            } else {
                Reply::LockLost
            };
        }
        job.last_acked = token;
        self.end(id, outcome, config);
        Reply::Done
    }

    fn read_parent(&self, manifest: Manifest, config: &Config) -> Reply {
        let is_parked = self
            .job(manifest.flow)
            .is_some_and(|job| job.state == JobState::Parked)
            && self
                .flow_of(manifest.child(crate::id::Key(0)))
                .is_some_and(|flow| !flow.closed);
        Reply::Pending(if is_parked {
            config.children_of(manifest.flow)
        } else {
            Keys::NONE
        })
    }

    fn undelivered_reports(&self, manifest: Manifest, keys: Keys) -> Reply {
        let store = manifest.child(crate::id::Key(0)).job().store();
        let found = self.outbox[store as usize]
            .iter()
            .map(|entry| entry.report)
            .filter(|Report { child, .. }| {
                child.flow == manifest.flow && child.mark == manifest.mark && keys.has(child.key)
            })
            .collect();
        Reply::Reports {
            found,
            ended: self.ended_keys(manifest, keys),
        }
    }

    fn get_child(&self, child: Child) -> Reply {
        match self.job(child.job()) {
            None => Reply::Missing,
            Some(&Job {
                state: JobState::Ended(outcome),
                origin,
                ..
            }) => Reply::Ended { outcome, origin },
            Some(_) => Reply::InFlight,
        }
    }

    fn enqueue_child(&mut self, child: Child, origin: Token, had_ended: bool) -> Reply {
        let id = child.job();
        if self.job(id).is_none() {
            let life = match self.ends(child, origin) {
                None => Life::First,
                Some(_) if had_ended => Life::Again,
                Some(_) => Life::Excused,
            };
            self.insert(id, Job::waiting(origin, life));
        }
        Reply::Done
    }

    /// Cancels a job. One that runs is flagged; one that is parked closes its
    /// flow.
    pub fn cancel(&mut self, id: JobId, config: &Config) -> Reply {
        let Some(job) = self.job_mut(id) else {
            return Reply::Missing;
        };
        match job.state {
            JobState::Waiting => self.end(id, Outcome::Cancelled, config),
            JobState::Parked => self.close(id, Outcome::Cancelled, config),
            JobState::Active(_) => job.cancel_requested = true,
            JobState::Ended(outcome) => {
                let origin = job.origin;
                return Reply::Ended { outcome, origin };
            }
        }
        Reply::Done
    }

    /// Records a page of reports: all row updates first, then at most one
    /// settle per flow.
    fn record(&mut self, reports: &[Report], config: &Config) -> Reply {
        let mut flows: Vec<JobId> = reports.iter().map(|report| report.child.flow).collect();
        flows.sort_unstable();
        flows.dedup();
        for flow in flows {
            let of_flow = reports.iter().filter(|report| report.child.flow == flow);
            let mut any_applied = false;
            let mut any_failed = false;
            for report in of_flow {
                let applied = self.apply(report, config);
                any_applied |= applied;
                any_failed |= applied && report.outcome == Outcome::Failed;
            }
            if any_applied {
                self.settle(flow, any_failed, config);
            }
        }
        Reply::Done
    }

    /// Applies one report to its row: only if the row is pending, and of the
    /// report's manifest.
    fn apply(&mut self, report: &Report, config: &Config) -> bool {
        let child = report.child;
        let guarded = config.variant != Variant::NoRowGuard;
        if self.row(child).is_none() || guarded && !self.is_pending(child) {
            return false;
        }
        let Some(flow) = self.job_mut(child.flow).and_then(|job| job.flow.as_mut()) else {
            return false;
        };
        flow.count(report.outcome);
        let origin = flow.origin;
        let is_true = origin == report.origin
            && self
                .ends(child, origin)
                .is_some_and(|ends| ends.has(report.outcome));
        if !is_true {
            self.violation = Some(Violation::WrongResult(child));
        }
        if let Some(row) = self.row_mut(child) {
            row.status = Status::Recorded(report.outcome);
            row.cascaded = true;
        }
        true
    }

    fn settle(&mut self, id: JobId, any_failed: bool, config: &Config) {
        let Some(job) = self.job_mut(id) else {
            return;
        };
        let Some(flow) = job.flow.as_mut() else {
            return;
        };
        if config.fail_fast && any_failed {
            self.close(id, Outcome::Failed, config);
        } else if flow.pending == 0 {
            flow.settled += 1;
            job.state = JobState::Waiting;
        }
    }

    fn mark_cascaded(&mut self, child: Child) -> Reply {
        if self.is_owed(child) {
            if let Some(row) = self.row_mut(child) {
                row.cascaded = true;
                row.owed_long = false;
            }
            if let Some(flow) = self.job_mut(child.flow).and_then(|job| job.flow.as_mut()) {
                flow.owed -= 1;
            }
        }
        Reply::Done
    }

    /// Recovers a job whose lock has expired.
    pub fn recover_stalled(&mut self, id: JobId, config: &Config) {
        let Some(job) = self.job_mut(id) else {
            return;
        };
        if job.cancel_requested {
            self.end(id, Outcome::Cancelled, config);
            return;
        }
        job.stalled_count += 1;
        if job.stalled_count > config.max_stalled_count {
            self.end(id, Outcome::Failed, config);
        } else {
            job.state = JobState::Waiting;
            if job.told.take().is_some() {
                job.life = Life::Again;
            }
        }
    }

    /// The rows of a parent that nobody will ever see: of no manifest, or of
    /// a missing parent, and not staged under a live lock.
    pub fn purgeable(&self, id: JobId, config: &Config) -> Vec<Child> {
        let job = self.job(id);
        let visible = job.and_then(|job| job.flow).map(|flow| flow.manifest);
        let staging = match job.map(|job| job.state) {
            Some(JobState::Active(token)) if config.variant != Variant::PurgeWithoutLockCheck => {
                Some(config.mark(token))
            }
            _ => None,
        };
        self.rows
            .iter()
            .map(|row| row.child)
            .filter(|child| child.flow == id)
            .filter(|child| Some(child.mark) != visible && Some(child.mark) != staging)
            .collect()
    }
}
