//! Fail-fast: the first failed child fails its parent.

use super::steps::{
    APPLIED, Cancelled, Completed, DROPPED, Failed, SETTLED, child_job, children, counts, envelope,
    fail_fast, keys, many,
};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, NO_JOBS, complete, fail, job, json, lock, request};
use crate::record::{
    AttemptOutcome, AttemptRecord, ChildStatus, JobState, Keep, Report, Retention,
};

cases! { __contract_flow_settle, flow::settle:
    the_first_failure_fails_the_parent,
    the_failed_parent_is_recorded_without_an_exit,
    the_first_failure_closes_the_flow,
    a_completed_child_does_not_fail_the_parent,
    a_cancelled_child_does_not_fail_the_parent,
    fail_fast_wins_over_the_last_report,
    the_first_failure_in_batch_order_decides,
    a_dropped_failure_does_not_decide,
    all_rows_of_a_page_apply_before_the_flow_closes,
    what_comes_in_the_next_page_is_late,
    without_fail_fast_a_failure_only_counts,
    each_flow_of_a_batch_settles_on_its_own,
    a_failed_parent_reports_to_its_own,
    a_failed_parent_is_announced,
    a_failed_parents_keep_applies,
    a_failed_parent_takes_a_new_place_in_history,
    a_failed_parent_can_be_retried,
    a_retried_parent_runs_its_second_phase,
}

/// At once, whatever the others do.
async fn the_first_failure_fails_the_parent(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b \"q\"", "c"]).await;
    fx.record_one(parent.report("a", Completed)).await;
    let report = parent.report("b \"q\"", Failed);
    assert_eq!(fx.record_one(report).await, SETTLED);
    let record = fx.job(&parent.id).await;
    assert_eq!(record.state, JobState::Failed);
    let reason = record.failed_reason.expect("the store failed it");
    assert!(reason.contains("flow child \"b \"q\"\" failed"), "{reason}");
}

/// The store ended it: there is one more entry, which closes no run, and no
/// attempt is used.
async fn the_failed_parent_is_recorded_without_an_exit(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    fx.advance(7);
    let report = Report {
        exit: Some(json(r#"{"err":1}"#)),
        ..parent.report("a", Failed)
    };
    fx.record_one(report).await;
    let record = fx.job(&parent.id).await;
    assert_eq!((record.exit, record.finished_at), (None, Some(fx.now())));
    assert_eq!((record.attempts_made, record.attempts_recorded), (0, 2));
    let entry = AttemptRecord {
        attempt: 2,
        started_at: None,
        finished_at: fx.now(),
        outcome: AttemptOutcome::Failed,
        exit: None,
    };
    assert_eq!(fx.ledger(&parent.id).await[1..], [entry]);
}

/// What is pending is called off, and cancels are owed for it.
async fn the_first_failure_closes_the_flow(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b", "c", "d"]).await;
    let batch = vec![parent.report("c", Completed), parent.report("b", Failed)];
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED]);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 1, 1, 2));
    let expected = [
        ChildStatus::Cancelled,
        ChildStatus::Failed,
        ChildStatus::Completed,
        ChildStatus::Cancelled,
    ];
    assert_eq!(fx.statuses(&parent).await, expected);
    let (reconcile, cascade) = fx.swept_keys().await;
    assert_eq!((reconcile, cascade), (vec![], vec!["a".into(), "d".into()]));
}

/// The parent goes on when all have ended well.
async fn a_completed_child_does_not_fail_the_parent(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    let batch = parent.reports(&["a", "b"], Completed);
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED]);
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
}

/// To be called off is not to fail.
async fn a_cancelled_child_does_not_fail_the_parent(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    let batch = parent.reports(&["a", "b"], Cancelled);
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED]);
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 0, 2));
}

/// Where a failure is the last report, or one before it in a page.
async fn fail_fast_wins_over_the_last_report(fx: Fixture) {
    let last = fx.park_fail_fast(&["a", "b"]).await;
    let batch = vec![last.report("a", Completed), last.report("b", Failed)];
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED]);
    assert_eq!(fx.state(&last.id).await, JobState::Failed);
    let before = fx.park_fail_fast(&["a", "b"]).await;
    let batch = vec![before.report("a", Failed), before.report("b", Completed)];
    assert_eq!(fx.record(batch).await, [SETTLED, APPLIED]);
    assert_eq!(fx.state(&before.id).await, JobState::Failed);
    assert_eq!(fx.flow_counts(&before).await, counts(0, 1, 1, 0));
}

/// Not by key.
async fn the_first_failure_in_batch_order_decides(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b", "c", "d"]).await;
    let batch = vec![
        parent.report("d", Completed),
        parent.report("c", Failed),
        parent.report("a", Failed),
    ];
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED, APPLIED]);
    let reason = fx.job(&parent.id).await.failed_reason.unwrap_or_default();
    assert!(reason.contains("flow child \"c\" failed"), "{reason}");
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 1, 2, 1));
}

/// Foreign, unknown and second ones do not count.
async fn a_dropped_failure_does_not_decide(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    let batch = vec![
        Report {
            manifest: "another".into(),
            ..parent.report("b", Failed)
        },
        parent.report("x", Failed),
        parent.report("a", Completed),
        parent.report("a", Failed),
    ];
    assert_eq!(fx.record(batch).await, [DROPPED, DROPPED, APPLIED, DROPPED]);
    assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
}

/// Those after the failure too.
async fn all_rows_of_a_page_apply_before_the_flow_closes(fx: Fixture) {
    let parent = fx.park_as(job(), fail_fast(many(250))).await;
    let mut batch: Vec<_> = keys(249)
        .into_iter()
        .map(|key| parent.report(key, Completed))
        .collect();
    batch[3].outcome = Failed;
    let answers = fx.record(batch).await;
    assert_eq!(answers[3], SETTLED);
    assert_eq!(
        answers.iter().filter(|answer| **answer == APPLIED).count(),
        248
    );
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 248, 1, 1));
}

/// A page settles on its own.
async fn what_comes_in_the_next_page_is_late(fx: Fixture) {
    let parent = fx.park_as(job(), fail_fast(many(252))).await;
    let mut batch: Vec<_> = keys(252)
        .into_iter()
        .map(|key| parent.report(key, Completed))
        .collect();
    batch[249].outcome = Failed;
    batch[250].outcome = Failed;
    let answers = fx.record(batch).await;
    assert_eq!(answers[248..], [APPLIED, SETTLED, DROPPED, DROPPED]);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 249, 1, 2));
    let reason = fx.job(&parent.id).await.failed_reason.unwrap_or_default();
    assert!(reason.contains("\"00249\""), "{reason}");
}

/// The parent sees it when it goes on.
async fn without_fail_fast_a_failure_only_counts(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    assert_eq!(fx.record_one(parent.report("a", Failed)).await, APPLIED);
    assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 1, 0));
}

/// One fails, one goes on, one waits.
async fn each_flow_of_a_batch_settles_on_its_own(fx: Fixture) {
    let fails = fx.park_fail_fast(&["a", "b"]).await;
    let goes_on = fx.park(&["a"]).await;
    let waits = fx.park_fail_fast(&["a", "b"]).await;
    let batch = vec![
        waits.report("a", Completed),
        fails.report("b", Failed),
        goes_on.report("a", Failed),
    ];
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED, SETTLED]);
    let states = fx.states(&[fails.id, goes_on.id, waits.id]).await;
    let expected = [
        JobState::Failed,
        JobState::Waiting,
        JobState::WaitingChildren,
    ];
    assert_eq!(states, expected.map(Some));
}

/// A flow within a flow passes its failure on, in the same step.
async fn a_failed_parent_reports_to_its_own(fx: Fixture) {
    let parent = fx
        .park_as(child_job("inner"), fail_fast(children(&["a", "b"])))
        .await;
    assert_eq!(fx.outbox().await, []);
    fx.record_one(parent.report("a", Failed)).await;
    let reports = fx.reports().await;
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].outcome, Failed);
    assert_eq!(reports[0].flow_id, envelope("inner").flow_id);
    assert_eq!(reports[0].child_key, "inner");
    assert_eq!(reports[0].exit, None);
    let reason = fx.job(&parent.id).await.failed_reason;
    assert_eq!(reports[0].failed_reason, reason);
}

/// Whoever awaits the parent learns of it.
async fn a_failed_parent_is_announced(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    let ids = [parent.id.clone()];
    let watch = fx.store.watch(&ids).await.must();
    assert_eq!(watch.finished, NO_JOBS);
    fx.record_one(parent.report("a", Failed)).await;
    fx.within(
        "word of the parent's end",
        fx.store.await_finished(&ids, watch.cursor),
    )
    .await
    .must();
}

/// As at any other end: it owes no cancel, so it may go at once.
async fn a_failed_parents_keep_applies(fx: Fixture) {
    let kept = job().keep(Keep::all(Retention::count(0)));
    let parent = fx.park_as(kept, fail_fast(children(&["a"]))).await;
    assert_eq!(fx.record_one(parent.report("a", Failed)).await, SETTLED);
    assert_eq!(fx.find(&parent.id).await, None);
    assert_eq!(fx.results(&parent).await, []);
}

/// It ended last, though it came first.
async fn a_failed_parent_takes_a_new_place_in_history(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a"]).await;
    let other = fx.finish(job(), fail()).await;
    fx.record_one(parent.report("a", Failed)).await;
    let filter = crate::store::ListFilter {
        states: Some(vec![JobState::Failed]),
        order_by: crate::store::OrderBy::FinishedAt,
        ..Default::default()
    };
    let listed = fx.store.list(filter).await.must().items;
    assert_eq!(
        crate::contract::steps::ids(&listed),
        [parent.id.clone(), other]
    );
}

/// It keeps its flow, its rows and its ledger, and is not failed any more.
async fn a_failed_parent_can_be_retried(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    fx.record_one(parent.report("a", Failed)).await;
    let (flow, rows) = (fx.flow(&parent).await, fx.results(&parent).await);
    fx.store.retry(&parent.id).await.must();
    let record = fx.job(&parent.id).await;
    assert_eq!(
        (record.state, record.failed_reason),
        (JobState::Waiting, None)
    );
    assert_eq!(record.flow, Some(flow));
    assert_eq!(fx.results(&parent).await, rows);
    assert_eq!(fx.ledger(&parent.id).await.len(), 2);
}

/// With the counters as they were when it failed.
async fn a_retried_parent_runs_its_second_phase(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    fx.record_one(parent.report("b", Failed)).await;
    fx.store.retry(&parent.id).await.must();
    let request = request(1);
    let token = request.token.clone();
    let claimed = fx.claim_with(request).await.jobs;
    let flow = claimed[0].flow.clone().expect("it has fanned out");
    assert_eq!(flow.counts, counts(0, 0, 1, 1));
    assert_eq!(flow.manifest, parent.manifest);
    let held = lock(&parent.id, token);
    fx.ack(&held, complete()).await;
    assert_eq!(fx.state(&parent.id).await, JobState::Completed);
}
