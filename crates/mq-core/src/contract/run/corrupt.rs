//! Claim: jobs whose stored data cannot be decoded.

use crate::contract::Fixture;
use crate::contract::make::{Make, job, jobs};
use crate::contract::steps::ids;
use crate::record::JobState;

cases! { __contract_run_corrupt, run::corrupt:
    a_claim_fails_a_job_that_cannot_be_decoded_and_goes_on needs Corruption,
    a_claim_of_one_gets_past_any_number_of_corrupt_jobs needs Corruption,
    a_queue_of_nothing_but_corrupt_jobs_comes_to_rest needs Corruption,
}

/// The neighbours are claimed in the same call; the job itself ends failed.
async fn a_claim_fails_a_job_that_cannot_be_decoded_and_goes_on(fx: Fixture) {
    let jobs = fx.enqueue_all(jobs(3)).await;
    fx.corrupt(&jobs[1]).await;
    assert_eq!(
        fx.claim_ids(3).await,
        [jobs[0].clone(), jobs[2].clone()],
        "the jobs that can be decoded"
    );
    fx.expect_count(JobState::Active, 2).await;
    fx.expect_count(JobState::Failed, 1).await;
}

/// Even a worker with one slot finds the job behind them.
async fn a_claim_of_one_gets_past_any_number_of_corrupt_jobs(fx: Fixture) {
    let broken = fx.enqueue_all(vec![job().priority(1); 5]).await;
    let sound = fx.enqueue(job()).await;
    for id in &broken {
        fx.corrupt(id).await;
    }
    let mut found = Vec::new();
    for _ in 0..=broken.len() {
        found = fx.claim_ids(1).await;
        if !found.is_empty() {
            break;
        }
    }
    assert_eq!(found, [sound]);
    fx.expect_count(JobState::Failed, 5).await;
}

/// They are not met again and again.
async fn a_queue_of_nothing_but_corrupt_jobs_comes_to_rest(fx: Fixture) {
    let broken = fx.enqueue_all(jobs(2)).await;
    for id in &broken {
        fx.corrupt(id).await;
    }
    for _ in 0..2 {
        assert_eq!(ids(&fx.claim(10).await.jobs).len(), 0);
    }
    fx.expect_count(JobState::Failed, 2).await;
    fx.expect_count(JobState::Waiting, 0).await;
    fx.expect_count(JobState::Active, 0).await;
}
