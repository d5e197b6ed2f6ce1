//! Due schedules: whose slot has come.

use super::minutely;
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::store::{DueSchedules, Tick};

cases! { __contract_schedule_due, schedule::due:
    an_empty_store_has_nothing_due,
    a_schedule_is_due_from_its_slot_on,
    due_schedules_come_by_slot_and_whole,
    the_next_slot_is_that_of_the_others,
    a_limit_takes_the_earliest,
    at_most_250_are_answered,
    asking_changes_nothing,
    a_schedule_that_was_ticked_is_due_at_its_next_slot,
    a_limit_of_zero_is_refused,
}

/// Nothing now, nothing later; the time is the store's.
async fn an_empty_store_has_nothing_due(fx: Fixture) {
    let expected = DueSchedules {
        due: Vec::new(),
        next_due: None,
        now: fx.now(),
    };
    assert_eq!(fx.store.due_schedules(10).await.must(), expected);
}

/// At its millisecond, not before.
async fn a_schedule_is_due_from_its_slot_on(fx: Fixture) {
    let stored = fx
        .store
        .upsert_schedule(minutely("key", fx.later(10)))
        .await
        .must();
    fx.advance(9);
    let asked = fx.store.due_schedules(10).await.must();
    assert_eq!((asked.due, asked.next_due), (Vec::new(), Some(fx.later(1))));
    fx.advance(1);
    let asked = fx.store.due_schedules(10).await.must();
    assert_eq!(
        (asked.due, asked.next_due, asked.now),
        (vec![stored], None, fx.now())
    );
}

/// Earliest slot first, each record as it is stored.
async fn due_schedules_come_by_slot_and_whole(fx: Fixture) {
    let mut expected = Vec::new();
    for (key, slot) in [("c", 1), ("a", 2), ("b", 3)] {
        expected.push(
            fx.store
                .upsert_schedule(minutely(key, fx.later(slot)))
                .await
                .must(),
        );
    }
    fx.advance(100);
    assert_eq!(fx.store.due_schedules(10).await.must().due, expected);
}

/// The earliest of those not due.
async fn the_next_slot_is_that_of_the_others(fx: Fixture) {
    for (key, slot) in [("a", 0), ("b", 300), ("c", 200)] {
        fx.store
            .upsert_schedule(minutely(key, fx.later(slot)))
            .await
            .must();
    }
    let asked = fx.store.due_schedules(10).await.must();
    assert_eq!((asked.due.len(), asked.next_due), (1, Some(fx.later(200))));
}

/// What is most overdue goes first.
async fn a_limit_takes_the_earliest(fx: Fixture) {
    for (key, slot) in [("a", 3), ("b", 1), ("c", 2)] {
        fx.store
            .upsert_schedule(minutely(key, fx.later(slot)))
            .await
            .must();
    }
    fx.advance(3);
    let due = fx.store.due_schedules(2).await.must().due;
    let keys: Vec<_> = due.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["b", "c"]);
}

/// A larger limit is clamped.
async fn at_most_250_are_answered(fx: Fixture) {
    for number in 0..251 {
        fx.store
            .upsert_schedule(minutely(&format!("key-{number}"), fx.now()))
            .await
            .must();
    }
    assert_eq!(fx.store.due_schedules(u32::MAX).await.must().due.len(), 250);
}

/// Only a tick decides a slot.
async fn asking_changes_nothing(fx: Fixture) {
    fx.store
        .upsert_schedule(minutely("key", fx.now()))
        .await
        .must();
    let first = fx.store.due_schedules(10).await.must();
    assert_eq!(
        fx.second().await.store.due_schedules(10).await.must(),
        first
    );
    assert_eq!(fx.counts().await.total(), 0);
}

/// And only then.
async fn a_schedule_that_was_ticked_is_due_at_its_next_slot(fx: Fixture) {
    let stored = fx
        .store
        .upsert_schedule(minutely("key", fx.now()))
        .await
        .must();
    let tick = Tick {
        key: stored.key,
        version: stored.version,
        expected: stored.next_run_at,
        next: fx.later(60_000),
        job: None,
    };
    assert!(fx.store.tick_schedule(tick).await.must());
    let asked = fx.store.due_schedules(10).await.must();
    assert_eq!(
        (asked.due, asked.next_due),
        (Vec::new(), Some(fx.later(60_000)))
    );
    fx.advance(60_000);
    assert_eq!(fx.store.due_schedules(10).await.must().due.len(), 1);
}

/// It would answer nothing for ever.
async fn a_limit_of_zero_is_refused(fx: Fixture) {
    expect_refused(fx.store.due_schedules(0).await, "limit");
}
