//! The order that jobs run in: priority, then arrival.

use crate::contract::Fixture;
use crate::contract::make::{Make, job, jobs, request_for};
use crate::contract::steps::ids;
use crate::id::JobId;

cases! { __contract_enqueue_order, enqueue::order:
    jobs_run_in_the_order_they_came,
    a_batch_arrives_in_its_order,
    ten_thousand_jobs_of_one_millisecond_stay_in_order,
    a_higher_priority_runs_first,
    priorities_reach_both_ends_of_i32,
    names_of_one_queue_share_one_order,
    drawn_ids_do_not_decide_the_order,
}

/// Within one millisecond, first come, first run.
async fn jobs_run_in_the_order_they_came(fx: Fixture) {
    let mut came = Vec::new();
    for _ in 0..5 {
        came.push(fx.enqueue(job()).await);
    }
    let mut ran = Vec::new();
    for _ in 0..5 {
        ran.push(fx.claim_one().await.id);
    }
    assert_eq!(ran, came);
}

/// A batch of one call runs in the order of that call, dedupe items included.
async fn a_batch_arrives_in_its_order(fx: Fixture) {
    let plain = |id: &str| job().id(id);
    let batch = vec![
        plain("d"),
        plain("b").key("1"),
        plain("c"),
        plain("a").key("2"),
        plain("e"),
    ];
    let came = fx.enqueue_all(batch).await;
    assert_eq!(came, ["d", "b", "c", "a", "e"]);
    assert_eq!(fx.claim_ids(5).await, came);
}

/// However many come at once, none overtakes another.
async fn ten_thousand_jobs_of_one_millisecond_stay_in_order(fx: Fixture) {
    let mut came = Vec::new();
    for _ in 0..10 {
        came.extend(fx.enqueue_all(jobs(1_000)).await);
    }
    let mut ran: Vec<JobId> = Vec::new();
    while ran.len() < came.len() {
        let page = fx.claim_ids(250).await;
        assert_eq!(page.len(), 250, "jobs claimed after {}", ran.len());
        ran.extend(page);
    }
    let strayed = ran.iter().zip(&came).position(|(ran, came)| ran != came);
    assert_eq!(strayed, None, "the first place out of order");
}

/// Priority comes before arrival.
async fn a_higher_priority_runs_first(fx: Fixture) {
    let low = fx.enqueue(job().priority(-1)).await;
    let usual = fx.enqueue(job()).await;
    let high = fx.enqueue(job().priority(1)).await;
    let also_high = fx.enqueue(job().priority(1)).await;
    assert_eq!(fx.claim_ids(10).await, [high, also_high, usual, low]);
}

/// No priority is rounded, clamped or turned over.
async fn priorities_reach_both_ends_of_i32(fx: Fixture) {
    let priorities = [i32::MAX, i32::MAX - 1, 1, 0, -1, i32::MIN + 1, i32::MIN];
    let upwards = priorities
        .iter()
        .rev()
        .map(|&priority| job().priority(priority));
    let mut came = fx.enqueue_all(upwards.collect()).await;
    came.reverse();
    let claim = fx.claim(10).await;
    let ran: Vec<_> = claim.jobs.iter().map(|job| job.spec.priority).collect();
    assert_eq!(ran, priorities);
    assert_eq!(ids(&claim.jobs), came);
}

/// A claim for several names takes the best of all of them.
async fn names_of_one_queue_share_one_order(fx: Fixture) {
    let b = fx.enqueue(job().name("b")).await;
    let a = fx.enqueue(job().name("a")).await;
    let urgent = fx.enqueue(job().name("a").priority(5)).await;
    let c = fx.enqueue(job().name("c")).await;
    let claim = fx.claim_with(request_for(&["a", "b", "c"], 3)).await;
    assert_eq!(ids(&claim.jobs), [urgent, b, a]);
    let claim = fx.claim_with(request_for(&["c", "a"], 3)).await;
    assert_eq!(ids(&claim.jobs), [c]);
}

/// The order is that of arrival, not that of the ids.
async fn drawn_ids_do_not_decide_the_order(fx: Fixture) {
    let came = fx
        .enqueue_all(vec![job().id("z"), job(), job().id("a"), job()])
        .await;
    assert_eq!(fx.claim_ids(4).await, came);
}
