//! Jobs that come again.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures::future::BoxFuture;

use super::request::{add_labels, spec};
use super::{Client, ClientResult, Detached};
use crate::error::{InvalidInput, Rule};
use crate::id::{QueueName, ScheduleKey};
use crate::job::{Job, SameStoreAs};
use crate::occurrence::Occurrences;
use crate::record::{Backoff, Cadence, JobSpec, Keep, NewSchedule, ScheduleRecord};
use crate::store::StoreName;
use crate::time::Timestamp;

impl<S: StoreName> Client<S> {
    /// Has a job enqueued again and again: say when, then await what is stored.
    ///
    /// The schedule is kept under `<name>/<key>`, and replaces one of that key.
    /// With the same cadence as before it keeps its next slot. Each slot
    /// enqueues one job under an id of its own, whatever the number of workers;
    /// the job's own key and dedupe do not apply.
    ///
    /// ```
    /// # use mq_core::{Client, ClientError, Job};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Job)]
    /// # #[job(name = "digest")]
    /// # struct Digest;
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// let schedule = client
    ///     .schedule("morning", Digest)
    ///     .cron("0 9 * * *")
    ///     .tz("America/New_York")
    ///     .await?;
    /// println!("first at {}", schedule.next_run_at);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Store`: `InvalidInput` if the cadence cannot be read, never comes or
    /// anything else breaks a rule. `Encode`.
    pub fn schedule<J: Job>(&self, key: impl Into<String>, job: J) -> Schedule<J, &Self, Unplanned>
    where
        S: SameStoreAs<J::Store>,
    {
        Schedule::via(self, key.into(), &job)
    }

    /// Deletes a schedule; false if it is unknown. Jobs it enqueued stay.
    ///
    /// # Errors
    /// `Store`.
    pub async fn unschedule<J: Job>(&self, key: impl AsRef<str>) -> ClientResult<bool>
    where
        S: SameStoreAs<J::Store>,
    {
        let key = schedule_key::<J>(key.as_ref())?;
        Ok(self.core.store.remove_schedule(&key).await?)
    }
}

/// A job and when it comes again; what is not set is as its [`Job`] trait says.
///
/// [`Client::schedule`] gives one that is awaited; [`Schedule::new`] one that
/// is declared with [`Schedules`](super::Schedules).
#[must_use = "a schedule does nothing until it is awaited or declared"]
pub struct Schedule<J, V = Detached, C = Unplanned> {
    via: V,
    parts: ClientResult<Parts>,
    cadence: C,
    kind: PhantomData<fn(J)>,
}

struct Parts {
    key: ScheduleKey,
    spec: JobSpec,
}

/// A [`Schedule`] without a cadence.
#[derive(Clone, Copy, Debug)]
pub struct Unplanned;

/// A [`Schedule`] with a cadence.
#[derive(Clone, Debug)]
pub struct Recurring(Cadence);

impl<J: Job> Schedule<J> {
    /// A schedule to declare.
    pub fn new(key: impl Into<String>, job: J) -> Self {
        Self::via(Detached, key.into(), &job)
    }
}

impl<J: Job, V> Schedule<J, V> {
    fn via(via: V, key: String, job: &J) -> Self {
        let parts = schedule_key::<J>(&key).and_then(|key| {
            let spec = spec(job)?;
            Ok(Parts { key, spec })
        });
        Self {
            via,
            parts,
            cadence: Unplanned,
            kind: PhantomData,
        }
    }

    /// At the wall-clock times that a cron expression names: five fields, or
    /// six with seconds first; in UTC unless [`tz`](Schedule::tz) follows.
    pub fn cron(self, expression: impl Into<String>) -> Schedule<J, V, Recurring> {
        self.planned(Cadence::Cron {
            expression: expression.into(),
            tz: None,
        })
    }

    /// At fixed intervals, the first one from now.
    pub fn every(self, interval: Duration) -> Schedule<J, V, Recurring> {
        self.planned(Cadence::Every(interval))
    }

    fn planned(self, cadence: Cadence) -> Schedule<J, V, Recurring> {
        Schedule {
            via: self.via,
            parts: self.parts,
            cadence: Recurring(cadence),
            kind: PhantomData,
        }
    }
}

impl<J: Job, V> Schedule<J, V, Recurring> {
    /// The time zone of the cron expression, by its IANA name; intervals have
    /// none.
    pub fn tz(mut self, zone: impl Into<String>) -> Self {
        match &mut self.cadence.0 {
            Cadence::Cron { tz, .. } => *tz = Some(zone.into()),
            Cadence::Every(_) => {
                let unused = InvalidInput::new(
                    "time zone",
                    zone.into(),
                    Rule::Other("is given for an interval, which has none: remove it".into()),
                );
                self.parts = self.parts.and(Err(unused.into()));
            }
        }
        self
    }

    /// The definition as stores take it, but for its group and its first slot.
    pub(super) fn into_definition(self) -> ClientResult<Definition> {
        let Parts { key, spec } = self.parts?;
        let Recurring(cadence) = self.cadence;
        Ok(Definition {
            occurrences: Occurrences::parse(&cadence)?,
            schedule: NewSchedule {
                key,
                cadence,
                spec,
                group: None,
                next_run_at: Timestamp::MIN,
            },
        })
    }
}

impl<J: Job, V, C> Schedule<J, V, C> {
    /// Puts the jobs into this queue.
    pub fn queue(self, queue: impl Into<QueueName>) -> Self {
        self.set(|spec| spec.queue = queue.into())
    }

    /// Adds labels to the job's own; of two under one key this one counts.
    pub fn metadata<K: Into<String>, L: Into<String>>(
        self,
        labels: impl IntoIterator<Item = (K, L)>,
    ) -> Self {
        self.set(|spec| add_labels(spec, labels))
    }

    /// Higher runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|spec| spec.priority = priority)
    }

    /// How many runs may fail before a job does; at least 1.
    pub fn attempts(self, attempts: u32) -> Self {
        self.set(|spec| spec.attempts_max = attempts)
    }

    /// How long to wait between attempts; not at all if `None`.
    pub fn backoff(self, backoff: impl Into<Option<Backoff>>) -> Self {
        self.set(|spec| spec.backoff = backoff.into())
    }

    /// How long finished jobs are kept; up to the store's ceiling if `None`.
    pub fn keep(self, keep: impl Into<Option<Keep>>) -> Self {
        self.set(|spec| spec.keep = keep.into())
    }

    /// How long one run may take; for ever if `None`.
    pub fn timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        self.set(|spec| spec.timeout = timeout.into())
    }

    fn set(mut self, change: impl FnOnce(&mut JobSpec)) -> Self {
        if let Ok(parts) = &mut self.parts {
            change(&mut parts.spec);
        }
        self
    }
}

impl<J: Job, V, C: fmt::Debug> fmt::Debug for Schedule<J, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule")
            .field("name", &J::NAME)
            .field("key", &self.parts.as_ref().map(|parts| &parts.key))
            .field("cadence", &self.cadence)
            .finish_non_exhaustive()
    }
}

/// A schedule that is known to be readable.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) schedule: NewSchedule,
    occurrences: Occurrences,
}

impl Definition {
    /// The schedule, with its first slot after `now`.
    pub(super) fn from(mut self, now: Timestamp) -> ClientResult<NewSchedule> {
        let Some(first) = self.occurrences.first(now) else {
            return Err(InvalidInput::new(
                "schedule",
                &*self.schedule.key,
                Rule::Other("has no slot before the year 10000: give it another cadence".into()),
            )
            .into());
        };
        self.schedule.next_run_at = first;
        Ok(self.schedule)
    }
}

impl<'c, J, S> IntoFuture for Schedule<J, &'c Client<S>, Recurring>
where
    J: Job,
    S: StoreName,
{
    type Output = ClientResult<ScheduleRecord>;
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let store = &self.via.core.store;
        let definition = self.into_definition();
        Box::pin(async move {
            let schedule = definition?.from(store.now().await?)?;
            Ok(store.upsert_schedule(schedule).await?)
        })
    }
}

/// The key that a schedule is stored under.
fn schedule_key<J: Job>(key: &str) -> ClientResult<ScheduleKey> {
    if key.is_empty() {
        return Err(InvalidInput::new("schedule key", key, Rule::Empty).into());
    }
    Ok(ScheduleKey::from(format!("{}/{key}", J::NAME)))
}
