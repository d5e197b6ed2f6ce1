//! Upsert, list and remove.

use super::minutely;
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, job, json, ms};
use crate::record::{Backoff, Cadence, JobState, Keep, NewSchedule, Retention, ScheduleRecord};
use crate::store::{ScheduleFilter, Tick};
use crate::time::{LONGEST, Timestamp};
use crate::validate::MAX_NAME;

cases! { __contract_schedule_stored, schedule::stored:
    a_schedule_is_stored_as_it_was_given,
    a_cadence_is_stored_as_it_was_given,
    an_unchanged_cadence_keeps_the_next_slot,
    a_changed_cadence_takes_the_callers_slot,
    an_upsert_replaces_everything_else,
    each_upsert_raises_the_version,
    upserts_that_race_draw_distinct_versions,
    schedules_are_listed_by_key,
    filters_must_all_match,
    a_removed_schedule_is_gone,
    a_schedule_made_anew_takes_the_callers_slot,
    schedules_are_the_same_at_every_handle,
    a_broken_schedule_is_refused_and_not_stored,
    a_broken_filter_or_key_is_refused,
}

async fn all(fx: &Fixture) -> Vec<ScheduleRecord> {
    fx.store
        .list_schedules(ScheduleFilter::default())
        .await
        .must()
}

async fn upsert(fx: &Fixture, schedule: NewSchedule) -> ScheduleRecord {
    fx.store.upsert_schedule(schedule).await.must()
}

/// A schedule with everything that a producer can say.
fn full(fx: &Fixture) -> NewSchedule {
    let mut spec = job().label("a", "b").priority(-7).spec;
    spec.payload = json(r#"{"n": 12345678901234567890}"#);
    spec.attempts_max = 3;
    spec.backoff = Some(Backoff::exponential(ms(5)).max(ms(100)).jitter(0.5));
    spec.keep = Some(Keep::all(Retention::count(2)));
    spec.timeout = Some(ms(9));
    NewSchedule {
        spec,
        group: Some("billing".into()),
        ..minutely("full", fx.later(60_000))
    }
}

/// The answer is the record, and the list shows the same.
async fn a_schedule_is_stored_as_it_was_given(fx: Fixture) {
    for new in [full(&fx), minutely("plain", Timestamp::MAX)] {
        let stored = upsert(&fx, new.clone()).await;
        let expected = ScheduleRecord {
            key: new.key.clone(),
            cadence: new.cadence,
            spec: new.spec,
            group: new.group,
            next_run_at: new.next_run_at,
            version: stored.version,
        };
        assert_eq!(stored, expected);
        let listed = all(&fx).await.into_iter().find(|it| it.key == new.key);
        assert_eq!(listed, Some(expected));
    }
}

/// Neither the expression nor the zone is rewritten, and no zone is no zone.
async fn a_cadence_is_stored_as_it_was_given(fx: Fixture) {
    let cron = |expression: &str, tz: Option<&str>| Cadence::Cron {
        expression: expression.into(),
        tz: tz.map(Into::into),
    };
    for cadence in [
        Cadence::Every(ms(1)),
        Cadence::Every(LONGEST),
        cron("0 9 * * *", None),
        cron("0 9 * * *", Some("UTC")),
        cron("30 0 9 * * MON-FRI", Some("America/New_York")),
    ] {
        let new = NewSchedule {
            cadence: cadence.clone(),
            ..minutely("key", fx.now())
        };
        upsert(&fx, new).await;
        assert_eq!(all(&fx).await[0].cadence, cadence);
    }
}

/// A program that declares its schedules at each start does not move them.
async fn an_unchanged_cadence_keeps_the_next_slot(fx: Fixture) {
    let cron = Cadence::Cron {
        expression: "0 9 * * *".into(),
        tz: Some("Europe/Berlin".into()),
    };
    for (key, cadence) in [("a", Cadence::Every(ms(60_000))), ("b", cron)] {
        let slot = fx.later(5);
        let new = |next_run_at| NewSchedule {
            cadence: cadence.clone(),
            ..minutely(key, next_run_at)
        };
        upsert(&fx, new(slot)).await;
        fx.advance(100);
        assert_eq!(upsert(&fx, new(fx.later(60_000))).await.next_run_at, slot);
    }
}

/// Interval, expression and zone are the cadence, each of them.
async fn a_changed_cadence_takes_the_callers_slot(fx: Fixture) {
    let cron = |expression: &str, tz: Option<&str>| Cadence::Cron {
        expression: expression.into(),
        tz: tz.map(Into::into),
    };
    let cadences = [
        Cadence::Every(ms(60_000)),
        Cadence::Every(ms(60_001)),
        cron("0 9 * * *", None),
        cron("0 10 * * *", None),
        cron("0 10 * * *", Some("UTC")),
        cron("0 10 * * *", Some("Asia/Tokyo")),
        cron("0 10 * * *", None),
        Cadence::Every(ms(60_000)),
    ];
    for cadence in cadences {
        fx.advance(1);
        let new = NewSchedule {
            cadence: cadence.clone(),
            ..minutely("key", fx.later(7))
        };
        assert_eq!(
            upsert(&fx, new).await.next_run_at,
            fx.later(7),
            "after {cadence:?}"
        );
    }
}

/// What the new declaration leaves out, the schedule loses.
async fn an_upsert_replaces_everything_else(fx: Fixture) {
    let first = upsert(&fx, full(&fx)).await;
    let plain = minutely("full", fx.now());
    let second = upsert(&fx, plain.clone()).await;
    let expected = ScheduleRecord {
        spec: plain.spec,
        group: None,
        version: second.version,
        ..first
    };
    assert_eq!(all(&fx).await, [expected]);
}

/// So that decisions made on an older one are void; also without a change.
async fn each_upsert_raises_the_version(fx: Fixture) {
    let mut versions = Vec::new();
    for _ in 0..3 {
        versions.push(upsert(&fx, minutely("key", fx.now())).await.version);
    }
    assert!(
        versions[0] < versions[1] && versions[1] < versions[2],
        "got {versions:?}"
    );
}

/// Even at once.
async fn upserts_that_race_draw_distinct_versions(fx: Fixture) {
    let second = fx.second().await;
    let mut versions = fx
        .race(8, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move { upsert(&handle, minutely("key", handle.now())).await.version }
        })
        .await;
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 8, "distinct versions");
    assert_eq!(all(&fx).await[0].version, versions[7]);
}

/// In byte order.
async fn schedules_are_listed_by_key(fx: Fixture) {
    assert_eq!(all(&fx).await, []);
    for key in ["b", "é", "a/x", "B", "a"] {
        upsert(&fx, minutely(key, fx.now())).await;
    }
    let keys: Vec<_> = all(&fx).await.into_iter().map(|it| it.key).collect();
    assert_eq!(keys, ["B", "a", "a/x", "b", "é"]);
}

/// Each filter takes away from what the others leave.
async fn filters_must_all_match(fx: Fixture) {
    for (key, name, queue, group) in [
        ("1", "x", "a", Some("g")),
        ("2", "x", "b", Some("g")),
        ("3", "y", "a", Some("g")),
        ("4", "x", "a", Some("h")),
        ("5", "x", "a", None),
    ] {
        let new = NewSchedule {
            spec: job().name(name).queue(queue).spec,
            group: group.map(Into::into),
            ..minutely(key, fx.now())
        };
        upsert(&fx, new).await;
    }
    let found = async |name: Option<&str>, queue: Option<&str>, group: Option<&str>| {
        let filter = ScheduleFilter {
            job_name: name.map(Into::into),
            queue: queue.map(Into::into),
            group: group.map(Into::into),
        };
        let listed = fx.store.list_schedules(filter).await.must();
        listed
            .iter()
            .map(|it| it.key.to_string())
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(found(None, None, None).await, "12345");
    assert_eq!(found(Some("x"), None, None).await, "1245");
    assert_eq!(found(None, Some("a"), None).await, "1345");
    assert_eq!(found(None, None, Some("g")).await, "123");
    assert_eq!(found(Some("x"), Some("a"), Some("g")).await, "1");
    assert_eq!(found(Some("y"), Some("b"), None).await, "");
}

/// Its jobs stay.
async fn a_removed_schedule_is_gone(fx: Fixture) {
    let stored = upsert(&fx, minutely("key", fx.now())).await;
    let tick = Tick {
        key: stored.key.clone(),
        version: stored.version,
        expected: stored.next_run_at,
        next: fx.later(60_000),
        job: Some(job().id("slot")),
    };
    assert!(fx.store.tick_schedule(tick).await.must());
    assert!(fx.store.remove_schedule(&stored.key).await.must());
    assert_eq!(all(&fx).await, []);
    fx.advance(1_000_000);
    assert_eq!(fx.store.due_schedules(10).await.must().due, []);
    assert_eq!(fx.state(&"slot".into()).await, JobState::Waiting);
    assert!(
        !fx.store.remove_schedule(&stored.key).await.must(),
        "once is enough"
    );
    assert!(!fx.store.remove_schedule(&"unknown".into()).await.must());
}

/// Nothing of the old one is kept.
async fn a_schedule_made_anew_takes_the_callers_slot(fx: Fixture) {
    upsert(&fx, full(&fx)).await;
    assert!(fx.store.remove_schedule(&"full".into()).await.must());
    let new = minutely("full", fx.later(123));
    assert_eq!(upsert(&fx, new).await.next_run_at, fx.later(123));
    assert_eq!(all(&fx).await[0].group, None);
}

/// A schedule is the store's.
async fn schedules_are_the_same_at_every_handle(fx: Fixture) {
    let second = fx.second().await;
    let stored = upsert(&fx, full(&fx)).await;
    assert_eq!(all(&second).await, [stored.clone()]);
    assert!(second.store.remove_schedule(&stored.key).await.must());
    assert_eq!(all(&fx).await, []);
}

/// Each refusal names its field, and leaves what was there.
async fn a_broken_schedule_is_refused_and_not_stored(fx: Fixture) {
    let stored = upsert(&fx, minutely("key", fx.now())).await;
    let with = |change: &dyn Fn(&mut NewSchedule)| {
        let mut broken = minutely("key", fx.later(1));
        change(&mut broken);
        broken
    };
    let cron = |expression: &str, tz: Option<&str>| Cadence::Cron {
        expression: expression.into(),
        tz: tz.map(Into::into),
    };
    let long = "x".repeat(MAX_NAME + 1);
    for broken in [
        with(&|it| it.key = "".into()),
        with(&|it| it.key = "a\0".into()),
        with(&|it| it.key = long.as_str().into()),
        with(&|it| it.group = Some(String::new())),
        with(&|it| it.group = Some("a\0".into())),
        with(&|it| it.cadence = Cadence::Every(ms(0))),
        with(&|it| it.cadence = Cadence::Every(LONGEST + ms(1))),
        with(&|it| it.cadence = cron("", None)),
        with(&|it| it.cadence = cron("every day", None)),
        with(&|it| it.cadence = cron("0 25 * * *", None)),
        with(&|it| it.cadence = cron("0 0 30 2 *", None)),
        with(&|it| it.cadence = cron("0 9 * * *", Some("Mars/Olympus"))),
        with(&|it| it.spec.name = "a/b".into()),
        with(&|it| it.spec.queue = "".into()),
        with(&|it| it.spec.attempts_max = 0),
    ] {
        expect_refused(fx.store.upsert_schedule(broken).await, "");
    }
    assert_eq!(all(&fx).await, [stored]);
}

/// Keys, names, queues and groups that nothing can have are an error.
async fn a_broken_filter_or_key_is_refused(fx: Fixture) {
    let none = ScheduleFilter::default;
    for (field, filter) in [
        (
            "job name",
            ScheduleFilter {
                job_name: Some("a/b".into()),
                ..none()
            },
        ),
        (
            "queue name",
            ScheduleFilter {
                queue: Some("".into()),
                ..none()
            },
        ),
        (
            "schedule group",
            ScheduleFilter {
                group: Some("a\0".into()),
                ..none()
            },
        ),
    ] {
        expect_refused(fx.store.list_schedules(filter).await, field);
    }
    for key in ["", "a\0b"] {
        expect_refused(fx.store.remove_schedule(&key.into()).await, "schedule key");
    }
}
