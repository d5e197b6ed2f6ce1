//! Schedules: jobs that come again.

use async_trait::async_trait;
use mq_core::{
    Cadence, DueSchedules, JobSpec, NewSchedule, Result, ScheduleFilter, ScheduleKey, ScheduleOps,
    ScheduleRecord, Tick, Timestamp, validate,
};

use crate::enqueue::{Executor, Request, millis, to_json};
use crate::pool::Failure;
use crate::rows::{Columns, Read, millis as duration, read_all, read_one};
use crate::statement::clock;
use crate::store::{Inner, PgStore};
use crate::wake::Topic;

/// The columns of a schedule, as [`record`] reads them.
macro_rules! schedule_columns {
    () => {
        "s.key, s.cron, s.tz, s.every_ms, s.job_name, s.queue, s.payload, s.metadata::text,
        s.priority, s.attempts_max, s.backoff, s.keep, s.timeout_ms, s.group_name, s.next_run_at,
        s.version"
    };
}

/// Stores a schedule. The version comes from the store's one sequence, so that
/// a tick decided before a schedule was removed and made again is void too. It
/// is drawn once the row is locked: of upserts that race the last has the highest.
const UPSERT: &str = concat!(
    "WITH s AS (
        INSERT INTO $mq_schedules AS s (key, cron, tz, every_ms, job_name, queue, payload,
            metadata, priority, attempts_max, backoff, keep, timeout_ms, group_name, next_run_at,
            version)
        VALUES ($1, $2, $3, $4, $5, $6, $7::json, $8::jsonb, $9::bigint::integer, $10,
            $11::json, $12::json, $13, $14, $15, nextval('$mq_seq'))
        ON CONFLICT (key) DO UPDATE SET cron = excluded.cron, tz = excluded.tz,
            every_ms = excluded.every_ms, job_name = excluded.job_name, queue = excluded.queue,
            payload = excluded.payload, metadata = excluded.metadata,
            priority = excluded.priority, attempts_max = excluded.attempts_max,
            backoff = excluded.backoff, keep = excluded.keep, timeout_ms = excluded.timeout_ms,
            group_name = excluded.group_name, version = nextval('$mq_seq'),
            next_run_at = CASE
                WHEN (s.cron, s.tz, s.every_ms)
                    IS NOT DISTINCT FROM (excluded.cron, excluded.tz, excluded.every_ms)
                    THEN s.next_run_at
                ELSE excluded.next_run_at
            END
        RETURNING s.*
    ) SELECT ",
    schedule_columns!(),
    " FROM s"
);

const REMOVE: &str = "WITH gone AS (DELETE FROM $mq_schedules WHERE key = $1 RETURNING 1)
    SELECT EXISTS (SELECT FROM gone)";

const LIST: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM $mq_schedules s
    WHERE ($1::text IS NULL OR s.job_name = $1) AND ($2::text IS NULL OR s.queue = $2)
        AND ($3::text IS NULL OR s.group_name = $3)
    ORDER BY s.key"
);

/// The first `$2` schedules by their slots, due or not, with the time.
const FIRST: &str = concat!(
    "WITH ",
    clock!(),
    " SELECT c.now, ",
    schedule_columns!(),
    " FROM clock c LEFT JOIN (
        SELECT * FROM $mq_schedules ORDER BY next_run_at, key LIMIT $2
    ) AS s ON true
    ORDER BY s.next_run_at, s.key"
);

/// Advances a schedule that still has this version and this slot.
const ADVANCE: &str = "WITH advanced AS (
        UPDATE $mq_schedules SET next_run_at = $4
        WHERE key = $1 AND version = $2 AND next_run_at = $3
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM advanced)";

#[async_trait]
impl ScheduleOps for PgStore {
    async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord> {
        validate::upsert_schedule(&schedule, &self.inner.limits)?;
        self.inner
            .upsert_schedule(&schedule)
            .await
            .map_err(|failure| self.inner.connections.store_error(failure))
    }

    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool> {
        validate::schedule_key(key)?;
        let statement = self.inner.statement(REMOVE).bind(&**key);
        let rows = self.inner.query(&statement).await?;
        read_one(&rows, |columns| columns.flag())
    }

    async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        validate::list_schedules(&filter)?;
        let statement = self
            .inner
            .statement(LIST)
            .bind(filter.job_name.as_deref())
            .bind(filter.queue.as_deref())
            .bind(filter.group.as_deref());
        read_all(&self.inner.query(&statement).await?, record)
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let limit = validate::batch_limit(limit)?;
        let statement = self.inner.timed(FIRST).bind(limit + 1);
        let rows = self.inner.query(&statement).await?;
        let now = read_one(&rows, |columns| columns.instant())?;
        let first = read_all(&rows, |columns| {
            columns.instant()?;
            maybe_schedule(columns)
        })?;
        let mut first = first.into_iter().flatten().peekable();
        let mut due = Vec::new();
        while due.len() < limit as usize
            && let Some(schedule) = first.next_if(|schedule| schedule.next_run_at <= now)
        {
            due.push(schedule);
        }
        Ok(DueSchedules {
            due,
            next_due: first.next().map(|schedule| schedule.next_run_at),
            now,
        })
    }

    async fn tick_schedule(&self, tick: Tick) -> Result<bool> {
        validate::tick_schedule(&tick, &self.inner.limits)?;
        let (answer, inserted) = self.inner.repeatedly(|| self.inner.tick(&tick)).await?;
        if let (true, Some(job)) = (inserted, &tick.job) {
            self.inner
                .announce(vec![Topic::Queue(job.spec.queue.clone())]);
        }
        Ok(answer)
    }
}

impl Inner {
    async fn upsert_schedule(&self, schedule: &NewSchedule) -> Result<ScheduleRecord, Failure> {
        let NewSchedule {
            key,
            cadence,
            spec,
            group,
            next_run_at,
        } = schedule;
        let (cron, tz, every) = match cadence {
            Cadence::Cron { expression, tz } => (Some(&**expression), tz.as_deref(), None),
            Cadence::Every(interval) => (None, None, Some(millis(*interval))),
        };
        let metadata = to_json(&spec.metadata)?;
        let backoff = spec.backoff.as_ref().map(to_json).transpose()?;
        let keep = spec.keep.as_ref().map(to_json).transpose()?;
        let statement = self
            .statement(UPSERT)
            .bind(&**key)
            .bind(cron)
            .bind(tz)
            .bind(every)
            .bind(&*spec.name)
            .bind(&*spec.queue)
            .bind(spec.payload.get())
            .bind(metadata.as_str())
            .bind(i64::from(spec.priority))
            .bind(spec.attempts_max)
            .bind(backoff.as_deref())
            .bind(keep.as_deref())
            .bind(spec.timeout.map(millis))
            .bind(group.as_deref())
            .bind(*next_run_at);
        Ok(read_one(&self.attempt(&statement).await?, record)?)
    }

    /// Decides a slot; answers what the tick does, and whether it inserted.
    async fn tick(&self, tick: &Tick) -> Result<(bool, bool), Failure> {
        let mut transaction = self.begin().await?;
        let version = i64::try_from(tick.version).unwrap_or(i64::MAX);
        let advance = self
            .statement(ADVANCE)
            .bind(&*tick.key)
            .bind(version)
            .bind(tick.expected)
            .bind(tick.next);
        let rows = transaction.rows(&advance).await?;
        if !read_one(&rows, |columns| columns.flag())? {
            transaction.roll_back().await?;
            return Ok((false, false));
        }
        let mut inserted = false;
        if let Some(request) = tick.job.clone().and_then(Request::of_slot) {
            let mut executor = Executor::Transaction(&mut transaction);
            let done = self.insert(&mut executor, &[&request]).await?;
            inserted = done.first().is_some_and(|(inserted, _)| *inserted);
        }
        transaction.commit().await?;
        Ok((inserted || tick.job.is_none(), inserted))
    }
}

fn maybe_schedule(columns: &mut Columns<'_>) -> Read<Option<ScheduleRecord>> {
    if columns.is_null() {
        return Ok(None);
    }
    record(columns).map(Some)
}

fn record(columns: &mut Columns<'_>) -> Read<ScheduleRecord> {
    let key = columns.text()?.into();
    let (cron, tz, every) = (
        columns.maybe_text()?,
        columns.maybe_text()?,
        columns.maybe_number()?,
    );
    let cadence = match (cron, every) {
        (Some(expression), _) => Cadence::Cron { expression, tz },
        (None, Some(every)) => Cadence::Every(duration(every)?),
        (None, None) => return Err("the schedule has no cadence".into()),
    };
    let bare = JobSpec::new(columns.text()?, columns.text()?, columns.json()?);
    let spec = JobSpec {
        metadata: serde_json::from_str(&columns.text()?)?,
        priority: columns.small()?,
        attempts_max: u32::try_from(columns.number()?)?,
        backoff: columns.maybe_value()?,
        keep: columns.maybe_value()?,
        timeout: columns.maybe_number()?.map(duration).transpose()?,
        ..bare
    };
    let group = columns.maybe_text()?;
    let next_run_at: Timestamp = columns.instant()?;
    Ok(ScheduleRecord {
        key,
        cadence,
        spec,
        group,
        next_run_at,
        version: u64::try_from(columns.number()?)?,
    })
}
