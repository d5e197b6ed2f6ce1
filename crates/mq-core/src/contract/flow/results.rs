//! A flow's children as their parent reads them.

use super::steps::{Completed, Failed, Parent, child, children, fan_out, keys, many};
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{complete, job, json};
use crate::record::{ChildResult, ChildStatus, JobState, Report};
use crate::validate::MAX_PAGE_BYTES;

cases! { __contract_flow_results, flow::results:
    children_come_in_byte_order_of_their_keys,
    pages_of_any_size_find_every_child_once,
    odd_keys_are_found_at_every_page_size,
    a_page_says_where_the_next_begins,
    the_last_page_has_no_cursor,
    without_a_limit_a_page_holds_a_thousand,
    a_limit_above_a_thousand_is_a_thousand,
    a_page_of_none_is_refused,
    a_cursor_need_not_be_a_key,
    a_cursor_past_the_end_finds_nothing,
    an_unknown_flow_has_no_children,
    a_job_that_has_not_fanned_out_has_no_children,
    a_flow_without_children_has_none,
    a_page_ends_at_eight_mebibytes,
    a_child_says_where_its_job_is,
    children_can_be_read_in_any_state_of_the_parent,
    reports_do_not_move_children,
    another_handle_reads_the_same_children,
}

/// Keys that sort differently by letter, by length, by number and by UTF-16.
const ODD: [&str; 16] = [
    "\u{1}",
    " ",
    "!",
    "10",
    "2",
    "A",
    "Z",
    "a",
    "a ",
    "a/b",
    "aa",
    "b",
    "~",
    "\u{e9}",
    "\u{ffff}",
    "\u{10ffff}",
];

fn keys_of(rows: &[ChildResult]) -> Vec<&str> {
    rows.iter().map(|row| row.key.as_str()).collect()
}

/// Pages through a flow's children.
async fn walk(fx: &Fixture, parent: &Parent, limit: u32) -> Vec<ChildResult> {
    let mut found: Vec<ChildResult> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = fx.page(parent, cursor.as_deref(), Some(limit)).await;
        assert!(page.items.len() <= limit as usize, "more than {limit}");
        found.extend(page.items);
        match page.cursor {
            None => return found,
            Some(key) => cursor = Some(key.to_string()),
        }
    }
}

/// Not in the order of the fan-out.
async fn children_come_in_byte_order_of_their_keys(fx: Fixture) {
    let shuffled: Vec<&str> = (0..16).map(|place| ODD[place * 7 % 16]).collect();
    let parent = fx.park(&shuffled).await;
    assert_eq!(keys_of(&fx.results(&parent).await), ODD);
}

/// From 1 to one more than there are.
async fn pages_of_any_size_find_every_child_once(fx: Fixture) {
    let parent = fx.park_many(7).await;
    for limit in 1..=8 {
        assert_eq!(keys_of(&walk(&fx, &parent, limit).await), keys(7));
    }
}

/// The cursor is a key, whatever is in it.
async fn odd_keys_are_found_at_every_page_size(fx: Fixture) {
    let parent = fx.park(&ODD).await;
    for limit in 1..=17 {
        assert_eq!(keys_of(&walk(&fx, &parent, limit).await), ODD);
    }
}

/// After its last key.
async fn a_page_says_where_the_next_begins(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    let page = fx.page(&parent, None, Some(2)).await;
    assert_eq!(keys_of(&page.items), ["a", "b"]);
    assert_eq!(page.cursor.as_deref(), Some("b"));
}

/// Not even if it is full.
async fn the_last_page_has_no_cursor(fx: Fixture) {
    let parent = fx.park(&["a", "b", "c"]).await;
    for limit in [3, 4] {
        assert_eq!(fx.page(&parent, None, Some(limit)).await.cursor, None);
    }
    let page = fx.page(&parent, Some("b"), Some(1)).await;
    assert_eq!((keys_of(&page.items), page.cursor), (vec!["c"], None));
}

/// That is the default.
async fn without_a_limit_a_page_holds_a_thousand(fx: Fixture) {
    let parent = fx.park_many(1_001).await;
    let page = fx.page(&parent, None, None).await;
    assert_eq!(page.items.len(), 1_000);
    let rest = fx.page(&parent, page.cursor.as_deref(), None).await;
    assert_eq!((rest.items.len(), rest.cursor), (1, None));
}

/// However much is asked for.
async fn a_limit_above_a_thousand_is_a_thousand(fx: Fixture) {
    let parent = fx.park_many(1_001).await;
    let page = fx.page(&parent, None, Some(u32::MAX)).await;
    assert_eq!(page.items.len(), 1_000);
    assert_eq!(page.cursor.as_deref(), Some("00999"));
}

/// It would never end.
async fn a_page_of_none_is_refused(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let page = fx.store.list_child_results(&parent.id, None, Some(0)).await;
    expect_refused(page, "limit");
}

/// A page begins past it all the same.
async fn a_cursor_need_not_be_a_key(fx: Fixture) {
    let parent = fx.park(&["a", "c", "e"]).await;
    let after = async |cursor: &str| {
        let page = fx.page(&parent, Some(cursor), None).await;
        page.items.len()
    };
    assert_eq!(after("b").await, 2);
    assert_eq!(after("A").await, 3);
    assert_eq!(after("c\u{1}").await, 1);
}

/// Without an error.
async fn a_cursor_past_the_end_finds_nothing(fx: Fixture) {
    let parent = fx.park(&["a", "b"]).await;
    for cursor in ["b", "z"] {
        let page = fx.page(&parent, Some(cursor), None).await;
        assert_eq!(page, Default::default());
    }
}

/// Nor has one that was removed.
async fn an_unknown_flow_has_no_children(fx: Fixture) {
    let nobody = "nobody".into();
    let page = fx.store.list_child_results(&nobody, None, None);
    assert_eq!(page.await.must(), Default::default());
}

/// Not before the fan-out has landed.
async fn a_job_that_has_not_fanned_out_has_no_children(fx: Fixture) {
    let held = fx.start(job()).await;
    let page = fx.store.list_child_results(&held.id, None, None);
    assert_eq!(page.await.must(), Default::default());
}

/// It named none.
async fn a_flow_without_children_has_none(fx: Fixture) {
    let parent = fx.park_as(job(), fan_out(Vec::new())).await;
    assert_eq!(fx.results(&parent).await, []);
}

/// By the exits of its children; all are found nevertheless.
async fn a_page_ends_at_eight_mebibytes(fx: Fixture) {
    let parent = fx.park_many(10).await;
    for key in keys(10) {
        let report = Report {
            exit: Some(json(format!("\"{}\"", "x".repeat(1_000_000)))),
            ..parent.report(key, Completed)
        };
        fx.record_one(report).await;
    }
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = fx.page(&parent, cursor.as_deref(), None).await;
        let bytes: usize = page
            .items
            .iter()
            .filter_map(|row| Some(row.exit.as_ref()?.get().len()))
            .sum();
        assert!(bytes <= MAX_PAGE_BYTES, "{bytes} bytes");
        assert!(!page.items.is_empty(), "a page holds at least one child");
        found.extend(page.items);
        match page.cursor {
            None => break,
            Some(key) => cursor = Some(key.to_string()),
        }
    }
    assert_eq!(keys_of(&found), keys(10));
}

/// Its name, its store and its id there.
async fn a_child_says_where_its_job_is(fx: Fixture) {
    let mut one = child("a");
    one.store = "elsewhere".into();
    one.job.spec.name = "send".into();
    one.job.id = Some("flow/\u{e9} 1".into());
    let parent = fx.park_as(job(), fan_out(vec![one])).await;
    let rows = fx.results(&parent).await;
    assert_eq!(rows[0].store, "elsewhere");
    assert_eq!(rows[0].name, "send");
    assert_eq!(rows[0].job_id, "flow/\u{e9} 1");
}

/// Parked, waiting, active and ended.
async fn children_can_be_read_in_any_state_of_the_parent(fx: Fixture) {
    let parent = fx.park_as(job(), fan_out(children(&["a"]))).await;
    assert_eq!(fx.statuses(&parent).await, [ChildStatus::Pending]);
    fx.record(parent.reports(&["a"], Failed)).await;
    assert_eq!(fx.statuses(&parent).await, [ChildStatus::Failed]);
    let held = fx.claim_one().await;
    assert_eq!(fx.statuses(&parent).await, [ChildStatus::Failed]);
    fx.ack(&held, complete()).await;
    assert_eq!(fx.state(&parent.id).await, JobState::Completed);
    assert_eq!(fx.statuses(&parent).await, [ChildStatus::Failed]);
}

/// A walk that goes on meanwhile finds each once.
async fn reports_do_not_move_children(fx: Fixture) {
    let parent = fx.park_as(job(), fan_out(many(6))).await;
    let first = fx.page(&parent, None, Some(3)).await;
    let reports = keys(6).into_iter().map(|key| parent.report(key, Completed));
    fx.record(reports.collect()).await;
    let rest = fx.page(&parent, first.cursor.as_deref(), Some(3)).await;
    assert_eq!(keys_of(&rest.items), keys(6)[3..]);
}

/// As a screen in another process does.
async fn another_handle_reads_the_same_children(fx: Fixture) {
    let parent = fx.park_many(3).await;
    fx.record_one(parent.report("00001", Failed)).await;
    let second = fx.second().await;
    assert_eq!(second.results(&parent).await, fx.results(&parent).await);
}
