//! Ack: batches, and acks that come again.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_lock_lost, expect_not_found, expect_refused};
use crate::contract::make::{
    Make, ack, complete, fail, job, jobs, json, lock, ms, request, retry_in, snooze_for,
};
use crate::record::{AttemptOutcome, JobState};
use crate::store::{AckOutcome, Acked, Lock};

cases! { __contract_run_batch, run::batch:
    an_empty_batch_of_acks_answers_empty,
    acks_are_answered_in_their_places_and_independently,
    more_acks_than_a_page_all_apply,
    a_second_entry_for_one_job_is_refused,
    a_second_entry_is_refused_however_far_it_is_from_the_first,
    the_first_entry_decides_even_if_it_is_refused,
    a_repeated_ack_changes_nothing,
    a_repeated_ack_changes_nothing_whatever_it_says,
    a_repeated_ack_is_known_while_the_next_run_goes_on,
    a_repeated_ack_is_known_after_a_retry,
    a_repeated_ack_is_known_after_a_release_or_a_stall_of_the_next_run,
    a_token_is_forgotten_with_the_next_runs_ack,
    a_whole_batch_may_be_repeated,
}

/// Nothing asked, nothing answered.
async fn an_empty_batch_of_acks_answers_empty(fx: Fixture) {
    assert!(fx.store.ack_many(Vec::new()).await.must().is_empty());
    assert!(fx.store.release_many(Vec::new()).await.must().is_empty());
}

/// One refused ack does not touch the others.
async fn acks_are_answered_in_their_places_and_independently(fx: Fixture) {
    fx.enqueue_all(jobs(5)).await;
    let locks = fx.claim_locks(request(5)).await;
    let unknown = lock("unknown", locks[0].token.clone());
    let foreign = lock(&locks[4].id, "foreign");
    let nul = lock(&locks[3].id, "\0");
    let batch = vec![
        ack(&locks[0], complete()),
        ack(&unknown, complete()),
        ack(&locks[1], fail()),
        ack(&nul, complete()),
        ack(&foreign, complete()),
        ack(&locks[2], retry_in(5)),
    ];
    let mut answers = fx.store.ack_many(batch).await.must().into_iter();
    let mut next = || answers.next().expect("an answer for each ack");
    assert_eq!(next().must(), Acked { applied: true });
    expect_not_found(next(), &unknown.id);
    assert_eq!(next().must(), Acked { applied: true });
    expect_refused(next(), "lock token");
    expect_lock_lost(next(), &foreign.id);
    assert_eq!(next().must(), Acked { applied: true });
    assert!(answers.next().is_none(), "no more answers than acks");
    let ids: Vec<_> = locks.iter().map(|lock| lock.id.clone()).collect();
    use JobState::{Active, Completed, Delayed, Failed};
    let expected = [Completed, Failed, Delayed, Active, Active].map(Some);
    assert_eq!(fx.states(&ids).await, expected);
}

/// A call may hold any number of acks.
async fn more_acks_than_a_page_all_apply(fx: Fixture) {
    let ids = fx.enqueue_all(jobs(600)).await;
    let mut locks = Vec::new();
    for _ in 0..3 {
        locks.extend(fx.claim_locks(request(250)).await);
    }
    let acks = locks.iter().enumerate().map(|(number, lock)| {
        let exit = Some(json(number.to_string()));
        ack(lock, AckOutcome::Complete { exit })
    });
    let answers = fx.store.ack_many(acks.collect()).await.must();
    assert_eq!(answers.len(), 600);
    assert!(answers.into_iter().all(|answer| answer.must().applied));
    fx.expect_count(JobState::Completed, 600).await;
    for number in [0, 249, 250, 499, 500, 599] {
        let exit = fx.job(&ids[number]).await.exit;
        assert_eq!(exit, Some(json(number.to_string())), "exit of job {number}");
    }
}

/// In one call a job is acknowledged once.
async fn a_second_entry_for_one_job_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    let batch = vec![
        ack(&held, complete()),
        ack(&held, fail()),
        ack(&held, complete()),
    ];
    let mut answers = fx.store.ack_many(batch).await.must();
    expect_lock_lost(answers.remove(2), &held.id);
    expect_lock_lost(answers.remove(1), &held.id);
    assert!(answers.remove(0).must().applied);
    assert_eq!(fx.outcomes(&held.id).await, [AttemptOutcome::Completed]);
}

/// That is decided over the whole call, not page by page.
async fn a_second_entry_is_refused_however_far_it_is_from_the_first(fx: Fixture) {
    fx.enqueue_all(jobs(260)).await;
    let mut locks = fx.claim_locks(request(250)).await;
    locks.extend(fx.claim_locks(request(10)).await);
    let mut batch: Vec<_> = locks.iter().map(|lock| ack(lock, complete())).collect();
    batch.push(ack(&locks[0], complete()));
    let answers = fx.store.ack_many(batch).await.must();
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(refused, 1, "refused acks");
    expect_lock_lost(
        answers.into_iter().next_back().expect("answers"),
        &locks[0].id,
    );
}

/// A second entry is not tried in place of a first that was refused.
async fn the_first_entry_decides_even_if_it_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    let batch = vec![
        ack(&lock(&held.id, "foreign"), complete()),
        ack(&held, complete()),
    ];
    for answer in fx.store.ack_many(batch).await.must() {
        expect_lock_lost(answer, &held.id);
    }
    assert_eq!(fx.state(&held.id).await, JobState::Active);
    fx.ack(&held, complete()).await;
}

fn outcomes() -> [AckOutcome; 6] {
    [
        complete(),
        fail(),
        AckOutcome::Cancelled,
        retry_in(0),
        retry_in(1_000),
        snooze_for(1_000),
    ]
}

/// The ack again, after its answer was lost: not applied, and nothing moves.
async fn a_repeated_ack_changes_nothing(fx: Fixture) {
    for (number, outcome) in outcomes().into_iter().enumerate() {
        let held = fx.start(job().name(format!("job-{number}"))).await;
        fx.ack(&held, outcome.clone()).await;
        let (record, ledger) = (fx.job(&held.id).await, fx.ledger(&held.id).await);
        fx.advance(1);
        let again = fx.store.ack(ack(&held, outcome.clone())).await.must();
        assert!(!again.applied, "a repeated {outcome:?}");
        assert_eq!(fx.job(&held.id).await, record);
        assert_eq!(fx.ledger(&held.id).await, ledger);
    }
}

/// The first ack has decided; a repetition cannot say otherwise.
async fn a_repeated_ack_changes_nothing_whatever_it_says(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.ack(&held, complete()).await;
    let before = fx.job(&held.id).await;
    for outcome in outcomes() {
        assert!(!again(&fx, &held, outcome).await);
    }
    assert_eq!(fx.job(&held.id).await, before);
}

/// A late copy does not touch the run that has begun since.
async fn a_repeated_ack_is_known_while_the_next_run_goes_on(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.ack(&held, retry_in(0)).await;
    let next = fx.claim_one().await;
    let active = fx.job(&held.id).await;
    assert!(!again(&fx, &held, retry_in(0)).await);
    assert!(!again(&fx, &held, complete()).await);
    assert_eq!(fx.job(&held.id).await, active);
    fx.ack(&next, complete()).await;
}

/// Nor is it forgotten when an operator retries the job.
async fn a_repeated_ack_is_known_after_a_retry(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.ack(&held, fail()).await;
    fx.store.retry(&held.id).await.must();
    let waiting = fx.job(&held.id).await;
    assert!(!again(&fx, &held, fail()).await);
    assert_eq!(fx.job(&held.id).await, waiting);
    let next = fx.claim_one().await;
    assert!(!again(&fx, &held, fail()).await);
    fx.ack(&next, complete()).await;
    expect_lock_lost(fx.store.ack(ack(&held, fail())).await, &held.id);
}

/// What ends without an ack does not count as the next run's ack.
async fn a_repeated_ack_is_known_after_a_release_or_a_stall_of_the_next_run(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.ack(&held, retry_in(0)).await;
    let next = fx.claim_one().await;
    fx.store.release(next).await.must();
    assert!(!again(&fx, &held, retry_in(0)).await);
    fx.claim_one().await;
    fx.stall(3).await;
    assert!(!again(&fx, &held, retry_in(0)).await);
    fx.claim_one().await;
    fx.stall(0).await;
    assert_eq!(fx.state(&held.id).await, JobState::Failed);
    assert!(!again(&fx, &held, retry_in(0)).await);
}

/// One token is remembered: that of the last acknowledged run.
async fn a_token_is_forgotten_with_the_next_runs_ack(fx: Fixture) {
    let first = fx.start(job()).await;
    fx.ack(&first, retry_in(0)).await;
    let second = fx.claim_one().await;
    fx.ack(&second, snooze_for(0)).await;
    expect_lock_lost(fx.store.ack(ack(&first, retry_in(0))).await, &first.id);
    assert!(!again(&fx, &second, snooze_for(0)).await);
    let third = fx.claim_one().await;
    fx.ack(&third, complete()).await;
    expect_lock_lost(fx.store.ack(ack(&second, complete())).await, &second.id);
    assert!(!again(&fx, &third, complete()).await);
}

/// A batch whose answer was lost is repeated as it was; what had landed is told
/// apart from what had not.
async fn a_whole_batch_may_be_repeated(fx: Fixture) {
    fx.enqueue_all(jobs(4)).await;
    let locks = fx.claim_locks(request(4)).await;
    let exit = Some(json("1"));
    let batch = vec![
        ack(&locks[0], complete()),
        ack(&locks[1], AckOutcome::Fail { exit }),
        ack(
            &locks[2],
            AckOutcome::Retry {
                delay: ms(10),
                exit: None,
            },
        ),
        ack(&locks[3], complete()),
    ];
    let landed = batch[..3].to_vec();
    let answers = fx.store.ack_many(landed).await.must();
    assert!(answers.into_iter().all(|answer| answer.must().applied));
    let counts = fx.counts().await;
    let answers = fx.store.ack_many(batch).await.must();
    let applied: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.must().applied)
        .collect();
    assert_eq!(applied, [false, false, false, true]);
    assert_eq!(fx.counts().await.completed, counts.completed + 1);
}

/// Sends an ack again, and tells whether it was applied.
async fn again(fx: &Fixture, held: &Lock, outcome: AckOutcome) -> bool {
    fx.store.ack(ack(held, outcome)).await.must().applied
}
