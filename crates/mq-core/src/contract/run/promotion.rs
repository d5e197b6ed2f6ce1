//! Claim: how delayed jobs become waiting.

use crate::contract::Fixture;
use crate::contract::make::{Make, NO_JOBS, complete, job, request_for, retry_in};
use crate::contract::steps::ids;
use crate::id::JobId;
use crate::record::JobState;
use crate::store::{Change, QueueSettings};

cases! { __contract_run_promotion, run::promotion:
    a_delayed_job_is_claimed_from_its_run_time_on,
    a_promoted_job_keeps_its_place,
    due_jobs_that_do_not_fit_wait_from_then_on,
    only_the_asked_names_are_promoted,
    one_call_promotes_at_most_250_earliest_first,
    jobs_due_at_one_instant_are_promoted_by_arrival,
    next_run_at_is_the_earliest_of_the_asked_names,
    next_run_at_comes_with_a_full_claim_too,
    next_run_at_of_another_queue_is_no_matter,
    a_paused_queue_still_promotes,
}

/// Not a millisecond early, and without any other help.
async fn a_delayed_job_is_claimed_from_its_run_time_on(fx: Fixture) {
    let id = fx.enqueue(job().delay(10)).await;
    fx.advance(9);
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
    fx.advance(1);
    assert_eq!(fx.claim_ids(1).await, [id]);
}

/// A delayed job that came first runs before one that came later, and its
/// priority counts.
async fn a_promoted_job_keeps_its_place(fx: Fixture) {
    let early = fx.enqueue(job().delay(10)).await;
    let late = fx.enqueue(job().delay(5)).await;
    let urgent = fx.enqueue(job().delay(10).priority(1)).await;
    let waiting = fx.enqueue(job()).await;
    fx.advance(10);
    assert_eq!(fx.claim_ids(10).await, [urgent, early, late, waiting]);
}

/// Every due job of the page is waiting after the claim, even those that it
/// does not take.
async fn due_jobs_that_do_not_fit_wait_from_then_on(fx: Fixture) {
    let came = fx
        .enqueue_all(vec![job().delay(10), job().delay(10), job().delay(11)])
        .await;
    let run_at = fx.later(10);
    fx.advance(10);
    assert_eq!(fx.claim_ids(1).await, came[..1]);
    let record = fx.job(&came[1]).await;
    assert_eq!((record.state, record.run_at), (JobState::Waiting, run_at));
    assert_eq!(fx.state(&came[2]).await, JobState::Delayed);
}

/// What nobody here can run is not touched.
async fn only_the_asked_names_are_promoted(fx: Fixture) {
    let other = fx.enqueue(job().name("other").delay(5)).await;
    let mine = fx.enqueue(job().delay(5)).await;
    fx.advance(5);
    assert_eq!(fx.claim_ids(10).await, [mine]);
    assert_eq!(fx.state(&other).await, JobState::Delayed);
}

/// A call promotes 250 over all names together, by run time; while more are
/// due, it is worth asking again now.
async fn one_call_promotes_at_most_250_earliest_first(fx: Fixture) {
    let names = ["a", "b"];
    let delayed = |number: usize| job().name(names[number % 2]).delay(1_000 - number as u64);
    let mut by_run_time = fx.enqueue_all((0..260).map(delayed).collect()).await;
    by_run_time.reverse();
    fx.advance(1_000);
    let claim = fx.claim_with(request_for(&names, 1)).await;
    assert_eq!(claim.next_run_at, Some(fx.now()), "while more are due");
    assert_eq!(claim.jobs.len(), 1);
    fx.expect_count(JobState::Delayed, 10).await;
    let left: Vec<JobId> = by_run_time[250..].to_vec();
    let states = fx.states(&left).await;
    assert!(
        states.iter().all(|state| *state == Some(JobState::Delayed)),
        "expected the ten latest to be left, got {states:?}"
    );
    let claim = fx.claim_with(request_for(&names, 1)).await;
    assert_eq!(claim.next_run_at, None, "when none is left");
    fx.expect_count(JobState::Delayed, 0).await;
}

/// Among jobs due at the same instant, the page takes those that came first.
async fn jobs_due_at_one_instant_are_promoted_by_arrival(fx: Fixture) {
    let names = ["a", "b"];
    let delayed = |number: usize| job().name(names[number % 2]).delay(10);
    let came = fx.enqueue_all((0..255).map(delayed).collect()).await;
    fx.advance(10);
    fx.claim_with(request_for(&names, 1)).await;
    let states = fx.states(&came).await;
    let waiting = states
        .iter()
        .position(|state| *state == Some(JobState::Delayed));
    assert_eq!(waiting, Some(250), "the first that is left in {states:?}");
}

/// The claim says from when another is worth making.
async fn next_run_at_is_the_earliest_of_the_asked_names(fx: Fixture) {
    fx.enqueue_all(vec![
        job().name("a").delay(20),
        job().name("b").delay(30),
        job().name("other").delay(10),
    ])
    .await;
    let asked = fx.claim_with(request_for(&["a", "b"], 1)).await;
    assert_eq!(asked.next_run_at, Some(fx.later(20)));
    let asked = fx.claim_with(request_for(&["b"], 1)).await;
    assert_eq!(asked.next_run_at, Some(fx.later(30)));
    let asked = fx.claim_with(request_for(&["c"], 1)).await;
    assert_eq!(asked.next_run_at, None);
    let lock = fx.start(job().name("d")).await;
    fx.ack(&lock, retry_in(7)).await;
    let asked = fx.claim_with(request_for(&["a", "b", "d"], 1)).await;
    assert_eq!(asked.next_run_at, Some(fx.later(7)));
}

/// A claim that got jobs says it as well.
async fn next_run_at_comes_with_a_full_claim_too(fx: Fixture) {
    fx.enqueue_all(vec![job(), job().delay(40)]).await;
    let claim = fx.claim(1).await;
    assert_eq!(
        (claim.jobs.len(), claim.next_run_at),
        (1, Some(fx.later(40)))
    );
}

/// Delayed jobs of another queue are not this one's next.
async fn next_run_at_of_another_queue_is_no_matter(fx: Fixture) {
    fx.enqueue(job().queue("other").delay(10)).await;
    assert_eq!(fx.claim(1).await.next_run_at, None);
}

/// A pause holds jobs back from running, not from becoming due.
async fn a_paused_queue_still_promotes(fx: Fixture) {
    let paused = |paused| QueueSettings {
        paused,
        ..QueueSettings::default()
    };
    fx.set_queue(paused(Change::Set(true))).await;
    let id = fx.enqueue(job().delay(5)).await;
    fx.enqueue(job().delay(50)).await;
    fx.advance(5);
    let claim = fx.claim(1).await;
    assert_eq!(ids(&claim.jobs), NO_JOBS);
    assert_eq!(fx.state(&id).await, JobState::Waiting);
    fx.set_queue(paused(Change::Set(false))).await;
    let lock = fx.claim_one().await;
    assert_eq!(lock.id, id);
    fx.ack(&lock, complete()).await;
}
