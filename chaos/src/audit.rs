//! Looks into the store after a run: what became of every job that was accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use mq_core::{AttemptOutcome, AttemptRecord, JobId, JobRecord, JobState, StateCounts, Store};

use crate::check::Findings;
use crate::work::Kind;

/// How many jobs are read at once.
const PAGE: usize = 250;

/// How many ledgers are read at the same time.
const LEDGERS: usize = 32;

/// What is in the store.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Jobs that were accepted and are gone, or not over.
    pub(crate) lost: Vec<String>,
    /// Jobs that did not end as they must have, and counters that are wrong.
    pub(crate) wrong: Vec<String>,
    /// How many runs ended in a stall.
    pub(crate) stalls: u64,
}

/// Reads every accepted job and its ledger.
pub(crate) async fn audit(
    store: &Arc<dyn Store>,
    findings: &Findings,
    jobs: u64,
) -> mq_core::Result<Audit> {
    let mut audit = Audit::default();
    let mut states: BTreeMap<JobState, u64> = BTreeMap::new();
    let ids: Vec<JobId> = findings
        .accepted
        .iter()
        .map(|id| JobId::from(id.as_str()))
        .collect();
    for page in ids.chunks(PAGE) {
        let records = store.get_jobs(page).await?;
        for (id, record) in page.iter().zip(records) {
            match record {
                Ok(Some(record)) => {
                    *states.entry(record.state).or_default() += 1;
                    audit.judge(&record, findings);
                }
                Ok(None) => audit.lost.push(format!("{id} is gone")),
                Err(error) => audit.lost.push(error.to_string()),
            }
        }
        let ledgers = futures::stream::iter(page.iter().cloned())
            .map(|id| async move {
                let ledger = store.get_attempts(&id).await?;
                Ok::<_, mq_core::StoreError>((id, ledger))
            })
            .buffered(LEDGERS);
        let ledgers: Vec<(JobId, Vec<AttemptRecord>)> = ledgers.try_collect().await?;
        for (id, ledger) in ledgers {
            audit.judge_ledger(&id, &ledger);
        }
    }
    // If the producer was cut short, there may be jobs of which it never heard.
    if findings.tally.accepted == jobs {
        audit.judge_counts(&store.counts(None).await?, &states);
    }
    Ok(audit)
}

impl Audit {
    fn judge(&mut self, record: &JobRecord, findings: &Findings) {
        let id = record.id.as_str();
        if !record.state.is_terminal() {
            self.lost.push(format!("{id} is still {}", record.state));
            return;
        }
        let Some(kind) = Kind::of(id) else {
            self.wrong.push(format!("{id} is no job of this run"));
            return;
        };
        if record.state != kind.end() {
            let (is, must) = (record.state, kind.end());
            self.wrong.push(format!("{id} is {is}, and must be {must}"));
        }
        if record.attempts_made != kind.attempts() {
            let (made, must) = (record.attempts_made, kind.attempts());
            self.wrong.push(format!(
                "{id} used {made} attempts, and must have used {must}"
            ));
        }
        if !findings.ran.contains(id) {
            self.wrong.push(format!("{id} is over, and never ran"));
        }
    }

    fn judge_ledger(&mut self, id: &JobId, ledger: &[AttemptRecord]) {
        let Some(kind) = Kind::of(id) else { return };
        let count = |outcome| {
            ledger
                .iter()
                .filter(|entry| entry.outcome == outcome)
                .count()
        };
        self.stalls += count(AttemptOutcome::Stalled) as u64;
        let (completed, retried, failed) = match kind {
            Kind::Steady => (1, 0, 0),
            Kind::Flaky => (1, 1, 0),
            Kind::Doomed => (0, 0, 1),
        };
        let as_it_must = count(AttemptOutcome::Completed) == completed
            && count(AttemptOutcome::Retried) == retried
            && count(AttemptOutcome::Failed) == failed;
        if !as_it_must {
            let outcomes: Vec<&str> = ledger.iter().map(|entry| entry.outcome.as_str()).collect();
            self.wrong
                .push(format!("the ledger of {id} reads {outcomes:?}"));
        }
    }

    fn judge_counts(&mut self, counts: &StateCounts, states: &BTreeMap<JobState, u64>) {
        for state in JobState::ALL {
            let (counted, there) = (counts.of(state), states.get(&state).copied().unwrap_or(0));
            if counted != there {
                self.wrong.push(format!(
                    "{counted} jobs are counted as {state}, and {there} are"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mq_core::{Enqueued, MemoryStore};

    use super::*;
    use crate::check::{self, Log};
    use crate::clock::Instant;
    use crate::event::Event;
    use crate::log::{Reader, Writer};
    use crate::{work, worker};

    const JOBS: u64 = 100;
    const LOCK: Duration = Duration::from_secs(60);

    /// Runs jobs by one worker in this process, and reads its log.
    async fn run(store: &Arc<dyn Store>) -> Findings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Writer::create(&path).unwrap();
        let worker = worker::start(store.clone(), log.clone(), LOCK, 50);
        let worker = worker.await.unwrap();
        let batch = (0..JOBS).map(|number| work::job(1, number, Duration::from_millis(200)));
        let batch: Result<Vec<_>, _> = batch.collect();
        let answers = store.enqueue_many(batch.unwrap()).await.unwrap();
        let ids: Vec<JobId> = answers
            .into_iter()
            .map(|answer: Enqueued| answer.id)
            .collect();
        loop {
            let watch = store.watch(&ids).await.unwrap();
            if watch.finished.len() == ids.len() {
                break;
            }
            store.await_finished(&ids, watch.cursor).await.unwrap();
        }
        worker.shutdown().await;
        log.write(&Event::Accepted {
            at: Instant::now(),
            ids: ids.iter().map(ToString::to_string).collect(),
        });
        let events = Reader::new(&path).news().unwrap();
        check::check(&[Log {
            process: "worker-1".into(),
            events,
        }])
    }

    fn memory() -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }

    #[tokio::test]
    async fn a_store_in_peace_is_found_faultless() {
        let store = memory();
        let findings = run(&store).await;
        assert_eq!(findings.violations, []);
        assert_eq!(findings.tally.accepted, JOBS);
        assert!(findings.tally.applied > JOBS, "the flaky ones ran twice");
        let audit = audit(&store, &findings, JOBS).await.unwrap();
        assert!(audit.lost.is_empty() && audit.wrong.is_empty(), "{audit:?}");
    }

    #[tokio::test]
    async fn a_job_that_is_gone_is_found_lost() {
        let store = memory();
        let findings = run(&store).await;
        let gone = findings.accepted.first().unwrap().as_str();
        store.remove(&gone.into()).await.unwrap();
        let audit = audit(&store, &findings, JOBS).await.unwrap();
        assert_eq!(audit.lost, [format!("{gone} is gone")]);
    }

    #[tokio::test]
    async fn a_job_that_has_not_ended_is_found_lost() {
        let store = memory();
        let mut findings = run(&store).await;
        let mut late = work::job(1, JOBS, LOCK).unwrap();
        late.when = mq_core::When::After(LOCK);
        let late = store.enqueue(late).await.unwrap().id.to_string();
        findings.accepted.insert(late.clone());
        let audit = audit(&store, &findings, JOBS + 1).await.unwrap();
        assert_eq!(audit.lost, [format!("{late} is still delayed")]);
    }

    #[tokio::test]
    async fn a_job_that_ended_otherwise_than_its_kind_must_is_found_wrong() {
        let store = memory();
        let mut findings = run(&store).await;
        let mut called_off = work::job(1, JOBS, LOCK).unwrap();
        called_off.id = Some("steady-called-off".into());
        let id = store.enqueue(called_off).await.unwrap().id;
        store.cancel(&id).await.unwrap();
        findings.accepted.insert(id.to_string());
        let audit = audit(&store, &findings, JOBS + 1).await.unwrap();
        let wrong = audit.wrong.join("\n");
        assert!(
            wrong.contains("steady-called-off is cancelled, and must be completed"),
            "{wrong}"
        );
        assert!(
            wrong.contains("steady-called-off is over, and never ran"),
            "{wrong}"
        );
        assert!(
            wrong.contains("the ledger of steady-called-off reads"),
            "{wrong}"
        );
    }
}
