//! List: which jobs it shows.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, NO_JOBS, fail, job};
use crate::contract::steps::ids;
use crate::error::StoreError;
use crate::id::JobId;
use crate::record::{JobState, NewJob};
use crate::store::{Direction, ListFilter, OrderBy};
use crate::validate::MAX_NAME;

cases! { __contract_inspect_filter, inspect::filter:
    an_empty_store_lists_nothing,
    without_filters_all_jobs_are_listed,
    a_queue_lists_its_jobs,
    a_name_lists_its_jobs,
    each_state_lists_its_jobs,
    several_states_list_the_jobs_of_each,
    no_states_list_nothing,
    labels_must_all_match,
    filters_must_all_match,
    a_job_that_never_fanned_out_is_no_flow_parent,
    a_job_is_listed_where_it_is_now,
    removed_jobs_are_not_listed,
    a_query_beyond_the_promised_ones_is_served_or_refused,
    a_broken_filter_is_refused,
}

fn any() -> ListFilter {
    ListFilter {
        direction: Direction::Ascending,
        ..ListFilter::default()
    }
}

/// The ids of all jobs that match, over all pages.
async fn listed(fx: &Fixture, filter: ListFilter) -> Vec<JobId> {
    let mut found = Vec::new();
    let mut next = filter;
    loop {
        let page = fx.store.list(next.clone()).await.must();
        assert_eq!(page.corrupt, NO_JOBS, "nothing here is corrupt");
        found.extend(ids(&page.items));
        if page.cursor.is_none() {
            return found;
        }
        next.cursor = page.cursor;
    }
}

/// Enqueues jobs a millisecond apart, so that they are listed in that order.
async fn spread(fx: &Fixture, jobs: Vec<NewJob>) -> Vec<JobId> {
    let mut ids = Vec::new();
    for job in jobs {
        ids.push(fx.enqueue(job).await);
        fx.advance(1);
    }
    ids
}

/// Nothing there, nothing shown, no further page.
async fn an_empty_store_lists_nothing(fx: Fixture) {
    let page = fx.store.list(ListFilter::default()).await.must();
    assert_eq!((page.items, page.cursor), (Vec::new(), None));
}

/// Of any queue, name and state.
async fn without_filters_all_jobs_are_listed(fx: Fixture) {
    let came = spread(
        &fx,
        vec![
            job(),
            job().queue("other"),
            job().name("other"),
            job().delay(1_000),
        ],
    )
    .await;
    fx.claim_one().await;
    assert_eq!(listed(&fx, any()).await, came);
}

/// Those and no others.
async fn a_queue_lists_its_jobs(fx: Fixture) {
    let came = spread(
        &fx,
        vec![job().queue("a"), job().queue("b"), job().queue("a")],
    )
    .await;
    let of = |queue: &str| ListFilter {
        queue: Some(queue.into()),
        ..any()
    };
    assert_eq!(
        listed(&fx, of("a")).await,
        [came[0].clone(), came[2].clone()]
    );
    assert_eq!(listed(&fx, of("b")).await, [came[1].clone()]);
    assert_eq!(listed(&fx, of("c")).await, NO_JOBS);
}

/// Those and no others, over all queues.
async fn a_name_lists_its_jobs(fx: Fixture) {
    let came = spread(
        &fx,
        vec![job().name("a"), job().name("b"), job().name("a").queue("x")],
    )
    .await;
    let of = |name: &str| ListFilter {
        name: Some(name.into()),
        ..any()
    };
    assert_eq!(
        listed(&fx, of("a")).await,
        [came[0].clone(), came[2].clone()]
    );
    assert_eq!(listed(&fx, of("b")).await, [came[1].clone()]);
    assert_eq!(listed(&fx, of("c")).await, NO_JOBS);
}

/// One job of each state.
async fn one_of_each(fx: &Fixture) -> Vec<(JobState, JobId)> {
    let mut made = Vec::new();
    for state in [
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
        JobState::WaitingChildren,
        JobState::Active,
        JobState::Waiting,
        JobState::Delayed,
    ] {
        made.push((state, fx.job_in(state).await));
        fx.advance(1);
    }
    made
}

/// Each job under its own state only.
async fn each_state_lists_its_jobs(fx: Fixture) {
    for (state, id) in one_of_each(&fx).await {
        let filter = ListFilter {
            states: Some(vec![state]),
            ..any()
        };
        assert_eq!(listed(&fx, filter).await, [id], "jobs that are {state}");
    }
}

/// A state given twice does not show its jobs twice.
async fn several_states_list_the_jobs_of_each(fx: Fixture) {
    let made = one_of_each(&fx).await;
    let states = Some(vec![made[4].0, made[0].0, made[4].0]);
    let filter = ListFilter { states, ..any() };
    assert_eq!(
        listed(&fx, filter).await,
        [made[0].1.clone(), made[4].1.clone()]
    );
    let filter = ListFilter {
        states: Some(JobState::ALL.to_vec()),
        ..any()
    };
    assert_eq!(listed(&fx, filter).await.len(), made.len());
}

/// An empty set of states is a filter that nothing passes.
async fn no_states_list_nothing(fx: Fixture) {
    fx.enqueue(job()).await;
    let page = fx
        .store
        .list(ListFilter {
            states: Some(Vec::new()),
            ..any()
        })
        .await
        .must();
    assert_eq!((page.items, page.cursor), (Vec::new(), None));
}

/// Key and value, exactly; others may be there besides.
async fn labels_must_all_match(fx: Fixture) {
    let came = spread(
        &fx,
        vec![
            job().label("a", "1").label("b", "2"),
            job().label("a", "1"),
            job().label("a", "2").label("b", "1"),
            job().label("a", "12"),
            job(),
        ],
    )
    .await;
    let with = |labels: &[(&str, &str)]| ListFilter {
        metadata: labels
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        ..any()
    };
    assert_eq!(listed(&fx, with(&[("a", "1")])).await, came[..2]);
    assert_eq!(
        listed(&fx, with(&[("a", "1"), ("b", "2")])).await,
        came[..1]
    );
    assert_eq!(listed(&fx, with(&[("b", "1")])).await, came[2..3]);
    assert_eq!(listed(&fx, with(&[("A", "1")])).await, NO_JOBS);
    assert_eq!(listed(&fx, with(&[("a", "")])).await, NO_JOBS);
    assert_eq!(listed(&fx, with(&[])).await, came);
}

/// Each filter takes away from what the others leave.
async fn filters_must_all_match(fx: Fixture) {
    let full = || job().queue("a").name("x").label("k", "v");
    let came = spread(
        &fx,
        vec![
            full(),
            full().queue("b"),
            full().name("y"),
            full().label("k", "w"),
            full().delay(1_000),
            full(),
        ],
    )
    .await;
    let filter = ListFilter {
        queue: Some("a".into()),
        name: Some("x".into()),
        states: Some(vec![JobState::Waiting]),
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        ..any()
    };
    assert_eq!(
        listed(&fx, filter).await,
        [came[0].clone(), came[5].clone()]
    );
}

/// Only a fan-out makes a parent.
async fn a_job_that_never_fanned_out_is_no_flow_parent(fx: Fixture) {
    let made = one_of_each(&fx).await;
    let parked = made
        .into_iter()
        .filter(|(state, _)| *state == JobState::WaitingChildren);
    let parked: Vec<JobId> = parked.map(|(_, id)| id).collect();
    let filter = ListFilter {
        flow_parents: true,
        ..any()
    };
    assert_eq!(listed(&fx, filter).await, parked);
}

/// No listing lags behind a change of state.
async fn a_job_is_listed_where_it_is_now(fx: Fixture) {
    let id = fx.enqueue(job().delay(5)).await;
    let now_in = async |state: JobState| {
        for other in JobState::ALL {
            let filter = ListFilter {
                states: Some(vec![other]),
                queue: Some("queue".into()),
                ..any()
            };
            let expected = if other == state {
                vec![id.clone()]
            } else {
                Vec::new()
            };
            assert_eq!(
                listed(&fx, filter).await,
                expected,
                "{other} jobs, while it is {state}"
            );
        }
    };
    now_in(JobState::Delayed).await;
    fx.store.promote(&id).await.must();
    now_in(JobState::Waiting).await;
    let held = fx.claim_one().await;
    now_in(JobState::Active).await;
    fx.ack(&held, fail()).await;
    now_in(JobState::Failed).await;
    fx.store.retry(&id).await.must();
    now_in(JobState::Waiting).await;
    fx.store.cancel(&id).await.must();
    now_in(JobState::Cancelled).await;
}

/// From no listing, whatever it is routed by.
async fn removed_jobs_are_not_listed(fx: Fixture) {
    let labelled = job().label("a", "b");
    for state in [JobState::Waiting, JobState::Failed] {
        let id = fx.enqueue(labelled.clone()).await;
        if state == JobState::Failed {
            let held = fx.claim_one().await;
            fx.ack(&held, fail()).await;
        }
        assert!(fx.store.remove(&id).await.must());
        for filter in [
            any(),
            ListFilter {
                queue: Some("queue".into()),
                ..any()
            },
            ListFilter {
                name: Some("job".into()),
                ..any()
            },
            ListFilter {
                states: Some(vec![state]),
                ..any()
            },
            ListFilter {
                metadata: labelled.spec.metadata.clone(),
                ..any()
            },
        ] {
            assert_eq!(listed(&fx, filter.clone()).await, NO_JOBS, "by {filter:?}");
        }
    }
}

/// What a store does not serve it says so, and never answers something else.
async fn a_query_beyond_the_promised_ones_is_served_or_refused(fx: Fixture) {
    let made = one_of_each(&fx).await;
    for order_by in [OrderBy::RunAt, OrderBy::LockExpiresAt, OrderBy::FinishedAt] {
        for (state, id) in &made {
            let filter = ListFilter {
                states: Some(vec![*state]),
                metadata: [("no".to_owned(), "where".to_owned())].into(),
                order_by,
                ..any()
            };
            match fx.store.list(filter.clone()).await {
                Ok(page) => assert_eq!(ids(&page.items), NO_JOBS, "by {filter:?}, not even {id:?}"),
                Err(StoreError::Unsupported { .. }) => {}
                Err(error) => panic!("expected a page or Unsupported, got {error}"),
            }
        }
    }
}

/// Each broken rule is named.
async fn a_broken_filter_is_refused(fx: Fixture) {
    let long = "x".repeat(MAX_NAME + 1);
    let queue = |queue: &str| ListFilter {
        queue: Some(queue.into()),
        ..any()
    };
    let name = |name: &str| ListFilter {
        name: Some(name.into()),
        ..any()
    };
    let label = |key: &str, value: &str| ListFilter {
        metadata: [(key.to_owned(), value.to_owned())].into(),
        ..any()
    };
    for (field, filter) in [
        ("queue name", queue("")),
        ("queue name", queue("a\0")),
        ("queue name", queue(&long)),
        ("job name", name("")),
        ("job name", name("a/b")),
        ("metadata key", label("", "x")),
        ("metadata \"a\"", label("a", "\0")),
        (
            "limit",
            ListFilter {
                limit: Some(0),
                ..any()
            },
        ),
    ] {
        expect_refused(fx.store.list(filter).await, field);
    }
}
