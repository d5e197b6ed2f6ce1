//! Keep: what the end of a job does to those that ended before it.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, ack, complete, fail, job, jobs, ms, request, retry_in};
use crate::id::JobId;
use crate::record::{JobState, Keep, NewJob, Retention};
use crate::store::{AckOutcome, ListFilter};

cases! { __contract_admin_keep, admin::keep:
    without_a_policy_every_finished_job_stays,
    a_count_keeps_the_newest,
    a_count_of_zero_keeps_not_even_the_job_itself,
    a_count_of_zero_takes_the_ledger_along,
    an_age_removes_what_has_reached_it,
    count_and_age_both_apply,
    each_state_has_its_own_policy,
    a_policy_acts_on_jobs_that_have_none,
    a_policy_acts_only_within_its_name,
    a_policy_acts_over_all_queues,
    a_retried_job_counts_by_its_last_end,
    jobs_that_end_in_one_batch_count_in_its_order,
    every_way_to_end_applies_the_policy,
    one_end_removes_at_most_250_and_later_ones_go_on,
    an_unfinished_job_is_never_removed,
    a_prune_that_races_a_new_job_of_the_same_id_never_takes_it,
}

fn kept(count: u32) -> NewJob {
    job().keep(Keep::all(Retention::count(count)))
}

fn young(millis: u64) -> NewJob {
    job().keep(Keep::all(Retention::age(ms(millis))))
}

/// Which of these jobs are still there.
async fn there(fx: &Fixture, ids: &[JobId]) -> Vec<bool> {
    fx.states(ids).await.iter().map(Option::is_some).collect()
}

/// Nobody asked for less.
async fn without_a_policy_every_finished_job_stays(fx: Fixture) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(fx.finish(job(), complete()).await);
        fx.advance(1_000_000_000);
    }
    assert_eq!(there(&fx, &ids).await, [true; 3]);
}

/// By the order of their ends, even within one millisecond.
async fn a_count_keeps_the_newest(fx: Fixture) {
    let mut ids = Vec::new();
    for id in ["d", "a", "c", "b"] {
        ids.push(fx.finish(kept(2).id(id), complete()).await);
    }
    assert_eq!(there(&fx, &ids).await, [false, false, true, true]);
}

/// The report of its end was made; the record is not needed.
async fn a_count_of_zero_keeps_not_even_the_job_itself(fx: Fixture) {
    let older = fx.finish(job(), complete()).await;
    let id = fx.finish(kept(0), complete()).await;
    assert_eq!(there(&fx, &[older, id]).await, [false, false]);
    assert_eq!(fx.counts().await.total(), 0);
}

/// Nothing of a pruned job stays behind.
async fn a_count_of_zero_takes_the_ledger_along(fx: Fixture) {
    let id = fx.finish(kept(0).id("a"), complete()).await;
    assert_eq!(fx.ledger(&id).await, []);
    assert_eq!(fx.store.queues().await.must(), []);
    fx.enqueue(job().id("a")).await;
    let held = fx.claim_one().await;
    fx.ack(&held, fail()).await;
    assert_eq!(fx.ledger(&id).await.len(), 1);
}

/// At the age itself, not a millisecond before; an age of zero at once.
async fn an_age_removes_what_has_reached_it(fx: Fixture) {
    let first = fx.finish(job(), complete()).await;
    fx.advance(1);
    let second = fx.finish(job(), complete()).await;
    fx.advance(9);
    let third = fx.finish(young(10), complete()).await;
    assert_eq!(
        there(&fx, &[first, second.clone(), third.clone()]).await,
        [false, true, true]
    );
    let none = fx.finish(young(0), complete()).await;
    assert_eq!(there(&fx, &[second, third, none]).await, [false; 3]);
}

/// The stricter of both decides.
async fn count_and_age_both_apply(fx: Fixture) {
    let both = || {
        job().keep(Keep::all(Retention {
            count: Some(2),
            age: Some(ms(10)),
        }))
    };
    let old = fx.finish(both(), complete()).await;
    fx.advance(10);
    let new = fx.finish(both(), complete()).await;
    assert_eq!(
        there(&fx, &[old, new.clone()]).await,
        [false, true],
        "by age"
    );
    let newer = fx.finish(both(), complete()).await;
    let newest = fx.finish(both(), complete()).await;
    assert_eq!(
        there(&fx, &[new, newer, newest]).await,
        [false, true, true],
        "by count"
    );
}

/// What completes is not what fails.
async fn each_state_has_its_own_policy(fx: Fixture) {
    let policy = Keep {
        completed: Some(Retention::count(0)),
        failed: Some(Retention::count(1)),
        cancelled: None,
    };
    let mut ids = Vec::new();
    for outcome in [
        complete(),
        fail(),
        AckOutcome::Cancelled,
        complete(),
        fail(),
        AckOutcome::Cancelled,
    ] {
        ids.push(fx.finish(job().keep(policy), outcome).await);
    }
    assert_eq!(
        there(&fx, &ids).await,
        [false, false, true, false, true, true]
    );
}

/// The finishing job's policy is for all that are like it.
async fn a_policy_acts_on_jobs_that_have_none(fx: Fixture) {
    let first = fx.finish(job(), complete()).await;
    let generous = fx.finish(kept(100), complete()).await;
    let last = fx.finish(kept(1), complete()).await;
    assert_eq!(
        there(&fx, &[first, generous, last]).await,
        [false, false, true]
    );
}

/// Other kinds of job are not touched.
async fn a_policy_acts_only_within_its_name(fx: Fixture) {
    let other = fx.finish(job().name("other"), complete()).await;
    let failed = fx.finish(job(), fail()).await;
    fx.finish(kept(0), complete()).await;
    assert_eq!(there(&fx, &[other, failed]).await, [true, true]);
}

/// The name is what counts.
async fn a_policy_acts_over_all_queues(fx: Fixture) {
    let other = fx.finish(job().queue("other"), complete()).await;
    let last = fx.finish(kept(1), complete()).await;
    assert_eq!(there(&fx, &[other, last]).await, [false, true]);
}

/// Having failed long ago does not make a job old.
async fn a_retried_job_counts_by_its_last_end(fx: Fixture) {
    let first = fx.finish(job(), fail()).await;
    let second = fx.finish(job(), fail()).await;
    fx.store.retry(&first).await.must();
    let held = fx.claim_one().await;
    fx.ack(&held, fail()).await;
    let third = fx.finish(kept(2), fail()).await;
    assert_eq!(
        there(&fx, &[first, second, third]).await,
        [true, false, true]
    );
}

/// Each end in turn, as if alone.
async fn jobs_that_end_in_one_batch_count_in_its_order(fx: Fixture) {
    fx.enqueue_all(vec![kept(2); 5]).await;
    let locks = fx.claim_locks(request(5)).await;
    let order = [4, 0, 2, 1, 3];
    let batch = order
        .iter()
        .map(|&place| ack(&locks[place], complete()))
        .collect();
    for answer in fx.store.ack_many(batch).await.must() {
        assert!(answer.must().applied, "each ack applies");
    }
    let ids = order.map(|place| locks[place].id.clone());
    assert_eq!(there(&fx, &ids).await, [false, false, false, true, true]);
}

/// A cancel, a stall too many and a cancel honoured late as well as an ack.
async fn every_way_to_end_applies_the_policy(fx: Fixture) {
    let id = fx.enqueue(kept(0)).await;
    fx.store.cancel(&id).await.must();
    assert_eq!(fx.find(&id).await, None, "after a cancel");
    let held = fx.start(kept(0)).await;
    fx.stall(0).await;
    assert_eq!(fx.find(&held.id).await, None, "after one stall too many");
    let held = fx.start(kept(0)).await;
    fx.request_cancel(&held.id).await;
    fx.store.release(held.clone()).await.must();
    assert_eq!(
        fx.find(&held.id).await,
        None,
        "after a release that cancels"
    );
    let held = fx.start(kept(0)).await;
    fx.request_cancel(&held.id).await;
    fx.stall(9).await;
    assert_eq!(fx.find(&held.id).await, None, "after a stall that cancels");
    let held = fx.start(kept(0)).await;
    fx.request_cancel(&held.id).await;
    fx.ack(&held, retry_in(0)).await;
    assert_eq!(fx.find(&held.id).await, None, "after a retry that cancels");
}

/// No single end costs more than a page of work.
async fn one_end_removes_at_most_250_and_later_ones_go_on(fx: Fixture) {
    let ids = fx.enqueue_all(jobs(600)).await;
    let mut locks = Vec::new();
    for _ in 0..3 {
        locks.extend(fx.claim_locks(request(250)).await);
    }
    let batch = locks.iter().map(|lock| ack(lock, complete())).collect();
    fx.store.ack_many(batch).await.must();
    let mut left = ids.len() as u64;
    for _ in 0..20 {
        fx.finish(kept(0), complete()).await;
        let now = fx.counts().await.completed;
        assert!(now + 250 > left, "one end removed {} jobs", left + 1 - now);
        assert!(now <= left, "what is due goes down: {now} after {left}");
        left = now;
        if left == 0 {
            return;
        }
    }
    let page = fx.store.list(ListFilter::default()).await.must();
    panic!(
        "{left} jobs are left after 20 ends, such as {:?}",
        page.items.first()
    );
}

/// However long it has been there.
async fn an_unfinished_job_is_never_removed(fx: Fixture) {
    let delayed = fx.enqueue(young(0).delay(1_000_000)).await;
    let active = fx.start(young(0)).await.id;
    let waiting = fx.enqueue(kept(0)).await;
    fx.advance(1_000);
    fx.finish(young(0).priority(1), complete()).await;
    assert_eq!(there(&fx, &[delayed, active, waiting]).await, [true; 3]);
    fx.expect_count(JobState::Completed, 0).await;
}

/// The record is pruned as its job ends, and its id is taken again meanwhile:
/// by a duplicate of the old job, or by a new one that stays.
async fn a_prune_that_races_a_new_job_of_the_same_id_never_takes_it(fx: Fixture) {
    let second = fx.second().await;
    for _ in 0..20 {
        let held = fx.start(kept(0).id("again")).await;
        let end = ack(&held, complete());
        let inserted = fx
            .race(2, |fx, number| {
                let (end, second) = (end.clone(), second.clone());
                async move {
                    if number == 0 {
                        assert!(fx.store.ack(end).await.must().applied);
                        return None;
                    }
                    let answer = second.store.enqueue(job().id("again")).await.must();
                    Some(!answer.duplicate)
                }
            })
            .await;
        let inserted = inserted.into_iter().flatten().next();
        let found = fx.find(&held.id).await.map(|record| record.state);
        let expected = (inserted == Some(true)).then_some(JobState::Waiting);
        assert_eq!(found, expected, "a new job came: {inserted:?}");
        fx.store.remove(&held.id).await.must();
    }
}
