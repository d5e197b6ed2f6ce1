//! Dedupe with `replace`: the latest request wins while its job is delayed.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, complete, job, json, ms, retry_in};
use crate::record::{
    AttemptOutcome, Backoff, Dedupe, JobRecord, JobState, Keep, NewJob, Retention, TraceContext,
};

cases! { __contract_enqueue_replace, enqueue::replace:
    a_replacement_brings_its_own_data_and_policies,
    a_replacement_without_policies_takes_them_away,
    a_replacement_for_now_stays_delayed_until_it_is_claimed,
    a_replacement_keeps_its_place,
    a_replacement_keeps_the_ledger,
    a_replacement_arms_a_window_where_there_was_none,
    a_replacement_arms_its_window_from_now,
    a_replacement_without_a_ttl_leaves_the_window,
    a_job_whose_window_is_over_is_still_replaced,
    a_job_that_is_not_delayed_is_not_replaced,
    without_replace_a_delayed_job_stays_as_it_is,
    a_replacement_by_a_chosen_id_that_exists_replaces_nothing,
}

fn latest() -> NewJob {
    job().dedupe(Dedupe::key("key").replace())
}

fn latest_for(ttl: u64) -> NewJob {
    job().dedupe(Dedupe::key("key").replace().ttl(ms(ttl)))
}

/// Everything but id, name, queue, key, arrival and history is the new one's.
async fn a_replacement_brings_its_own_data_and_policies(fx: Fixture) {
    let id = fx
        .enqueue(latest().delay(1_000).label("old", "1").priority(1))
        .await;
    let before = fx.job(&id).await;
    fx.advance(10);
    let mut new = latest().id("unused").queue("other").delay(50);
    new.spec.payload = json(r#"{"new":1}"#);
    new.spec.metadata.insert("new".into(), "2".into());
    new.spec.priority = -5;
    new.spec.attempts_max = 9;
    new.spec.backoff = Some(Backoff::exponential(ms(7)).jitter(0.5));
    new.spec.keep = Some(Keep::all(Retention::count(3)));
    new.spec.timeout = Some(ms(123));
    new.trace = Some(TraceContext {
        trace_id: "t".into(),
        span_id: "s".into(),
        sampled: true,
        delayed: true,
    });
    fx.duplicate_of(&id, new.clone()).await;
    let mut spec = new.spec;
    spec.queue = before.spec.queue.clone();
    let expected = JobRecord {
        spec,
        trace: new.trace,
        run_at: fx.later(50),
        ..before
    };
    assert_eq!(fx.job(&id).await, expected);
    assert_eq!(fx.counts().await.total(), 1);
}

/// What the new request leaves out, the job loses.
async fn a_replacement_without_policies_takes_them_away(fx: Fixture) {
    let mut old = latest().delay(1_000).label("a", "b");
    old.spec.backoff = Some(Backoff::fixed(ms(1)));
    old.spec.keep = Some(Keep::all(Retention::count(3)));
    old.spec.timeout = Some(ms(5));
    let id = fx.enqueue(old).await;
    let new = latest().delay(1_000);
    fx.duplicate_of(&id, new.clone()).await;
    assert_eq!(fx.job(&id).await.spec, new.spec);
}

/// Even at zero delay the job stays delayed; the next claim promotes it.
async fn a_replacement_for_now_stays_delayed_until_it_is_claimed(fx: Fixture) {
    let id = fx.enqueue(latest().delay(1_000)).await;
    fx.advance(10);
    fx.duplicate_of(&id, latest()).await;
    let record = fx.job(&id).await;
    assert_eq!((record.state, record.run_at), (JobState::Delayed, fx.now()));
    fx.duplicate_of(&id, latest().payload("2")).await;
    let claim = fx.claim(1).await;
    assert_eq!(claim.jobs[0].spec.payload.get(), "2");
}

/// A replaced job runs in the place it arrived at.
async fn a_replacement_keeps_its_place(fx: Fixture) {
    let first = fx.enqueue(latest().delay(1_000)).await;
    let second = fx.enqueue(job().delay(10)).await;
    fx.duplicate_of(&first, latest().delay(10)).await;
    fx.advance(10);
    assert_eq!(fx.claim_ids(2).await, [first, second]);
}

/// A delayed retry can be replaced too, and keeps what it has been through.
async fn a_replacement_keeps_the_ledger(fx: Fixture) {
    let lock = fx.start(latest()).await;
    fx.store.set_progress(lock.clone(), json("7")).await.must();
    fx.ack(&lock, retry_in(1_000)).await;
    let before = fx.job(&lock.id).await;
    let new = latest().delay(5).payload("2");
    fx.duplicate_of(&lock.id, new.clone()).await;
    let expected = JobRecord {
        spec: new.spec,
        run_at: fx.later(5),
        ..before
    };
    assert_eq!(fx.job(&lock.id).await, expected);
    assert_eq!(fx.outcomes(&lock.id).await, [AttemptOutcome::Retried]);
}

/// The ttl of a replacement begins a window, even if the key had none.
async fn a_replacement_arms_a_window_where_there_was_none(fx: Fixture) {
    let id = fx.enqueue(latest().delay(1_000)).await;
    fx.duplicate_of(&id, latest_for(20)).await;
    let lock = fx.claim_one().await;
    fx.ack(&lock, complete()).await;
    fx.advance(19);
    fx.duplicate_of(&id, job().key("key")).await;
    fx.advance(1);
    fx.enqueue(job().key("key")).await;
}

/// A replacement counts its window from itself.
async fn a_replacement_arms_its_window_from_now(fx: Fixture) {
    let id = fx.enqueue(latest_for(20).delay(5)).await;
    fx.advance(4);
    fx.duplicate_of(&id, latest_for(20)).await;
    let lock = fx.claim_one().await;
    fx.ack(&lock, complete()).await;
    fx.advance(19);
    fx.duplicate_of(&id, latest_for(20)).await;
    fx.advance(1);
    fx.enqueue(latest_for(20)).await;
}

/// A replacement that has no ttl keeps the window that is there.
async fn a_replacement_without_a_ttl_leaves_the_window(fx: Fixture) {
    let id = fx.enqueue(latest_for(20).delay(1_000)).await;
    fx.advance(10);
    fx.duplicate_of(&id, latest()).await;
    let lock = fx.claim_one().await;
    fx.ack(&lock, complete()).await;
    fx.advance(9);
    fx.duplicate_of(&id, latest()).await;
    fx.advance(1);
    fx.enqueue(latest()).await;
}

/// What counts is that the job is delayed, not that its window is open.
async fn a_job_whose_window_is_over_is_still_replaced(fx: Fixture) {
    let id = fx.enqueue(latest_for(5).delay(1_000)).await;
    fx.advance(100);
    fx.duplicate_of(&id, latest_for(5).delay(1_000).payload("2"))
        .await;
    assert_eq!(fx.job(&id).await.spec.payload.get(), "2");
    assert_eq!(fx.counts().await.total(), 1);
}

/// A job that waits or runs is a plain reason for a duplicate.
async fn a_job_that_is_not_delayed_is_not_replaced(fx: Fixture) {
    let id = fx.enqueue(latest().payload("1")).await;
    let waiting = fx.job(&id).await;
    fx.duplicate_of(&id, latest().payload("2").delay(1_000))
        .await;
    assert_eq!(fx.job(&id).await, waiting);
    let lock = fx.claim_one().await;
    let active = fx.job(&id).await;
    fx.duplicate_of(&id, latest().payload("2")).await;
    assert_eq!(fx.job(&id).await, active);
    fx.ack(&lock, complete()).await;
    fx.enqueue(latest().payload("2")).await;
    assert_eq!(fx.job(&id).await.spec.payload.get(), "1");
}

/// Whether to replace is the new request's choice, not the old one's.
async fn without_replace_a_delayed_job_stays_as_it_is(fx: Fixture) {
    let id = fx.enqueue(latest().delay(1_000).payload("1")).await;
    let before = fx.job(&id).await;
    fx.duplicate_of(&id, job().key("key").payload("2")).await;
    assert_eq!(fx.job(&id).await, before);
}

/// The chosen id is looked at first, and ends the matter.
async fn a_replacement_by_a_chosen_id_that_exists_replaces_nothing(fx: Fixture) {
    let taken = fx.enqueue(job().id("taken")).await;
    let keyed = fx.enqueue(latest().delay(1_000)).await;
    let before = fx.job(&keyed).await;
    fx.duplicate_of(&taken, latest().id("taken").payload("2"))
        .await;
    assert_eq!(fx.job(&keyed).await, before);
}
