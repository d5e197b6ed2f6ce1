//! Fan-outs that meet something: an earlier one, a cancel, a former life.

use super::steps::{
    Completed, DROPPED, Failed, Parent, child, children, counts, fail_fast, fan_out, keys, many,
};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, ack, job};
use crate::record::{AttemptOutcome, JobState};
use crate::store::Acked;

cases! { __contract_flow_again, flow::again:
    a_repeated_fan_out_changes_nothing,
    a_fan_out_repeated_after_the_flow_settled_changes_nothing,
    a_fan_out_repeated_after_a_retry_changes_nothing,
    a_parent_keeps_the_manifest_it_has,
    a_second_fan_out_without_children_keeps_the_manifest_too,
    a_cancel_that_raced_the_fan_out_wins,
    a_cancel_that_raced_a_fan_out_without_children_wins,
    a_cancel_that_raced_a_second_fan_out_wins,
    a_parent_enqueued_again_knows_nothing_of_its_former_children,
}

/// Not even if it names other children.
async fn a_repeated_fan_out_changes_nothing(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let (record, rows) = (fx.job(&parent.id).await, fx.results(&parent).await);
    fx.advance(7);
    for again in [children(&["a", "b"]), children(&["c"]), Vec::new()] {
        let acked = fx.store.ack(ack(&parent.lock(), fan_out(again))).await;
        assert_eq!(acked.must(), Acked { applied: false });
        assert_eq!(fx.job(&parent.id).await, record);
        assert_eq!(fx.results(&parent).await, rows);
    }
    assert_eq!(fx.ledger(&parent.id).await.len(), 1);
}

/// The parent may be waiting for its second phase, or in it.
async fn a_fan_out_repeated_after_the_flow_settled_changes_nothing(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.record(parent.reports(&["a"], Completed)).await;
    for state in [JobState::Waiting, JobState::Active] {
        if state == JobState::Active {
            fx.claim_one().await;
        }
        let before = fx.job(&parent.id).await;
        assert_eq!(before.state, state);
        let again = ack(&parent.lock(), fan_out(children(&["a"])));
        assert_eq!(fx.store.ack(again).await.must(), Acked { applied: false });
        assert_eq!(fx.job(&parent.id).await, before);
    }
}

/// The parent is about to run its second phase again.
async fn a_fan_out_repeated_after_a_retry_changes_nothing(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    fx.record_one(parent.report("a", Failed)).await;
    fx.store.retry(&parent.id).await.must();
    let before = fx.job(&parent.id).await;
    let again = ack(&parent.lock(), fail_fast(children(&["a", "b"])));
    assert_eq!(fx.store.ack(again).await.must(), Acked { applied: false });
    assert_eq!(fx.job(&parent.id).await, before);
}

/// A parent that fans out again goes on with the children it has.
async fn a_parent_keeps_the_manifest_it_has(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.record(parent.reports(&["a", "b"], Completed)).await;
    let (flow, rows) = (fx.flow(&parent).await, fx.results(&parent).await);
    let held = fx.claim_one().await;
    fx.advance(7);
    fx.ack(&held, fail_fast(children(&["b", "c"]))).await;
    let record = fx.job(&parent.id).await;
    assert_eq!((record.state, record.run_at), (JobState::Waiting, fx.now()));
    assert_eq!(record.flow, Some(flow));
    assert_eq!(fx.results(&parent).await, rows);
    assert_eq!(
        fx.outcomes(&parent.id).await,
        [AttemptOutcome::FannedOut, AttemptOutcome::FannedOut]
    );
    assert_eq!(record.attempts_made, 0);
}

/// Naming none is no way to get rid of them.
async fn a_second_fan_out_without_children_keeps_the_manifest_too(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.record(parent.reports(&["a"], Failed)).await;
    let held = fx.claim_one().await;
    fx.ack(&held, fan_out(Vec::new())).await;
    assert_eq!(fx.flow(&parent).await.manifest, parent.manifest);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 1, 0));
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
}

/// The fan-out is on record, and all its children are called off.
async fn a_cancel_that_raced_the_fan_out_wins(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    fx.advance(7);
    fx.ack(&held, fan_out(many(300))).await;
    let record = fx.job(&held.id).await;
    assert_eq!(record.state, JobState::Cancelled);
    assert_eq!(record.finished_at, Some(fx.now()));
    assert_eq!((record.cancel_requested, record.attempts_made), (false, 0));
    assert_eq!(
        record.flow.map(|flow| flow.counts),
        Some(counts(0, 0, 0, 300))
    );
    let ledger = fx.ledger(&held.id).await;
    let entries: Vec<_> = ledger
        .iter()
        .map(|entry| (entry.outcome, entry.started_at.is_some()))
        .collect();
    assert_eq!(
        entries,
        [
            (AttemptOutcome::FannedOut, true),
            (AttemptOutcome::Cancelled, false)
        ]
    );
    let (reconcile, cascade) = fx.swept_keys().await;
    assert_eq!((reconcile, cascade), (Vec::new(), keys(300)));
    let again = fx.store.ack(ack(&held, fan_out(many(300)))).await;
    assert_eq!(again.must(), Acked { applied: false });
}

/// It does not run again.
async fn a_cancel_that_raced_a_fan_out_without_children_wins(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    fx.ack(&held, fan_out(Vec::new())).await;
    assert_eq!(fx.state(&held.id).await, JobState::Cancelled);
    assert_eq!(
        fx.outcomes(&held.id).await,
        [AttemptOutcome::FannedOut, AttemptOutcome::Cancelled]
    );
}

/// In the second phase as in the first.
async fn a_cancel_that_raced_a_second_fan_out_wins(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.record(parent.reports(&["a"], Completed)).await;
    let held = fx.claim_one().await;
    fx.request_cancel(&held.id).await;
    fx.ack(&held, fan_out(many(2))).await;
    assert_eq!(fx.state(&held.id).await, JobState::Cancelled);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 1, 0, 0));
}

/// Their reports are those of another manifest.
async fn a_parent_enqueued_again_knows_nothing_of_its_former_children(fx: Fixture) {
    let former = fx
        .park_as(job().id("p"), fan_out(children(&["a", "b"])))
        .await;
    fx.store.cancel(&former.id).await.must();
    assert!(fx.store.remove(&former.id).await.must());
    fx.enqueue(job().id("p")).await;
    assert_eq!(fx.job(&former.id).await.flow, None);
    assert_eq!(fx.results(&former).await, []);
    let held = fx.claim_one().await;
    fx.ack(&held, fan_out(vec![child("b"), child("c")])).await;
    let parent = Parent {
        id: held.id,
        manifest: held.token,
    };
    let found = fx.results(&parent).await;
    let found: Vec<_> = found.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(found, ["b", "c"]);
    let late = former.reports(&["a", "b"], Completed);
    assert_eq!(fx.record(late).await, [DROPPED; 2]);
    assert_eq!(fx.flow_counts(&parent).await, counts(2, 0, 0, 0));
}
