//! Pages of jobs: the routes through the indexes, and the cursors on them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::State;
use super::job::{IdKey, Job, Slot, TimeKey};
use super::merge::Merge;
use super::state::terminal_index;
use crate::error::{InvalidInput, Rule, StoreError};
use crate::id::JobId;
use crate::record::JobState;
use crate::store::{Direction, ListCursor, ListFilter, ListPage, OrderBy, Result};
use crate::time::Timestamp;
use crate::validate::{self, MAX_PAGE_BYTES};

/// How many jobs one call looks at in search of those that match.
const MOST_LOOKED_AT: usize = 10_000;

/// A place in an order of jobs, which cursors carry.
pub(super) trait Place: Ord + Clone {
    fn at(&self) -> Timestamp;
    fn tie(&self) -> String;
    fn parse(at: Timestamp, tie: &str) -> Option<Self>;
}

impl Place for TimeKey {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn tie(&self) -> String {
        self.seq.to_string()
    }

    fn parse(at: Timestamp, tie: &str) -> Option<Self> {
        let seq = tie.parse().ok()?;
        Some(Self { at, seq })
    }
}

impl Place for IdKey {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn tie(&self) -> String {
        self.id.to_string()
    }

    fn parse(at: Timestamp, tie: &str) -> Option<Self> {
        let id = JobId::from(tie);
        validate::job_id(&id).ok()?;
        Some(Self { at, id })
    }
}

impl State {
    pub(super) fn list(&self, filter: &ListFilter, limit: usize) -> Result<ListPage> {
        let states = filter.states.as_deref();
        match filter.order_by {
            OrderBy::EnqueuedAt => self.page(
                filter,
                limit,
                self.groups_of(filter).map(|group| &group.listing),
            ),
            OrderBy::RunAt => {
                only_state(
                    states,
                    JobState::Delayed,
                    "a list by run_at of other than delayed jobs",
                )?;
                self.page(
                    filter,
                    limit,
                    self.groups_of(filter).map(|group| &group.delayed),
                )
            }
            OrderBy::LockExpiresAt => {
                only_state(
                    states,
                    JobState::Active,
                    "a list by lock_expires_at of other than active jobs",
                )?;
                self.page(filter, limit, [&self.active])
            }
            OrderBy::FinishedAt => {
                let indexes = terminal_states(states)?;
                let names =
                    self.names.iter().map(|(_, name)| name).filter(|name| {
                        filter.name.as_ref().is_none_or(|asked| name.name == *asked)
                    });
                let histories = names.flat_map(|name| {
                    indexes
                        .iter()
                        .flat_map(|index| name.finished[*index].parts())
                });
                self.page(filter, limit, histories)
            }
        }
    }

    fn groups_of(&self, filter: &ListFilter) -> impl Iterator<Item = &super::state::Group> {
        self.groups.iter().map(|(_, group)| group).filter(|group| {
            let queue = &self.queues[group.queue].name;
            let name = &self.names[group.name].name;
            filter.queue.as_ref().is_none_or(|asked| asked == queue)
                && filter.name.as_ref().is_none_or(|asked| asked == name)
        })
    }

    /// Reads on from the filter's cursor through indexes that are ordered alike.
    fn page<'a, P: Place + 'a>(
        &'a self,
        filter: &ListFilter,
        limit: usize,
        indexes: impl IntoIterator<Item = &'a BTreeMap<P, Slot>>,
    ) -> Result<ListPage> {
        let after: Option<P> = match &filter.cursor {
            None => None,
            Some(cursor) => Some(decode(filter.order_by, cursor)?),
        };
        let after = after.map_or(Unbounded, Excluded);
        let matches_nothing = filter.states.as_ref().is_some_and(Vec::is_empty);
        let indexes = indexes.into_iter().filter(|_| !matches_nothing);
        Ok(match filter.direction {
            Direction::Ascending => {
                let ranges = indexes.map(|index| index.range((after.clone(), Unbounded)));
                let streams =
                    ranges.map(|range| range.map(|(place, slot)| (place, (place, *slot))));
                self.collect(filter, limit, Merge::new(streams))
            }
            Direction::Descending => {
                let ranges = indexes.map(|index| index.range((Unbounded, after.clone())).rev());
                let streams =
                    ranges.map(|range| range.map(|(place, slot)| (Reverse(place), (place, *slot))));
                self.collect(filter, limit, Merge::new(streams))
            }
        })
    }

    fn collect<'a, P: Place + 'a>(
        &self,
        filter: &ListFilter,
        limit: usize,
        mut entries: impl Iterator<Item = (&'a P, Slot)>,
    ) -> ListPage {
        let mut page = ListPage::default();
        let mut bytes = 0;
        let mut last: Option<&P> = None;
        for _ in 0..MOST_LOOKED_AT {
            let Some((place, slot)) = entries.next() else {
                return page;
            };
            let job = &self.jobs[slot];
            if self.matches(filter, job) {
                bytes += job.raw_bytes();
                let full = page.items.len() == limit || bytes > MAX_PAGE_BYTES;
                if full && !page.items.is_empty() {
                    // There is one more, so the page has a cursor.
                    break;
                }
                page.items.push(self.record(slot));
            }
            last = Some(place);
        }
        page.cursor = last.map(|place| encode(filter.order_by, place));
        page
    }

    fn matches(&self, filter: &ListFilter, job: &Job) -> bool {
        let extra = job.extra.as_deref();
        let has_label = |(key, value): (&String, &String)| {
            extra.is_some_and(|extra| extra.metadata.get(key) == Some(value))
        };
        let queue = || &self.queues[self.queue_of(job)].name;
        filter
            .states
            .as_ref()
            .is_none_or(|states| states.contains(&job.state))
            && filter
                .name
                .as_ref()
                .is_none_or(|name| name == self.name_of(job))
            && filter.queue.as_ref().is_none_or(|asked| asked == queue())
            && filter.metadata.iter().all(has_label)
            && (!filter.flow_parents || extra.is_some_and(|extra| extra.flow.is_some()))
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

fn encode<P: Place>(order: OrderBy, place: &P) -> ListCursor {
    let (letter, millis, tie) = (letter(order), place.at().as_millis(), place.tie());
    ListCursor(format!("{letter}{millis}.{tie}"))
}

/// Reads a cursor of this order.
fn decode<P: Place>(order: OrderBy, cursor: &ListCursor) -> Result<P> {
    let place = || {
        let (millis, tie) = cursor.0.strip_prefix(letter(order))?.split_once('.')?;
        P::parse(Timestamp::from_millis(millis.parse().ok()?)?, tie)
    };
    // Numbers can be written in more ways than the one that was given out.
    let is_given = |place: &P| encode(order, place) == *cursor;
    place().filter(is_given).ok_or_else(|| {
        let rule =
            "is not the cursor of a list in this order: pass one on as it was given, or none";
        InvalidInput::new("list cursor", &cursor.0, Rule::Other(rule.into())).into()
    })
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

/// The places of the asked terminal states in a name's histories, each once.
fn terminal_states(states: Option<&[JobState]>) -> Result<Vec<usize>> {
    let indexes = states.map(|states| states.iter().map(|state| terminal_index(*state)));
    let Some(Some(mut indexes)) = indexes.map(Iterator::collect::<Option<Vec<usize>>>) else {
        return Err(StoreError::Unsupported {
            operation: "a list by finished_at of jobs that have not finished",
            remedy: "ask for terminal states alone (completed, failed, cancelled), or list by enqueued_at",
        });
    };
    indexes.sort_unstable();
    indexes.dedup();
    Ok(indexes)
}
