//! Closing: what becomes of pending children when their parent ends.

use super::steps::{
    Cancelled, Completed, DROPPED, Failed, child_job, child_keys, counts, fan_out, keys, many,
};
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_illegal};
use crate::contract::make::{Make, job};
use crate::id::ChildKey;
use crate::record::{AttemptOutcome, ChildStatus, JobState};
use crate::store::Cancelled as Answer;

cases! { __contract_flow_close, flow::close:
    a_cancel_ends_a_parked_parent_at_once,
    a_cancel_calls_off_what_is_pending,
    a_cancel_keeps_what_was_reported,
    a_large_flow_closes_as_a_whole,
    a_cancelled_parent_is_recorded,
    a_cancelled_parent_cannot_be_cancelled_again,
    a_cancel_by_its_key_closes_a_flow,
    a_cancel_of_several_closes_each,
    a_cancelled_parent_reports_to_its_own,
    a_cancelled_parent_is_announced,
    a_report_after_the_close_is_late,
    no_child_of_a_closed_flow_is_pending,
    no_child_of_a_closed_flow_is_to_be_looked_for,
    the_counters_of_a_closed_flow_stay,
    a_retried_parent_stays_closed,
    a_flow_that_settled_is_not_closed_by_a_later_cancel,
}

/// Nobody runs it, so nobody has to heed the cancel.
async fn a_cancel_ends_a_parked_parent_at_once(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.advance(7);
    assert_eq!(fx.store.cancel(&parent.id).await.must(), Answer::Ended);
    let record = fx.job(&parent.id).await;
    assert_eq!(record.state, JobState::Cancelled);
    assert_eq!(
        (record.finished_at, record.cancel_requested),
        (Some(fx.now()), false)
    );
}

/// Each such row is read as cancelled, without an exit or a reason.
async fn a_cancel_calls_off_what_is_pending(fx: Fixture) {
    let parent = fx.closed(&["a", "b"]).await;
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 0, 2));
    for row in fx.results(&parent).await {
        let found = (row.status, row.exit, row.failed_reason);
        assert_eq!(found, (ChildStatus::Cancelled, None, None));
    }
}

/// Only the others are called off.
async fn a_cancel_keeps_what_was_reported(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c", "d"]).await;
    fx.record(vec![
        parent.report("b", Completed),
        parent.report("c", Failed),
        parent.report("d", Cancelled),
    ])
    .await;
    fx.store.cancel(&parent.id).await.must();
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 1, 1, 2));
    let expected = [
        ChildStatus::Cancelled,
        ChildStatus::Completed,
        ChildStatus::Failed,
        ChildStatus::Cancelled,
    ];
    assert_eq!(fx.statuses(&parent).await, expected);
    let (_, cascade) = fx.swept_keys().await;
    assert_eq!(cascade, ["a"]);
}

/// A thousand rows are read as cancelled the moment the cancel is answered.
async fn a_large_flow_closes_as_a_whole(fx: Fixture) {
    let parent = fx.park_many(1_000).await;
    fx.store.cancel(&parent.id).await.must();
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 0, 1_000));
    let statuses = fx.statuses(&parent).await;
    assert_eq!(statuses, vec![ChildStatus::Cancelled; 1_000]);
}

/// The second entry closes no run.
async fn a_cancelled_parent_is_recorded(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    let ledger = fx.ledger(&parent.id).await;
    let entries: Vec<_> = ledger
        .iter()
        .map(|entry| (entry.attempt, entry.outcome, entry.started_at.is_some()))
        .collect();
    assert_eq!(
        entries,
        [
            (1, AttemptOutcome::FannedOut, true),
            (2, AttemptOutcome::Cancelled, false)
        ]
    );
}

/// It has ended.
async fn a_cancelled_parent_cannot_be_cancelled_again(fx: Fixture) {
    let parent = fx.closed(&["a"]).await;
    let before = fx.job(&parent.id).await;
    let again = fx.store.cancel(&parent.id).await;
    expect_illegal(again, &parent.id, JobState::Cancelled);
    assert_eq!(fx.job(&parent.id).await, before);
}

/// As a cancel by its id does.
async fn a_cancel_by_its_key_closes_a_flow(fx: Fixture) {
    let parent = fx.park_as(job().key("k"), fan_out(many(2))).await;
    let name = crate::contract::make::NAME.into();
    assert!(fx.store.cancel_by_dedupe(&name, &"k".into()).await.must());
    assert_eq!(fx.state(&parent.id).await, JobState::Cancelled);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 0, 2));
}

/// Each with its own children.
async fn a_cancel_of_several_closes_each(fx: Fixture) {
    let one = fx.park(&["a"]).await;
    let two = fx.park(&["a", "b"]).await;
    let ids = [two.id.clone(), one.id.clone()];
    for answer in fx.store.cancel_many(&ids).await.must() {
        assert_eq!(answer.must(), Answer::Ended);
    }
    assert_eq!(fx.flow_counts(&one).await, counts(0, 0, 0, 1));
    assert_eq!(fx.flow_counts(&two).await, counts(0, 0, 0, 2));
    let (_, cascade) = fx.swept_keys().await;
    assert_eq!(cascade, ["a", "a", "b"]);
}

/// A flow within a flow.
async fn a_cancelled_parent_reports_to_its_own(fx: Fixture) {
    let parent = fx.park_as(child_job("inner"), fan_out(many(2))).await;
    fx.store.cancel(&parent.id).await.must();
    let reports = fx.reports().await;
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].outcome, Cancelled);
    assert_eq!((&*reports[0].child_key, &reports[0].exit), ("inner", &None));
}

/// Whoever awaits it learns of it, whether it was parked or about to be.
async fn a_cancelled_parent_is_announced(fx: Fixture) {
    let parked = fx.park(&["a"]).await;
    let ids = [parked.id.clone()];
    let watch = fx.store.watch(&ids).await.must();
    fx.store.cancel(&parked.id).await.must();
    let waiting = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of a parked parent's end", waiting)
        .await
        .must();
    let held = fx.start(job()).await;
    let ids = [held.id.clone()];
    let watch = fx.store.watch(&ids).await.must();
    fx.request_cancel(&held.id).await;
    fx.ack(&held, fan_out(many(1))).await;
    let waiting = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of a raced fan-out's end", waiting)
        .await
        .must();
}

/// It changes neither row nor counter.
async fn a_report_after_the_close_is_late(fx: Fixture) {
    let parent = fx.closed(&["a", "b"]).await;
    let before = (fx.job(&parent.id).await, fx.results(&parent).await);
    let late = vec![parent.report("a", Completed), parent.report("b", Failed)];
    assert_eq!(fx.record(late).await, [DROPPED; 2]);
    let after = (fx.job(&parent.id).await, fx.results(&parent).await);
    assert_eq!(after, before);
    let (_, cascade) = fx.swept_keys().await;
    assert_eq!(cascade, ["a", "b"]);
}

/// Whoever asks before enqueueing it is told so.
async fn no_child_of_a_closed_flow_is_pending(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    assert_eq!(
        fx.pending(&parent, &["a", "b"]).await,
        child_keys(&["a", "b"])
    );
    fx.store.cancel(&parent.id).await.must();
    assert_eq!(fx.pending(&parent, &["a", "b"]).await, [] as [ChildKey; 0]);
}

/// However long ago it fanned out.
async fn no_child_of_a_closed_flow_is_to_be_looked_for(fx: Fixture) {
    fx.closed(&["a", "b"]).await;
    for _ in 0..3 {
        fx.advance(1_000_000);
        assert_eq!(fx.sweep().await.reconcile, []);
    }
}

/// Cancels that went out do not change them.
async fn the_counters_of_a_closed_flow_stay(fx: Fixture) {
    let parent = fx.closed(&["a", "b", "c"]).await;
    fx.mark(&parent, &["a", "c"]).await;
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 0, 3));
    assert_eq!(fx.statuses(&parent).await, vec![ChildStatus::Cancelled; 3]);
}

/// What was called off stays called off, and owed, for every operation that
/// reads it.
async fn a_retried_parent_stays_closed(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b", "c"]).await;
    fx.record_one(parent.report("b", Failed)).await;
    fx.mark(&parent, &["a"]).await;
    fx.store.retry(&parent.id).await.must();
    for state in [JobState::Waiting, JobState::Active] {
        if state == JobState::Active {
            fx.claim_one().await;
        }
        assert_eq!(fx.state(&parent.id).await, state);
        let late = parent.reports(&["a", "c"], Completed);
        assert_eq!(fx.record(late).await, [DROPPED; 2]);
        let none = [] as [ChildKey; 0];
        assert_eq!(fx.pending(&parent, &["a", "b", "c"]).await, none);
        let expected = [
            ChildStatus::Cancelled,
            ChildStatus::Failed,
            ChildStatus::Cancelled,
        ];
        assert_eq!(fx.statuses(&parent).await, expected);
        assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 1, 2));
        fx.advance(super::steps::AGE);
        let (reconcile, cascade) = fx.swept_keys().await;
        assert_eq!((reconcile, cascade), (vec![], vec!["c".to_owned()]));
    }
    fx.mark(&parent, &["c"]).await;
    fx.advance(super::steps::AGE);
    assert_eq!(fx.swept_keys().await, (vec![], vec![]));
}

/// There is nothing left to call off.
async fn a_flow_that_settled_is_not_closed_by_a_later_cancel(fx: Fixture) {
    let parent = fx.park_many(3).await;
    let batch = keys(3).into_iter().map(|key| parent.report(key, Completed));
    fx.record(batch.collect()).await;
    assert_eq!(fx.store.cancel(&parent.id).await.must(), Answer::Ended);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 3, 0, 0));
    assert_eq!(fx.swept_keys().await, (vec![], vec![]));
}
