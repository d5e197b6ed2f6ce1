//! Reports: how children's ends reach their parent.

use super::steps::{
    APPLIED, Cancelled, Completed, DROPPED, Failed, SETTLED, child_keys, counts, fan_out, keys,
    many,
};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{complete, job, json};
use crate::contract::run::wake::wakes;
use crate::record::{ChildStatus, JobState, Report};

cases! { __contract_flow_report, flow::report:
    a_report_moves_its_child_to_its_counter,
    a_report_brings_its_exit_byte_for_byte,
    a_report_brings_its_reason,
    reports_are_answered_in_their_places,
    no_reports_need_no_answers,
    a_repeated_report_is_dropped,
    a_repeated_last_report_is_dropped,
    a_later_report_of_another_outcome_is_dropped,
    a_report_given_twice_in_one_batch_applies_once,
    a_report_of_another_manifest_is_dropped,
    a_report_of_an_unknown_flow_is_dropped,
    a_report_of_an_unknown_child_is_dropped,
    a_report_to_a_job_without_a_flow_is_dropped,
    a_report_that_is_dropped_changes_nothing,
    the_last_report_lets_the_parent_go_on,
    the_last_report_wakes_the_parents_queue,
    the_last_report_wakes_across_handles,
    a_parent_goes_on_in_its_old_place,
    exactly_the_last_report_of_a_batch_settles,
    a_dropped_report_after_the_last_one_does_not_settle,
    failed_and_cancelled_children_let_the_parent_go_on,
    a_batch_may_span_flows,
    a_batch_of_several_pages_settles_at_its_last_report,
    a_batch_that_ends_at_a_page_settles,
    a_report_to_a_parent_that_went_on_is_dropped,
    a_report_leaves_the_parent_as_it_was,
    the_manifest_is_the_sum_of_the_counters,
}

/// One by one, for each outcome.
async fn a_report_moves_its_child_to_its_counter(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c", "d"]).await;
    assert_eq!(fx.record_one(parent.report("b", Completed)).await, APPLIED);
    assert_eq!(fx.flow_counts(&parent).await, counts(3, 1, 0, 0));
    assert_eq!(fx.record_one(parent.report("a", Failed)).await, APPLIED);
    assert_eq!(fx.flow_counts(&parent).await, counts(2, 1, 1, 0));
    assert_eq!(fx.record_one(parent.report("d", Cancelled)).await, APPLIED);
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 1, 1, 1));
    let expected = [
        ChildStatus::Failed,
        ChildStatus::Completed,
        ChildStatus::Pending,
        ChildStatus::Cancelled,
    ];
    assert_eq!(fx.statuses(&parent).await, expected);
}

/// The store does not look inside.
async fn a_report_brings_its_exit_byte_for_byte(fx: Fixture) {
    let texts = [
        r#"{"ok": 12345678901234567890}"#,
        r#"{"ok":1e400}"#,
        r#"{"ok":-0.0}"#,
        r#"{ "ok" : {"a":1,"a":2} }"#,
        r#"{"err":"\ud800 \u0000"}"#,
        "[]",
        "null",
    ];
    let parent = fx.park_many(texts.len()).await;
    let reports = keys(texts.len()).into_iter().zip(texts).map(|(key, text)| {
        let exit = Some(json(text));
        Report {
            exit,
            ..parent.report(key, Completed)
        }
    });
    fx.record(reports.collect()).await;
    for (row, text) in fx.results(&parent).await.into_iter().zip(texts) {
        assert_eq!(row.exit.expect("it was reported").get(), text);
    }
}

/// Why a child's store ended it.
async fn a_report_brings_its_reason(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let report = Report {
        failed_reason: Some("stalled 4 times".into()),
        ..parent.report("a", Failed)
    };
    fx.record_one(report).await;
    let rows = fx.results(&parent).await;
    assert_eq!(rows[0].failed_reason.as_deref(), Some("stalled 4 times"));
    assert_eq!((&rows[0].exit, &rows[1].failed_reason), (&None, &None));
}

/// Those that apply, and those that do not.
async fn reports_are_answered_in_their_places(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    let batch = parent.reports(&["x", "c", "y", "a"], Completed);
    assert_eq!(fx.record(batch).await, [DROPPED, APPLIED, DROPPED, APPLIED]);
    assert_eq!(
        fx.pending(&parent, &["a", "b", "c"]).await,
        child_keys(&["b"])
    );
}

/// An empty batch answers empty.
async fn no_reports_need_no_answers(fx: Fixture) {
    assert_eq!(fx.record(Vec::new()).await, []);
}

/// A relay that died before it deleted delivers again.
async fn a_repeated_report_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let report = Report {
        exit: Some(json("1")),
        ..parent.report("a", Completed)
    };
    assert_eq!(fx.record_one(report.clone()).await, APPLIED);
    let before = (fx.job(&parent.id).await, fx.results(&parent).await);
    fx.advance(7);
    assert_eq!(fx.record_one(report).await, DROPPED);
    let after = (fx.job(&parent.id).await, fx.results(&parent).await);
    assert_eq!(after, before);
}

/// It does not settle a second time, whatever the parent does meanwhile.
async fn a_repeated_last_report_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let report = parent.report("a", Completed);
    assert_eq!(fx.record_one(report.clone()).await, SETTLED);
    assert_eq!(fx.record_one(report.clone()).await, DROPPED);
    let held = fx.claim_one().await;
    assert_eq!(fx.record_one(report.clone()).await, DROPPED);
    assert_eq!(fx.state(&parent.id).await, JobState::Active);
    fx.ack(&held, complete()).await;
    assert_eq!(fx.record_one(report).await, DROPPED);
    assert_eq!(fx.state(&parent.id).await, JobState::Completed);
}

/// A child that was retried may end twice: the first end stands.
async fn a_later_report_of_another_outcome_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.record_one(parent.report("a", Failed)).await;
    for outcome in [Completed, Cancelled] {
        assert_eq!(fx.record_one(parent.report("a", outcome)).await, DROPPED);
    }
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 1, 0));
    assert_eq!(fx.statuses(&parent).await[0], ChildStatus::Failed);
}

/// The first of the two, whatever they say.
async fn a_report_given_twice_in_one_batch_applies_once(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let batch = vec![
        parent.report("a", Cancelled),
        parent.report("a", Completed),
        parent.report("a", Cancelled),
    ];
    assert_eq!(fx.record(batch).await, [APPLIED, DROPPED, DROPPED]);
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 0, 1));
}

/// It is about a former life of the parent.
async fn a_report_of_another_manifest_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let foreign = Report {
        manifest: "another".into(),
        ..parent.report("a", Completed)
    };
    assert_eq!(fx.record_one(foreign).await, DROPPED);
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 0, 0));
}

/// Its parent may have been removed.
async fn a_report_of_an_unknown_flow_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let stray = Report {
        flow_id: "nobody".into(),
        ..parent.report("a", Completed)
    };
    assert_eq!(fx.record_one(stray).await, DROPPED);
    assert_eq!(fx.find(&"nobody".into()).await, None);
}

/// It makes no row.
async fn a_report_of_an_unknown_child_is_dropped(fx: Fixture) {
    let parent = fx.park(&["b"]).await;
    for stray in ["a", "B", "b ", "bb"] {
        assert_eq!(fx.record_one(parent.report(stray, Failed)).await, DROPPED);
    }
    assert_eq!(fx.statuses(&parent).await, [ChildStatus::Pending]);
}

/// It has not fanned out, or never will.
async fn a_report_to_a_job_without_a_flow_is_dropped(fx: Fixture) {
    let held = fx.start(job()).await;
    let before = fx.job(&held.id).await;
    let stray = Report {
        flow_id: held.id.clone(),
        manifest: held.token.clone(),
        child_key: "a".into(),
        outcome: Failed,
        exit: None,
        failed_reason: None,
    };
    assert_eq!(fx.record_one(stray).await, DROPPED);
    assert_eq!(fx.job(&held.id).await, before);
}

/// Neither the row nor the parent.
async fn a_report_that_is_dropped_changes_nothing(fx: Fixture) {
    let parent = fx.park_fail_fast(&["a", "b"]).await;
    fx.record_one(parent.report("a", Completed)).await;
    let before = (fx.job(&parent.id).await, fx.results(&parent).await);
    fx.advance(7);
    let late = Report {
        exit: Some(json("1")),
        failed_reason: Some("late".into()),
        ..parent.report("a", Failed)
    };
    assert_eq!(fx.record_one(late).await, DROPPED);
    let after = (fx.job(&parent.id).await, fx.results(&parent).await);
    assert_eq!(after, before);
}

/// Now, whenever it was enqueued.
async fn the_last_report_lets_the_parent_go_on(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.advance(7);
    assert_eq!(fx.record_one(parent.report("a", Completed)).await, APPLIED);
    assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
    fx.advance(7);
    assert_eq!(fx.record_one(parent.report("b", Completed)).await, SETTLED);
    let record = fx.job(&parent.id).await;
    assert_eq!((record.state, record.run_at), (JobState::Waiting, fx.now()));
    let claimed = fx.claim(5).await.jobs;
    assert_eq!(claimed.len(), 1);
    let flow = claimed[0].flow.as_ref().expect("it has fanned out");
    assert_eq!(flow.counts, counts(0, 2, 0, 0));
}

/// Its worker may be idle.
async fn the_last_report_wakes_the_parents_queue(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let report = parent.report("a", Completed);
    wakes(&fx, "the last report", fx.record_one(report)).await;
}

/// The relay is mostly another process than the worker.
async fn the_last_report_wakes_across_handles(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let second = fx.second().await;
    let report = parent.report("a", Completed);
    wakes(&fx, "a report elsewhere", second.record_one(report)).await;
}

/// So that finished flows drain before newer work piles up.
async fn a_parent_goes_on_in_its_old_place(fx: Fixture) {
    let before = fx.park(&["a"]).await;
    let later = fx.enqueue(job()).await;
    fx.record(before.reports(&["a"], Completed)).await;
    assert_eq!(fx.claim_ids(5).await, [before.id, later]);
}

/// Not the first, and not two of them.
async fn exactly_the_last_report_of_a_batch_settles(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    let batch = parent.reports(&["c", "a", "b"], Completed);
    assert_eq!(fx.record(batch).await, [APPLIED, APPLIED, SETTLED]);
}

/// It is the one that applied last.
async fn a_dropped_report_after_the_last_one_does_not_settle(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let batch = parent.reports(&["a", "b", "a", "x"], Completed);
    assert_eq!(fx.record(batch).await, [APPLIED, SETTLED, DROPPED, DROPPED]);
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
}

/// Unless the flow is to fail fast.
async fn failed_and_cancelled_children_let_the_parent_go_on(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    let batch = vec![
        parent.report("a", Failed),
        parent.report("b", Cancelled),
        parent.report("c", Failed),
    ];
    assert_eq!(fx.record(batch).await, [APPLIED, APPLIED, SETTLED]);
    let record = fx.job(&parent.id).await;
    assert_eq!(
        (record.state, record.failed_reason),
        (JobState::Waiting, None)
    );
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 2, 1));
}

/// Each settles by its own last report.
async fn a_batch_may_span_flows(fx: Fixture) {
    let one = fx.park(&["a", "b"]).await;
    let two = fx.park(&["a"]).await;
    let three = fx.park(&["a", "b"]).await;
    let batch = vec![
        one.report("a", Completed),
        three.report("a", Completed),
        two.report("a", Failed),
        one.report("b", Completed),
        two.report("a", Completed),
    ];
    let answers = fx.record(batch).await;
    assert_eq!(answers, [APPLIED, APPLIED, SETTLED, SETTLED, DROPPED]);
    let states = fx.states(&[one.id, two.id, three.id]).await;
    let expected = [
        JobState::Waiting,
        JobState::Waiting,
        JobState::WaitingChildren,
    ];
    assert_eq!(states, expected.map(Some));
}

/// Pages of 250 share one flow.
async fn a_batch_of_several_pages_settles_at_its_last_report(fx: Fixture) {
    let parent = fx.park_many(600).await;
    let batch = keys(600)
        .into_iter()
        .map(|key| parent.report(key, Completed));
    let answers = fx.record(batch.collect()).await;
    let (last, others) = answers.split_last().expect("600 answers");
    assert_eq!(*last, SETTLED);
    assert!(others.iter().all(|answer| *answer == APPLIED));
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 600, 0, 0));
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
}

/// At the page's last report, and what follows is late.
async fn a_batch_that_ends_at_a_page_settles(fx: Fixture) {
    let parent = fx.park_as(job(), fan_out(many(250))).await;
    let mut batch: Vec<_> = keys(250)
        .into_iter()
        .map(|key| parent.report(key, Completed))
        .collect();
    batch.push(parent.report("00249", Failed));
    let answers = fx.record(batch).await;
    assert_eq!(answers[249..], [SETTLED, DROPPED]);
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
}

/// It is active, or has ended.
async fn a_report_to_a_parent_that_went_on_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.record(parent.reports(&["a", "b"], Completed)).await;
    let held = fx.claim_one().await;
    let again = parent.reports(&["a", "b"], Failed);
    assert_eq!(fx.record(again.clone()).await, [DROPPED; 2]);
    fx.ack(&held, complete()).await;
    assert_eq!(fx.record(again).await, [DROPPED; 2]);
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 2, 0, 0));
}

/// But for the counters, as long as it is not settled.
async fn a_report_leaves_the_parent_as_it_was(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let mut expected = fx.job(&parent.id).await;
    fx.advance(7);
    fx.record_one(parent.report("a", Failed)).await;
    if let Some(flow) = &mut expected.flow {
        flow.counts = counts(1, 0, 1, 0);
    }
    assert_eq!(fx.job(&parent.id).await, expected);
    assert_eq!(fx.ledger(&parent.id).await.len(), 1);
}

/// After each report, to the end.
async fn the_manifest_is_the_sum_of_the_counters(fx: Fixture) {
    let parent = fx.park_many(9).await;
    let outcomes = [Completed, Failed, Cancelled];
    for (place, key) in keys(9).into_iter().enumerate() {
        fx.record_one(parent.report(key, outcomes[place % 3])).await;
        let now = fx.flow_counts(&parent).await;
        let sum = now.pending + now.completed + now.failed + now.cancelled;
        assert_eq!((sum, now.pending), (9, 8 - place as u64));
    }
    assert_eq!(fx.store.counts(None).await.must().total(), 1);
}
