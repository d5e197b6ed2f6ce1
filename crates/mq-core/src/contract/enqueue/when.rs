//! When a job may run first.

use crate::contract::Fixture;
use crate::contract::make::{Make, complete, job};
use crate::record::{JobState, When};
use crate::time::{LONGEST, Timestamp};
use std::time::Duration;

cases! { __contract_enqueue_when, enqueue::when:
    without_a_delay_a_job_waits,
    a_delay_counts_from_the_stores_now,
    a_delay_rounds_up_to_milliseconds,
    the_longest_delay_ends_with_time_itself,
    an_instant_in_the_future_delays,
    an_instant_that_is_not_in_the_future_means_now,
    zero_is_an_instant_like_any_other,
}

/// A job for now is waiting, and its time is the store's.
async fn without_a_delay_a_job_waits(fx: Fixture) {
    let record = fx.job(&fx.enqueue(job()).await).await;
    assert_eq!(record.state, JobState::Waiting);
    assert_eq!((record.enqueued_at, record.run_at), (fx.now(), fx.now()));
}

/// A relative delay is resolved by the store's clock.
async fn a_delay_counts_from_the_stores_now(fx: Fixture) {
    fx.advance(7);
    let record = fx.job(&fx.enqueue(job().delay(1)).await).await;
    assert_eq!(record.state, JobState::Delayed);
    assert_eq!((record.enqueued_at, record.run_at), (fx.now(), fx.later(1)));
}

/// Nothing runs early because of a fraction.
async fn a_delay_rounds_up_to_milliseconds(fx: Fixture) {
    let mut late = job();
    late.when = When::After(Duration::from_micros(1_001));
    let record = fx.job(&fx.enqueue(late).await).await;
    assert_eq!(
        (record.state, record.run_at),
        (JobState::Delayed, fx.later(2))
    );
    let mut soon = job();
    soon.when = When::After(Duration::from_nanos(1));
    let record = fx.job(&fx.enqueue(soon).await).await;
    assert_eq!(
        (record.state, record.run_at),
        (JobState::Delayed, fx.later(1))
    );
}

/// A delay that leads past the last instant ends there.
async fn the_longest_delay_ends_with_time_itself(fx: Fixture) {
    let mut late = job();
    late.when = When::After(LONGEST);
    let id = fx.enqueue(late).await;
    assert_eq!(fx.job(&id).await.run_at, Timestamp::MAX);
    assert_eq!(fx.claim(1).await.next_run_at, Some(Timestamp::MAX));
    fx.clock.set(Timestamp::MAX);
    assert_eq!(fx.claim_one().await.id, id);
}

/// An absolute time in the future is kept to the millisecond.
async fn an_instant_in_the_future_delays(fx: Fixture) {
    let record = fx.job(&fx.enqueue(job().at(fx.later(1))).await).await;
    assert_eq!(
        (record.state, record.run_at),
        (JobState::Delayed, fx.later(1))
    );
}

/// Now, and the past, mean now.
async fn an_instant_that_is_not_in_the_future_means_now(fx: Fixture) {
    for instant in [fx.now(), Timestamp::MIN] {
        let record = fx.job(&fx.enqueue(job().at(instant)).await).await;
        assert_eq!((record.state, record.run_at), (JobState::Waiting, fx.now()));
    }
}

/// At the epoch itself, no instant is taken for an absent one.
async fn zero_is_an_instant_like_any_other(fx: Fixture) {
    fx.clock.set(Timestamp::MIN);
    let id = fx.finish(job(), complete()).await;
    let record = fx.job(&id).await;
    assert_eq!(
        (record.enqueued_at, record.run_at),
        (Timestamp::MIN, Timestamp::MIN)
    );
    assert_eq!(record.processed_at, Some(Timestamp::MIN));
    assert_eq!(record.finished_at, Some(Timestamp::MIN));
    let entry = fx.ledger(&id).await.remove(0);
    assert_eq!(entry.started_at, Some(Timestamp::MIN));
    assert_eq!(entry.finished_at, Timestamp::MIN);
}
