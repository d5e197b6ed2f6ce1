//! Schedules and their ticks.

use super::*;
use crate::record::{Cadence, NewSchedule};
use crate::store::{ScheduleFilter, Tick};
use crate::time::Timestamp;

fn schedule(change: impl FnOnce(&mut NewSchedule)) -> Validated {
    let mut schedule = NewSchedule {
        key: "key".into(),
        cadence: Cadence::Every(Duration::from_secs(60)),
        spec: spec(),
        group: None,
        next_run_at: Timestamp::MIN,
    };
    change(&mut schedule);
    upsert_schedule(&schedule, &limits())
}

#[test]
fn every_part_of_a_schedule_is_checked() {
    passes(schedule(|_| {}));
    passes(schedule(|it| it.group = Some("g".repeat(256))));
    let empty = "\"\" is empty: give it at least one character";
    let key = schedule(|it| it.key = "".into());
    refuses(key, &format!("schedule key {empty}"));
    let group = schedule(|it| it.group = Some(String::new()));
    refuses(group, &format!("schedule group {empty}"));
    let queue = schedule(|it| it.spec.queue = "".into());
    refuses(queue, &format!("queue name {empty}"));
    refuses(
        schedule(|it| it.group = Some("a\0".into())),
        "schedule group \"a\\0\" holds a NUL character (U+0000): remove it",
    );
    let payload = schedule(|it| it.spec.payload = json(format!("\"{}\"", "x".repeat(99))));
    assert!(refusal(payload).ends_with("is 101 bytes long, at most 100"));
}

#[test]
fn an_interval_is_a_positive_span() {
    let every = |interval| cadence(&Cadence::Every(interval));
    passes(every(Duration::from_nanos(1)));
    passes(every(LONGEST));
    assert!(refusal(every(Duration::ZERO)).contains("zero"));
    assert!(refusal(every(TOO_LONG)).contains("out of range"));
}

#[cfg(feature = "cron")]
#[test]
fn a_cron_expression_parses_and_has_slots() {
    let cron = |expression: &str, tz: Option<&str>| {
        cadence(&Cadence::Cron {
            expression: expression.into(),
            tz: tz.map(Into::into),
        })
    };
    passes(cron("0 9 * * *", None));
    passes(cron("*/5 0 9 * * *", Some("Europe/Berlin")));
    passes(cron("0 0 29 2 *", None));
    for (expression, tz) in [
        ("", None),
        ("0 9 * *", None),
        ("0 0 9 * * * *", None),
        ("0 24 * * *", None),
        ("0 0 30 2 *", None),
        ("0 9 * * *", Some("Mars/Olympus")),
        ("0 9 * * *", Some("")),
    ] {
        let error = cron(expression, tz).unwrap_err();
        let named = tz.unwrap_or(expression);
        assert_eq!(error.value, format!("{named:?}"), "{error}");
    }
}

#[test]
fn every_text_of_a_schedule_filter_is_checked() {
    passes(list_schedules(&ScheduleFilter::default()));
    let none = ScheduleFilter::default;
    for (field, broken) in [
        (
            "job name",
            ScheduleFilter {
                job_name: Some("".into()),
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
                group: Some(String::new()),
                ..none()
            },
        ),
    ] {
        let message = format!("{field} \"\" is empty: give it at least one character");
        refuses(list_schedules(&broken), &message);
    }
}

#[test]
fn the_job_of_a_tick_has_an_id() {
    let tick = |job| {
        tick_schedule(
            &Tick {
                key: "key".into(),
                version: 1,
                expected: Timestamp::MIN,
                next: Timestamp::MAX,
                job,
            },
            &limits(),
        )
    };
    passes(tick(None));
    let with_id = |id: &str| NewJob {
        id: Some(id.into()),
        ..job()
    };
    passes(tick(Some(with_id("sched/key/0"))));
    refuses(
        tick(Some(job())),
        "tick of schedule \"key\" has a job without an id: give it the slot's, sched/<key>/<millis>",
    );
    refuses(
        tick(Some(with_id(""))),
        "job id \"\" is empty: give it at least one character",
    );
    let mut broken = with_id("a");
    broken.spec.attempts_max = 0;
    refuses(
        tick(Some(broken)),
        "attempts_max 0 is zero, must be at least 1",
    );
}
