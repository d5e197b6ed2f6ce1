//! Which children are pending: what is asked before a child is enqueued.

use super::steps::{Cancelled, Completed, Failed, Parent, child_keys, fan_out, keys, many};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, job};
use crate::id::ChildKey;
use crate::record::JobState;

cases! { __contract_flow_pending, flow::pending:
    a_child_is_pending_until_its_report,
    only_children_that_are_asked_for_are_named,
    an_unknown_child_is_not_pending,
    another_manifests_child_is_not_pending,
    an_unknown_flows_child_is_not_pending,
    a_job_without_a_flow_has_no_pending_child,
    no_child_is_pending_under_a_parent_that_went_on,
    no_child_is_pending_under_a_removed_parent,
    a_former_manifests_child_is_not_pending,
    pending_children_come_in_the_order_of_their_keys_and_once,
    more_children_than_a_page_can_be_asked_for,
    asking_for_none_answers_none,
}

const NONE: [ChildKey; 0] = [];

/// Whatever it says.
async fn a_child_is_pending_until_its_report(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c", "d"]).await;
    let all = ["a", "b", "c", "d"];
    assert_eq!(fx.pending(&parent, &all).await, child_keys(&all));
    fx.record_one(parent.report("b", Completed)).await;
    fx.record_one(parent.report("a", Failed)).await;
    fx.record_one(parent.report("d", Cancelled)).await;
    assert_eq!(fx.pending(&parent, &all).await, child_keys(&["c"]));
}

/// A question about one is not a question about all.
async fn only_children_that_are_asked_for_are_named(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    assert_eq!(fx.pending(&parent, &["b"]).await, child_keys(&["b"]));
}

/// Nor one that is spelt differently.
async fn an_unknown_child_is_not_pending(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    assert_eq!(fx.pending(&parent, &["A", "a ", "b"]).await, NONE);
}

/// A worker that is late learns that its fan-out is not the one that landed.
async fn another_manifests_child_is_not_pending(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let other = Parent {
        manifest: "another".into(),
        ..parent
    };
    assert_eq!(fx.pending(&other, &["a"]).await, NONE);
}

/// Nobody waits for it.
async fn an_unknown_flows_child_is_not_pending(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let other = Parent {
        id: "nobody".into(),
        ..parent
    };
    assert_eq!(fx.pending(&other, &["a"]).await, NONE);
}

/// Not before the fan-out has landed.
async fn a_job_without_a_flow_has_no_pending_child(fx: Fixture) {
    let held = fx.start(job()).await;
    let parent = Parent {
        id: held.id,
        manifest: held.token,
    };
    assert_eq!(fx.pending(&parent, &["a"]).await, NONE);
}

/// Waiting, active or ended.
async fn no_child_is_pending_under_a_parent_that_went_on(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.record(parent.reports(&["a"], Completed)).await;
    assert_eq!(fx.pending(&parent, &["a"]).await, NONE);
    let held = fx.claim_one().await;
    assert_eq!(fx.pending(&parent, &["a"]).await, NONE);
    fx.ack(&held, crate::contract::make::complete()).await;
    assert_eq!(fx.state(&parent.id).await, JobState::Completed);
    assert_eq!(fx.pending(&parent, &["a"]).await, NONE);
}

/// Nothing would come of it.
async fn no_child_is_pending_under_a_removed_parent(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    assert!(fx.store.remove(&parent.id).await.must());
    assert_eq!(fx.pending(&parent, &["a"]).await, NONE);
}

/// Even if the parent's new life has a child of that key.
async fn a_former_manifests_child_is_not_pending(fx: Fixture) {
    let former = fx.park_as(job().id("p"), fan_out(many(1))).await;
    fx.store.cancel(&former.id).await.must();
    assert!(fx.store.remove(&former.id).await.must());
    let parent = fx.park_as(job().id("p"), fan_out(many(1))).await;
    assert_eq!(fx.pending(&former, &["00000"]).await, NONE);
    assert_eq!(
        fx.pending(&parent, &["00000"]).await,
        child_keys(&["00000"])
    );
}

/// However they are asked for.
async fn pending_children_come_in_the_order_of_their_keys_and_once(fx: Fixture) {
    let parent = fx.park(&["b", "\u{e9}", "B", "a"]).await;
    let found = fx
        .pending(&parent, &["\u{e9}", "a", "b", "a", "B", "a"])
        .await;
    assert_eq!(found, child_keys(&["B", "a", "b", "\u{e9}"]));
}

/// All are answered.
async fn more_children_than_a_page_can_be_asked_for(fx: Fixture) {
    let parent = fx.park_many(600).await;
    let all = keys(600);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    fx.record(parent.reports(&all[..100], Completed)).await;
    assert_eq!(fx.pending(&parent, &all).await, child_keys(&all[100..]));
}

/// Without looking.
async fn asking_for_none_answers_none(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    assert_eq!(fx.pending(&parent, &[]).await, NONE);
}
