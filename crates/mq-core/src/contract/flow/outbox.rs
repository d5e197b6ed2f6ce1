//! The outbox: every end of a flow's child leaves a report, in the same step.

use super::steps::{
    APPLIED, Cancelled, Completed, DROPPED, Failed, about, child_job, children, envelope,
    fail_fast, fan_out, report_of,
};
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_lock_lost};
use crate::contract::make::{
    Make, NAME, ack, complete, fail, job, json, lock, request, retry_in, snooze_for,
};
use crate::record::{JobState, Keep, Report, Retention};
use crate::store::{AckOutcome, Cancelled as Answer};

cases! { __contract_flow_outbox, flow::outbox:
    a_report_names_its_parent,
    a_completed_child_reports_its_exit,
    a_failed_child_reports_its_exit,
    a_child_without_an_exit_reports_none,
    exits_are_reported_byte_for_byte,
    a_child_that_heeds_a_cancel_reports_it,
    a_child_cancelled_while_it_waits_reports_it,
    a_delayed_child_cancelled_reports_it,
    a_child_cancelled_by_its_key_reports_it,
    a_child_cancelled_instead_of_retried_reports_it,
    a_child_cancelled_instead_of_put_off_reports_it,
    a_child_cancelled_at_its_release_reports_it,
    a_child_cancelled_at_its_recovery_reports_it,
    a_child_that_stalled_too_often_reports_why,
    a_child_whose_fan_out_a_cancel_raced_reports_once,
    a_child_that_is_a_flow_reports_when_it_has_ended,
    a_child_that_goes_on_reports_nothing,
    a_child_that_is_removed_reports_nothing,
    a_child_removed_after_its_end_keeps_its_report,
    a_pruned_child_keeps_its_report,
    a_job_that_is_no_child_reports_nothing,
    a_refused_ack_reports_nothing,
    a_repeated_ack_reports_nothing_more,
    a_retried_child_reports_again,
    a_late_report_of_a_retried_child_is_dropped,
    a_batch_of_ends_reports_each,
    a_report_in_the_parents_own_store_waits_to_be_delivered,
}

/// With all that it takes to deliver it.
async fn a_report_names_its_parent(fx: Fixture) {
    fx.end_child("a", complete()).await;
    let entries = fx.outbox().await;
    assert_eq!(entries.len(), 1);
    let envelope = envelope("a");
    assert_eq!(entries[0].flow_name, envelope.flow_name);
    assert_eq!(entries[0].parent_store, envelope.parent_store);
    assert_eq!(entries[0].report, report_of("a", Completed));
}

/// What its handler returned.
async fn a_completed_child_reports_its_exit(fx: Fixture) {
    let exit = Some(json(r#"{"ok":1}"#));
    fx.end_child("a", AckOutcome::Complete { exit: exit.clone() })
        .await;
    let expected = Report {
        exit,
        ..report_of("a", Completed)
    };
    assert_eq!(fx.reports().await, [expected]);
}

/// Without a reason: it was the handler's own end.
async fn a_failed_child_reports_its_exit(fx: Fixture) {
    let exit = Some(json(r#"{"err":"no"}"#));
    fx.end_child("a", AckOutcome::Fail { exit: exit.clone() })
        .await;
    let expected = Report {
        exit,
        ..report_of("a", Failed)
    };
    assert_eq!(fx.reports().await, [expected]);
}

/// Not even null.
async fn a_child_without_an_exit_reports_none(fx: Fixture) {
    fx.end_child("a", complete()).await;
    fx.end_child("b", fail()).await;
    let expected = [report_of("a", Completed), report_of("b", Failed)];
    assert_eq!(fx.reports().await, expected);
}

/// The store does not look inside.
async fn exits_are_reported_byte_for_byte(fx: Fixture) {
    let texts = [
        r#"{"ok": 12345678901234567890}"#,
        r#"{"ok":1e400,"ok":-0.0}"#,
        r#"{ "err" : "\ud800 \u0000 \u00e9" }"#,
        "[]",
        "null",
    ];
    for text in texts {
        let exit = Some(json(text));
        fx.end_child("a", AckOutcome::Complete { exit }).await;
    }
    let reports = fx.reports().await;
    let found: Vec<_> = reports
        .iter()
        .map(|report| report.exit.as_ref().map_or("", |exit| exit.get()))
        .collect();
    assert_eq!(found, texts);
}

/// By its own ack.
async fn a_child_that_heeds_a_cancel_reports_it(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.request_cancel(&held.id).await;
    assert_eq!(fx.reports().await, []);
    fx.ack(&held, AckOutcome::Cancelled).await;
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// It ended without a run.
async fn a_child_cancelled_while_it_waits_reports_it(fx: Fixture) {
    let id = fx.enqueue(child_job("a")).await;
    assert_eq!(fx.store.cancel(&id).await.must(), Answer::Ended);
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// Likewise.
async fn a_delayed_child_cancelled_reports_it(fx: Fixture) {
    let id = fx.enqueue(child_job("a").delay(1_000)).await;
    assert_eq!(fx.store.cancel(&id).await.must(), Answer::Ended);
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// By whatever path.
async fn a_child_cancelled_by_its_key_reports_it(fx: Fixture) {
    fx.enqueue(child_job("a").key("k")).await;
    let name = NAME.into();
    assert!(fx.store.cancel_by_dedupe(&name, &"k".into()).await.must());
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// What the last run returned goes to the ledger only.
async fn a_child_cancelled_instead_of_retried_reports_it(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.request_cancel(&held.id).await;
    let retry = AckOutcome::Retry {
        delay: std::time::Duration::ZERO,
        exit: Some(json("1")),
    };
    fx.ack(&held, retry).await;
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// Likewise.
async fn a_child_cancelled_instead_of_put_off_reports_it(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.request_cancel(&held.id).await;
    fx.ack(&held, snooze_for(5)).await;
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// A worker that shuts down honours the cancel.
async fn a_child_cancelled_at_its_release_reports_it(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.request_cancel(&held.id).await;
    fx.store.release(held).await.must();
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// So does who takes over from one that died.
async fn a_child_cancelled_at_its_recovery_reports_it(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.request_cancel(&held.id).await;
    fx.stall(3).await;
    assert_eq!(fx.state(&held.id).await, JobState::Cancelled);
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// The reason is that on its record.
async fn a_child_that_stalled_too_often_reports_why(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.stall(1).await;
    assert_eq!(fx.reports().await, []);
    fx.claim_one().await;
    fx.stall(1).await;
    let failed_reason = fx.job(&held.id).await.failed_reason;
    assert!(failed_reason.is_some());
    let expected = Report {
        failed_reason,
        ..report_of("a", Failed)
    };
    assert_eq!(fx.reports().await, [expected]);
}

/// The fan-out itself is no end.
async fn a_child_whose_fan_out_a_cancel_raced_reports_once(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.request_cancel(&held.id).await;
    fx.ack(&held, fan_out(children(&["x"]))).await;
    assert_eq!(fx.reports().await, [report_of("a", Cancelled)]);
}

/// Not when it fans out, nor when it goes on.
async fn a_child_that_is_a_flow_reports_when_it_has_ended(fx: Fixture) {
    let parent = fx
        .park_as(child_job("a"), fail_fast(children(&["x"])))
        .await;
    fx.record(parent.reports(&["x"], Completed)).await;
    let held = fx.claim_one().await;
    assert_eq!(fx.reports().await, []);
    fx.ack(&held, complete()).await;
    assert_eq!(fx.reports().await, [report_of("a", Completed)]);
}

/// It has not ended.
async fn a_child_that_goes_on_reports_nothing(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.ack(&held, retry_in(0)).await;
    let held = fx.claim_one().await;
    fx.ack(&held, snooze_for(0)).await;
    let held = fx.claim_one().await;
    fx.store.release(held).await.must();
    fx.claim_one().await;
    fx.stall(3).await;
    let held = fx.claim_one().await;
    fx.ack(&held, retry_in(10)).await;
    fx.store.promote(&held.id).await.must();
    assert_eq!(fx.outbox().await, []);
}

/// Cancel is the way to stop one.
async fn a_child_that_is_removed_reports_nothing(fx: Fixture) {
    for child in [child_job("a"), child_job("b").delay(5)] {
        let id = fx.enqueue(child).await;
        assert!(fx.store.remove(&id).await.must());
    }
    assert_eq!(fx.outbox().await, []);
}

/// It was safe before.
async fn a_child_removed_after_its_end_keeps_its_report(fx: Fixture) {
    let id = fx.end_child("a", complete()).await;
    let before = fx.outbox().await;
    assert!(fx.store.remove(&id).await.must());
    assert_eq!(fx.outbox().await, before);
    assert_eq!(before.len(), 1);
}

/// Even by a keep that lets nothing stay.
async fn a_pruned_child_keeps_its_report(fx: Fixture) {
    let child = child_job("a").keep(Keep::all(Retention::count(0)));
    let id = fx.finish(child, complete()).await;
    assert_eq!(fx.find(&id).await, None);
    assert_eq!(fx.reports().await, [report_of("a", Completed)]);
}

/// Nobody waits for it.
async fn a_job_that_is_no_child_reports_nothing(fx: Fixture) {
    for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
        fx.job_in(state).await;
    }
    assert_eq!(fx.outbox().await, []);
}

/// The run was not its own any more.
async fn a_refused_ack_reports_nothing(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    let stray = lock(&held.id, "another");
    expect_lock_lost(fx.store.ack(ack(&stray, complete())).await, &held.id);
    assert_eq!(fx.outbox().await, []);
}

/// The reply was lost, the report was not.
async fn a_repeated_ack_reports_nothing_more(fx: Fixture) {
    let held = fx.start(child_job("a")).await;
    fx.ack(&held, complete()).await;
    let before = fx.outbox().await;
    assert!(!fx.store.ack(ack(&held, complete())).await.must().applied);
    assert_eq!(fx.outbox().await, before);
}

/// Each end is one.
async fn a_retried_child_reports_again(fx: Fixture) {
    let id = fx.end_child("a", fail()).await;
    fx.store.retry(&id).await.must();
    assert_eq!(fx.reports().await, [report_of("a", Failed)]);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    let expected = [report_of("a", Failed), report_of("a", Completed)];
    assert_eq!(fx.reports().await, expected);
    let entries = fx.outbox().await;
    assert_ne!(entries[0].id, entries[1].id);
    assert_eq!(fx.undelivered(&["a"]).await, entries);
}

/// The first end stands.
async fn a_late_report_of_a_retried_child_is_dropped(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let mut child = child_job("a");
    if let Some(envelope) = &mut child.parent {
        envelope.flow_id = parent.id.clone();
        envelope.manifest = parent.lock().token;
    }
    let id = fx.finish(child, fail()).await;
    fx.store.retry(&id).await.must();
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    let reports = fx.reports().await;
    assert_eq!(fx.record(reports).await, [APPLIED, DROPPED]);
    let results = fx.results(&parent).await;
    assert_eq!(results[0].status, crate::record::ChildStatus::Failed);
}

/// In the order of the batch.
async fn a_batch_of_ends_reports_each(fx: Fixture) {
    let jobs = ["c", "a", "b"].map(child_job).to_vec();
    fx.enqueue_all([jobs, vec![job()]].concat()).await;
    let locks = fx.claim_locks(request(4)).await;
    let acks = locks.iter().map(|lock| ack(lock, complete()));
    for answer in fx.store.ack_many(acks.collect()).await.must() {
        answer.must();
    }
    let mut found = about(&fx.outbox().await);
    found.sort_unstable();
    assert_eq!(found, ["a", "b", "c"]);
}

/// The store takes no short cut to a parent that happens to be its own.
async fn a_report_in_the_parents_own_store_waits_to_be_delivered(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let mut child = child_job("a");
    if let Some(envelope) = &mut child.parent {
        envelope.flow_id = parent.id.clone();
        envelope.manifest = parent.lock().token;
    }
    fx.finish(child, complete()).await;
    assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
    assert_eq!(fx.outbox().await.len(), 1);
}
