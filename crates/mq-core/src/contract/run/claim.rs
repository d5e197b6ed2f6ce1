//! Claim: which jobs a worker gets, and in what shape.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, NO_JOBS, complete, job, jobs, ms, request, request_for};
use crate::contract::steps::ids;
use crate::record::JobState;
use crate::store::{Change, ClaimRequest, QueueSettings};
use crate::time::LONGEST;

cases! { __contract_run_claim, run::claim:
    a_claim_makes_a_job_active_and_consumes_nothing,
    a_claim_on_an_empty_queue_answers_no_jobs,
    a_claim_takes_no_more_than_its_limit,
    a_limit_above_250_is_clamped,
    a_claim_takes_only_the_names_it_asks_for,
    a_claim_without_names_takes_nothing,
    a_name_asked_for_twice_is_claimed_once,
    a_claim_takes_only_from_its_queue,
    a_claimed_job_is_not_claimed_again,
    finished_and_removed_jobs_are_not_claimed,
    a_later_claim_begins_the_run_anew,
    a_claim_tells_the_stores_time,
    a_paused_queue_yields_nothing,
    a_pause_holds_for_every_handle,
    a_resumed_queue_yields_in_the_old_order,
    a_refused_claim_locks_nothing,
}

/// A claimed job is active since now; no attempt, stall or entry is counted.
async fn a_claim_makes_a_job_active_and_consumes_nothing(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let mut expected = fx.job(&id).await;
    fx.advance(5);
    let claim = fx.claim(1).await;
    expected.state = JobState::Active;
    expected.processed_at = Some(fx.now());
    assert_eq!(claim.jobs, [expected.clone()]);
    assert_eq!(fx.job(&id).await, expected);
    assert_eq!(fx.ledger(&id).await, []);
}

/// Nothing to do is an answer, not an error.
async fn a_claim_on_an_empty_queue_answers_no_jobs(fx: Fixture) {
    let claim = fx.claim(10).await;
    assert_eq!((claim.jobs, claim.next_run_at), (Vec::new(), None));
}

/// The limit counts jobs.
async fn a_claim_takes_no_more_than_its_limit(fx: Fixture) {
    let came = fx.enqueue_all(jobs(5)).await;
    assert_eq!(fx.claim_ids(2).await, came[..2]);
    assert_eq!(fx.claim_ids(10).await, came[2..]);
}

/// One call locks at most 250 jobs.
async fn a_limit_above_250_is_clamped(fx: Fixture) {
    let came = fx.enqueue_all(jobs(251)).await;
    assert_eq!(fx.claim_ids(u32::MAX).await, came[..250]);
    assert_eq!(fx.claim_ids(u32::MAX).await, came[250..]);
}

/// Jobs that this worker has no handler for are left to others.
async fn a_claim_takes_only_the_names_it_asks_for(fx: Fixture) {
    let other = fx.enqueue(job().name("other").priority(9)).await;
    let mine = fx.enqueue(job()).await;
    assert_eq!(fx.claim_ids(10).await, [mine]);
    assert_eq!(fx.state(&other).await, JobState::Waiting);
}

/// Asking for no names is legal and yields nothing.
async fn a_claim_without_names_takes_nothing(fx: Fixture) {
    fx.enqueue_all(vec![job(), job().delay(1)]).await;
    fx.advance(1);
    let claim = fx.claim_with(request_for(&[], 10)).await;
    assert_eq!((claim.jobs, claim.next_run_at), (Vec::new(), None));
    fx.expect_count(JobState::Delayed, 1).await;
}

/// A name given twice does not give its jobs twice.
async fn a_name_asked_for_twice_is_claimed_once(fx: Fixture) {
    let came = fx.enqueue_all(vec![job(), job(), job().delay(5)]).await;
    fx.advance(5);
    let claim = fx.claim_with(request_for(&["job", "job"], 10)).await;
    assert_eq!(ids(&claim.jobs), came);
}

/// Another queue's jobs stay where they are.
async fn a_claim_takes_only_from_its_queue(fx: Fixture) {
    let other = fx.enqueue(job().queue("other")).await;
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
    let request = ClaimRequest {
        queue: "other".into(),
        ..request(10)
    };
    assert_eq!(ids(&fx.claim_with(request).await.jobs), [other]);
}

/// While it is active, a job is nobody else's.
async fn a_claimed_job_is_not_claimed_again(fx: Fixture) {
    fx.start(job()).await;
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
    assert_eq!(fx.second().await.claim_ids(10).await, NO_JOBS);
}

/// What has ended or is gone is never handed out.
async fn finished_and_removed_jobs_are_not_claimed(fx: Fixture) {
    for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
        fx.job_in(state).await;
    }
    let removed = fx.enqueue(job()).await;
    assert!(fx.store.remove(&removed).await.must());
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
}

/// `processed_at` is that of the last claim.
async fn a_later_claim_begins_the_run_anew(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.advance(5);
    fx.store.release(lock).await.must();
    fx.advance(5);
    let claim = fx.claim(1).await;
    assert_eq!(claim.jobs[0].processed_at, Some(fx.now()));
}

/// A claim's `now` is the store's, by which its instants are to be read.
async fn a_claim_tells_the_stores_time(fx: Fixture) {
    assert_eq!(fx.claim(1).await.now, fx.now());
    fx.advance(1_234);
    assert_eq!(fx.claim(1).await.now, fx.now());
}

fn paused(paused: Change<bool>) -> QueueSettings {
    QueueSettings {
        paused,
        ..QueueSettings::default()
    }
}

/// A paused queue takes jobs in, and hands none out.
async fn a_paused_queue_yields_nothing(fx: Fixture) {
    fx.enqueue(job()).await;
    fx.set_queue(paused(Change::Set(true))).await;
    fx.enqueue(job()).await;
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
    let other = fx.enqueue(job().queue("other")).await;
    let request = ClaimRequest {
        queue: "other".into(),
        ..request(10)
    };
    assert_eq!(ids(&fx.claim_with(request).await.jobs), [other]);
}

/// A pause is the store's, not the handle's, from the next claim on.
async fn a_pause_holds_for_every_handle(fx: Fixture) {
    let second = fx.second().await;
    let id = fx.enqueue(job()).await;
    fx.set_queue(paused(Change::Set(true))).await;
    assert_eq!(second.claim_ids(10).await, NO_JOBS);
    second.set_queue(paused(Change::Set(false))).await;
    assert_eq!(fx.claim_ids(10).await, [id]);
}

/// What waited through a pause is not reordered by it.
async fn a_resumed_queue_yields_in_the_old_order(fx: Fixture) {
    let mut came = fx.enqueue_all(jobs(2)).await;
    fx.set_queue(paused(Change::Set(true))).await;
    came.extend(fx.enqueue_all(jobs(2)).await);
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
    fx.set_queue(paused(Change::Clear)).await;
    assert_eq!(fx.claim_ids(10).await, came);
}

/// Each broken rule is named, and no job is locked.
async fn a_refused_claim_locks_nothing(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    let base = || request_for(&["job"], 1);
    let no_time = ClaimRequest {
        lock_for: ms(0),
        ..base()
    };
    let too_long = ClaimRequest {
        lock_for: LONGEST + ms(1),
        ..base()
    };
    let no_queue = ClaimRequest {
        queue: "".into(),
        ..base()
    };
    let no_token = ClaimRequest {
        token: "".into(),
        ..base()
    };
    let nul_token = ClaimRequest {
        token: "a\0b".into(),
        ..base()
    };
    let no_name = request_for(&["job", ""], 1);
    let slash = request_for(&["job", "a/b"], 1);
    for (field, refused) in [
        ("limit", request(0)),
        ("lock_for", no_time),
        ("lock_for", too_long),
        ("queue name", no_queue),
        ("lock token", no_token),
        ("lock token", nul_token),
        ("job name", no_name),
        ("job name", slash),
    ] {
        expect_refused(fx.store.claim(refused).await, field);
    }
    assert_eq!(fx.state(&id).await, JobState::Waiting);
    let lock = fx.claim_one().await;
    fx.ack(&lock, complete()).await;
}
