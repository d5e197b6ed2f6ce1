//! What becomes of flows when their parents are removed, pruned or listed.

use std::time::Duration;

use super::steps::{
    AGE, Completed, DROPPED, Failed, Parent, child_job, children, fail_fast, fan_out, keys, many,
    to_cancel,
};
use crate::contract::expect::{Must, expect_illegal};
use crate::contract::make::{Make, complete, fail, job, ms};
use crate::contract::steps::ids;
use crate::contract::{Fixture, StoreOptions};
use crate::id::ChildKey;
use crate::record::{HistoryCeiling, JobState, Keep, NewJob, Retention};
use crate::store::ListFilter;

cases! { __contract_flow_retain, flow::retain:
    a_parked_parent_cannot_be_removed,
    a_removed_parent_takes_its_children_along,
    a_large_flow_is_gone_at_once,
    reports_of_a_removed_parent_are_dropped,
    a_removed_parent_forgets_the_cancels_it_owes,
    a_removed_parents_children_stay,
    a_parent_that_owes_survives_its_own_keep,
    a_parent_that_owes_survives_its_age,
    a_parent_that_owes_survives_the_ceiling with no_history,
    a_parent_that_owes_survives_the_keep_of_others,
    a_parent_that_owes_counts_but_stays,
    a_parent_that_owes_no_more_is_swept,
    a_parent_that_owes_no_more_is_pruned_by_the_next_end,
    a_parent_that_owes_no_more_is_swept_by_its_age,
    a_parent_that_owes_can_be_removed,
    a_watched_parent_that_owes_is_spared_for_both,
    a_parent_that_owes_does_not_hold_up_the_sweep with no_history,
    a_parent_that_owes_nothing_is_pruned_with_its_children,
    a_retried_parent_that_owes_is_spared_at_its_next_end,
    a_parked_parent_is_never_removed_by_retention with no_history,
    a_parked_parent_is_counted_and_listed,
    flow_parents_can_be_listed_alone,
    a_parent_that_goes_on_is_listed_as_it_is,
}

fn no_history(options: StoreOptions) -> StoreOptions {
    let zero = Some(Duration::ZERO);
    let ceiling = HistoryCeiling::new(zero, zero, zero);
    options.history_ceiling(ceiling.expect("it names states"))
}

fn kept(count: u32) -> NewJob {
    job().keep(Keep::all(Retention::count(count)))
}

/// A job that both its end and any sweep remove, unless it is spared.
fn fleeting() -> NewJob {
    let retention = Retention {
        count: Some(0),
        age: Some(Duration::ZERO),
    };
    job().keep(Keep::all(retention))
}

/// Sweeps all of the history that is due.
async fn sweep(fx: &Fixture) {
    while fx.store.sweep_history(250).await.must().more {}
}

/// A cancelled parent that owes two cancels.
async fn owing(fx: &Fixture, job: NewJob) -> Parent {
    let parent = fx.park_as(job, fan_out(children(&["a", "b"]))).await;
    fx.store.cancel(&parent.id).await.must();
    parent
}

async fn is_there(fx: &Fixture, parent: &Parent) -> bool {
    fx.find(&parent.id).await.is_some()
}

/// It has to be cancelled first.
async fn a_parked_parent_cannot_be_removed(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let before = (fx.job(&parent.id).await, fx.results(&parent).await);
    let refused = fx.store.remove(&parent.id).await;
    expect_illegal(refused, &parent.id, JobState::WaitingChildren);
    let after = (fx.job(&parent.id).await, fx.results(&parent).await);
    assert_eq!(after, before);
}

/// For every operation that reads them.
async fn a_removed_parent_takes_its_children_along(fx: Fixture) {
    let parent = fx.closed(&["a", "b"]).await;
    assert_eq!(fx.results(&parent).await.len(), 2);
    assert!(fx.store.remove(&parent.id).await.must());
    assert_eq!(fx.find(&parent.id).await, None);
    assert_eq!(fx.results(&parent).await, []);
    assert_eq!(fx.pending(&parent, &["a", "b"]).await, [] as [ChildKey; 0]);
    assert_eq!(fx.swept_keys().await, (vec![], vec![]));
    assert_eq!(fx.ledger(&parent.id).await, []);
}

/// However long it takes to clear it away.
async fn a_large_flow_is_gone_at_once(fx: Fixture) {
    let parent = fx.park_as(job().id("p"), fan_out(many(1_000))).await;
    fx.store.cancel(&parent.id).await.must();
    assert!(fx.store.remove(&parent.id).await.must());
    assert_eq!(fx.results(&parent).await, []);
    assert_eq!(fx.swept_keys().await, (vec![], vec![]));
    fx.enqueue(job().id("p")).await;
    assert_eq!(fx.results(&parent).await, []);
}

/// Nobody waits for them.
async fn reports_of_a_removed_parent_are_dropped(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    assert!(fx.store.remove(&parent.id).await.must());
    assert_eq!(fx.record_one(parent.report("a", Completed)).await, DROPPED);
    assert_eq!(fx.find(&parent.id).await, None);
}

/// That is what removing it means.
async fn a_removed_parent_forgets_the_cancels_it_owes(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    assert_eq!(fx.sweep().await.cascade.len(), 1);
    assert!(fx.store.remove(&parent.id).await.must());
    fx.advance(AGE);
    assert_eq!(fx.sweep().await.cascade, []);
    fx.mark(&parent, &["a"]).await;
}

/// They are jobs of their own; their reports are dropped.
async fn a_removed_parents_children_stay(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let child = fx.enqueue(child_job("a")).await;
    fx.store.cancel(&parent.id).await.must();
    assert!(fx.store.remove(&parent.id).await.must());
    assert_eq!(fx.state(&child).await, JobState::Waiting);
}

/// Even one that lets nothing stay.
async fn a_parent_that_owes_survives_its_own_keep(fx: Fixture) {
    let parent = owing(&fx, fleeting()).await;
    assert!(is_there(&fx, &parent).await);
    sweep(&fx).await;
    fx.advance(1_000_000);
    sweep(&fx).await;
    assert!(is_there(&fx, &parent).await);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["a", "b"]);
}

/// However old it is.
async fn a_parent_that_owes_survives_its_age(fx: Fixture) {
    let young = job().keep(Keep::all(Retention::age(ms(5))));
    let parent = owing(&fx, young.clone()).await;
    fx.advance(1_000_000);
    sweep(&fx).await;
    let other = fx.enqueue(young).await;
    fx.store.cancel(&other).await.must();
    assert!(is_there(&fx, &parent).await);
    fx.mark(&parent, &["a"]).await;
    sweep(&fx).await;
    assert!(is_there(&fx, &parent).await);
}

/// The store's own.
async fn a_parent_that_owes_survives_the_ceiling(fx: Fixture) {
    let parent = owing(&fx, job()).await;
    fx.advance(1_000_000);
    sweep(&fx).await;
    assert!(is_there(&fx, &parent).await);
    fx.mark(&parent, &["a", "b"]).await;
    sweep(&fx).await;
    assert!(!is_there(&fx, &parent).await);
}

/// Of jobs of its name that end later.
async fn a_parent_that_owes_survives_the_keep_of_others(fx: Fixture) {
    let parent = owing(&fx, job()).await;
    let other = fx.enqueue(kept(0)).await;
    fx.store.cancel(&other).await.must();
    assert_eq!(fx.find(&other).await, None);
    assert!(is_there(&fx, &parent).await);
}

/// It takes the place of one that could go.
async fn a_parent_that_owes_counts_but_stays(fx: Fixture) {
    let before = fx.enqueue(job()).await;
    fx.store.cancel(&before).await.must();
    let parent = owing(&fx, job()).await;
    let after = fx.enqueue(kept(2)).await;
    fx.store.cancel(&after).await.must();
    let found = fx.states(&[before, parent.id.clone(), after]).await;
    let there: Vec<_> = found.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, true]);
}

/// With its last mark it is a finished job like any other.
async fn a_parent_that_owes_no_more_is_swept(fx: Fixture) {
    let parent = owing(&fx, fleeting()).await;
    fx.mark(&parent, &["a"]).await;
    sweep(&fx).await;
    assert!(is_there(&fx, &parent).await);
    fx.mark(&parent, &["b"]).await;
    sweep(&fx).await;
    assert!(!is_there(&fx, &parent).await);
    assert_eq!(fx.results(&parent).await, []);
}

/// That acts among jobs of its name and state.
async fn a_parent_that_owes_no_more_is_pruned_by_the_next_end(fx: Fixture) {
    let parent = owing(&fx, job()).await;
    fx.mark(&parent, &["a", "b"]).await;
    assert!(is_there(&fx, &parent).await);
    let other = fx.enqueue(kept(1)).await;
    fx.store.cancel(&other).await.must();
    assert!(!is_there(&fx, &parent).await);
    assert!(fx.find(&other).await.is_some());
}

/// Counted from its end, not from its last mark.
async fn a_parent_that_owes_no_more_is_swept_by_its_age(fx: Fixture) {
    let parent = owing(&fx, job().keep(Keep::all(Retention::age(ms(100))))).await;
    fx.advance(60);
    fx.mark(&parent, &["a", "b"]).await;
    sweep(&fx).await;
    assert!(is_there(&fx, &parent).await, "its age is not over");
    fx.advance(39);
    sweep(&fx).await;
    assert!(is_there(&fx, &parent).await, "its age is not over");
    fx.advance(1);
    sweep(&fx).await;
    assert!(!is_there(&fx, &parent).await, "its age is over");
}

/// That is no automatic retention.
async fn a_parent_that_owes_can_be_removed(fx: Fixture) {
    let parent = owing(&fx, job()).await;
    assert!(fx.store.remove(&parent.id).await.must());
    assert!(!is_there(&fx, &parent).await);
}

/// Whichever ends last.
async fn a_watched_parent_that_owes_is_spared_for_both(fx: Fixture) {
    for mark_first in [true, false] {
        let parent = fx.park_as(fleeting(), fan_out(children(&["a"]))).await;
        let ids = [parent.id.clone()];
        fx.store.watch(&ids).await.must();
        fx.store.cancel(&parent.id).await.must();
        if mark_first {
            fx.mark(&parent, &["a"]).await;
        } else {
            fx.advance(60_000);
        }
        sweep(&fx).await;
        assert!(is_there(&fx, &parent).await, "marked: {mark_first}");
        if mark_first {
            fx.advance(60_000);
        } else {
            fx.mark(&parent, &["a"]).await;
        }
        sweep(&fx).await;
        assert!(!is_there(&fx, &parent).await, "marked first: {mark_first}");
    }
}

/// Those behind it are removed all the same.
async fn a_parent_that_owes_does_not_hold_up_the_sweep(fx: Fixture) {
    let mut parents = Vec::new();
    for _ in 0..3 {
        parents.push(owing(&fx, job()).await);
    }
    let other = fx.finish(job(), complete()).await;
    fx.advance(1);
    for _ in 0..8 {
        fx.store.sweep_history(1).await.must();
    }
    assert_eq!(fx.find(&other).await, None);
    for parent in &parents {
        assert!(is_there(&fx, parent).await);
    }
}

/// Its children have all reported.
async fn a_parent_that_owes_nothing_is_pruned_with_its_children(fx: Fixture) {
    let parent = fx.park_as(fleeting(), fan_out(children(&["a"]))).await;
    fx.record(parent.reports(&["a"], Completed)).await;
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    assert!(!is_there(&fx, &parent).await);
    assert_eq!(fx.results(&parent).await, []);
}

/// The debt outlives the retry.
async fn a_retried_parent_that_owes_is_spared_at_its_next_end(fx: Fixture) {
    let parent = fx
        .park_as(fleeting(), fail_fast(children(&["a", "b"])))
        .await;
    fx.record_one(parent.report("a", Failed)).await;
    fx.store.retry(&parent.id).await.must();
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    sweep(&fx).await;
    assert_eq!(fx.state(&parent.id).await, JobState::Completed);
    assert_eq!(to_cancel(&fx.sweep().await.cascade), ["b"]);
    fx.mark(&parent, &["b"]).await;
    sweep(&fx).await;
    assert!(!is_there(&fx, &parent).await);
}

/// It has not ended.
async fn a_parked_parent_is_never_removed_by_retention(fx: Fixture) {
    let parent = fx.park_as(fleeting(), fan_out(children(&["a"]))).await;
    fx.advance(1_000_000);
    sweep(&fx).await;
    fx.finish(kept(0).name("job"), fail()).await;
    assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
}

/// Under its own state, in its queue.
async fn a_parked_parent_is_counted_and_listed(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.enqueue(job()).await;
    let queues = fx.store.queues().await.must();
    assert_eq!(queues.len(), 1);
    assert_eq!(
        (queues[0].counts.waiting_children, queues[0].counts.waiting),
        (1, 1)
    );
    let filter = ListFilter {
        states: Some(vec![JobState::WaitingChildren]),
        ..ListFilter::default()
    };
    let listed = fx.store.list(filter).await.must().items;
    assert_eq!(listed, [fx.job(&parent.id).await]);
}

/// Jobs that have fanned out, in any state; not those that may, nor children.
async fn flow_parents_can_be_listed_alone(fx: Fixture) {
    let parked = fx.park_as(job().id("a"), fan_out(many(1))).await;
    let ended = fx.park_as(job().id("b"), fan_out(many(1))).await;
    fx.store.cancel(&ended.id).await.must();
    let waiting = fx.park_as(job().id("c"), fan_out(Vec::new())).await;
    fx.enqueue(child_job("x").id("d")).await;
    fx.finish(job().id("e").name("other"), complete()).await;
    let filter = ListFilter {
        flow_parents: true,
        direction: crate::store::Direction::Ascending,
        ..ListFilter::default()
    };
    let listed = fx.store.list(filter.clone()).await.must().items;
    assert_eq!(
        ids(&listed),
        [parked.id, ended.id.clone(), waiting.id.clone()]
    );
    let cancelled = ListFilter {
        states: Some(vec![JobState::Cancelled]),
        ..filter
    };
    let listed = fx.store.list(cancelled).await.must().items;
    assert_eq!(ids(&listed), [ended.id]);
}

/// With the same flow in every answer that holds it.
async fn a_parent_that_goes_on_is_listed_as_it_is(fx: Fixture) {
    let parent = fx.park_many(3).await;
    let batch = keys(3).into_iter().map(|key| parent.report(key, Failed));
    fx.record(batch.collect()).await;
    let by_list = fx.store.list(ListFilter::default()).await.must().items;
    let by_get = fx.job(&parent.id).await;
    assert_eq!(by_list, [by_get.clone()]);
    let claimed = fx.claim(1).await.jobs;
    assert_eq!(claimed[0].flow, by_get.flow);
}
