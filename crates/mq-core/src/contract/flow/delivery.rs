//! Delivery: how reports are read and deleted.

use super::steps::{about, child_job, child_keys, envelope, keys};
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{complete, fail, json};
use crate::id::{JobId, LockToken, OutboxId, StoreKey};
use crate::record::OutboxEntry;
use crate::store::{AckOutcome, OutboxPage};
use crate::validate::MAX_PAGE_BYTES;

cases! { __contract_flow_delivery, flow::delivery:
    an_empty_outbox_has_an_empty_page,
    reports_come_oldest_first,
    a_page_holds_as_many_as_its_limit_and_says_whether_more_remain,
    a_page_that_ends_with_the_outbox_says_so,
    a_limit_above_a_thousand_is_a_thousand,
    a_page_of_none_is_refused,
    reading_takes_nothing_away,
    pages_of_any_size_find_every_report_once,
    a_page_goes_on_past_an_entry,
    a_page_goes_on_past_a_deleted_entry,
    a_page_goes_on_past_the_last_entry,
    a_report_that_came_meanwhile_is_found_further_on,
    an_id_that_was_never_issued_counts_as_unset,
    another_spelling_of_an_id_counts_as_unset,
    a_deleted_report_is_gone,
    a_delete_leaves_the_others,
    a_repeated_delete_does_nothing,
    a_delete_of_unknown_ids_does_nothing,
    a_delete_of_another_spelling_does_nothing,
    more_reports_than_a_page_can_be_deleted,
    no_ids_delete_nothing,
    ids_are_not_issued_again,
    a_page_ends_at_eight_mebibytes,
    undelivered_reports_are_found_by_their_child,
    undelivered_reports_are_those_of_one_manifest_of_one_flow_of_one_store,
    undelivered_reports_come_by_key_then_oldest_first,
    a_delivered_report_is_not_undelivered,
    more_children_than_a_page_can_be_looked_up,
    another_handle_sees_the_same_outbox,
}

/// Not the first `count` entries: ids of entries.
fn ids(entries: &[OutboxEntry]) -> Vec<OutboxId> {
    entries.iter().map(|entry| entry.id.clone()).collect()
}

async fn peek(fx: &Fixture, after: Option<&OutboxId>, limit: u32) -> OutboxPage {
    fx.store.peek_outbox(after, limit).await.must()
}

/// Nothing is to be delivered.
async fn an_empty_outbox_has_an_empty_page(fx: Fixture) {
    assert_eq!(peek(&fx, None, 10).await, OutboxPage::default());
    assert_eq!(fx.undelivered(&["a"]).await, []);
}

/// By when the children ended, not by key or flow.
async fn reports_come_oldest_first(fx: Fixture) {
    for key in ["c", "a", "b"] {
        fx.end_child(key, complete()).await;
        fx.advance(1);
    }
    assert_eq!(about(&fx.outbox().await), ["c", "a", "b"]);
}

/// The oldest, as many as fit.
async fn a_page_holds_as_many_as_its_limit_and_says_whether_more_remain(fx: Fixture) {
    let all = fx.end_children(5).await;
    let page = peek(&fx, None, 2).await;
    assert_eq!((page.entries, page.more), (all[..2].to_vec(), true));
}

/// At its limit, too.
async fn a_page_that_ends_with_the_outbox_says_so(fx: Fixture) {
    let all = fx.end_children(4).await;
    for limit in [4, 5] {
        let page = peek(&fx, None, limit).await;
        assert_eq!((page.entries, page.more), (all.clone(), false));
    }
}

/// However much is asked for.
async fn a_limit_above_a_thousand_is_a_thousand(fx: Fixture) {
    fx.end_children(1_001).await;
    let page = peek(&fx, None, u32::MAX).await;
    assert_eq!((page.entries.len(), page.more), (1_000, true));
}

/// It would never end.
async fn a_page_of_none_is_refused(fx: Fixture) {
    expect_refused(fx.store.peek_outbox(None, 0).await, "limit");
}

/// Only a delete does.
async fn reading_takes_nothing_away(fx: Fixture) {
    let all = fx.end_children(3).await;
    assert_eq!(fx.outbox().await, all);
    fx.undelivered(&["00000"]).await;
    assert_eq!(fx.outbox().await, all);
}

/// None twice, none left out.
async fn pages_of_any_size_find_every_report_once(fx: Fixture) {
    let all = fx.end_children(7).await;
    assert_eq!(all.len(), 7);
    for limit in 1..=8 {
        let mut found: Vec<OutboxEntry> = Vec::new();
        loop {
            let last = found.last().map(|entry| entry.id.clone());
            let page = peek(&fx, last.as_ref(), limit).await;
            assert!(page.entries.len() <= limit as usize);
            found.extend(page.entries);
            if !page.more {
                break;
            }
        }
        assert_eq!(found, all, "in pages of {limit}");
    }
}

/// With the next one.
async fn a_page_goes_on_past_an_entry(fx: Fixture) {
    let all = fx.end_children(4).await;
    let page = peek(&fx, Some(&all[1].id), 10).await;
    assert_eq!((page.entries, page.more), (all[2..].to_vec(), false));
}

/// A relay deletes what it has delivered while it reads on.
async fn a_page_goes_on_past_a_deleted_entry(fx: Fixture) {
    let all = fx.end_children(5).await;
    fx.store.delete_outbox(&ids(&all[1..3])).await.must();
    assert_eq!(fx.outbox_after(Some(&all[2].id)).await, all[3..]);
    assert_eq!(fx.outbox_after(Some(&all[1].id)).await, all[3..]);
}

/// To nothing.
async fn a_page_goes_on_past_the_last_entry(fx: Fixture) {
    let all = fx.end_children(2).await;
    let last = &all[1].id;
    assert_eq!(peek(&fx, Some(last), 10).await, OutboxPage::default());
    fx.store.delete_outbox(&ids(&all)).await.must();
    assert_eq!(peek(&fx, Some(last), 10).await, OutboxPage::default());
}

/// Behind what was read.
async fn a_report_that_came_meanwhile_is_found_further_on(fx: Fixture) {
    let all = fx.end_children(3).await;
    fx.end_child("new", complete()).await;
    let found = fx.outbox_after(Some(&all[2].id)).await;
    assert_eq!(about(&found), ["new"]);
}

/// It is read from the beginning.
async fn an_id_that_was_never_issued_counts_as_unset(fx: Fixture) {
    let all = fx.end_children(2).await;
    let strangers = [
        "",
        "no such entry",
        "-1",
        "0",
        "999999999",
        "99999999999999999999999999",
        "9223372036854775807",
        "\u{1f980}",
    ];
    for stranger in strangers {
        let after = OutboxId::from(stranger);
        assert_eq!(
            fx.outbox_after(Some(&after)).await,
            all,
            "after {stranger:?}"
        );
    }
}

/// Texts that look much like an id.
fn spellings(id: &OutboxId) -> Vec<OutboxId> {
    let spellings = [
        format!(" {id}"),
        format!("{id} "),
        format!("0{id}"),
        format!("+{id}"),
        format!("{id}.0"),
        format!("{id}e0"),
        format!("{id}\n"),
        id.to_uppercase(),
        id.to_lowercase(),
    ];
    let others = spellings.into_iter().map(OutboxId::from);
    others.filter(|other| other != id).collect()
}

/// Only the id itself is an id.
async fn another_spelling_of_an_id_counts_as_unset(fx: Fixture) {
    let all = fx.end_children(2).await;
    for other in spellings(&all[0].id) {
        assert_eq!(fx.outbox_after(Some(&other)).await, all, "after {other:?}");
    }
}

/// For good.
async fn a_deleted_report_is_gone(fx: Fixture) {
    let all = fx.end_children(2).await;
    fx.store.delete_outbox(&ids(&all)).await.must();
    assert_eq!(fx.outbox().await, []);
}

/// Whichever they are.
async fn a_delete_leaves_the_others(fx: Fixture) {
    let all = fx.end_children(4).await;
    let delivered = [all[2].id.clone(), all[0].id.clone()];
    fx.store.delete_outbox(&delivered).await.must();
    assert_eq!(fx.outbox().await, [all[1].clone(), all[3].clone()]);
}

/// Its reply was lost.
async fn a_repeated_delete_does_nothing(fx: Fixture) {
    let all = fx.end_children(2).await;
    let delivered = [all[0].id.clone(), all[0].id.clone()];
    for _ in 0..2 {
        fx.store.delete_outbox(&delivered).await.must();
        assert_eq!(fx.outbox().await, all[1..]);
    }
}

/// Another relay was faster.
async fn a_delete_of_unknown_ids_does_nothing(fx: Fixture) {
    let all = fx.end_children(2).await;
    let strangers = [
        "",
        "no such entry",
        "-1",
        "0",
        "999999999",
        "99999999999999999999999999",
    ];
    let strangers = strangers.map(OutboxId::from);
    fx.store.delete_outbox(&strangers).await.must();
    assert_eq!(fx.outbox().await, all);
    let mixed = [OutboxId::from("no such entry"), all[1].id.clone()];
    fx.store.delete_outbox(&mixed).await.must();
    assert_eq!(fx.outbox().await, all[..1]);
}

/// It never mistakes another spelling for a live one.
async fn a_delete_of_another_spelling_does_nothing(fx: Fixture) {
    let all = fx.end_children(2).await;
    fx.store.delete_outbox(&spellings(&all[0].id)).await.must();
    assert_eq!(fx.outbox().await, all);
}

/// In one call.
async fn more_reports_than_a_page_can_be_deleted(fx: Fixture) {
    let all = fx.end_children(600).await;
    fx.store.delete_outbox(&ids(&all[..599])).await.must();
    assert_eq!(fx.outbox().await, all[599..]);
}

/// An empty batch is legal.
async fn no_ids_delete_nothing(fx: Fixture) {
    let all = fx.end_children(1).await;
    fx.store.delete_outbox(&[]).await.must();
    assert_eq!(fx.outbox().await, all);
}

/// Not even if the outbox was empty in between.
async fn ids_are_not_issued_again(fx: Fixture) {
    let first = fx.end_children(1).await;
    fx.store.delete_outbox(&ids(&first)).await.must();
    fx.end_child("new", complete()).await;
    let new = fx.outbox().await;
    assert_ne!(new[0].id, first[0].id);
    assert_eq!(fx.outbox_after(Some(&first[0].id)).await, new);
    fx.store.delete_outbox(&ids(&first)).await.must();
    assert_eq!(fx.outbox().await, new);
}

/// By the exits of its reports; all are found nevertheless.
async fn a_page_ends_at_eight_mebibytes(fx: Fixture) {
    let exit = Some(json(format!("\"{}\"", "x".repeat(1_000_000))));
    for key in keys(10) {
        let exit = exit.clone();
        fx.end_child(&key, AckOutcome::Complete { exit }).await;
    }
    let mut found: Vec<OutboxEntry> = Vec::new();
    loop {
        let last = found.last().map(|entry| entry.id.clone());
        let page = peek(&fx, last.as_ref(), 1_000).await;
        let bytes: usize = page
            .entries
            .iter()
            .filter_map(|entry| Some(entry.report.exit.as_ref()?.get().len()))
            .sum();
        assert!(bytes <= MAX_PAGE_BYTES, "{bytes} bytes");
        assert!(!page.entries.is_empty(), "a page holds at least one report");
        found.extend(page.entries);
        if !page.more {
            break;
        }
    }
    assert_eq!(about(&found), keys(10));
}

/// That is how a sweeper knows that a missing child has ended.
async fn undelivered_reports_are_found_by_their_child(fx: Fixture) {
    for key in ["a", "b", "c"] {
        fx.end_child(key, complete()).await;
    }
    let all = fx.outbox().await;
    assert_eq!(fx.undelivered(&["b"]).await, all[1..2]);
    assert_eq!(
        fx.undelivered(&["c", "x", "a"]).await,
        [all[0].clone(), all[2].clone()]
    );
    assert_eq!(fx.undelivered(&["x", "A", "a "]).await, []);
    assert_eq!(fx.undelivered(&[]).await, []);
}

/// The same key under another parent is another child.
async fn undelivered_reports_are_those_of_one_manifest_of_one_flow_of_one_store(fx: Fixture) {
    let changes: [fn(&mut crate::record::ParentEnvelope); 4] = [
        |_| {},
        |envelope| envelope.parent_store = "parents 2".into(),
        |envelope| envelope.flow_id = "parent 2".into(),
        |envelope| envelope.manifest = "manifest 2".into(),
    ];
    for change in changes {
        let mut child = child_job("a");
        child.parent.iter_mut().for_each(change);
        fx.finish(child, complete()).await;
    }
    let all = fx.outbox().await;
    assert_eq!(fx.undelivered(&["a"]).await, all[..1]);
    for (place, change) in changes.into_iter().enumerate() {
        let mut asked = envelope("a");
        change(&mut asked);
        let found = fx
            .store
            .undelivered_reports(
                &asked.parent_store,
                &asked.flow_id,
                &asked.manifest,
                &child_keys(&["a"]),
            )
            .await
            .must();
        assert_eq!(found, all[place..=place]);
    }
    let none = fx
        .store
        .undelivered_reports(
            &StoreKey::from("nobody"),
            &JobId::from("parent"),
            &LockToken::from("manifest"),
            &child_keys(&["a"]),
        )
        .await;
    assert_eq!(none.must(), []);
}

/// Each once, however they are asked for; two of one child if it was retried.
async fn undelivered_reports_come_by_key_then_oldest_first(fx: Fixture) {
    fx.end_child("b", complete()).await;
    let retried = fx.end_child("a", fail()).await;
    fx.store.retry(&retried).await.must();
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    let all = fx.outbox().await;
    let expected = [all[1].clone(), all[2].clone(), all[0].clone()];
    assert_eq!(fx.undelivered(&["b", "a", "b"]).await, expected);
}

/// Once it is deleted.
async fn a_delivered_report_is_not_undelivered(fx: Fixture) {
    let all = fx.end_children(2).await;
    fx.store.delete_outbox(&ids(&all[..1])).await.must();
    assert_eq!(fx.undelivered(&["00000", "00001"]).await, all[1..]);
}

/// In one call.
async fn more_children_than_a_page_can_be_looked_up(fx: Fixture) {
    fx.end_children(300).await;
    let asked = keys(600);
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    assert_eq!(about(&fx.undelivered(&asked).await), keys(300));
}

/// Ids included.
async fn another_handle_sees_the_same_outbox(fx: Fixture) {
    let all = fx.end_children(3).await;
    let second = fx.second().await;
    assert_eq!(second.outbox().await, all);
    second.store.delete_outbox(&ids(&all[..1])).await.must();
    assert_eq!(fx.outbox().await, all[1..]);
    assert_eq!(second.outbox_after(Some(&all[0].id)).await, all[1..]);
}
