//! Pins the rule for clock changes: `docs/schedules.md` shows the same table.

use super::*;

fn instant(text: &str) -> Timestamp {
    let instant = DateTime::parse_from_rfc3339(text).unwrap();
    Timestamp::from_millis(u64::try_from(instant.timestamp_millis()).unwrap()).unwrap()
}

/// The runs of an expression after one local time, up to and including another,
/// each as wall-clock time and offset.
fn runs(expression: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
    let cron = ZonedCron::parse(expression, Some(zone)).unwrap();
    let until = instant(until);
    let mut runs = Vec::new();
    let mut slot = instant(after);
    while let Some(next) = cron.after(slot) {
        assert!(next > slot, "{next} does not come after {slot}");
        if next > until {
            return runs;
        }
        slot = next;
        let utc = DateTime::from_timestamp_millis(next.as_millis() as i64).unwrap();
        let local = utc.with_timezone(&cron.zone);
        runs.push(local.format("%d %H:%M:%S%:z").to_string());
    }
    panic!("the search ended before {until}");
}

const NEW_YORK: &str = "America/New_York";
/// On 2025-03-09 New York skipped from 02:00 to 03:00.
const SPRING: (&str, &str) = ("2025-03-08T12:00:00-05:00", "2025-03-10T12:00:00-04:00");
/// On 2025-11-02 New York went from 02:00 back to 01:00.
const AUTUMN: (&str, &str) = ("2025-11-01T12:00:00-04:00", "2025-11-03T12:00:00-05:00");

#[test]
fn a_fixed_time_in_the_skipped_hour_runs_once_when_the_clock_is_past_it() {
    assert_eq!(
        runs("30 2 * * *", NEW_YORK, SPRING.0, SPRING.1),
        ["09 03:00:00-04:00", "10 02:30:00-04:00"]
    );
}

#[test]
fn a_fixed_time_in_the_repeated_hour_runs_once_the_first_time() {
    assert_eq!(
        runs("30 1 * * *", NEW_YORK, AUTUMN.0, AUTUMN.1),
        ["02 01:30:00-04:00", "03 01:30:00-05:00"]
    );
}

#[test]
fn a_fixed_time_in_the_hour_before_the_gap_is_not_run_again_after_it() {
    assert_eq!(
        runs("30 1 * * *", NEW_YORK, SPRING.0, SPRING.1),
        ["09 01:30:00-05:00", "10 01:30:00-04:00"]
    );
}

#[test]
fn a_recurring_time_in_the_skipped_hour_does_not_run() {
    let around = ("2025-03-09T01:00:00-05:00", "2025-03-09T04:00:00-04:00");
    assert_eq!(
        runs("*/30 * * * *", NEW_YORK, around.0, around.1),
        [
            "09 01:30:00-05:00",
            "09 03:00:00-04:00",
            "09 03:30:00-04:00",
            "09 04:00:00-04:00"
        ]
    );
}

#[test]
fn a_recurring_time_in_the_repeated_hour_runs_both_times() {
    let around = ("2025-11-02T00:30:00-04:00", "2025-11-02T02:00:00-05:00");
    assert_eq!(
        runs("*/30 * * * *", NEW_YORK, around.0, around.1),
        [
            "02 01:00:00-04:00",
            "02 01:30:00-04:00",
            "02 01:00:00-05:00",
            "02 01:30:00-05:00",
            "02 02:00:00-05:00"
        ]
    );
}

#[test]
fn several_fixed_hours_count_as_recurring() {
    assert_eq!(
        runs("30 2,14 * * *", NEW_YORK, SPRING.0, SPRING.1),
        [
            "08 14:30:00-05:00",
            "09 14:30:00-04:00",
            "10 02:30:00-04:00"
        ]
    );
    assert_eq!(
        runs("30 1,13 * * *", NEW_YORK, AUTUMN.0, AUTUMN.1),
        [
            "01 13:30:00-04:00",
            "02 01:30:00-04:00",
            "02 01:30:00-05:00",
            "02 13:30:00-05:00",
            "03 01:30:00-05:00"
        ]
    );
}

#[test]
fn a_change_by_half_an_hour_follows_the_same_rule() {
    // Lord Howe skipped from 02:00 to 02:30 on 2025-10-05, and went from 02:00
    // back to 01:30 on 2025-04-06.
    let spring = ("2025-10-04T12:00:00+10:30", "2025-10-06T12:00:00+11:00");
    assert_eq!(
        runs("15 2 * * *", "Australia/Lord_Howe", spring.0, spring.1),
        ["05 02:30:00+11:00", "06 02:15:00+11:00"]
    );
    let autumn = ("2025-04-05T12:00:00+11:00", "2025-04-07T12:00:00+10:30");
    assert_eq!(
        runs("45 1 * * *", "Australia/Lord_Howe", autumn.0, autumn.1),
        ["06 01:45:00+11:00", "07 01:45:00+10:30"]
    );
}

#[test]
fn a_change_at_midnight_keeps_the_day() {
    // São Paulo skipped from 00:00 to 01:00 on 2018-11-04, and went from 00:00
    // back to 23:00 of the day before on 2019-02-17.
    let spring = ("2018-11-03T12:00:00-03:00", "2018-11-05T12:00:00-02:00");
    assert_eq!(
        runs("0 0 * * *", "America/Sao_Paulo", spring.0, spring.1),
        ["04 01:00:00-02:00", "05 00:00:00-02:00"]
    );
    let autumn = ("2019-02-16T12:00:00-02:00", "2019-02-18T12:00:00-03:00");
    assert_eq!(
        runs("30 23 * * *", "America/Sao_Paulo", autumn.0, autumn.1),
        ["16 23:30:00-02:00", "17 23:30:00-03:00"]
    );
    assert_eq!(
        runs("0 0 * * *", "America/Sao_Paulo", autumn.0, autumn.1),
        ["17 00:00:00-03:00", "18 00:00:00-03:00"]
    );
}

#[test]
fn a_historical_change_of_the_standard_offset_is_respected() {
    // Kathmandu moved its clock from 00:00 to 00:15 at the start of 1986.
    let around = ("1985-12-31T12:00:00+05:30", "1986-01-02T12:00:00+05:45");
    assert_eq!(
        runs("5 0 * * *", "Asia/Kathmandu", around.0, around.1),
        ["01 00:15:00+05:45", "02 00:05:00+05:45"]
    );
    // Pyongyang went from 00:00 back to 23:30 at the start of 2015-08-15.
    let around = ("2015-08-14T12:00:00+09:00", "2015-08-16T12:00:00+08:30");
    assert_eq!(
        runs("45 23 * * *", "Asia/Pyongyang", around.0, around.1),
        ["14 23:45:00+09:00", "15 23:45:00+08:30"]
    );
}

#[test]
fn a_day_that_the_zone_skips_has_no_run() {
    // Samoa had no 2011-12-30: it crossed the date line.
    let around = ("2011-12-28T23:59:30-10:00", "2012-01-01T00:00:00+14:00");
    for (expression, wall_clock) in [
        ("0 0 * * *", "00:00:00"),
        ("0 9 * * *", "09:00:00"),
        ("59 23 * * *", "23:59:00"),
    ] {
        let mut expected = vec![
            format!("29 {wall_clock}-10:00"),
            format!("31 {wall_clock}+14:00"),
        ];
        if wall_clock == "00:00:00" {
            expected.push("01 00:00:00+14:00".to_owned());
        }
        assert_eq!(
            runs(expression, "Pacific/Apia", around.0, around.1),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn a_jump_of_more_than_two_hours_has_no_run_of_a_fixed_time_within_it() {
    // Casey station skipped from 02:00 to 05:00 on 2009-10-18.
    let around = ("2009-10-17T12:00:00+08:00", "2009-10-19T12:00:00+11:00");
    assert_eq!(
        runs("30 2 * * *", "Antarctica/Casey", around.0, around.1),
        ["19 02:30:00+11:00"]
    );
    assert_eq!(
        runs("0 4 * * *", "Antarctica/Casey", around.0, around.1),
        ["18 05:00:00+11:00", "19 04:00:00+11:00"]
    );
}

#[test]
fn a_jump_over_midnight_moves_a_fixed_time_into_the_next_day() {
    // Nuuk skipped from 23:00 on 2024-03-30 to 00:00 on the 31st: both days exist.
    let around = ("2024-03-29T12:00:00-02:00", "2024-03-31T23:30:00-01:00");
    assert_eq!(
        runs("30 23 * * *", "America/Nuuk", around.0, around.1),
        [
            "29 23:30:00-02:00",
            "31 00:00:00-01:00",
            "31 23:30:00-01:00"
        ]
    );
}

#[test]
fn a_date_that_only_the_skipped_day_bears_waits_for_the_next_one() {
    let around = ("2011-12-28T12:00:00-10:00", "2012-12-30T23:00:00+14:00");
    assert_eq!(
        runs("0 9 30 12 *", "Pacific/Apia", around.0, around.1),
        ["30 09:00:00+14:00"]
    );
}

#[test]
fn six_fields_begin_with_seconds() {
    let around = ("2025-01-01T00:00:00Z", "2025-01-01T00:01:00Z");
    assert_eq!(
        runs("*/30 * * * * *", "UTC", around.0, around.1),
        ["01 00:00:30+00:00", "01 00:01:00+00:00"]
    );
}

#[test]
fn a_slot_follows_an_instant_between_two_seconds() {
    let cron = ZonedCron::parse("* * * * * *", None).unwrap();
    let half_past = instant("2025-01-01T00:00:00.500Z");
    assert_eq!(cron.after(half_past), Some(instant("2025-01-01T00:00:01Z")));
}

#[test]
fn utc_applies_where_no_zone_is_named() {
    let cron = ZonedCron::parse("0 9 * * *", None).unwrap();
    let slot = cron.after(instant("2025-01-01T00:00:00Z"));
    assert_eq!(slot, Some(instant("2025-01-01T09:00:00Z")));
}

#[test]
fn a_leap_day_waits_for_its_year() {
    let cron = ZonedCron::parse("0 0 29 2 *", None).unwrap();
    let slot = cron.after(instant("2097-01-01T00:00:00Z"));
    assert_eq!(slot, Some(instant("2104-02-29T00:00:00Z")));
}

#[test]
fn what_does_not_parse_or_never_matches_is_refused_by_name() {
    for (expression, zone, field) in [
        ("", None, "cron expression"),
        ("* * * *", None, "cron expression"),
        ("* * * * * * *", None, "cron expression"),
        ("61 * * * *", None, "cron expression"),
        ("0 0 30 2 *", None, "cron expression"),
        ("0 0 31 4,6 *", None, "cron expression"),
        ("* * * * \0", None, "cron expression"),
        ("* * * * *", Some(""), "time zone"),
        ("* * * * *", Some("Mars/Olympus"), "time zone"),
    ] {
        let error = ZonedCron::parse(expression, zone).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
}

#[test]
fn an_expression_that_does_not_parse_is_refused_in_a_sentence() {
    let error = ZonedCron::parse("61 * * * *", None).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("\"61 * * * *\" does not parse: "), "{told}");
}

#[test]
fn a_fixed_daily_time_runs_exactly_once_on_every_day_of_a_changing_year() {
    for zone in [
        NEW_YORK,
        "Europe/London",
        "Australia/Lord_Howe",
        "Africa/Cairo",
        "America/Havana",
    ] {
        for expression in [
            "0 0 * * *",
            "30 0 * * *",
            "0 1 * * *",
            "30 1 * * *",
            "0 2 * * *",
            "15 2 * * *",
            "30 2 * * *",
            "0 3 * * *",
        ] {
            let year = runs(
                expression,
                zone,
                "2024-12-31T12:00:00Z",
                "2025-12-31T12:00:00Z",
            );
            let days: Vec<_> = year.iter().map(|run| &run[..2]).collect();
            assert_eq!(days.len(), 365, "{expression} in {zone}");
            assert!(
                days.windows(2).all(|pair| pair[0] != pair[1]),
                "{expression} in {zone} runs twice on a day"
            );
        }
    }
}
