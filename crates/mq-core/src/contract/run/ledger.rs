//! The ledger: one entry for each run.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{complete, fail, job, json, ms, retry_in, snooze_for};
use crate::record::{AttemptOutcome, AttemptRecord, MAX_ATTEMPT_RECORDS};
use crate::store::AckOutcome;

cases! { __contract_run_ledger, run::ledger:
    an_entry_tells_when_and_how_its_run_went,
    entries_come_oldest_first_and_count_every_run,
    the_numbers_go_on_after_a_retry,
    only_the_newest_200_entries_are_kept_and_the_number_goes_on,
    a_cancel_of_a_job_that_never_ran_has_no_start,
    an_entry_after_a_finished_run_has_no_start_of_that_run,
    a_release_writes_no_entry,
}

/// Its number, its beginning, its end, its outcome and its exit.
async fn an_entry_tells_when_and_how_its_run_went(fx: Fixture) {
    let held = fx.start(job()).await;
    let started_at = Some(fx.now());
    fx.advance(7);
    let exit = Some(json(r#"{"err":"no"}"#));
    fx.ack(
        &held,
        AckOutcome::Retry {
            delay: ms(3),
            exit: exit.clone(),
        },
    )
    .await;
    let first = AttemptRecord {
        attempt: 1,
        started_at,
        finished_at: fx.now(),
        outcome: AttemptOutcome::Retried,
        exit,
    };
    assert_eq!(fx.ledger(&held.id).await, [first.clone()]);
    fx.advance(3);
    let held = fx.claim_one().await;
    let started_at = Some(fx.now());
    fx.advance(1);
    fx.ack(&held, complete()).await;
    let second = AttemptRecord {
        attempt: 2,
        started_at,
        finished_at: fx.now(),
        outcome: AttemptOutcome::Completed,
        exit: None,
    };
    assert_eq!(fx.ledger(&held.id).await, [first, second]);
}

/// Stalls and snoozes have their entries as well.
async fn entries_come_oldest_first_and_count_every_run(fx: Fixture) {
    let held = fx.start(job()).await;
    let id = held.id.clone();
    fx.ack(&held, retry_in(0)).await;
    let held = fx.claim_one().await;
    fx.ack(&held, snooze_for(0)).await;
    fx.claim_one().await;
    fx.stall(3).await;
    let held = fx.claim_one().await;
    fx.ack(&held, AckOutcome::Cancelled).await;
    use AttemptOutcome::{Cancelled, Retried, Snoozed, Stalled};
    assert_eq!(
        fx.outcomes(&id).await,
        [Retried, Snoozed, Stalled, Cancelled]
    );
    let numbers: Vec<_> = fx
        .ledger(&id)
        .await
        .iter()
        .map(|entry| entry.attempt)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let record = fx.job(&id).await;
    assert_eq!((record.attempts_recorded, record.attempts_made), (4, 2));
}

/// A fresh budget does not use a number again.
async fn the_numbers_go_on_after_a_retry(fx: Fixture) {
    let id = fx.finish(job(), fail()).await;
    fx.store.retry(&id).await.must();
    assert_eq!(fx.job(&id).await.attempts_recorded, 1);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    let entries: Vec<_> = fx
        .ledger(&id)
        .await
        .iter()
        .map(|it| (it.attempt, it.outcome))
        .collect();
    assert_eq!(
        entries,
        [(1, AttemptOutcome::Failed), (2, AttemptOutcome::Completed)]
    );
    let record = fx.job(&id).await;
    assert_eq!((record.attempts_recorded, record.attempts_made), (2, 1));
}

/// An endless job does not fill the store.
async fn only_the_newest_200_entries_are_kept_and_the_number_goes_on(fx: Fixture) {
    let runs = u32::try_from(MAX_ATTEMPT_RECORDS).expect("small") + 3;
    let id = fx.enqueue(job()).await;
    for _ in 0..runs {
        let held = fx.claim_one().await;
        fx.ack(&held, snooze_for(0)).await;
    }
    let numbers: Vec<_> = fx
        .ledger(&id)
        .await
        .iter()
        .map(|entry| entry.attempt)
        .collect();
    assert_eq!(numbers, (4..=runs).collect::<Vec<_>>());
    assert_eq!(fx.job(&id).await.attempts_recorded, runs);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    let ledger = fx.ledger(&id).await;
    assert_eq!(ledger.len(), MAX_ATTEMPT_RECORDS);
    let last = ledger.last().map(|entry| (entry.attempt, entry.outcome));
    assert_eq!(last, Some((runs + 1, AttemptOutcome::Completed)));
}

/// An entry that closes no run has no `started_at`.
async fn a_cancel_of_a_job_that_never_ran_has_no_start(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    fx.advance(5);
    fx.store.cancel(&id).await.must();
    let entry = AttemptRecord {
        attempt: 1,
        started_at: None,
        finished_at: fx.now(),
        outcome: AttemptOutcome::Cancelled,
        exit: None,
    };
    assert_eq!(fx.ledger(&id).await, [entry]);
}

/// Not even if the job has run before: that run has its own entry.
async fn an_entry_after_a_finished_run_has_no_start_of_that_run(fx: Fixture) {
    let id = fx.finish(job(), retry_in(0)).await;
    fx.store.cancel(&id).await.must();
    let starts: Vec<_> = fx
        .ledger(&id)
        .await
        .iter()
        .map(|entry| entry.started_at)
        .collect();
    assert_eq!(starts, [Some(fx.now()), None]);
}

/// A run that was given back is as if it had not been.
async fn a_release_writes_no_entry(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.release(held.clone()).await.must();
    assert_eq!(fx.ledger(&held.id).await, []);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    assert_eq!(fx.ledger(&held.id).await[0].attempt, 1);
}
