//! What has been given out so far, and what an operation means by it.

use std::sync::Arc;
use std::time::Duration;

use mq_core::{
    Ack, AckOutcome, ChildKey, ClaimRequest, FlowChild, JobId, JobRecord, JobSpec, JobState, Lock,
    LockToken, NewJob, ParentEnvelope, RawJson, Report, Tick, Timestamp,
};

use super::answer::Answer;
use super::call::{Call, FlowKeys};
use super::naive::Naive;
use super::op::{Back, FlowPick, LockPick, Op, ReportPick};

/// Added to a version to make one that no store ever gives.
pub(super) const STALE: u64 = 1 << 32;

/// How long children rest between two sweeps: always the same, since the
/// contract does not say what a change means for those at rest.
const PENDING_AGE: Duration = Duration::from_secs(5);

/// The store that children and parents say they are on.
const STORE: &str = "default";

/// A fan-out that was tried.
#[derive(Clone)]
struct Flow {
    id: JobId,
    manifest: LockToken,
    children: Vec<FlowChild>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) ids: Vec<JobId>,
    locks: Vec<Lock>,
    calls: Vec<Call>,
    tokens: usize,
    flows: Vec<Flow>,
}

impl Known {
    /// Learns from a call and its answer.
    pub(super) fn learn(&mut self, call: Call, answer: &Answer) {
        match (&call, answer) {
            (_, Answer::Enqueued(enqueued)) => {
                self.learn_ids(enqueued.iter().map(|enqueued| &enqueued.id));
            }
            (Call::Tick(tick), _) => {
                self.learn_ids(tick.job.iter().filter_map(|job| job.id.as_ref()));
            }
            (Call::Claim(request), Answer::Claimed(claimed)) => {
                self.locks.extend(claimed.jobs.iter().map(|job| Lock {
                    id: job.id.clone(),
                    token: request.token.clone(),
                }));
            }
            (Call::Ack(acks), _) => {
                for Ack { lock, outcome } in acks {
                    if let AckOutcome::FanOut { children, .. } = outcome {
                        self.flows.push(Flow {
                            id: lock.id.clone(),
                            manifest: lock.token.clone(),
                            children: children.clone(),
                        });
                    }
                }
            }
            _ => {}
        }
        self.calls.push(call);
    }

    fn learn_ids<'a>(&mut self, ids: impl IntoIterator<Item = &'a JobId>) {
        for id in ids {
            if !self.ids.contains(id) {
                self.ids.push(id.clone());
            }
        }
    }

    fn id(&self, back: Back) -> JobId {
        latest(&self.ids, back)
            .cloned()
            .unwrap_or_else(|| "nobody".into())
    }

    fn ids(&self, backs: Vec<Back>) -> Vec<JobId> {
        backs.into_iter().map(|back| self.id(back)).collect()
    }

    /// One of the jobs in a state, or any if none is.
    fn id_in(&self, state: JobState, back: Back, naive: &Naive) -> JobId {
        let in_state = |id: &&JobId| naive.job(id).is_some_and(|job| job.state == state);
        let fitting: Vec<_> = self.ids.iter().filter(in_state).cloned().collect();
        latest(&fitting, back)
            .cloned()
            .unwrap_or_else(|| self.id(back))
    }

    fn lock(&self, pick: LockPick) -> Lock {
        let nobody = || Lock {
            id: "nobody".into(),
            token: "nothing".into(),
        };
        let mut lock = latest(&self.locks, pick.of).cloned().unwrap_or_else(nobody);
        if let Some(other) = pick.token_of.and_then(|back| latest(&self.locks, back)) {
            lock.token = other.token.clone();
        }
        lock
    }

    fn locks(&self, picks: Vec<LockPick>) -> Vec<Lock> {
        picks.into_iter().map(|pick| self.lock(pick)).collect()
    }

    fn flow(&self, back: Back) -> Flow {
        let nobody = || Flow {
            id: "nobody".into(),
            manifest: "nothing".into(),
            children: Vec::new(),
        };
        latest(&self.flows, back).cloned().unwrap_or_else(nobody)
    }

    fn flow_keys(&self, pick: FlowPick) -> FlowKeys {
        let flow = self.flow(pick.of);
        let other = pick.manifest_of.map(|back| self.flow(back));
        FlowKeys {
            flow: flow.id,
            manifest: other.map_or(flow.manifest, |other| other.manifest),
            keys: pick.keys.into_iter().map(Into::into).collect(),
        }
    }

    fn reports(&self, pick: ReportPick) -> Vec<Report> {
        let of = self.flow_keys(pick.children);
        let report = |child_key: &ChildKey| Report {
            flow_id: of.flow.clone(),
            manifest: of.manifest.clone(),
            child_key: child_key.clone(),
            outcome: pick.outcome,
            exit: pick.exit.clone(),
            failed_reason: None,
        };
        of.keys.iter().map(report).collect()
    }

    /// The call that an operation means; `None` if there is nothing to call.
    pub(super) fn resolve(&mut self, op: Op, naive: &Naive) -> Option<Call> {
        Some(match op {
            Op::Enqueue(jobs) => Call::Enqueue(jobs),
            Op::Claim {
                queue,
                names,
                lock_for,
                limit,
            } => {
                self.tokens += 1;
                let names: Arc<[_]> = names.into_iter().map(Into::into).collect();
                Call::Claim(ClaimRequest {
                    queue: queue.into(),
                    names,
                    token: LockToken::from(format!("token{}", self.tokens)),
                    lock_for,
                    limit,
                })
            }
            Op::Repeat(back) => match latest(&self.calls, back)? {
                Call::Claim(request) if !naive.remembers(request) => return None,
                call => call.clone(),
            },
            Op::Ack(acks) => {
                let ack = |(pick, outcome)| Ack {
                    lock: self.lock(pick),
                    outcome,
                };
                Call::Ack(acks.into_iter().map(ack).collect())
            }
            Op::Release(picks) => Call::Release(self.locks(picks)),
            Op::Extend(picks, by) => Call::Extend(self.locks(picks), by),
            Op::Progress(pick, value) => Call::Progress(self.lock(pick), value),
            Op::Recover { most_stalls, limit } => Call::Recover { most_stalls, limit },
            Op::Watch(backs) => Call::Watch(self.ids(backs)),
            Op::Cancel(backs) => Call::Cancel(self.ids(backs)),
            Op::CancelByDedupe(name, key) => Call::CancelByDedupe(name.into(), key.into()),
            Op::Retry(back) => Call::Retry(self.id_in(JobState::Failed, back, naive)),
            Op::Promote(back) => Call::Promote(self.id_in(JobState::Delayed, back, naive)),
            Op::Remove(back) => Call::Remove(self.id(back)),
            Op::SetQueue(queue, settings) => Call::SetQueue(queue.into(), settings),
            Op::Sweep(limit) => Call::Sweep(limit),
            Op::Upsert(new) => Call::Upsert(new),
            Op::Tick {
                key,
                stale_version,
                stale_slot,
                ahead,
                job,
            } => {
                let there = naive.schedules().iter().find(|there| there.key == key);
                let (version, slot) = there.map_or((0, Timestamp::MIN), |there| {
                    (there.version, there.next_run_at)
                });
                Call::Tick(Tick {
                    key: key.into(),
                    version: version + if stale_version { STALE } else { 0 },
                    expected: slot.saturating_add(Duration::from_millis(stale_slot.into())),
                    next: slot.saturating_add(ahead),
                    job,
                })
            }
            Op::Unschedule(key) => Call::Unschedule(key.into()),
            Op::Due(limit) => Call::Due(limit),
            Op::Walk(filter) => Call::Walk(filter),
            Op::FanOut {
                lock,
                fail_fast,
                keys,
            } => {
                let lock = self.lock(lock);
                if naive.job(&lock.id).is_some_and(counts_finished) {
                    return None;
                }
                let children = keys.into_iter().map(|key| child(&lock, key)).collect();
                let outcome = AckOutcome::FanOut {
                    fail_fast,
                    children,
                };
                Call::Ack(vec![Ack { lock, outcome }])
            }
            Op::Spawn(back) => {
                let children = self.flow(back).children;
                Call::Enqueue(children.into_iter().map(|child| child.job).collect())
            }
            Op::Report(picks) => {
                let reports = picks.into_iter().flat_map(|pick| self.reports(pick));
                Call::Report(reports.collect())
            }
            Op::Relay(most) => {
                let entries = naive.outbox().iter().take(most);
                Call::Report(entries.map(|entry| entry.report.clone()).collect())
            }
            Op::DeleteOutbox(places) => Call::DeleteOutbox(places),
            Op::Outbox(limit) => Call::Outbox(limit),
            Op::Children(back, limit) => Call::Children(self.flow(back).id, limit),
            Op::Pending(pick) => Call::Pending(self.flow_keys(pick)),
            Op::Mark(pick) => Call::Mark(self.flow_keys(pick)),
            Op::Undelivered(pick) => Call::Undelivered(STORE.into(), self.flow_keys(pick)),
            // At the end of time rows cannot rest, so a sweep does not end.
            Op::FlowSweep(_) if Timestamp::MAX.saturating_sub(PENDING_AGE) < naive.now => {
                return None;
            }
            Op::FlowSweep(limit) => Call::FlowSweep {
                age: PENDING_AGE,
                limit,
            },
            Op::Advance(_) => return None,
        })
    }
}

/// Whether a job's keep counts. When such a parent goes that owed cancels, the
/// contract leaves open.
fn counts_finished(record: &JobRecord) -> bool {
    let keep = record.spec.keep;
    JobState::ALL.into_iter().any(|state| {
        let retention = keep.and_then(|keep| keep.of(state));
        retention.is_some_and(|retention| retention.count.is_some())
    })
}

fn child(lock: &Lock, key: &'static str) -> FlowChild {
    let queue = if key == "z" { "q" } else { "p" };
    let mut job = NewJob::new(JobSpec::new("a", queue, RawJson::null()));
    job.id = Some(format!("{}.{key}", lock.id).into());
    job.parent = Some(ParentEnvelope {
        flow_name: "flow".into(),
        flow_id: lock.id.clone(),
        manifest: lock.token.clone(),
        child_key: key.into(),
        parent_store: STORE.into(),
        depth: 1,
    });
    FlowChild {
        key: key.into(),
        store: STORE.into(),
        job,
    }
}

pub(super) fn latest<T>(list: &[T], back: Back) -> Option<&T> {
    list.iter().rev().nth(back % list.len().max(1))
}
