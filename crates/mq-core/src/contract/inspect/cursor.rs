//! List: cursors, and what happens between two pages.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::jobs;
use crate::contract::steps::ids;
use crate::store::{Direction, ListCursor, ListFilter};

cases! { __contract_inspect_cursor, inspect::cursor:
    a_walk_goes_on_when_the_job_at_its_cursor_is_gone,
    a_walk_is_not_disturbed_by_new_jobs_behind_it,
    a_cursor_works_at_another_handle,
    a_malformed_cursor_is_refused,
}

/// What stands still is neither skipped nor repeated.
async fn a_walk_goes_on_when_the_job_at_its_cursor_is_gone(fx: Fixture) {
    let mut came = fx.enqueue_all(jobs(6)).await;
    came.sort();
    let filter = ListFilter {
        direction: Direction::Ascending,
        limit: Some(2),
        ..ListFilter::default()
    };
    let first = fx.store.list(filter.clone()).await.must();
    assert_eq!(ids(&first.items), came[..2]);
    for id in &came[1..3] {
        assert!(fx.store.remove(id).await.must());
    }
    let second = fx
        .store
        .list(ListFilter {
            cursor: first.cursor,
            ..filter.clone()
        })
        .await
        .must();
    assert_eq!(ids(&second.items), came[3..5]);
    let third = fx
        .store
        .list(ListFilter {
            cursor: second.cursor,
            ..filter
        })
        .await
        .must();
    assert_eq!(
        (ids(&third.items), third.cursor),
        (came[5..].to_vec(), None)
    );
}

/// The newest first, while newer ones come.
async fn a_walk_is_not_disturbed_by_new_jobs_behind_it(fx: Fixture) {
    let mut came = fx.enqueue_all(jobs(4)).await;
    came.sort();
    came.reverse();
    let filter = ListFilter {
        limit: Some(2),
        ..ListFilter::default()
    };
    let first = fx.store.list(filter.clone()).await.must();
    fx.advance(1);
    fx.enqueue_all(jobs(3)).await;
    let second = fx
        .store
        .list(ListFilter {
            cursor: first.cursor,
            ..filter
        })
        .await
        .must();
    let found: Vec<_> = ids(&first.items)
        .into_iter()
        .chain(ids(&second.items))
        .collect();
    assert_eq!((found, second.cursor), (came, None));
}

/// A cursor is text that may travel.
async fn a_cursor_works_at_another_handle(fx: Fixture) {
    let mut came = fx.enqueue_all(jobs(3)).await;
    came.sort();
    let filter = ListFilter {
        direction: Direction::Ascending,
        limit: Some(2),
        ..ListFilter::default()
    };
    let first = fx.store.list(filter.clone()).await.must();
    let text = first.cursor.expect("one is left").to_string();
    let filter = ListFilter {
        cursor: Some(ListCursor(text)),
        ..filter
    };
    let second = fx.second().await.store.list(filter).await.must();
    assert_eq!(ids(&second.items), came[2..]);
}

/// Text that no page ended with is an error, not a first page.
async fn a_malformed_cursor_is_refused(fx: Fixture) {
    fx.enqueue_all(jobs(3)).await;
    let page = fx
        .store
        .list(ListFilter {
            limit: Some(1),
            ..ListFilter::default()
        })
        .await
        .must();
    let real = page.cursor.expect("two are left").0;
    let first = real[..1].to_owned();
    for text in [
        "",
        " ",
        "x",
        "-1",
        "null",
        "{}",
        "🦀",
        "a\0b",
        first.as_str(),
    ] {
        let cursor = Some(ListCursor(text.to_owned()));
        let answer = fx
            .store
            .list(ListFilter {
                cursor,
                ..ListFilter::default()
            })
            .await;
        expect_refused(answer, "cursor");
    }
}
