//! Ack: how runs end, a page in one statement.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Ack, AckOutcome, Acked, JobId, Result, StoreError};

use super::{Ended, MISSES, Miss, read_ended};
use crate::enqueue::millis;
use crate::pool::Failure;
use crate::rows::read_all;
use crate::statement::{Statement, after, clock};
use crate::store::Inner;
use crate::terminal::finish;
use crate::wake::Topic;

/// Ends the runs of `$2` under the tokens `$3`: `$4` how, `$5` the delay until
/// the next, `$6` the exits, `$7` whether also those of jobs with a `keep`,
/// which the transaction must apply.
///
/// The batch comes in the order of its ids, and so are its rows locked.
const ACK: &str = concat!(
    "WITH ",
    clock!(),
    ", gone AS (
        DELETE FROM $mq_active a
        USING unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $8::bigint[])
            AS i(id, ack_token, how, delay_ms, run_exit, place)
        WHERE a.job_id = i.id AND a.token = i.ack_token AND ($7 OR NOT a.has_keep)
        RETURNING a.*, i.how, i.delay_ms, i.run_exit::json AS run_exit, i.place,
            i.how NOT IN ('retry', 'snooze') OR a.cancel_requested AS ends
    ),
    ended AS MATERIALIZED (
        SELECT job_id, queue, name, end_state AS state, end_state AS outcome,
            CASE WHEN how IN ('complete', 'fail') THEN run_exit END AS exit,
            CASE WHEN how NOT IN ('complete', 'fail') THEN run_exit END AS run_exit,
            NULL::text AS failed_reason, run_at,
            attempts_made + CASE WHEN how = 'snooze' THEN 0 ELSE 1 END AS attempts_made,
            attempts_recorded + 1 AS attempts_recorded, stalled_count, processed_at,
            true AS closed_run, token AS last_acked, progress, watched, has_flow, has_keep,
            has_parent, place
        FROM (
            SELECT *, CASE how WHEN 'complete' THEN 'completed' WHEN 'fail' THEN 'failed'
                ELSE 'cancelled' END AS end_state
            FROM gone WHERE ends
        ) AS g
    ),
    ",
    finish!(),
    ",
    again AS MATERIALIZED (
        SELECT g.job_id, g.queue, g.name, g.priority, nextval('$mq_seq') AS seq, ",
    after!("(SELECT now FROM clock)", "g.delay_ms"),
    "       AS run_at, g.how, g.run_exit,
            g.attempts_made + CASE WHEN g.how = 'snooze' THEN 0 ELSE 1 END AS attempts_made,
            g.attempts_recorded + 1 AS attempts_recorded, g.stalled_count, g.processed_at,
            g.token AS last_acked, g.progress, g.watched, g.has_flow
        FROM (SELECT * FROM gone WHERE NOT ends ORDER BY place) AS g
    ),
    waits AS (
        INSERT INTO $mq_ready (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, run_at, attempts_made, attempts_recorded,
            stalled_count, processed_at, last_acked, progress, watched, has_flow
        FROM again WHERE run_at <= (SELECT now FROM clock)
    ),
    put_off AS (
        INSERT INTO $mq_delayed (job_id, queue, name, priority, seq, run_at, attempts_made,
            attempts_recorded, stalled_count, processed_at, last_acked, progress, watched, has_flow)
        SELECT job_id, queue, name, priority, seq, run_at, attempts_made, attempts_recorded,
            stalled_count, processed_at, last_acked, progress, watched, has_flow
        FROM again WHERE run_at > (SELECT now FROM clock)
    ),
    noted AS (
        INSERT INTO $mq_attempt (job_id, attempt, started_at, finished_at, outcome, exit)
        SELECT job_id, attempts_recorded, processed_at, (SELECT now FROM clock),
            CASE how WHEN 'retry' THEN 'retried' ELSE 'snoozed' END, run_exit
        FROM again
    ),
    forgotten AS (
        DELETE FROM $mq_attempt t USING again a
        WHERE a.attempts_recorded > 200 AND t.job_id = a.job_id
            AND t.attempt <= a.attempts_recorded - 200
    )
    SELECT g.place, g.job_id, g.queue, g.ends, g.watched, g.has_keep, EXISTS (
        SELECT FROM $mq_queue_control c WHERE c.queue = g.queue AND c.max_active IS NOT NULL
    )
    FROM gone g"
);

/// An ack in its place.
pub(super) struct Placed<'a> {
    pub(super) place: usize,
    pub(super) ack: &'a Ack,
}

impl Inner {
    /// Acks single runs that came together; each is answered on its own.
    pub(crate) async fn ack_each(self: &Arc<Self>, acks: Vec<Ack>) -> Vec<Result<Acked>> {
        let mut answers: Vec<Option<Result<Acked>>> = vec![None; acks.len()];
        let mut rest: Vec<(usize, Ack)> = acks.into_iter().enumerate().collect();
        while !rest.is_empty() {
            // Two acks of one job were two calls: the second follows the first.
            let mut seen = HashSet::with_capacity(rest.len());
            let (now, later): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|(_, ack)| seen.insert(ack.lock.id.clone()));
            let (places, acks): (Vec<_>, Vec<_>) = now.into_iter().unzip();
            let done = match self.ack_many(&acks).await {
                Ok(done) => done,
                Err(error) => vec![Err(error); acks.len()],
            };
            for (place, answer) in places.into_iter().zip(done) {
                answers[place] = Some(answer);
            }
            rest = later;
        }
        answers.into_iter().flatten().collect()
    }

    pub(super) async fn ack_many(self: &Arc<Self>, acks: &[Ack]) -> Result<Vec<Result<Acked>>> {
        let mut answers = self.refused_acks(acks);
        for page in 0..acks.len().div_ceil(MAX_BATCH as usize) {
            let start = page * MAX_BATCH as usize;
            let end = acks.len().min(start + MAX_BATCH as usize);
            let open = (start..end).filter(|place| answers[*place].is_none());
            let open: Vec<_> = open
                .map(|place| Placed {
                    place,
                    ack: &acks[place],
                })
                .collect();
            match self.ack_page(&open, &mut answers).await {
                Ok(()) => {}
                // Earlier pages are settled: their answers must not be lost.
                Err(error) if start > 0 => {
                    let late = answers.iter_mut().filter(|answer| answer.is_none());
                    late.for_each(|answer| *answer = Some(Err(error.clone())));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// What is wrong with each ack that is refused whatever the state.
    fn refused_acks(&self, acks: &[Ack]) -> Vec<Option<Result<Acked>>> {
        let mut seen = HashSet::with_capacity(acks.len());
        acks.iter()
            .map(|ack| {
                let first = seen.insert(&ack.lock.id);
                if let Err(error) = validate::ack(ack, &self.limits) {
                    return Some(Err(error.into()));
                }
                (!first).then(|| {
                    Err(StoreError::LockLost {
                        id: ack.lock.id.clone(),
                    })
                })
            })
            .collect()
    }

    async fn ack_page(
        self: &Arc<Self>,
        open: &[Placed<'_>],
        answers: &mut [Option<Result<Acked>>],
    ) -> Result<()> {
        let is_fan_out = |ack: &Ack| matches!(ack.outcome, AckOutcome::FanOut { .. });
        let mut plain: Vec<&Placed<'_>> = open
            .iter()
            .filter(|placed| !is_fan_out(placed.ack))
            .collect();
        plain.sort_unstable_by(|one, other| one.ack.lock.id.cmp(&other.ack.lock.id));
        if !plain.is_empty() {
            self.ack_plain(&plain, answers).await?;
        }
        for placed in open.iter().filter(|placed| is_fan_out(placed.ack)) {
            answers[placed.place] = Some(self.fan_out(placed.ack).await);
        }
        Ok(())
    }

    async fn ack_plain(
        self: &Arc<Self>,
        plain: &[&Placed<'_>],
        answers: &mut [Option<Result<Acked>>],
    ) -> Result<()> {
        let mut ended = Vec::new();
        if self.meets_keeps.load(Ordering::Relaxed) {
            ended = self.repeatedly(|| self.ack_with_keeps(plain)).await?;
        } else {
            let statement = self.ack_statement(plain, false);
            ended.extend(read_ended(&self.query(&statement).await?)?);
        }
        self.note(&ended, answers);
        let missed: Vec<&Placed<'_>> = plain
            .iter()
            .filter(|placed| answers[placed.place].is_none())
            .copied()
            .collect();
        if missed.is_empty() {
            return Ok(());
        }
        let held = self.explain(&missed, answers).await?;
        if held.is_empty() {
            return Ok(());
        }
        // Their jobs have a keep. From now on that is expected.
        self.meets_keeps.store(true, Ordering::Relaxed);
        let ended = self.repeatedly(|| self.ack_with_keeps(&held)).await?;
        self.note(&ended, answers);
        for placed in held {
            answers[placed.place].get_or_insert_with(|| {
                Err(StoreError::LockLost {
                    id: placed.ack.lock.id.clone(),
                })
            });
        }
        Ok(())
    }

    /// Says why acks met no lock, and answers those that hold one after all.
    async fn explain<'a, 'b>(
        &self,
        missed: &[&'a Placed<'b>],
        answers: &mut [Option<Result<Acked>>],
    ) -> Result<Vec<&'a Placed<'b>>> {
        let locks = || missed.iter().map(|placed| &placed.ack.lock);
        let statement = self
            .statement(MISSES)
            .bind(locks().map(|lock| lock.id.as_str()).collect::<Vec<_>>())
            .bind(locks().map(|lock| lock.token.as_str()).collect::<Vec<_>>());
        let misses = read_all(&self.query(&statement).await?, Miss::read)?;
        let mut held = Vec::new();
        for (placed, miss) in missed.iter().zip(misses) {
            let id = placed.ack.lock.id.clone();
            let answer = match miss {
                Miss::Held => {
                    held.push(*placed);
                    continue;
                }
                Miss::Gone => Err(StoreError::NotFound { id }),
                Miss::AckedBefore => Ok(Acked { applied: false }),
                Miss::Lost => Err(StoreError::LockLost { id }),
            };
            answers[placed.place] = Some(answer);
        }
        Ok(held)
    }

    async fn ack_with_keeps(&self, acks: &[&Placed<'_>]) -> Result<Vec<Ended>, Failure> {
        let mut transaction = self.begin().await?;
        let statement = self.ack_statement(acks, true);
        let ended = read_ended(&transaction.rows(&statement).await?)?;
        self.apply_keeps(&mut transaction, &ended).await?;
        transaction.commit().await?;
        Ok(ended)
    }

    pub(super) fn ack_statement<'a>(
        &'a self,
        acks: &[&'a Placed<'_>],
        with_keeps: bool,
    ) -> Statement<'a> {
        let locks = || acks.iter().map(|placed| &placed.ack.lock);
        let outcomes = || acks.iter().map(|placed| &placed.ack.outcome);
        let how = |outcome: &AckOutcome| match outcome {
            AckOutcome::Complete { .. } => "complete",
            AckOutcome::Fail { .. } => "fail",
            AckOutcome::Retry { .. } => "retry",
            AckOutcome::Snooze { .. } => "snooze",
            AckOutcome::Cancelled | AckOutcome::FanOut { .. } => "cancel",
        };
        let delay = |outcome: &AckOutcome| match outcome {
            AckOutcome::Retry { delay, .. } | AckOutcome::Snooze { delay } => millis(*delay),
            _ => 0,
        };
        fn exit(outcome: &AckOutcome) -> Option<&str> {
            match outcome {
                AckOutcome::Complete { exit }
                | AckOutcome::Fail { exit }
                | AckOutcome::Retry { exit, .. } => exit.as_ref().map(mq_core::RawJson::get),
                _ => None,
            }
        }
        let place = |placed: &&Placed<'_>| i64::try_from(placed.place).unwrap_or(i64::MAX);
        self.timed(ACK)
            .bind(locks().map(|lock| lock.id.as_str()).collect::<Vec<_>>())
            .bind(locks().map(|lock| lock.token.as_str()).collect::<Vec<_>>())
            .bind(outcomes().map(how).collect::<Vec<_>>())
            .bind(outcomes().map(delay).collect::<Vec<_>>())
            .bind(outcomes().map(exit).collect::<Vec<_>>())
            .bind(with_keeps)
            .bind(acks.iter().map(place).collect::<Vec<_>>())
    }

    /// Answers the acks that ended a run, and tells whom it concerns.
    fn note(self: &Arc<Self>, ended: &[Ended], answers: &mut [Option<Result<Acked>>]) {
        for run in ended {
            if let Some(answer) = answers.get_mut(run.place) {
                *answer = Some(Ok(Acked { applied: true }));
            }
        }
        self.announce_runs(ended);
    }
}

impl Inner {
    /// Tells those who wait for work, for a slot or for the end of a job.
    pub(super) fn announce_runs(self: &Arc<Self>, runs: &[Ended]) {
        let mut topics = HashSet::new();
        for run in runs {
            if run.ends && run.watched {
                topics.insert(Topic::Job(run.id.clone()));
            }
            if !run.ends || run.frees_a_slot {
                topics.insert(Topic::Queue(run.queue.clone()));
            }
        }
        self.announce(topics.into_iter().collect());
    }

    /// Applies the `keep` of those that ended.
    pub(super) async fn apply_keeps(
        &self,
        transaction: &mut crate::pool::Transaction<'_>,
        runs: &[Ended],
    ) -> Result<(), Failure> {
        let with_keep = runs.iter().filter(|run| run.ends && run.has_keep);
        let ids: Vec<&JobId> = with_keep.map(|run| &run.id).collect();
        if !ids.is_empty() {
            self.prune(transaction, &ids, MAX_BATCH).await?;
        }
        Ok(())
    }
}
