//! Pages of jobs: the routes through the indexes, and the cursors on them.

use mq_core::validate::{self, MAX_BATCH, MAX_PAGE_BYTES};
use mq_core::{
    Direction, InvalidInput, JobId, JobRecord, JobState, ListCursor, ListFilter, ListPage, OrderBy,
    Result, Rule, StoreError, Timestamp,
};
use redis::Value;

use super::read_job;
use crate::RedisStore;
use crate::connection::Repeat;
use crate::reply::Reply;
use crate::script;

/// How many jobs one call looks at in search of those that match.
const MOST_LOOKED_AT: usize = 10_000;

/// A place in an order of jobs, which cursors carry.
#[derive(Clone)]
struct Place {
    at: u64,
    /// What decides between jobs of one instant: an id or an arrival number.
    tie: String,
}

/// A member of the indexes that were read, and its job, if that can be read.
struct Entry {
    place: Place,
    id: JobId,
    job: Result<Option<JobRecord>>,
}

impl RedisStore {
    pub(super) async fn list_page(&self, filter: ListFilter) -> Result<ListPage> {
        let limit = validate::list(&filter)? as usize;
        let states = route(&filter)?;
        let mut from = match &filter.cursor {
            None => None,
            Some(cursor) => Some(decode(filter.order_by, cursor)?),
        };
        let mut page = ListPage::default();
        if filter.states.as_ref().is_some_and(Vec::is_empty) {
            return Ok(page);
        }
        let (mut looked_at, mut bytes) = (0, 0);
        loop {
            // One more than there is room for tells whether there is more.
            let most = (limit + 1 - page.items.len()).min(MAX_BATCH as usize);
            let (entries, is_all) = self
                .read_entries(&filter, &states, from.as_ref(), most)
                .await?;
            for Entry { place, id, job } in entries {
                match job {
                    Ok(Some(job)) if matches(&filter, &job) => {
                        bytes += raw_bytes(&job);
                        let full = page.items.len() == limit || bytes > MAX_PAGE_BYTES;
                        if full && !page.items.is_empty() {
                            page.cursor = from.map(|place| encode(filter.order_by, &place));
                            return Ok(page);
                        }
                        page.items.push(job);
                    }
                    Ok(_) => {}
                    Err(StoreError::Corrupt { .. }) => page.corrupt.push(id),
                    Err(error) => return Err(error),
                }
                from = Some(place);
                looked_at += 1;
            }
            if is_all {
                return Ok(page);
            }
            if looked_at >= MOST_LOOKED_AT {
                page.cursor = from.map(|place| encode(filter.order_by, &place));
                return Ok(page);
            }
        }
    }

    /// Reads on from a place; the second part is whether that was all.
    async fn read_entries(
        &self,
        filter: &ListFilter,
        states: &str,
        from: Option<&Place>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool)> {
        let mut call = self.call(&script::LIST).repeat(Repeat::Safely);
        call.arg(letter(filter.order_by).to_string());
        call.arg(match filter.direction {
            Direction::Ascending => "a",
            Direction::Descending => "d",
        });
        call.number(most as u64);
        match from {
            None => call.arg("").arg(""),
            Some(place) => call.number(place.at).arg(tie_bytes(filter.order_by, place)),
        };
        call.arg(filter.queue.as_deref().unwrap_or_default());
        call.arg(filter.name.as_deref().unwrap_or_default());
        call.arg(states);
        let answer = self.run(&call).await?;
        if matches!(&answer, Value::BulkString(word) if word == b"off") {
            return Err(StoreError::Unsupported {
                operation: "a list by enqueued_at",
                remedy: "the store keeps no list indexes: open it with them, or list by another \
                         order",
            });
        }
        let mut answer = Reply::new("list", answer)?;
        let is_all = answer.number()? == 1;
        let mut entries = Vec::with_capacity(answer.len() / 8);
        while !answer.is_empty() {
            entries.push(Entry::read(&mut answer)?);
        }
        Ok((entries, is_all))
    }
}

impl Entry {
    fn read(answer: &mut Reply) -> Result<Self> {
        let place = Place {
            at: answer.number()?,
            tie: answer.text()?,
        };
        let id = JobId::from(answer.text()?);
        let mut texts = [const { None }; 5];
        for text in &mut texts {
            *text = answer.optional_bytes()?;
        }
        let job = read_job(&id, &texts);
        Ok(Self { place, id, job })
    }
}

fn raw_bytes(job: &JobRecord) -> usize {
    let length = |json: Option<&mq_core::RawJson>| json.map_or(0, |json| json.get().len());
    job.spec.payload.get().len() + length(job.exit.as_ref()) + length(job.progress.as_ref())
}

fn matches(filter: &ListFilter, job: &JobRecord) -> bool {
    let has_label = |(key, value): (&String, &String)| job.spec.metadata.get(key) == Some(value);
    filter
        .states
        .as_ref()
        .is_none_or(|states| states.contains(&job.state))
        && filter
            .name
            .as_ref()
            .is_none_or(|name| *name == job.spec.name)
        && filter
            .queue
            .as_ref()
            .is_none_or(|queue| *queue == job.spec.queue)
        && filter.metadata.iter().all(has_label)
        && (!filter.flow_parents || job.flow.is_some())
}

/// Checks that there is an index for the filter; answers the letters of the
/// terminal states that are asked for, for the order that needs them.
fn route(filter: &ListFilter) -> Result<String> {
    let states = filter.states.as_deref();
    match filter.order_by {
        OrderBy::EnqueuedAt => {}
        OrderBy::RunAt => only_state(
            states,
            JobState::Delayed,
            "a list by run_at of other than delayed jobs",
        )?,
        OrderBy::LockExpiresAt => only_state(
            states,
            JobState::Active,
            "a list by lock_expires_at of other than active jobs",
        )?,
        OrderBy::FinishedAt => {
            let letter = |state: &JobState| match state {
                JobState::Completed => Some('c'),
                JobState::Failed => Some('f'),
                JobState::Cancelled => Some('x'),
                _ => None,
            };
            let letters = states.and_then(|states| states.iter().map(letter).collect());
            return letters.ok_or(StoreError::Unsupported {
                operation: "a list by finished_at of jobs that have not finished",
                remedy: "ask for terminal states alone (completed, failed, cancelled), or list by enqueued_at",
            });
        }
    }
    Ok(String::new())
}

/// Refuses a filter that lets other states in than the one an order is of.
fn only_state(states: Option<&[JobState]>, only: JobState, operation: &'static str) -> Result<()> {
    match states {
        Some(states) if states.iter().all(|state| *state == only) => Ok(()),
        _ => Err(StoreError::Unsupported {
            operation,
            remedy: "ask for that state alone, or list by enqueued_at",
        }),
    }
}

/// The letter that marks a cursor's order, so that another order refuses it.
const fn letter(order: OrderBy) -> char {
    match order {
        OrderBy::EnqueuedAt => 'e',
        OrderBy::RunAt => 'r',
        OrderBy::LockExpiresAt => 'l',
        OrderBy::FinishedAt => 'f',
    }
}

/// Whether arrival numbers decide between jobs of one instant; else ids do.
const fn ties_by_arrival(order: OrderBy) -> bool {
    matches!(order, OrderBy::RunAt | OrderBy::FinishedAt)
}

/// A tie as members of the indexes begin with it.
fn tie_bytes(order: OrderBy, place: &Place) -> Vec<u8> {
    if ties_by_arrival(order) {
        let seq: u64 = place.tie.parse().unwrap_or(0);
        seq.to_be_bytes()[2..].to_vec()
    } else {
        place.tie.clone().into_bytes()
    }
}

fn encode(order: OrderBy, place: &Place) -> ListCursor {
    let Place { at, tie } = place;
    ListCursor(format!("{}{at}.{tie}", letter(order)))
}

/// Reads a cursor of this order.
fn decode(order: OrderBy, cursor: &ListCursor) -> Result<Place> {
    let place = || {
        let (millis, tie) = cursor.0.strip_prefix(letter(order))?.split_once('.')?;
        let at = Timestamp::from_millis(millis.parse().ok()?)?;
        let tie = if ties_by_arrival(order) {
            let seq: u64 = tie.parse().ok().filter(|seq| *seq < 1 << 48)?;
            seq.to_string()
        } else {
            validate::job_id(&JobId::from(tie)).ok()?;
            tie.to_owned()
        };
        Some(Place {
            at: at.as_millis(),
            tie,
        })
    };
    // Numbers can be written in more ways than the one that was given out.
    let is_given = |place: &Place| encode(order, place) == *cursor;
    place().filter(is_given).ok_or_else(|| {
        let rule =
            "is not the cursor of a list in this order: pass one on as it was given, or none";
        InvalidInput::new("list cursor", &cursor.0, Rule::Other(rule.into())).into()
    })
}
