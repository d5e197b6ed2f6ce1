//! Pages of jobs: the routes through the indexes, and the cursors on them.
//!
//! Each route looks at a bounded number of rows in its order, and gives those
//! that match. Queue, name and states are part of a route where its index has
//! them, labels are always looked at job by job.

use std::collections::BTreeSet;

use mq_core::validate::{self, MAX_PAGE_BYTES};
use mq_core::{
    Direction, InvalidInput, JobId, JobRecord, JobState, ListCursor, ListFilter, ListPage, OrderBy,
    Result, Rule, StoreError, Timestamp,
};

use crate::enqueue::to_json;
use crate::rows::{maybe_record, read_all, record_columns};
use crate::store::Inner;

/// How many jobs one call looks at in search of those that match.
const MOST_LOOKED_AT: u32 = 10_000;

/// The jobs among those looked at that match. `$1` and `$2` are the place to
/// go on from, `$3` how many to look at, `$4` how many may match, `$5` queue,
/// `$6` name, `$7` states, `$8` labels, `$9` whether only parents of flows.
/// The last row has no job and the place of the last that was looked at, if
/// there may be more beyond.
macro_rules! page {
    ($looked:expr, $order:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $looked,
            ", matching AS (
                SELECT l.at, l.tie, j.*
                FROM looked l CROSS JOIN LATERAL (
                    SELECT ",
            record_columns!(),
            "       FROM $mq_jobs v WHERE v.id = l.job_id
                ) AS j
                WHERE ($5::text IS NULL OR j.queue = $5) AND ($6::text IS NULL OR j.name = $6)
                    AND ($7::text[] IS NULL OR j.state = ANY ($7))
                    AND ($8::text IS NULL OR j.metadata::jsonb @> $8::jsonb)
                    AND (NOT $9 OR j.flow IS NOT NULL)
                ORDER BY l.at ",
            $order,
            ", l.tie ",
            $order,
            "
                LIMIT $4
            )
            (SELECT * FROM matching ORDER BY at ",
            $order,
            ", tie ",
            $order,
            ")
            UNION ALL
            (SELECT l.at, l.tie, ",
            "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
            FROM looked l ORDER BY l.at ",
            $order,
            ", l.tie ",
            $order,
            "
            OFFSET $3 - 1 LIMIT 1)"
        )
    };
}

/// By `(enqueued_at, id)`.
macro_rules! by_enqueued {
    ($order:literal, $beyond:literal) => {
        page!(
            concat!(
                "looked AS (
                    SELECT id AS job_id, enqueued_at AS at, id AS tie FROM $mq_job
                    WHERE $1::timestamptz IS NULL OR (enqueued_at, id) ",
                $beyond,
                " ($1, $2)
                    ORDER BY enqueued_at ",
                $order,
                ", id ",
                $order,
                " LIMIT $3
                )"
            ),
            $order
        )
    };
}

/// By `(lock_expires_at, id)`.
macro_rules! by_lock {
    ($order:literal, $beyond:literal) => {
        page!(
            concat!(
                "looked AS (
                    SELECT job_id, lock_expires_at AS at, job_id AS tie FROM $mq_active
                    WHERE $1::timestamptz IS NULL OR (lock_expires_at, job_id) ",
                $beyond,
                " ($1, $2)
                    ORDER BY lock_expires_at ",
                $order,
                ", job_id ",
                $order,
                " LIMIT $3
                )"
            ),
            $order
        )
    };
}

/// By `(run_at, seq)`: the delayed jobs of each queue and name in their order,
/// merged. Queues and names are found by skipping from one to the next.
macro_rules! by_run {
    ($order:literal, $beyond:literal) => {
        page!(
            concat!(
                "groups AS (
                    (SELECT queue, name FROM $mq_delayed ORDER BY queue, name LIMIT 1)
                    UNION ALL
                    SELECT n.* FROM groups g CROSS JOIN LATERAL (
                        SELECT d.queue, d.name FROM $mq_delayed d
                        WHERE (d.queue, d.name) > (g.queue, g.name)
                        ORDER BY d.queue, d.name LIMIT 1
                    ) AS n
                ),
                looked AS (
                    SELECT o.* FROM groups g CROSS JOIN LATERAL (
                        SELECT d.job_id, d.run_at AS at, d.seq AS tie FROM $mq_delayed d
                        WHERE d.queue = g.queue AND d.name = g.name
                            AND ($1::timestamptz IS NULL
                                OR (d.run_at, d.seq) ", $beyond, " ($1, $2::bigint))
                        ORDER BY d.run_at ", $order, ", d.seq ", $order, " LIMIT $3
                    ) AS o
                    WHERE ($5::text IS NULL OR g.queue = $5) AND ($6::text IS NULL OR g.name = $6)
                    ORDER BY o.at ", $order, ", o.tie ", $order, " LIMIT $3
                )"
            ),
            $order
        )
    };
}

/// By `(finished_at, seq)`: the finished jobs of each name and state, merged.
macro_rules! by_finished {
    ($order:literal, $beyond:literal) => {
        page!(
            concat!(
                "groups AS (
                    (SELECT name, state FROM $mq_finished ORDER BY name, state LIMIT 1)
                    UNION ALL
                    SELECT n.* FROM groups g CROSS JOIN LATERAL (
                        SELECT f.name, f.state FROM $mq_finished f
                        WHERE (f.name, f.state) > (g.name, g.state)
                        ORDER BY f.name, f.state LIMIT 1
                    ) AS n
                ),
                looked AS (
                    SELECT o.* FROM groups g CROSS JOIN LATERAL (
                        SELECT f.job_id, f.finished_at AS at, f.seq AS tie FROM $mq_finished f
                        WHERE f.name = g.name AND f.state = g.state
                            AND ($1::timestamptz IS NULL
                                OR (f.finished_at, f.seq) ",
                $beyond,
                " ($1, $2::bigint))
                        ORDER BY f.finished_at ",
                $order,
                ", f.seq ",
                $order,
                " LIMIT $3
                    ) AS o
                    WHERE g.state = ANY ($7::text[]) AND ($6::text IS NULL OR g.name = $6)
                    ORDER BY o.at ",
                $order,
                ", o.tie ",
                $order,
                " LIMIT $3
                )"
            ),
            $order
        )
    };
}

const fn template(order: OrderBy, direction: Direction) -> &'static str {
    match (order, direction) {
        (OrderBy::EnqueuedAt, Direction::Ascending) => by_enqueued!("ASC", ">"),
        (OrderBy::EnqueuedAt, Direction::Descending) => by_enqueued!("DESC", "<"),
        (OrderBy::LockExpiresAt, Direction::Ascending) => by_lock!("ASC", ">"),
        (OrderBy::LockExpiresAt, Direction::Descending) => by_lock!("DESC", "<"),
        (OrderBy::RunAt, Direction::Ascending) => by_run!("ASC", ">"),
        (OrderBy::RunAt, Direction::Descending) => by_run!("DESC", "<"),
        (OrderBy::FinishedAt, Direction::Ascending) => by_finished!("ASC", ">"),
        (OrderBy::FinishedAt, Direction::Descending) => by_finished!("DESC", "<"),
    }
}

/// A place in an order: an instant, and an id or an arrival number.
#[derive(Clone, Debug)]
struct Place {
    at: Timestamp,
    tie: String,
}

/// A row of a page.
struct Looked {
    place: Place,
    job: Option<Result<JobRecord>>,
}

impl Inner {
    pub(super) async fn list(&self, filter: &ListFilter, limit: u32) -> Result<ListPage> {
        check_states(filter)?;
        let after = filter
            .cursor
            .as_ref()
            .map(|cursor| decode(filter.order_by, cursor))
            .transpose()?;
        if filter.states.as_ref().is_some_and(Vec::is_empty) {
            return Ok(ListPage::default());
        }
        let labels = if filter.metadata.is_empty() {
            None
        } else {
            Some(
                to_json(&filter.metadata)
                    .map_err(|failure| self.connections.store_error(failure))?,
            )
        };
        let states = filter.states.as_ref().map(|states| {
            let names: BTreeSet<&str> = states.iter().map(|state| state.as_str()).collect();
            names.into_iter().collect::<Vec<_>>()
        });
        let statement = self
            .statement(template(filter.order_by, filter.direction))
            .bind(after.as_ref().map(|place| place.at))
            .bind(after.as_ref().map(|place| place.tie.as_str()))
            .bind(MOST_LOOKED_AT)
            .bind(limit + 1)
            .bind(filter.queue.as_deref())
            .bind(filter.name.as_deref())
            .bind(states)
            .bind(labels.as_deref())
            .bind(filter.flow_parents);
        let rows = self.query(&statement).await?;
        let ties_are_ids = matches!(
            filter.order_by,
            OrderBy::EnqueuedAt | OrderBy::LockExpiresAt
        );
        let looked = read_all(&rows, |columns| {
            let at = columns.instant()?;
            let tie = if ties_are_ids {
                columns.text()?
            } else {
                columns.number()?.to_string()
            };
            Ok(Looked {
                place: Place { at, tie },
                job: maybe_record(columns)?,
            })
        })?;
        Ok(page_of(looked, filter.order_by, limit as usize))
    }
}

/// Fills a page, to its limit or its most bytes.
fn page_of(looked: Vec<Looked>, order: OrderBy, limit: usize) -> ListPage {
    let mut page = ListPage::default();
    let mut bytes = 0;
    let mut last: Option<Place> = None;
    for (taken, Looked { place, job }) in looked.into_iter().enumerate() {
        let Some(job) = job else {
            // Nothing more matches among those looked at, but there are others.
            last = Some(place);
            page.cursor = last.as_ref().map(|place| encode(order, place));
            return page;
        };
        bytes += job.as_ref().map_or(0, raw_bytes);
        if taken == limit || (taken > 0 && bytes > MAX_PAGE_BYTES) {
            page.cursor = last.as_ref().map(|place| encode(order, place));
            return page;
        }
        match job {
            Ok(job) => page.items.push(job),
            Err(StoreError::Corrupt { id, .. }) => page.corrupt.push(id),
            Err(_) => {}
        }
        last = Some(place);
    }
    page
}

fn raw_bytes(job: &JobRecord) -> usize {
    let length = |json: Option<&mq_core::RawJson>| json.map_or(0, |json| json.get().len());
    job.spec.payload.get().len() + length(job.exit.as_ref()) + length(job.progress.as_ref())
}

/// Refuses states that an order is not of.
fn check_states(filter: &ListFilter) -> Result<()> {
    let states = filter.states.as_deref();
    let all = |fits: fn(&JobState) -> bool| states.is_some_and(|states| states.iter().all(fits));
    let (served, operation, remedy) = match filter.order_by {
        OrderBy::EnqueuedAt => return Ok(()),
        OrderBy::RunAt => (
            all(|state| *state == JobState::Delayed),
            "a list by run_at of other than delayed jobs",
            "ask for that state alone, or list by enqueued_at",
        ),
        OrderBy::LockExpiresAt => (
            all(|state| *state == JobState::Active),
            "a list by lock_expires_at of other than active jobs",
            "ask for that state alone, or list by enqueued_at",
        ),
        OrderBy::FinishedAt => (
            all(|state| state.is_terminal()),
            "a list by finished_at of jobs that have not finished",
            "ask for terminal states alone (completed, failed, cancelled), or list by enqueued_at",
        ),
    };
    if served {
        return Ok(());
    }
    Err(StoreError::Unsupported { operation, remedy })
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

fn encode(order: OrderBy, place: &Place) -> ListCursor {
    let (letter, millis) = (letter(order), place.at.as_millis());
    ListCursor(format!("{letter}{millis}.{}", place.tie))
}

/// Reads a cursor of this order.
fn decode(order: OrderBy, cursor: &ListCursor) -> Result<Place> {
    let place = || {
        let (millis, tie) = cursor.0.strip_prefix(letter(order))?.split_once('.')?;
        let at = Timestamp::from_millis(millis.parse().ok()?)?;
        let tie = match order {
            OrderBy::EnqueuedAt | OrderBy::LockExpiresAt => {
                validate::job_id(&JobId::from(tie)).ok()?;
                tie.to_owned()
            }
            OrderBy::RunAt | OrderBy::FinishedAt => tie.parse::<i64>().ok()?.to_string(),
        };
        Some(Place { at, tie })
    };
    // Numbers can be written in more ways than the one that was given out.
    let is_given = |place: &Place| encode(order, place) == *cursor;
    place().filter(is_given).ok_or_else(|| {
        let rule =
            "is not the cursor of a list in this order: pass one on as it was given, or none";
        InvalidInput::new("list cursor", &cursor.0, Rule::Other(rule.into())).into()
    })
}
