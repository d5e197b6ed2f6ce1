//! What is refused, before anything is changed.

use super::steps::{Completed, child, child_keys, children, counts, fan_out};
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{ack, complete, job, json, ms};
use crate::contract::{Fixture, StoreOptions};
use crate::id::{ChildKey, JobId, LockToken, OutboxId, StoreKey};
use crate::record::{FlowChild, JobState, Report};
use crate::time::LONGEST;

cases! { __contract_flow_refused, flow::refused:
    two_children_of_one_key_are_refused,
    a_child_without_an_id_is_refused,
    a_broken_child_key_is_refused,
    a_broken_store_is_refused,
    a_broken_child_job_is_refused,
    a_child_with_too_large_a_payload_is_refused with small_payloads,
    a_refused_fan_out_leaves_the_parent_locked_and_untouched,
    a_refused_fan_out_does_not_touch_the_other_acks,
    a_broken_report_is_refused,
    a_report_with_too_large_an_exit_is_refused with small_payloads,
    one_broken_report_refuses_its_whole_batch,
    a_broken_question_is_refused,
    a_sweep_of_none_is_refused,
    an_age_beyond_all_time_is_refused,
    a_broken_outbox_id_is_refused,
}

/// A way to break something, and the field that is refused for it.
type Break<T> = (fn(&mut T), &'static str);

fn small_payloads(options: StoreOptions) -> StoreOptions {
    options.max_payload(100)
}

/// Checks that a fan-out of these children is refused for a field, and that
/// the parent is as it was.
async fn refused(fx: &Fixture, children: Vec<FlowChild>, field: &str) {
    let held = fx.start(job()).await;
    let before = fx.job(&held.id).await;
    expect_refused(fx.store.ack(ack(&held, fan_out(children))).await, field);
    assert_eq!(fx.job(&held.id).await, before);
    let rows = fx.store.list_child_results(&held.id, None, None).await;
    assert_eq!(rows.must().items, []);
    fx.ack(&held, complete()).await;
}

/// Which of them would a report be about?
async fn two_children_of_one_key_are_refused(fx: Fixture) {
    refused(&fx, children(&["a", "b", "a"]), "child key").await;
}

/// A child that is enqueued again must be the same one.
async fn a_child_without_an_id_is_refused(fx: Fixture) {
    let mut nameless = child("b");
    nameless.job.id = None;
    refused(&fx, vec![child("a"), nameless], "child").await;
}

/// Empty, too long, or with a NUL.
async fn a_broken_child_key_is_refused(fx: Fixture) {
    for key in ["", "a\0", &"x".repeat(257)] {
        let mut broken = child("a");
        broken.key = key.into();
        refused(&fx, vec![child("b"), broken], "child key").await;
    }
}

/// Likewise.
async fn a_broken_store_is_refused(fx: Fixture) {
    for store in ["", "a\0", &"x".repeat(257)] {
        let mut broken = child("a");
        broken.store = store.into();
        refused(&fx, vec![broken], "store name").await;
    }
}

/// As an enqueue of it would be.
async fn a_broken_child_job_is_refused(fx: Fixture) {
    let breaks: [Break<FlowChild>; 5] = [
        (|child| child.job.spec.name = "".into(), "job name"),
        (|child| child.job.spec.name = "a/b".into(), "job name"),
        (|child| child.job.spec.queue = "\0".into(), "queue name"),
        (|child| child.job.spec.attempts_max = 0, "attempts_max"),
        (
            |child| child.job.id = Some("x".repeat(1_025).into()),
            "job id",
        ),
    ];
    for (break_it, field) in breaks {
        let mut broken = child("a");
        break_it(&mut broken);
        refused(&fx, vec![broken], field).await;
    }
}

/// At its limit it is not.
async fn a_child_with_too_large_a_payload_is_refused(fx: Fixture) {
    let sized = |bytes: usize| {
        let mut child = child("a");
        child.job.spec.payload = json(format!("\"{}\"", "x".repeat(bytes - 2)));
        vec![child]
    };
    refused(&fx, sized(101), "payload").await;
    let parent = fx.park_as(job(), fan_out(sized(100))).await;
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 0, 0));
}

/// Its worker may fan out again under the same lock.
async fn a_refused_fan_out_leaves_the_parent_locked_and_untouched(fx: Fixture) {
    let held = fx.start(job()).await;
    let mut manifest: Vec<_> = (0..600).map(|number| child(&number.to_string())).collect();
    manifest.push(child("0"));
    fx.advance(7);
    let before = fx.job(&held.id).await;
    let answer = fx.store.ack(ack(&held, fan_out(manifest))).await;
    expect_refused(answer, "child key");
    assert_eq!(fx.job(&held.id).await, before);
    assert_eq!(fx.ledger(&held.id).await, []);
    fx.ack(&held, fan_out(children(&["a"]))).await;
    assert_eq!(fx.state(&held.id).await, JobState::WaitingChildren);
}

/// Each ack is refused on its own.
async fn a_refused_fan_out_does_not_touch_the_other_acks(fx: Fixture) {
    fx.enqueue_all(vec![job(); 2]).await;
    let locks = fx.claim_locks(crate::contract::make::request(2)).await;
    let mut answers = fx
        .store
        .ack_many(vec![
            ack(&locks[0], fan_out(children(&["a", "a"]))),
            ack(&locks[1], complete()),
        ])
        .await
        .must();
    assert!(answers.remove(1).must().applied);
    expect_refused(answers.remove(0), "child key");
    assert_eq!(fx.state(&locks[0].id).await, JobState::Active);
}

/// Nobody can have sent it.
async fn a_broken_report_is_refused(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let breaks: [Break<Report>; 5] = [
        (|report| report.flow_id = "".into(), "job id"),
        (|report| report.manifest = "\0".into(), "lock token"),
        (|report| report.child_key = "".into(), "child key"),
        (
            |report| report.child_key = "x".repeat(257).into(),
            "child key",
        ),
        (
            |report| report.failed_reason = Some("a\0".into()),
            "failed reason",
        ),
    ];
    for (break_it, field) in breaks {
        let mut broken = parent.report("a", Completed);
        break_it(&mut broken);
        expect_refused(fx.store.record_child_results(vec![broken]).await, field);
    }
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 0, 0));
}

/// No child's store would have taken it.
async fn a_report_with_too_large_an_exit_is_refused(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let sized = |bytes: usize| Report {
        exit: Some(json(format!("\"{}\"", "x".repeat(bytes - 2)))),
        ..parent.report("a", Completed)
    };
    let answer = fx.store.record_child_results(vec![sized(101)]).await;
    expect_refused(answer, "exit");
    assert_eq!(fx.flow_counts(&parent).await, counts(1, 0, 0, 0));
    fx.record_one(sized(100)).await;
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 1, 0, 0));
}

/// Nothing of it is written.
async fn one_broken_report_refuses_its_whole_batch(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    let batch = vec![
        parent.report("a", Completed),
        parent.report("", Completed),
        parent.report("b", Completed),
    ];
    expect_refused(fx.store.record_child_results(batch).await, "child key");
    assert_eq!(fx.flow_counts(&parent).await, counts(2, 0, 0, 0));
}

/// By each operation that names a flow.
async fn a_broken_question_is_refused(fx: Fixture) {
    let (empty, good) = (JobId::from(""), JobId::from("p"));
    let (nul, token) = (LockToken::from("\0"), LockToken::from("t"));
    let keys = child_keys(&["a"]);
    let broken: [ChildKey; 1] = ["".into()];
    let store = &fx.store;
    expect_refused(
        store.pending_children(&empty, &token, &keys).await,
        "job id",
    );
    expect_refused(
        store.pending_children(&good, &nul, &keys).await,
        "lock token",
    );
    expect_refused(
        store.pending_children(&good, &token, &broken).await,
        "child key",
    );
    let marks = async |id, token, keys| store.mark_children_cascaded(id, token, keys).await;
    expect_refused(marks(&empty, &token, &keys).await, "job id");
    expect_refused(marks(&good, &nul, &keys).await, "lock token");
    expect_refused(marks(&good, &token, &broken).await, "child key");
    let (nowhere, there) = (StoreKey::from(""), StoreKey::from("s"));
    let reports =
        async |place, id, token, keys| store.undelivered_reports(place, id, token, keys).await;
    expect_refused(reports(&nowhere, &good, &token, &keys).await, "store name");
    expect_refused(reports(&there, &empty, &token, &keys).await, "job id");
    expect_refused(reports(&there, &good, &nul, &keys).await, "lock token");
    expect_refused(reports(&there, &good, &token, &broken).await, "child key");
    expect_refused(store.list_child_results(&empty, None, None).await, "job id");
    let cursor = ChildKey::from("\0");
    let page = store.list_child_results(&good, Some(&cursor), None).await;
    expect_refused(page, "child key");
}

/// It would never end.
async fn a_sweep_of_none_is_refused(fx: Fixture) {
    expect_refused(fx.store.flow_sweep_work(ms(1), 0).await, "limit");
}

/// The longest is legal.
async fn an_age_beyond_all_time_is_refused(fx: Fixture) {
    fx.park(&["a"]).await;
    let too_long = LONGEST.saturating_add(ms(1));
    expect_refused(fx.store.flow_sweep_work(too_long, 1).await, "pending age");
    let work = fx.store.flow_sweep_work(LONGEST, 1).await.must();
    assert_eq!(work.reconcile, []);
}

/// Any other text is merely unknown.
async fn a_broken_outbox_id_is_refused(fx: Fixture) {
    let nul = OutboxId::from("1\0");
    expect_refused(fx.store.peek_outbox(Some(&nul), 1).await, "outbox id");
    expect_refused(fx.store.delete_outbox(&[nul]).await, "outbox id");
    let long = OutboxId::from("9".repeat(10_000));
    fx.store.peek_outbox(Some(&long), 1).await.must();
    fx.store.delete_outbox(&[long]).await.must();
}
