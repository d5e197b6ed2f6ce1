//! Reading rows: columns in turn, and job records.

use std::time::Duration;

use diesel::deserialize::FromSql;
use diesel::pg::data_types::PgTimestamp;
use diesel::pg::{Pg, PgValue};
use diesel::row::{Field, Row as _};
use diesel::sql_types::{BigInt, Bool, Integer, Timestamptz as TimestampTz};
use diesel_async::{AsyncConnectionCore, AsyncPgConnection};
use mq_core::{Cause, JobId, JobRecord, JobSpec, JobState, RawJson, StoreError, Timestamp};
use serde::de::DeserializeOwned;

use crate::statement::from_pg;

/// A row as the connection gives it.
pub(crate) type Row = <AsyncPgConnection as AsyncConnectionCore>::Row<'static, 'static>;

/// Why a row could not be read.
type Undecodable = Box<dyn std::error::Error + Send + Sync>;

/// What reading a column answers.
pub(crate) type Read<T> = Result<T, Undecodable>;

/// A row's columns, read from the left.
pub(crate) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

/// Reads each row of an answer.
///
/// # Errors
/// `Backend` if one cannot be read: the tables are not what they should be.
pub(crate) fn read_all<T>(
    rows: &[Row],
    mut read: impl FnMut(&mut Columns<'_>) -> Read<T>,
) -> Result<Vec<T>, StoreError> {
    rows.iter()
        .map(|row| read(&mut Columns::of(row)).map_err(unreadable))
        .collect()
}

/// Reads the one row of an answer.
pub(crate) fn read_one<T>(
    rows: &[Row],
    read: impl FnMut(&mut Columns<'_>) -> Read<T>,
) -> Result<T, StoreError> {
    let mut all = read_all(rows, read)?;
    all.pop()
        .ok_or_else(|| unreadable("the answer has no row".into()))
}

pub(crate) fn unreadable(error: Undecodable) -> StoreError {
    StoreError::Backend {
        message: "Postgres answered with rows of another form than expected: \
                  are the mq tables as its migrations left them?"
            .into(),
        source: Some(Cause::new(error)),
    }
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    fn value<T>(&mut self, read: impl FnOnce(PgValue<'_>) -> Read<T>) -> Read<Option<T>> {
        let at = self.next;
        self.next += 1;
        let field = self
            .row
            .get(at)
            .ok_or_else(|| format!("the row has no column {at}"))?;
        field.value().map(read).transpose()
    }

    fn required<T>(&mut self, read: impl FnOnce(PgValue<'_>) -> Read<T>) -> Read<T> {
        let at = self.next;
        self.value(read)?
            .ok_or_else(|| format!("column {at} is null").into())
    }

    /// Whether the next column is null; it stays the next.
    pub(crate) fn is_null(&self) -> bool {
        let field = self.row.get(self.next);
        field.is_none_or(|field| field.value().is_none())
    }

    pub(crate) fn flag(&mut self) -> Read<bool> {
        self.required(|value| FromSql::<Bool, Pg>::from_sql(value))
    }

    pub(crate) fn maybe_flag(&mut self) -> Read<Option<bool>> {
        self.value(|value| FromSql::<Bool, Pg>::from_sql(value))
    }

    /// A `bigint`.
    pub(crate) fn number(&mut self) -> Read<i64> {
        self.required(|value| FromSql::<BigInt, Pg>::from_sql(value))
    }

    pub(crate) fn maybe_number(&mut self) -> Read<Option<i64>> {
        self.value(|value| FromSql::<BigInt, Pg>::from_sql(value))
    }

    /// An `integer`.
    pub(crate) fn small(&mut self) -> Read<i32> {
        self.required(|value| FromSql::<Integer, Pg>::from_sql(value))
    }

    /// An `integer` that counts.
    pub(crate) fn count(&mut self) -> Read<u32> {
        Ok(u32::try_from(self.small()?)?)
    }

    /// `text`, or `json` as its text.
    pub(crate) fn text(&mut self) -> Read<String> {
        self.required(text)
    }

    pub(crate) fn maybe_text(&mut self) -> Read<Option<String>> {
        self.value(text)
    }

    pub(crate) fn instant(&mut self) -> Read<Timestamp> {
        self.required(instant)
    }

    pub(crate) fn maybe_instant(&mut self) -> Read<Option<Timestamp>> {
        self.value(instant)
    }

    /// `json`, byte for byte.
    pub(crate) fn json(&mut self) -> Read<RawJson> {
        Ok(RawJson::parse(self.text()?)?)
    }

    pub(crate) fn maybe_json(&mut self) -> Read<Option<RawJson>> {
        Ok(self.maybe_text()?.map(RawJson::parse).transpose()?)
    }

    /// `json` that holds a value of ours.
    pub(crate) fn maybe_value<T: DeserializeOwned>(&mut self) -> Read<Option<T>> {
        let text = self.maybe_text()?;
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    /// A state by its name.
    pub(crate) fn state(&mut self) -> Read<JobState> {
        state(&self.text()?)
    }
}

fn text(value: PgValue<'_>) -> Read<String> {
    Ok(std::str::from_utf8(value.as_bytes())?.to_owned())
}

fn instant(value: PgValue<'_>) -> Read<Timestamp> {
    FromSql::<TimestampTz, Pg>::from_sql(value).map(|instant: PgTimestamp| from_pg(instant))
}

/// The state of this name.
pub(crate) fn state(name: &str) -> Read<JobState> {
    JobState::ALL
        .into_iter()
        .find(|state| state.as_str() == name)
        .ok_or_else(|| format!("there is no state {name:?}").into())
}

/// The columns of a job record, as the view `mq_jobs` has them, in the order
/// in which [`record`] reads them.
macro_rules! record_columns {
    () => {
        "id, name, queue, payload, metadata::text AS metadata, priority, attempts_max, backoff,
        keep, timeout_ms, dedupe_key, trace, parent, enqueued_at, state, attempts_made,
        attempts_recorded, stalled_count, cancel_requested, flow, run_at, processed_at,
        finished_at, exit, failed_reason, progress"
    };
}
pub(crate) use record_columns;

/// How many columns a job record has.
const RECORD_COLUMNS: usize = 26;

/// Reads a job record, or nothing if its columns are null, as of an outer join.
///
/// # Errors
/// `Corrupt` inside if the job cannot be decoded; the columns after it can be
/// read nevertheless.
pub(crate) fn maybe_record(
    columns: &mut Columns<'_>,
) -> Read<Option<Result<JobRecord, StoreError>>> {
    let start = columns.next;
    let id = columns.maybe_text()?;
    let Some(id) = id.map(JobId::from) else {
        columns.next = start + RECORD_COLUMNS;
        return Ok(None);
    };
    columns.next = start;
    let decoded = record(columns).map_err(|error| StoreError::Corrupt {
        id,
        detail: error.to_string(),
    });
    columns.next = start + RECORD_COLUMNS;
    Ok(Some(decoded))
}

fn record(columns: &mut Columns<'_>) -> Read<JobRecord> {
    let id = columns.text()?.into();
    let spec_without_policies = JobSpec::new(columns.text()?, columns.text()?, columns.json()?);
    let spec = JobSpec {
        metadata: serde_json::from_str(&columns.text()?)?,
        priority: columns.small()?,
        attempts_max: u32::try_from(columns.number()?)?,
        backoff: columns.maybe_value()?,
        keep: columns.maybe_value()?,
        timeout: columns.maybe_number()?.map(millis).transpose()?,
        ..spec_without_policies
    };
    Ok(JobRecord {
        id,
        spec,
        dedupe_key: columns.maybe_text()?.map(Into::into),
        trace: columns.maybe_value()?,
        parent: columns.maybe_value()?,
        enqueued_at: columns.instant()?,
        state: columns.state()?,
        attempts_made: columns.count()?,
        attempts_recorded: columns.count()?,
        stalled_count: columns.count()?,
        cancel_requested: columns.flag()?,
        flow: columns.maybe_value()?,
        run_at: columns.instant()?,
        processed_at: columns.maybe_instant()?,
        finished_at: columns.maybe_instant()?,
        exit: columns.maybe_json()?,
        failed_reason: columns.maybe_text()?,
        progress: columns.maybe_json()?,
    })
}

pub(crate) fn millis(number: i64) -> Read<Duration> {
    Ok(Duration::from_millis(u64::try_from(number)?))
}
