//! Schedules: jobs that come again.

use mq_core::validate;
use mq_core::{
    Cadence, DueSchedules, JobSpec, NewSchedule, Result, ScheduleFilter, ScheduleKey, ScheduleOps,
    ScheduleRecord, StoreError, Tick, Timestamp, When, async_trait, ceil_millis,
};
use redis::Value;
use serde::{Deserialize, Serialize};

use crate::RedisStore;
use crate::codec::{Broken, Reader, job_body};
use crate::connection::Repeat;
use crate::reply::Reply;
use crate::script;

/// What of a schedule no script looks at.
#[derive(Serialize, Deserialize)]
struct Rest {
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    spec: JobSpec,
}

#[async_trait]
impl ScheduleOps for RedisStore {
    async fn upsert_schedule(&self, schedule: NewSchedule) -> Result<ScheduleRecord> {
        validate::upsert_schedule(&schedule, self.limits())?;
        let NewSchedule {
            key,
            cadence,
            spec,
            group,
            next_run_at,
        } = schedule;
        let cadence = to_json(&key, &cadence)?;
        let rest = to_json(&key, &Rest { group, spec })?;
        // Sent again, it raises the version once more and changes nothing else.
        let mut call = self.call(&script::UPSERT_SCHEDULE).repeat(Repeat::Safely);
        call.arg(&*key)
            .number(next_run_at.as_millis())
            .arg(&cadence)
            .arg(&rest);
        let mut answer = self.run_list(&call).await?;
        let (version, next_run_at) = (answer.number()?, answer.number()?);
        put_together(&key, version, next_run_at, &cadence, &rest)
            .map_err(|broken| corrupt(&key, &broken))
    }

    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool> {
        validate::schedule_key(key)?;
        let mut call = self.call(&script::REMOVE_SCHEDULE);
        call.arg(&**key);
        Ok(self.run(&call).await? == Value::Int(1))
    }

    async fn list_schedules(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRecord>> {
        validate::list_schedules(&filter)?;
        let call = self.call(&script::LIST_SCHEDULES).repeat(Repeat::Safely);
        let mut schedules = read_all(self.run_list(&call).await?)?;
        schedules.retain(|schedule| matches(&filter, schedule));
        schedules.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(schedules)
    }

    async fn due_schedules(&self, limit: u32) -> Result<DueSchedules> {
        let limit = validate::batch_limit(limit)?;
        let mut call = self.call(&script::DUE_SCHEDULES).repeat(Repeat::Safely);
        call.number(limit.into());
        let mut answer = self.run_list(&call).await?;
        let now = Timestamp::saturating_from_millis(answer.number()?);
        let next_due = answer.optional_number()?;
        Ok(DueSchedules {
            due: read_all(answer)?,
            next_due: next_due.map(Timestamp::saturating_from_millis),
            now,
        })
    }

    async fn tick_schedule(&self, tick: Tick) -> Result<bool> {
        validate::tick_schedule(&tick, self.limits())?;
        let mut call = self.call(&script::TICK_SCHEDULE);
        call.arg(&*tick.key)
            .number(tick.version)
            .number(tick.expected.as_millis())
            .number(tick.next.as_millis());
        if let Some(mut job) = tick.job {
            job.dedupe = None;
            call.arg(job.id.as_deref().unwrap_or_default());
            match job.when {
                When::After(delay) => call.number(0).number(ceil_millis(delay)),
                When::At(instant) => call.number(1).number(instant.as_millis()),
            };
            call.arg(job_body(&job, self.draw_nonces(1)));
        }
        Ok(self.run(&call).await? == Value::Int(1))
    }
}

fn matches(filter: &ScheduleFilter, schedule: &ScheduleRecord) -> bool {
    let spec = &schedule.spec;
    filter
        .job_name
        .as_ref()
        .is_none_or(|name| *name == spec.name)
        && filter
            .queue
            .as_ref()
            .is_none_or(|queue| *queue == spec.queue)
        && (filter.group.is_none() || filter.group == schedule.group)
}

fn to_json(key: &ScheduleKey, part: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(part).map_err(|error| StoreError::Backend {
        message: format!("schedule {key:?} cannot be written: {error}"),
        source: None,
    })
}

/// Schedules from keys and texts in turn. One that cannot be read is warned of
/// and left out: it must not stop the others.
fn read_all(mut answer: Reply) -> Result<Vec<ScheduleRecord>> {
    let mut schedules = Vec::with_capacity(answer.len() / 2);
    while !answer.is_empty() {
        let key = ScheduleKey::from(answer.text()?);
        let text = answer.optional_bytes()?.unwrap_or_default();
        match read(&key, &text) {
            Ok(schedule) => schedules.push(schedule),
            Err(broken) => tracing::error!("{}", corrupt(&key, &broken)),
        }
    }
    Ok(schedules)
}

fn read(key: &ScheduleKey, text: &[u8]) -> Result<ScheduleRecord, String> {
    let broken = |broken: Broken| broken.0.to_owned();
    let mut reader = Reader::new(text);
    let version = reader.u48().map_err(broken)?;
    let next_run_at = reader.u48().map_err(broken)?;
    let cadence = reader.text().map_err(broken)?;
    let rest = reader.rest().map_err(broken)?;
    put_together(
        key,
        version,
        next_run_at,
        cadence.as_bytes(),
        rest.as_bytes(),
    )
}

fn put_together(
    key: &ScheduleKey,
    version: u64,
    next_run_at: u64,
    cadence: &[u8],
    rest: &[u8],
) -> Result<ScheduleRecord, String> {
    let cadence: Cadence = serde_json::from_slice(cadence).map_err(|error| error.to_string())?;
    let Rest { group, spec } = serde_json::from_slice(rest).map_err(|error| error.to_string())?;
    Ok(ScheduleRecord {
        key: key.clone(),
        cadence,
        spec,
        group,
        next_run_at: Timestamp::from_millis(next_run_at).ok_or("its next slot is out of range")?,
        version,
    })
}

fn corrupt(key: &ScheduleKey, detail: &str) -> StoreError {
    StoreError::Backend {
        message: format!(
            "schedule {key:?} is stored in a form that cannot be read ({detail}): declare it anew"
        ),
        source: None,
    }
}
