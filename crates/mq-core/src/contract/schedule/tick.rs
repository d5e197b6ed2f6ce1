//! Tick: each slot is decided once.

use super::minutely;
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, complete, job, ms};
use crate::id::JobId;
use crate::record::{Dedupe, JobState, NewSchedule, SCHEDULED_FOR, ScheduleRecord};
use crate::store::{ScheduleFilter, Tick};
use crate::time::Timestamp;

cases! { __contract_schedule_tick, schedule::tick:
    a_tick_inserts_the_slots_job_and_advances,
    a_tick_without_a_job_only_advances,
    a_tick_leaves_the_version,
    a_tick_on_an_older_version_is_void,
    a_tick_on_another_slot_is_void,
    a_tick_of_an_unknown_schedule_is_void,
    a_repeated_tick_is_void,
    a_repeated_tick_is_void_even_if_the_slots_job_is_gone,
    a_tick_whose_job_exists_advances_and_answers_false,
    a_tick_ignores_dedupe,
    a_slots_job_may_be_for_later,
    a_slots_job_knows_its_slot,
    of_two_sweepers_on_one_slot_one_decides,
    a_tick_that_races_an_upsert_is_decided_once,
    schedules_tick_each_for_itself,
    a_broken_tick_is_refused_and_does_not_advance,
}

async fn schedule(fx: &Fixture) -> ScheduleRecord {
    fx.store
        .upsert_schedule(minutely("key", fx.now()))
        .await
        .must()
}

async fn stored(fx: &Fixture) -> ScheduleRecord {
    fx.store
        .list_schedules(ScheduleFilter::default())
        .await
        .must()
        .remove(0)
}

/// The decision that a sweeper makes on a schedule as it read it.
fn decide(read: &ScheduleRecord) -> Tick {
    let slot = read.next_run_at;
    let mut new = job().id(format!("sched/{}/{}", read.key, slot.as_millis()));
    new.spec = read.spec.clone();
    Tick {
        key: read.key.clone(),
        version: read.version,
        expected: slot,
        next: slot.saturating_add(ms(60_000)),
        job: Some(new),
    }
}

async fn tick(fx: &Fixture, tick: Tick) -> bool {
    fx.store.tick_schedule(tick).await.must()
}

/// In one step; the job is the one that was given.
async fn a_tick_inserts_the_slots_job_and_advances(fx: Fixture) {
    let read = schedule(&fx).await;
    let decision = decide(&read);
    assert!(tick(&fx, decision.clone()).await, "the tick decides");
    let expected = ScheduleRecord {
        next_run_at: decision.next,
        ..read
    };
    assert_eq!(stored(&fx).await, expected);
    let id = decision.job.and_then(|job| job.id).expect("the slot's id");
    let record = fx.job(&id).await;
    assert_eq!(
        (record.state, &record.spec),
        (JobState::Waiting, &expected.spec)
    );
    let held = fx.claim_one().await;
    assert_eq!(held.id, id);
    fx.ack(&held, complete()).await;
}

/// A slot may be skipped.
async fn a_tick_without_a_job_only_advances(fx: Fixture) {
    let read = schedule(&fx).await;
    let skip = Tick {
        job: None,
        ..decide(&read)
    };
    assert!(tick(&fx, skip.clone()).await, "the tick decides");
    assert_eq!(stored(&fx).await.next_run_at, skip.next);
    assert_eq!(fx.counts().await.total(), 0);
    assert!(!tick(&fx, skip).await, "once");
}

/// Only upserts make it another schedule.
async fn a_tick_leaves_the_version(fx: Fixture) {
    let read = schedule(&fx).await;
    for _ in 0..3 {
        assert!(tick(&fx, decide(&stored(&fx).await)).await);
    }
    let left = stored(&fx).await;
    assert_eq!(left.version, read.version);
    assert_eq!(
        left.next_run_at,
        read.next_run_at.saturating_add(ms(180_000))
    );
    fx.expect_count(JobState::Waiting, 3).await;
}

/// Checks that a tick answers false and changes nothing.
async fn expect_void(fx: &Fixture, decision: Tick) {
    let (before, counts) = (stored(fx).await, fx.counts().await);
    assert!(!tick(fx, decision).await, "the tick is void");
    assert_eq!(stored(fx).await, before);
    assert_eq!(fx.counts().await, counts);
}

/// The schedule was declared anew since it was read.
async fn a_tick_on_an_older_version_is_void(fx: Fixture) {
    let read = schedule(&fx).await;
    let changed = NewSchedule {
        spec: job().priority(9).spec,
        ..minutely("key", fx.now())
    };
    fx.store.upsert_schedule(changed).await.must();
    expect_void(&fx, decide(&read)).await;
    let future = Tick {
        version: read.version + 100,
        ..decide(&stored(&fx).await)
    };
    expect_void(&fx, future).await;
}

/// Its slot was decided since it was read, or never was this one.
async fn a_tick_on_another_slot_is_void(fx: Fixture) {
    let read = schedule(&fx).await;
    for expected in [fx.later(1), Timestamp::MIN, Timestamp::MAX] {
        expect_void(
            &fx,
            Tick {
                expected,
                ..decide(&read)
            },
        )
        .await;
    }
    assert!(tick(&fx, decide(&read)).await, "the right one decides");
}

/// There is no slot to decide, and no job comes of it.
async fn a_tick_of_an_unknown_schedule_is_void(fx: Fixture) {
    let read = schedule(&fx).await;
    let unknown = Tick {
        key: "unknown".into(),
        ..decide(&read)
    };
    expect_void(&fx, unknown).await;
    assert!(fx.store.remove_schedule(&read.key).await.must());
    assert!(!tick(&fx, decide(&read)).await, "a removed one is unknown");
    assert_eq!(fx.counts().await.total(), 0);
}

/// A tick whose answer was lost decides nothing more.
async fn a_repeated_tick_is_void(fx: Fixture) {
    let read = schedule(&fx).await;
    assert!(tick(&fx, decide(&read)).await);
    expect_void(&fx, decide(&read)).await;
}

/// A slot whose job has been done and pruned is not run again.
async fn a_repeated_tick_is_void_even_if_the_slots_job_is_gone(fx: Fixture) {
    let read = schedule(&fx).await;
    assert!(tick(&fx, decide(&read)).await);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    assert!(fx.store.remove(&held.id).await.must());
    expect_void(&fx, decide(&read)).await;
    assert_eq!(fx.find(&held.id).await, None);
}

/// The slot is over, though this tick inserted nothing.
async fn a_tick_whose_job_exists_advances_and_answers_false(fx: Fixture) {
    let read = schedule(&fx).await;
    let decision = decide(&read);
    let mut taken = decision.job.clone().expect("a job");
    taken.spec.priority = 5;
    let id = fx.enqueue(taken).await;
    let before = fx.job(&id).await;
    assert!(!tick(&fx, decision.clone()).await, "nothing was inserted");
    assert_eq!(stored(&fx).await.next_run_at, decision.next);
    assert_eq!(fx.job(&id).await, before);
    assert_eq!(fx.counts().await.total(), 1);
}

/// A slot is never a duplicate of anything, and holds no key.
async fn a_tick_ignores_dedupe(fx: Fixture) {
    let keyed = fx.enqueue(job().key("key").delay(1_000)).await;
    let before = fx.job(&keyed).await;
    let mut decision = decide(&schedule(&fx).await);
    if let Some(new) = &mut decision.job {
        new.dedupe = Some(Dedupe::key("key").replace());
    }
    assert!(tick(&fx, decision.clone()).await, "the tick decides");
    assert_eq!(fx.job(&keyed).await, before);
    fx.duplicate_of(&keyed, job().key("key")).await;
    fx.store.cancel(&keyed).await.must();
    fx.enqueue(job().key("key")).await;
    fx.expect_count(JobState::Waiting, 2).await;
}

/// Its delay is kept.
async fn a_slots_job_may_be_for_later(fx: Fixture) {
    let mut decision = decide(&schedule(&fx).await);
    decision.job = Some(job().id("later").delay(5));
    assert!(tick(&fx, decision).await, "the tick decides");
    let record = fx.job(&"later".into()).await;
    assert_eq!(
        (record.state, record.run_at),
        (JobState::Delayed, fx.later(5))
    );
}

/// What the decision says of it is stored with it.
async fn a_slots_job_knows_its_slot(fx: Fixture) {
    let read = schedule(&fx).await;
    let mut decision = decide(&read);
    let slot = read.next_run_at.as_millis().to_string();
    if let Some(new) = &mut decision.job {
        let key = SCHEDULED_FOR.to_owned();
        new.spec.metadata.insert(key, slot.clone());
    }
    assert!(tick(&fx, decision).await, "the tick decides");
    let id = JobId::from(format!("sched/key/{slot}"));
    assert_eq!(fx.job(&id).await.spec.metadata["scheduled_for"], slot);
}

/// Many workers see the slot; one job comes of it, and one is told so.
async fn of_two_sweepers_on_one_slot_one_decides(fx: Fixture) {
    let mut read = schedule(&fx).await;
    let second = fx.second().await;
    for round in 1..=20 {
        let decision = decide(&read);
        let decided = fx
            .race(4, |fx, number| {
                let handle = if number % 2 == 0 { fx } else { second.clone() };
                let decision = decision.clone();
                async move { tick(&handle, decision).await }
            })
            .await;
        let times = decided.iter().filter(|decided| **decided).count();
        assert_eq!(times, 1, "sweepers that decided slot {round}");
        fx.expect_count(JobState::Waiting, round).await;
        read = stored(&fx).await;
    }
}

/// The job is the old declaration's or does not come; the slot is never both
/// decided and still open.
async fn a_tick_that_races_an_upsert_is_decided_once(fx: Fixture) {
    for round in 0..20 {
        let key = format!("key-{round}");
        let new = minutely(&key, fx.now());
        let read = fx.store.upsert_schedule(new.clone()).await.must();
        let decision = decide(&read);
        let decided = fx
            .race(2, |fx, number| {
                let (decision, new) = (decision.clone(), new.clone());
                async move {
                    if number == 0 {
                        return tick(&fx, decision).await;
                    }
                    fx.store.upsert_schedule(new).await.must();
                    false
                }
            })
            .await[0];
        let all = fx
            .store
            .list_schedules(ScheduleFilter::default())
            .await
            .must();
        let left = all
            .into_iter()
            .find(|it| it.key == read.key)
            .expect("it is there");
        let slot = if decided {
            decision.next
        } else {
            read.next_run_at
        };
        assert_eq!(
            left.next_run_at, slot,
            "after a tick that decided: {decided}"
        );
        let id = decision.job.and_then(|job| job.id).expect("an id");
        assert_eq!(fx.find(&id).await.is_some(), decided);
    }
}

/// One tick does not move another schedule.
async fn schedules_tick_each_for_itself(fx: Fixture) {
    let a = fx
        .store
        .upsert_schedule(minutely("a", fx.now()))
        .await
        .must();
    let b = fx
        .store
        .upsert_schedule(minutely("b", fx.now()))
        .await
        .must();
    assert!(tick(&fx, decide(&a)).await, "a's tick decides");
    let due = fx.store.due_schedules(10).await.must().due;
    assert_eq!(due, [b]);
}

/// Each broken rule is named, and the slot stays open.
async fn a_broken_tick_is_refused_and_does_not_advance(fx: Fixture) {
    let read = schedule(&fx).await;
    let good = decide(&read);
    let with = |job| Tick {
        job: Some(job),
        ..good.clone()
    };
    for (field, broken) in [
        (
            "schedule key",
            Tick {
                key: "".into(),
                ..good.clone()
            },
        ),
        ("tick of schedule", with(job())),
        ("job id", with(job().id("a\0"))),
        ("job name", with(job().id("a").name("a/b"))),
        ("queue name", with(job().id("a").queue(""))),
    ] {
        expect_refused(fx.store.tick_schedule(broken).await, field);
    }
    assert_eq!(stored(&fx).await, read);
    assert_eq!(fx.counts().await.total(), 0);
    assert!(tick(&fx, good).await, "the slot can still be decided");
}
