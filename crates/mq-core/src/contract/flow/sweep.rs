//! The sweep, reconcile: children that have been pending for long.

use super::steps::{AGE, CHILDREN, Completed, child, fan_out, keys, many, to_look_for};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, job, json, ms};
use crate::record::{Backoff, FlowChild, Keep, NewJob, ParentEnvelope, Retention, TraceContext};
use crate::store::{FlowSweepWork, ReconcileRow};
use crate::validate::MAX_PAGE_BYTES;

cases! { __contract_flow_sweep, flow::sweep:
    without_flows_there_is_nothing_to_sweep,
    a_child_is_due_once_it_was_pending_for_the_age,
    an_age_of_zero_is_legal,
    each_call_says_for_itself_how_old_is_old,
    a_row_comes_with_all_it_takes_to_enqueue_the_child,
    specs_come_byte_for_byte,
    a_row_that_was_given_out_rests_for_another_age,
    a_settled_child_is_not_due,
    a_child_of_a_parent_that_went_on_is_not_due,
    a_page_holds_no_more_than_its_limit_and_says_whether_more_remain,
    a_limit_above_250_is_250,
    a_sweep_in_pages_of_any_size_finds_every_row_once,
    a_sweep_finds_the_rows_of_every_flow_once,
    flows_of_one_child_each_are_swept_to_the_last,
    the_rows_of_a_flow_come_in_the_order_of_their_keys,
    a_giant_flow_does_not_starve_a_small_one,
    rows_take_turns_within_a_flow,
    flows_take_turns_when_only_one_row_is_swept_at_a_time,
    a_page_of_specs_ends_at_eight_mebibytes,
    a_removed_parent_has_nothing_to_sweep,
    another_handle_finds_nothing_that_was_given_out,
}

/// And says that no more remains.
async fn without_flows_there_is_nothing_to_sweep(fx: Fixture) {
    fx.enqueue(job()).await;
    fx.advance(1_000_000);
    assert_eq!(fx.sweep_page(0, 250).await, FlowSweepWork::default());
}

/// At the age itself, not a millisecond before.
async fn a_child_is_due_once_it_was_pending_for_the_age(fx: Fixture) {
    fx.park(&["a"]).await;
    fx.advance(AGE - 1);
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
    fx.advance(1);
    assert_eq!(to_look_for(&fx.sweep().await.reconcile), ["a"]);
}

/// Whatever is pending is due at once.
async fn an_age_of_zero_is_legal(fx: Fixture) {
    fx.park(&["a"]).await;
    let work = fx.sweep_page(0, 250).await;
    assert_eq!(to_look_for(&work.reconcile), ["a"]);
}

/// A sweeper in a hurry does not wait for those that are not.
async fn each_call_says_for_itself_how_old_is_old(fx: Fixture) {
    fx.park(&["a"]).await;
    fx.advance(100);
    assert_eq!(fx.sweep_page(101, 250).await, FlowSweepWork::default());
    let work = fx.sweep_page(100, 250).await;
    assert_eq!(to_look_for(&work.reconcile), ["a"]);
}

/// A child that has everything a request can have.
fn full(key: &str, manifest: &str) -> FlowChild {
    let job = job()
        .id(format!("flow/{key}"))
        .name("child")
        .queue("elsewhere")
        .payload(r#"{"n": 12345678901234567890}"#)
        .label("tenant", "t \u{1f980}")
        .priority(i32::MIN);
    let mut job = NewJob {
        trace: Some(TraceContext {
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            span_id: "b7ad6b7169203331".into(),
            sampled: true,
            delayed: false,
        }),
        parent: Some(ParentEnvelope {
            flow_name: "digest".into(),
            flow_id: "p".into(),
            manifest: manifest.into(),
            child_key: key.into(),
            parent_store: "parents".into(),
            depth: 3,
        }),
        ..job
    };
    job.spec.attempts_max = 7;
    job.spec.backoff = Some(Backoff::Exponential {
        delay: ms(1_500),
        factor: 2.5,
        max: Some(ms(60_000)),
        jitter: Some(0.25),
    });
    job.spec.keep = Some(Keep::all(Retention::count(3)));
    job.spec.timeout = Some(ms(45_000));
    FlowChild {
        key: key.into(),
        store: "ephemeral".into(),
        job,
    }
}

/// The request is the one the fan-out named, field by field.
async fn a_row_comes_with_all_it_takes_to_enqueue_the_child(fx: Fixture) {
    let children = vec![full("a", "m"), child("b"), full("c/\u{e9} ", "m")];
    let parent = fx.park_as(job(), fan_out(children.clone())).await;
    fx.advance(AGE);
    let found = fx.sweep().await.reconcile;
    let expected: Vec<_> = children
        .into_iter()
        .map(|child| ReconcileRow {
            flow_id: parent.id.clone(),
            manifest: parent.lock().token,
            child,
        })
        .collect();
    assert_eq!(found, expected);
}

/// As payloads do everywhere.
async fn specs_come_byte_for_byte(fx: Fixture) {
    let texts = [
        "12345678901234567890",
        "1e400",
        "-0.0",
        "[]",
        "{}",
        r#"{ "a" : 1, "a" : 2 }"#,
        r#""\ud800 \u0000 \u00e9""#,
        "\"\u{1f980}\"",
    ];
    let children = keys(texts.len()).into_iter().zip(texts).map(|(key, text)| {
        let mut child = child(&key);
        child.job.spec.payload = json(text);
        child
    });
    fx.park_as(job(), fan_out(children.collect())).await;
    fx.advance(AGE);
    let found = fx.sweep().await.reconcile;
    let payloads: Vec<_> = found
        .iter()
        .map(|row| row.child.job.spec.payload.get())
        .collect();
    assert_eq!(payloads, texts);
}

/// Again and again, as long as it is pending.
async fn a_row_that_was_given_out_rests_for_another_age(fx: Fixture) {
    fx.park(&["a"]).await;
    for _ in 0..3 {
        fx.advance(AGE - 1);
        assert_eq!(fx.sweep().await, FlowSweepWork::default());
        fx.advance(1);
        assert_eq!(to_look_for(&fx.sweep().await.reconcile), ["a"]);
        assert_eq!(fx.sweep().await, FlowSweepWork::default());
    }
}

/// Its result is known.
async fn a_settled_child_is_not_due(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    fx.record_one(parent.report("b", Completed)).await;
    fx.advance(AGE);
    assert_eq!(to_look_for(&fx.sweep().await.reconcile), ["a", "c"]);
    fx.record_one(parent.report("a", Completed)).await;
    fx.advance(AGE);
    assert_eq!(to_look_for(&fx.sweep().await.reconcile), ["c"]);
}

/// Only a parked parent has pending children.
async fn a_child_of_a_parent_that_went_on_is_not_due(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    fx.record(parent.reports(&["a", "b"], Completed)).await;
    fx.advance(1_000_000);
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
    fx.claim_one().await;
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
}

/// What does not fit comes with the next page.
async fn a_page_holds_no_more_than_its_limit_and_says_whether_more_remain(fx: Fixture) {
    fx.park_many(5).await;
    fx.advance(AGE);
    let mut found = Vec::new();
    while found.len() < 5 {
        let work = fx.sweep_page(AGE, 2).await;
        assert!(work.reconcile.len() <= 2, "{} rows", work.reconcile.len());
        found.extend(to_look_for(&work.reconcile));
        assert!(work.more || found.len() == 5, "{} of 5 rows", found.len());
    }
    found.sort_unstable();
    assert_eq!(found, keys(5));
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
}

/// However much is asked for.
async fn a_limit_above_250_is_250(fx: Fixture) {
    fx.park_many(300).await;
    fx.advance(AGE);
    let work = fx.sweep_page(AGE, 1_000).await;
    assert!(work.reconcile.len() <= 250, "{} rows", work.reconcile.len());
    assert!(work.more);
    let rest = fx.sweep().await.reconcile;
    assert_eq!(work.reconcile.len() + rest.len(), 300);
}

/// No row twice, none left out.
async fn a_sweep_in_pages_of_any_size_finds_every_row_once(fx: Fixture) {
    fx.park_many(11).await;
    for limit in 1..=12 {
        fx.advance(AGE);
        let found = fx.sweep_in_pages_of(limit).await.reconcile;
        assert_eq!(to_look_for(&found), keys(11), "in pages of {limit}");
    }
}

/// Under the same keys, too.
async fn a_sweep_finds_the_rows_of_every_flow_once(fx: Fixture) {
    let mut expected = Vec::new();
    for size in [1, 300, 2, 7] {
        let parent = fx.park_many(size).await;
        expected.extend(keys(size).into_iter().map(|key| (parent.id.clone(), key)));
    }
    expected.sort_unstable();
    for limit in [3, 250] {
        fx.advance(AGE);
        let rows = fx.sweep_in_pages_of(limit).await.reconcile;
        let mut found: Vec<_> = rows
            .into_iter()
            .map(|row| (row.flow_id, row.child.key.to_string()))
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "in pages of {limit}");
    }
}

/// Open ones and closed ones, at every page size.
async fn flows_of_one_child_each_are_swept_to_the_last(fx: Fixture) {
    let mut ids = Vec::new();
    for place in 0..14 {
        let parent = fx.park(&["a"]).await;
        if place % 2 == 1 {
            fx.store.cancel(&parent.id).await.must();
        }
        ids.push(parent.id);
    }
    ids.sort_unstable();
    for limit in 1..=8 {
        fx.advance(AGE);
        let work = fx.sweep_in_pages_of(limit).await;
        let looked_for = work.reconcile.into_iter().map(|row| row.flow_id);
        let cancelled = work.cascade.into_iter().map(|row| row.flow_id);
        let mut found: Vec<_> = looked_for.chain(cancelled).collect();
        found.sort_unstable();
        assert_eq!(found, ids, "in pages of {limit}");
    }
}

/// In each page, and flow by flow.
async fn the_rows_of_a_flow_come_in_the_order_of_their_keys(fx: Fixture) {
    fx.park(&["b", "a", "\u{e9}", "Z", "aa"]).await;
    fx.park(&["2", "10", "1"]).await;
    fx.advance(AGE);
    let rows = fx.sweep_page(AGE, 250).await.reconcile;
    let found: Vec<_> = rows
        .iter()
        .map(|row| (&row.flow_id, &row.child.key))
        .collect();
    let groups: Vec<_> = found.chunk_by(|one, next| one.0 == next.0).collect();
    assert_eq!(groups.len(), 2, "the rows of a flow come together");
    for group in groups {
        assert!(group.is_sorted_by_key(|(_, key)| key.as_str()), "{group:?}");
    }
}

/// It is served long before the giant is through.
async fn a_giant_flow_does_not_starve_a_small_one(fx: Fixture) {
    fx.park_many(1_000).await;
    fx.advance(1);
    let small = fx.park(&["small"]).await;
    fx.advance(AGE);
    for _ in 0..10 {
        let work = fx.sweep_page(AGE, 20).await;
        if work.reconcile.iter().any(|row| row.flow_id == small.id) {
            return;
        }
    }
    panic!("200 of the giant's 1,000 rows came, and none of the small flow's");
}

/// A sweeper that handles two rows at a time gets to all of them.
async fn rows_take_turns_within_a_flow(fx: Fixture) {
    fx.park_many(6).await;
    let mut found = Vec::new();
    for _ in 0..3 {
        fx.advance(AGE);
        found.extend(to_look_for(&fx.sweep_page(AGE, 2).await.reconcile));
    }
    found.sort_unstable();
    assert_eq!(found, keys(6));
}

/// With every row of every flow due at each sweep.
async fn flows_take_turns_when_only_one_row_is_swept_at_a_time(fx: Fixture) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(fx.park_many(5).await.id);
    }
    let mut served = Vec::new();
    for _ in 0..12 {
        fx.advance(AGE);
        let work = fx.sweep_page(AGE, 1).await;
        served.extend(work.reconcile.into_iter().map(|row| row.flow_id));
    }
    for id in ids {
        assert!(served.contains(&id), "{id:?} was not served: {served:?}");
    }
}

/// By the payloads of its rows; a sweep finds them all nevertheless.
async fn a_page_of_specs_ends_at_eight_mebibytes(fx: Fixture) {
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    let children = keys(10).into_iter().map(|key| {
        let mut child = child(&key);
        child.job.spec.payload = json(large.as_str());
        child
    });
    fx.park_as(job(), fan_out(children.collect())).await;
    fx.advance(AGE);
    let mut found = Vec::new();
    loop {
        let work = fx.sweep_page(AGE, 250).await;
        let bytes: usize = work
            .reconcile
            .iter()
            .map(|row| row.child.job.spec.payload.get().len())
            .sum();
        assert!(bytes <= MAX_PAGE_BYTES, "{bytes} bytes");
        found.extend(to_look_for(&work.reconcile));
        if !work.more {
            break;
        }
    }
    found.sort_unstable();
    assert_eq!(found, keys(10));
}

/// Its rows are gone the moment it is.
async fn a_removed_parent_has_nothing_to_sweep(fx: Fixture) {
    let parent = fx.park_as(job(), fan_out(many(300))).await;
    fx.store.cancel(&parent.id).await.must();
    assert!(fx.store.remove(&parent.id).await.must());
    fx.advance(AGE);
    let work = fx.sweep().await;
    assert_eq!((work.reconcile, work.cascade), (vec![], vec![]));
}

/// The rest is the store's, not the sweeper's.
async fn another_handle_finds_nothing_that_was_given_out(fx: Fixture) {
    fx.park(&["a", "b"]).await;
    fx.advance(AGE);
    let second = fx.second().await;
    assert_eq!(fx.sweep().await.reconcile.len(), 2);
    assert_eq!(second.sweep().await, FlowSweepWork::default());
    fx.advance(AGE);
    let rows = second.sweep().await.reconcile;
    assert!(rows.iter().all(|row| row.child.store == CHILDREN));
    assert_eq!(rows.len(), 2);
    assert_eq!(fx.sweep().await, FlowSweepWork::default());
}
