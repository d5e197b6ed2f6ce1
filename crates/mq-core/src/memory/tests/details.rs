//! What is this store's own: drawn ids, remembered tokens, bounded looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{claim, complete, job, store};
use crate::error::StoreError;
use crate::id::JobId;
use crate::memory::MemoryStore;
use crate::record::*;
use crate::store::*;

/// A store whose ids are drawn from these, the last again and again, and how
/// many were drawn.
fn drawing(ids: &'static [&'static str]) -> (MemoryStore, Arc<AtomicUsize>) {
    let draws = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&draws);
    let draw = move || {
        let draw = counted.fetch_add(1, Ordering::SeqCst);
        JobId::from(ids[draw.min(ids.len() - 1)])
    };
    let store = MemoryStore::builder().id_generator(Arc::new(draw)).build();
    (store, draws)
}

#[tokio::test]
async fn a_drawn_id_that_is_taken_is_drawn_again_within_the_batch() {
    let (store, draws) = drawing(&["x", "x", "y", "z"]);
    let mut given = job("a", "q");
    given.id = Some("x".into());
    let batch = vec![given, job("a", "q"), job("a", "q")];
    let enqueued = store.enqueue_many(batch).await.unwrap();
    assert!(enqueued.iter().all(|job| !job.duplicate));
    let ids: Vec<_> = enqueued.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["x", "y", "z"]);
    assert_eq!(draws.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn after_five_more_draws_a_generator_that_repeats_itself_is_reported() {
    let (store, draws) = drawing(&["x"]);
    store.enqueue(job("a", "q")).await.unwrap();
    let refused = store.enqueue(job("a", "q")).await.unwrap_err();
    assert!(matches!(refused, StoreError::IdsTaken { tries: 6, last } if last == "x"));
    assert_eq!(draws.load(Ordering::SeqCst), 1 + 6);
}

#[tokio::test]
async fn a_drawn_id_that_breaks_a_rule_is_refused_and_nothing_is_written() {
    let (store, _) = drawing(&["x", ""]);
    let refused = store.enqueue_many(vec![job("a", "q"), job("a", "q")]).await;
    assert!(matches!(refused, Err(StoreError::InvalidInput(_))));
    assert_eq!(store.counts(None).await.unwrap().total(), 0);
}

#[tokio::test]
async fn a_broken_id_that_is_drawn_late_is_no_refusal_since_others_are_written() {
    let (store, _) = drawing(&["x", "x", ""]);
    let error = store.enqueue_many(vec![job("a", "q"), job("a", "q")]).await;
    assert!(
        matches!(error, Err(StoreError::Backend { .. })),
        "{error:?}"
    );
    assert_eq!(store.counts(None).await.unwrap().total(), 1);
}

#[tokio::test]
async fn durations_are_stored_in_whole_milliseconds() {
    let (store, _) = store();
    let (given, stored) = (Duration::from_nanos(1_500_001), Duration::from_millis(2));
    let mut new = job("a", "q");
    new.spec.timeout = Some(given);
    new.spec.backoff = Some(Backoff::exponential(given).max(given));
    new.spec.keep = Some(Keep::all(Retention::age(given)));
    let schedule = NewSchedule {
        key: "s".into(),
        cadence: Cadence::Every(given),
        spec: new.spec.clone(),
        group: None,
        next_run_at: store.now().await.unwrap(),
    };
    let id = store.enqueue(new).await.unwrap().id;
    let spec = store.get_job(&id).await.unwrap().unwrap().spec;
    assert_eq!(spec.timeout, Some(stored));
    assert_eq!(spec.backoff, Some(Backoff::exponential(stored).max(stored)));
    assert_eq!(spec.keep, Some(Keep::all(Retention::age(stored))));
    let schedule = store.upsert_schedule(schedule).await.unwrap();
    assert_eq!(schedule.cadence, Cadence::Every(stored));
    assert_eq!(schedule.spec, spec);
}

#[tokio::test]
async fn a_token_is_remembered_while_it_holds_a_lock_and_for_a_minute() {
    let (store, clock) = store();
    let enqueued = store.enqueue_many(vec![job("a", "q"); 3]).await.unwrap();
    let mut request = claim("q", 1);
    request.lock_for = Duration::from_secs(3_600);
    store.claim(request.clone()).await.unwrap();
    for _ in 0..5 {
        clock.advance(Duration::from_secs(61));
        store.claim(claim("other", 1)).await.unwrap();
    }
    let again = store.claim(request.clone()).await.unwrap().jobs;
    assert_eq!(again[0].id, enqueued[0].id);
    let lock = Lock {
        id: enqueued[0].id.clone(),
        token: request.token.clone(),
    };
    store.ack(complete(lock)).await.unwrap();
    assert!(store.claim(request.clone()).await.unwrap().jobs.is_empty());
    clock.advance(Duration::from_secs(121));
    store.sweep_history(250).await.unwrap();
    let stray = store.claim(request).await.unwrap().jobs;
    assert_eq!(stray[0].id, enqueued[1].id);
}

#[tokio::test]
async fn tokens_that_hold_nothing_do_not_pile_up() {
    let (store, _) = store();
    for _ in 0..50_100 {
        store.claim(claim("q", 1)).await.unwrap();
    }
    assert!(store.shared.state.lock().tokens.len() <= 50_001);
}

#[tokio::test]
async fn a_queue_that_is_full_names_no_time_to_ask_again() {
    let (store, _) = store();
    let settings = QueueSettings {
        max_active: Change::Set(1),
        rate: Change::Set(Rate {
            count: 100,
            per: Duration::from_secs(1),
        }),
        ..QueueSettings::default()
    };
    store.set_queue(&"q".into(), settings).await.unwrap();
    store.enqueue_many(vec![job("a", "q"); 3]).await.unwrap();
    let first = store.claim(claim("q", 3)).await.unwrap();
    assert_eq!((first.jobs.len(), first.next_run_at), (1, None));
}

#[tokio::test]
async fn a_cursor_is_taken_only_in_the_words_it_was_given_in() {
    let (store, _) = store();
    store
        .enqueue_many(vec![job("a", "q"), job("a", "q")])
        .await
        .unwrap();
    let from = |cursor| ListFilter {
        limit: Some(1),
        cursor,
        ..ListFilter::default()
    };
    let ListCursor(given) = store.list(from(None)).await.unwrap().cursor.unwrap();
    for number in ["+1", "01"] {
        let other = ListCursor(given.replacen('1', number, 1));
        let refused = store.list(from(Some(other))).await;
        assert!(matches!(refused, Err(StoreError::InvalidInput(_))));
    }
    let rest = store.list(from(Some(ListCursor(given)))).await.unwrap();
    assert_eq!((rest.items.len(), rest.cursor), (1, None));
}

#[tokio::test]
async fn a_filter_that_hardly_matches_gives_short_pages_that_go_on() {
    let (store, _) = store();
    let ids = store
        .enqueue_many(vec![job("a", "q"); 25_000])
        .await
        .unwrap();
    store.cancel(&ids[0].id).await.unwrap();
    let mut filter = ListFilter {
        states: Some(vec![JobState::Cancelled]),
        ..ListFilter::default()
    };
    let (mut calls, mut found) = (0, Vec::new());
    loop {
        let page = store.list(filter.clone()).await.unwrap();
        calls += 1;
        found.extend(page.items.into_iter().map(|job| job.id));
        match page.cursor {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(found, [ids[0].id.clone()]);
    assert_eq!(calls, 3);
    filter.cursor = None;
    filter.states = Some(Vec::new());
    let nothing = store.list(filter).await.unwrap();
    assert!(nothing.items.is_empty() && nothing.cursor.is_none());
}

#[tokio::test]
async fn one_page_of_ends_removes_250_jobs_and_later_ones_go_on() {
    let (store, _) = store();
    let ids = store.enqueue_many(vec![job("a", "q"); 600]).await.unwrap();
    let ids: Vec<_> = ids.into_iter().map(|job| job.id).collect();
    store.cancel_many(&ids).await.unwrap();
    for left in [350 + 1, 100 + 2, 2, 2] {
        let mut last = job("a", "q");
        last.spec.keep = Some(Keep::all(Retention::count(2)));
        let id = store.enqueue(last).await.unwrap().id;
        store.cancel(&id).await.unwrap();
        assert_eq!(store.counts(None).await.unwrap().cancelled, left);
    }
}

#[tokio::test]
async fn a_keep_that_could_not_act_on_a_watched_job_acts_a_minute_later() {
    let (store, clock) = store();
    let mut first = job("a", "q");
    first.spec.keep = Some(Keep::all(Retention {
        count: Some(1),
        age: Some(Duration::from_secs(90)),
    }));
    let id = store.enqueue(first.clone()).await.unwrap().id;
    store.watch(std::slice::from_ref(&id)).await.unwrap();
    store.cancel(&id).await.unwrap();
    let second = store.enqueue(first).await.unwrap().id;
    store.cancel(&second).await.unwrap();
    let left = async || store.get_job(&id).await.unwrap().is_some();
    clock.advance(Duration::from_millis(59_999));
    assert_eq!(store.sweep_history(250).await.unwrap(), Swept::default());
    assert!(left().await, "it is spared for 60 s");
    clock.advance(Duration::from_millis(1));
    let swept = store.sweep_history(250).await.unwrap();
    assert_eq!(
        swept,
        Swept {
            deleted: 1,
            more: false
        }
    );
    assert!(!left().await, "it is beyond the count");
    clock.advance(Duration::from_secs(30));
    assert_eq!(store.sweep_history(250).await.unwrap().deleted, 1);
    assert_eq!(store.counts(None).await.unwrap().total(), 0);
}
