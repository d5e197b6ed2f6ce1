//! Sets of schedules, declared as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::time::Duration;

use super::schedule::{Definition, Recurring};
use super::{Client, ClientResult, Detached, Schedule};
use crate::error::{InvalidInput, Rule};
use crate::id::{JobName, ScheduleKey};
use crate::job::{Job, SameStoreAs};
use crate::json::RawJson;
use crate::record::{NewSchedule, ScheduleRecord};
use crate::store::{Result, ScheduleFilter, Store, StoreName};
use crate::validate::{self, Limits};

/// A set of schedules that a program declares when it starts, under the name
/// of a group.
///
/// ```
/// # use std::time::Duration;
/// # use mq_core::{Client, ClientError, Job, Schedule, Schedules};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Job)]
/// # #[job(name = "invoice")]
/// # struct Invoice;
/// # #[derive(Serialize, Deserialize, Job)]
/// # #[job(name = "remind")]
/// # struct Remind;
/// # async fn example(client: Client) -> Result<(), ClientError> {
/// let declared = Schedules::group("billing")
///     .add(Schedule::new("monthly", Invoice).cron("0 6 1 * *").tz("Europe/Berlin"))
///     .add(Schedule::new("late", Remind).every(Duration::from_secs(3600)))
///     .declare(&client)
///     .await?;
/// // Once this release is the only one running, drop what older ones declared.
/// declared.remove_undeclared(Duration::from_secs(600)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "schedules do nothing until they are declared"]
#[derive(Debug)]
pub struct Schedules<S: StoreName> {
    group: String,
    definitions: ClientResult<Vec<Definition>>,
    store: PhantomData<fn() -> S>,
}

impl<S: StoreName> Schedules<S> {
    /// An empty set under this name.
    pub fn group(name: impl Into<String>) -> Self {
        Self {
            group: name.into(),
            definitions: Ok(Vec::new()),
            store: PhantomData,
        }
    }

    /// Adds a schedule to the set.
    #[expect(
        clippy::should_implement_trait,
        reason = "sets grow by `add`; there is no arithmetic to mistake it for"
    )]
    pub fn add<J: Job>(mut self, schedule: Schedule<J, Detached, Recurring>) -> Self
    where
        S: SameStoreAs<J::Store>,
    {
        if let Ok(definitions) = &mut self.definitions {
            match schedule.into_definition() {
                Ok(definition) => definitions.push(definition),
                Err(error) => self.definitions = Err(error),
            }
        }
        self
    }

    /// Stores the set as it is declared here, and says what was stored before.
    ///
    /// Where that differs, the declaration wins: the drift is logged as a
    /// warning and reported. Two releases that declare one group differently
    /// so become visible.
    ///
    /// # Errors
    /// `Store`: `InvalidInput` if a schedule breaks a rule or two of them have
    /// one key, and then nothing is stored. After any other error some of them
    /// may be stored: declare the set again. `Encode`.
    pub async fn declare(self, client: &Client<S>) -> ClientResult<Declared<S>> {
        let store = &**client.store();
        let now = store.now().await?;
        let schedules = self
            .definitions?
            .into_iter()
            .map(|definition| {
                let mut schedule = definition.from(now)?;
                schedule.group = Some(self.group.clone());
                Ok(schedule)
            })
            .collect::<ClientResult<Vec<_>>>()?;
        validate_all(&schedules)?;

        let mut declared = Declared {
            group: self.group,
            keys: schedules.iter().map(|new| new.key.clone()).collect(),
            created: Vec::new(),
            drifted: Vec::new(),
            undeclared: Vec::new(),
            candidates: BTreeMap::new(),
            client: client.clone(),
        };
        let mut stored = stored_of_names(store, &schedules).await?;
        for schedule in schedules {
            match stored.remove(&schedule.key) {
                None => declared.created.push(schedule.key.clone()),
                Some(stored) => declared.drifted.extend(Drift::between(&stored, &schedule)),
            }
            store.upsert_schedule(schedule).await?;
        }
        for member in members(store, &declared.group).await? {
            if !declared.keys.contains(&member.key) {
                declared.undeclared.push(member.key.clone());
                declared.candidates.insert(member.key, member.version);
            }
        }
        declared.warn();
        Ok(declared)
    }
}

/// What became of a declared set of schedules.
#[derive(Debug)]
pub struct Declared<S: StoreName> {
    /// Schedules that are new, by key as stored (`<name>/<key>`).
    pub created: Vec<ScheduleKey>,
    /// Schedules that were stored otherwise before.
    pub drifted: Vec<Drift>,
    /// Schedules of the group that were not declared; they are still there.
    pub undeclared: Vec<ScheduleKey>,
    group: String,
    keys: BTreeSet<ScheduleKey>,
    /// The undeclared ones, at the version that they were seen at.
    candidates: BTreeMap<ScheduleKey, u64>,
    client: Client<S>,
}

impl<S: StoreName> Declared<S> {
    /// Waits for `after`, looks again, and then removes those members of the
    /// group that were not declared, neither here nor by anybody else in the
    /// meantime. Returns what it removed.
    ///
    /// In a rolling deployment older and newer releases run side by side, each
    /// with its own set: give it the time that a deployment takes, and spawn it
    /// rather than wait at start. It needs a tokio runtime with its timer.
    ///
    /// # Errors
    /// `Store`: what was removed until then stays so; declare the set again.
    pub async fn remove_undeclared(self, after: Duration) -> ClientResult<Vec<ScheduleKey>> {
        if self.candidates.is_empty() {
            return Ok(Vec::new());
        }
        tokio::time::sleep(after).await;
        let store = &**self.client.store();
        let mut removed = Vec::new();
        for member in members(store, &self.group).await? {
            // Another version means that somebody has declared it since.
            let abandoned = self.candidates.get(&member.key) == Some(&member.version);
            if abandoned && store.remove_schedule(&member.key).await? {
                tracing::info!(
                    group = self.group,
                    schedule = %member.key,
                    "removed a schedule that is not declared any more"
                );
                removed.push(member.key);
            }
        }
        Ok(removed)
    }

    fn warn(&self) {
        for drift in &self.drifted {
            tracing::warn!(
                group = self.group,
                schedule = %drift.key,
                differs_in = drift.fields.join(", "),
                "a stored schedule differed from its declaration, which now applies"
            );
        }
        for key in &self.undeclared {
            tracing::warn!(
                group = self.group,
                schedule = %key,
                "a schedule of this group is stored but not declared: it goes on until it is removed"
            );
        }
    }
}

/// A schedule that was stored otherwise than it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The schedule, by its key as stored (`<name>/<key>`).
    pub key: ScheduleKey,
    /// In what it differed: `cadence`, `queue`, `payload` and so on.
    pub fields: Vec<&'static str>,
}

impl Drift {
    fn between(stored: &ScheduleRecord, declared: &NewSchedule) -> Option<Self> {
        // What is stored is in whole milliseconds.
        let cadence = declared.cadence.clone().whole();
        let (was, is) = (&stored.spec, &declared.spec.clone().whole());
        let fields: Vec<_> = [
            ("cadence", stored.cadence != cadence),
            ("group", stored.group != declared.group),
            ("queue", was.queue != is.queue),
            ("payload", !same_json(&was.payload, &is.payload)),
            ("metadata", was.metadata != is.metadata),
            ("priority", was.priority != is.priority),
            ("attempts", was.attempts_max != is.attempts_max),
            ("backoff", was.backoff != is.backoff),
            ("keep", was.keep != is.keep),
            ("timeout", was.timeout != is.timeout),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect();
        (!fields.is_empty()).then(|| Self {
            key: stored.key.clone(),
            fields,
        })
    }
}

/// Whether two texts say the same: a map's order may differ at each start.
fn same_json(one: &RawJson, other: &RawJson) -> bool {
    let value = RawJson::decode::<serde_json::Value>;
    one == other || matches!((value(one), value(other)), (Ok(one), Ok(other)) if one == other)
}

/// Refuses the set before any of it is stored.
fn validate_all(schedules: &[NewSchedule]) -> ClientResult<()> {
    // The payload's limit is the store's own.
    let limits = Limits {
        max_payload: usize::MAX,
    };
    let mut keys = BTreeSet::new();
    for schedule in schedules {
        validate::upsert_schedule(schedule, &limits)?;
        if !keys.insert(&schedule.key) {
            return Err(InvalidInput::new(
                "schedule key",
                &*schedule.key,
                Rule::Other("is declared twice in one group: give each its own".into()),
            )
            .into());
        }
    }
    Ok(())
}

/// What is stored of the jobs that these schedules are of, in any group.
async fn stored_of_names(
    store: &dyn Store,
    schedules: &[NewSchedule],
) -> Result<BTreeMap<ScheduleKey, ScheduleRecord>> {
    let names: BTreeSet<&JobName> = schedules.iter().map(|new| &new.spec.name).collect();
    let mut stored = BTreeMap::new();
    for name in names {
        let filter = ScheduleFilter {
            job_name: Some(name.clone()),
            ..ScheduleFilter::default()
        };
        let records = store.list_schedules(filter).await?;
        stored.extend(
            records
                .into_iter()
                .map(|record| (record.key.clone(), record)),
        );
    }
    Ok(stored)
}

async fn members(store: &dyn Store, group: &str) -> Result<Vec<ScheduleRecord>> {
    let filter = ScheduleFilter {
        group: Some(group.to_owned()),
        ..ScheduleFilter::default()
    };
    store.list_schedules(filter).await
}
