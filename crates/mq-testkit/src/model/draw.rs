//! Draws what is done to a store, over few ids, names, keys and queues, so that
//! operations meet.

use std::time::Duration;

use mq_core::{
    AckOutcome, Backoff, Cadence, Change, Dedupe, Direction, JobId, JobSpec, JobState, Keep,
    ListFilter, NewJob, NewSchedule, OrderBy, QueueSettings, Rate, RawJson, ReportOutcome,
    Retention, Timestamp, When,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::op::{FlowPick, LockPick, Op, ReportPick, Step};

pub(super) const QUEUES: [&str; 2] = ["p", "q"];
/// Jobs named `a` have no retention, `b` a count, `c` an age, `d` all the same
/// of both. Mixed otherwise, what stays would depend on the order of a sweep,
/// which the contract leaves open.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const CHILDREN: [&str; 3] = ["x", "y", "z"];
const KEYS: [&str; 4] = ["k", "k", "k", "K"];
const SCHEDULES: [&str; 2] = ["s", "t"];

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> + Clone {
    range.prop_map(Duration::from_millis)
}

/// Durations that are not all whole milliseconds.
fn span(most: u64) -> impl Strategy<Value = Duration> + Clone {
    prop_oneof![
        1 => Just(Duration::ZERO),
        4 => millis(1..most),
        1 => (1..most).prop_map(|millis| Duration::from_micros(millis * 1_000 - 1)),
    ]
}

fn keep(name: &'static str) -> BoxedStrategy<Option<Keep>> {
    let retention = match name {
        "b" => (0..4_u32).prop_map(Retention::count).boxed(),
        "c" => span(90_000).prop_map(Retention::age).boxed(),
        "d" => {
            return Just(Some(Keep::all(Retention {
                count: Some(2),
                age: Some(Duration::from_secs(50)),
            })))
            .boxed();
        }
        _ => return Just(None).boxed(),
    };
    let of_each = [
        option::of(retention.clone()),
        option::of(retention.clone()),
        option::of(retention),
    ];
    let keep = of_each.prop_map(|[completed, failed, cancelled]| Keep {
        completed,
        failed,
        cancelled,
    });
    option::of(keep).boxed()
}

fn dedupe() -> impl Strategy<Value = Dedupe> {
    (
        select(&KEYS),
        option::of(span(5_000)),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(key, ttl, extend, replace)| Dedupe {
            key: key.into(),
            ttl,
            extend: extend && ttl.is_some(),
            replace,
        })
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => Just(When::NOW),
        4 => span(5_000).prop_map(When::After),
        1 => select(vec![Timestamp::MIN, Timestamp::MAX]).prop_map(When::At),
        1 => (0..20_000_u64).prop_map(|millis| When::At(Timestamp::saturating_from_millis(millis))),
    ]
}

/// Ids that are chosen, and some that the generator will draw.
fn id() -> impl Strategy<Value = JobId> {
    select(&[
        "1", "2", "3", "1/", "\u{e9}", "e\u{301}", "auto3", "auto5", "auto9",
    ])
    .prop_map(JobId::from)
}

fn spec() -> impl Strategy<Value = JobSpec> {
    select(&NAMES).prop_flat_map(|name| {
        let policies = (keep(name), option::of(span(9_000)), option::of(span(9_000)));
        let payload = select(&["null", "-0.0", "1e400", r#"{"a":1,"a":2}"#]);
        let priority = prop_oneof![4 => -1..2_i32, 1 => select(vec![i32::MIN, i32::MAX])];
        (
            select(&QUEUES),
            policies,
            payload,
            priority,
            1..4_u32,
            any::<bool>(),
        )
            .prop_map(
                move |(queue, (keep, timeout, backoff), payload, priority, attempts, labelled)| {
                    let payload = RawJson::parse(payload).expect("it is JSON");
                    let mut spec = JobSpec::new(name, queue, payload);
                    spec.keep = keep;
                    spec.timeout = timeout.filter(|timeout| !timeout.is_zero());
                    spec.backoff = backoff.map(Backoff::fixed);
                    spec.priority = priority;
                    spec.attempts_max = attempts;
                    if labelled {
                        spec.metadata.insert("label".into(), queue.into());
                    }
                    spec
                },
            )
    })
}

fn new_job() -> impl Strategy<Value = NewJob> {
    (
        spec(),
        option::weighted(0.7, id()),
        when(),
        option::weighted(0.6, dedupe()),
    )
        .prop_map(|(spec, id, when, dedupe)| NewJob {
            id,
            when,
            dedupe,
            ..NewJob::new(spec)
        })
}

fn claim() -> impl Strategy<Value = Op> {
    let names = subsequence(NAMES.to_vec(), 1..=NAMES.len());
    (select(&QUEUES), names, millis(1..8_000), 1..5_u32).prop_map(
        |(queue, names, lock_for, limit)| Op::Claim {
            queue,
            names,
            lock_for,
            limit,
        },
    )
}

fn exit() -> impl Strategy<Value = Option<RawJson>> {
    option::of(select(&[r#"{"ok":1.0}"#, r#"{"err":"\ud800"}"#]))
        .prop_map(|exit| exit.map(|text| RawJson::parse(text).expect("it is JSON")))
}

fn outcome() -> impl Strategy<Value = AckOutcome> {
    prop_oneof![
        3 => exit().prop_map(|exit| AckOutcome::Complete { exit }),
        3 => exit().prop_map(|exit| AckOutcome::Fail { exit }),
        1 => Just(AckOutcome::Cancelled),
        2 => (span(3_000), exit()).prop_map(|(delay, exit)| AckOutcome::Retry { delay, exit }),
        1 => span(3_000).prop_map(|delay| AckOutcome::Snooze { delay }),
    ]
}

fn settings() -> impl Strategy<Value = QueueSettings> {
    fn change<T: Clone + std::fmt::Debug + 'static>(
        to: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = Change<T>> {
        prop_oneof![
            2 => Just(Change::Keep),
            2 => Just(Change::Clear),
            1 => to.prop_map(Change::Set),
        ]
    }
    let rate = (1..25_u32, span(5_000)).prop_map(|(count, per)| Rate {
        count,
        per: per.max(Duration::from_nanos(1)),
    });
    (change(any::<bool>()), change(1..4_u32), change(rate)).prop_map(
        |(paused, max_active, rate)| QueueSettings {
            paused,
            max_active,
            rate,
        },
    )
}

fn upsert() -> impl Strategy<Value = Op> {
    let next_run_at = (0..9_000_u64).prop_map(Timestamp::saturating_from_millis);
    (
        select(&SCHEDULES),
        span(3_000),
        spec(),
        next_run_at,
        option::of(Just("group".to_owned())),
    )
        .prop_map(|(key, every, spec, next_run_at, group)| {
            Op::Upsert(NewSchedule {
                key: key.into(),
                // Few different ones, so that some are unchanged.
                cadence: Cadence::Every(
                    every
                        .max(Duration::from_nanos(1))
                        .min(Duration::from_millis(2)),
                ),
                spec,
                group,
                next_run_at,
            })
        })
}

fn tick() -> impl Strategy<Value = Op> {
    let job = option::of((new_job(), id())).prop_map(|job| {
        job.map(|(job, id)| NewJob {
            id: Some(id),
            ..job
        })
    });
    let stale = || prop::bool::weighted(0.2);
    (select(&SCHEDULES), stale(), stale(), span(4_000), job).prop_map(
        |(key, stale_version, stale_slot, ahead, job)| Op::Tick {
            key,
            stale_version,
            stale_slot,
            ahead,
            job,
        },
    )
}

fn walk() -> impl Strategy<Value = Op> {
    let terminal = [JobState::Completed, JobState::Failed, JobState::Cancelled];
    let order = prop_oneof![
        (
            Just(OrderBy::EnqueuedAt),
            option::of(subsequence(JobState::ALL.to_vec(), 0..=7))
        ),
        (Just(OrderBy::RunAt), Just(Some(vec![JobState::Delayed]))),
        (
            Just(OrderBy::LockExpiresAt),
            Just(Some(vec![JobState::Active]))
        ),
        (
            Just(OrderBy::FinishedAt),
            subsequence(terminal.to_vec(), 0..=3).prop_map(Some)
        ),
    ];
    let direction = select(vec![Direction::Ascending, Direction::Descending]);
    let queue = option::of(select(&QUEUES));
    let label = option::of(select(&QUEUES));
    (
        order,
        direction,
        queue,
        option::of(select(&NAMES)),
        label,
        1..5_u32,
    )
        .prop_map(
            |((order_by, states), direction, queue, name, label, limit)| {
                Op::Walk(ListFilter {
                    queue: queue.map(Into::into),
                    name: name.map(Into::into),
                    states,
                    metadata: label
                        .map(|label| ("label".into(), label.into()))
                        .into_iter()
                        .collect(),
                    order_by,
                    direction,
                    limit: Some(limit),
                    ..ListFilter::default()
                })
            },
        )
}

fn flow_pick() -> impl Strategy<Value = FlowPick> {
    let manifest_of = option::weighted(0.1, 0..3_usize);
    let keys = subsequence(CHILDREN.to_vec(), 1..=CHILDREN.len());
    (0..3_usize, manifest_of, keys).prop_map(|(of, manifest_of, keys)| FlowPick {
        of,
        manifest_of,
        keys,
    })
}

fn report() -> impl Strategy<Value = ReportPick> {
    use ReportOutcome::{Cancelled, Completed, Failed};
    (
        flow_pick(),
        select(vec![Completed, Completed, Failed, Cancelled]),
        exit(),
    )
        .prop_map(|(children, outcome, exit)| ReportPick {
            children,
            outcome,
            exit,
        })
}

fn flow_op() -> impl Strategy<Value = Op> {
    let lock = (0..3_usize).prop_map(|of| LockPick { of, token_of: None });
    let keys = subsequence(CHILDREN.to_vec(), 0..=CHILDREN.len());
    prop_oneof![
        6 => (lock, any::<bool>(), keys)
            .prop_map(|(lock, fail_fast, keys)| Op::FanOut { lock, fail_fast, keys }),
        3 => (0..3_usize).prop_map(Op::Spawn),
        3 => vec(report(), 1..3).prop_map(Op::Report),
        3 => (1..4_usize).prop_map(Op::Relay),
        1 => vec(0..4_usize, 1..3).prop_map(Op::DeleteOutbox),
        1 => (1..4_u32).prop_map(Op::Outbox),
        1 => (0..3_usize, 1..4_u32).prop_map(|(of, limit)| Op::Children(of, limit)),
        1 => flow_pick().prop_map(Op::Pending),
        2 => flow_pick().prop_map(Op::Mark),
        1 => flow_pick().prop_map(Op::Undelivered),
        2 => (1..4_u32).prop_map(Op::FlowSweep),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let back = || 0..10_usize;
    let lock = || {
        (
            back(),
            prop_oneof![9 => Just(None), 1 => back().prop_map(Some)],
        )
            .prop_map(|(of, token_of)| LockPick { of, token_of })
    };
    let name = || select(&NAMES);
    prop_oneof![
        6 => vec(new_job(), 1..4).prop_map(Op::Enqueue),
        6 => claim(),
        3 => (0..6_usize).prop_map(Op::Repeat),
        7 => vec((lock(), outcome()), 1..4).prop_map(Op::Ack),
        1 => vec(lock(), 1..3).prop_map(Op::Release),
        1 => (vec(lock(), 1..4), millis(1..9_000)).prop_map(|(locks, by)| Op::Extend(locks, by)),
        1 => (lock(), exit()).prop_map(|(lock, value)| Op::Progress(lock, value.unwrap_or_default())),
        2 => (0..3_u32, 1..4_u32).prop_map(|(most_stalls, limit)| Op::Recover { most_stalls, limit }),
        2 => vec(back(), 1..3).prop_map(Op::Watch),
        2 => vec(back(), 1..3).prop_map(Op::Cancel),
        2 => (name(), select(&KEYS)).prop_map(|(name, key)| Op::CancelByDedupe(name, key)),
        3 => back().prop_map(Op::Retry),
        1 => back().prop_map(Op::Promote),
        2 => back().prop_map(Op::Remove),
        1 => (select(&QUEUES), settings()).prop_map(|(queue, settings)| Op::SetQueue(queue, settings)),
        2 => (1..4_u32).prop_map(Op::Sweep),
        1 => upsert(),
        1 => tick(),
        1 => (0..9_u32, select(&SCHEDULES), 1..3_u32)
            .prop_map(|(die, key, limit)| if die == 0 { Op::Unschedule(key) } else { Op::Due(limit) }),
        2 => walk(),
        16 => flow_op(),
        4 => prop_oneof![3 => span(4_000), 1 => millis(40_000..70_000)].prop_map(Op::Advance),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let handle = prop_oneof![3 => Just(0), 1 => Just(1)];
    (handle, op()).prop_map(|(handle, op)| Step { handle, op })
}
