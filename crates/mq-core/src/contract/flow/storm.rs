//! What happens when many look after flows at once: sweepers, relays, markers;
//! with real tasks, on two handles.

use std::collections::HashSet;
use std::time::Duration;

use super::race::two_handles;
use super::steps::{
    AGE, Cancelled, Completed, Failed, about, child_job, child_keys, children, counts, fail_fast,
    fan_out, keys, many, to_cancel, to_look_for,
};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, ack, complete, job, request};
use crate::error::StoreError;
use crate::record::{ChildStatus, JobState, Keep, Retention};

cases! { __contract_flow_storm, flow::storm:
    marks_that_race_pay_each_debt_once,
    sweepers_that_race_share_the_rows,
    relays_that_race_deliver_every_report,
    children_that_end_at_once_report_each,
    batches_over_flows_in_opposite_orders_all_apply,
    cancels_of_flows_in_opposite_orders_all_end,
    a_removal_that_races_a_report_leaves_nothing,
    a_storm_of_reports_and_a_cancel_leaves_exact_counters,
}

/// Sweepers mark the same rows: the parent owes to the last.
async fn marks_that_race_pay_each_debt_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..5 {
        let kept = job().keep(Keep::all(Retention::age(Duration::ZERO)));
        let parent = fx.park_as(kept, fan_out(many(21))).await;
        fx.store.cancel(&parent.id).await.must();
        let all = keys(21);
        let marked: Vec<String> = all[..20].to_vec();
        fx.race(6, |_, number| {
            let (fx, parent) = (handles[number % 2].clone(), parent.clone());
            let marked = marked.clone();
            async move {
                let marked: Vec<&str> = marked.iter().map(String::as_str).collect();
                fx.mark(&parent, &marked).await;
            }
        })
        .await;
        while fx.store.sweep_history(250).await.must().more {}
        assert!(fx.find(&parent.id).await.is_some(), "one cancel is owed");
        assert_eq!(to_cancel(&fx.sweep().await.cascade), all[20..]);
        fx.mark(&parent, &[&all[20]]).await;
        while fx.store.sweep_history(250).await.must().more {}
        assert_eq!(fx.find(&parent.id).await, None);
    }
}

/// Each row goes to one of them.
async fn sweepers_that_race_share_the_rows(fx: Fixture) {
    let handles = two_handles(&fx).await;
    let open = fx.park_many(100).await;
    let closed = fx.park_many(100).await;
    fx.store.cancel(&closed.id).await.must();
    fx.advance(AGE);
    let work = fx
        .race(4, |_, number| {
            let fx = handles[number % 2].clone();
            async move { fx.sweep_in_pages_of(9).await }
        })
        .await;
    let mut reconcile = Vec::new();
    let mut cascade = Vec::new();
    for part in work {
        reconcile.extend(part.reconcile);
        cascade.extend(part.cascade);
    }
    let rest = fx.sweep().await;
    reconcile.extend(rest.reconcile);
    cascade.extend(rest.cascade);
    assert_eq!(to_look_for(&reconcile), keys(100));
    assert_eq!(to_cancel(&cascade), keys(100));
    assert!(reconcile.iter().all(|row| row.flow_id == open.id));
}

/// More than once, perhaps, but none is lost.
async fn relays_that_race_deliver_every_report(fx: Fixture) {
    let handles = two_handles(&fx).await;
    fx.end_children(60).await;
    let delivered = fx
        .race(4, |_, number| {
            let fx = handles[number % 2].clone();
            async move {
                let mut delivered = Vec::new();
                loop {
                    let page = fx.store.peek_outbox(None, 7).await.must();
                    if page.entries.is_empty() {
                        return delivered;
                    }
                    delivered.extend(about(&page.entries));
                    let ids: Vec<_> = page.entries.into_iter().map(|entry| entry.id).collect();
                    fx.store.delete_outbox(&ids).await.must();
                }
            }
        })
        .await;
    let delivered: HashSet<String> = delivered.into_iter().flatten().collect();
    assert_eq!(delivered, keys(60).into_iter().collect());
    assert_eq!(fx.outbox().await, []);
}

/// None overwrites another's.
async fn children_that_end_at_once_report_each(fx: Fixture) {
    let handles = two_handles(&fx).await;
    let jobs = keys(40).iter().map(|key| child_job(key)).collect();
    fx.enqueue_all(jobs).await;
    let locks = fx.claim_locks(request(40)).await;
    fx.race(40, |_, number| {
        let fx = handles[number % 2].clone();
        let end = ack(&locks[number], complete());
        async move { assert!(fx.store.ack(end).await.must().applied) }
    })
    .await;
    let entries = fx.outbox().await;
    let ids: HashSet<_> = entries.iter().map(|entry| entry.id.clone()).collect();
    assert_eq!(ids.len(), 40, "ids of entries");
    let mut found = about(&entries);
    found.sort_unstable();
    assert_eq!(found, keys(40));
}

/// Nobody waits for the other for ever, and nobody gives up.
async fn batches_over_flows_in_opposite_orders_all_apply(fx: Fixture) {
    let handles = two_handles(&fx).await;
    let mut parents = Vec::new();
    for _ in 0..12 {
        parents.push(fx.park_many(8).await);
    }
    let applied = fx
        .race(8, |_, runner| {
            let fx = handles[runner % 2].clone();
            let mut batch: Vec<_> = parents
                .iter()
                .map(|parent| parent.report(format!("{runner:05}"), Completed))
                .collect();
            if runner % 2 == 1 {
                batch.reverse();
            }
            async move { fx.record(batch).await }
        })
        .await;
    let applied: Vec<_> = applied.into_iter().flatten().collect();
    assert!(applied.iter().all(|answer| answer.applied));
    let settled = applied.iter().filter(|answer| answer.parent_settled);
    assert_eq!(settled.count(), parents.len());
    fx.expect_count(JobState::Waiting, 12).await;
}

/// While reports for the same flows come in.
async fn cancels_of_flows_in_opposite_orders_all_end(fx: Fixture) {
    let handles = two_handles(&fx).await;
    let mut parents = Vec::new();
    for _ in 0..12 {
        parents.push(fx.park_many(4).await);
    }
    fx.race(6, |_, runner| {
        let fx = handles[runner % 2].clone();
        let mut parents = parents.clone();
        if runner % 2 == 1 {
            parents.reverse();
        }
        async move {
            if runner < 3 {
                let key = format!("{runner:05}");
                let batch = parents.iter().map(|it| it.report(key.as_str(), Completed));
                fx.record(batch.collect()).await;
                return;
            }
            let ids: Vec<_> = parents.into_iter().map(|parent| parent.id).collect();
            for answer in fx.store.cancel_many(&ids).await.must() {
                match answer {
                    Ok(_) | Err(StoreError::IllegalState { .. }) => {}
                    Err(error) => panic!("expected an end or IllegalState, got {error}"),
                }
            }
        }
    })
    .await;
    fx.expect_count(JobState::Cancelled, 12).await;
    for parent in &parents {
        let flow = fx.flow_counts(parent).await;
        assert_eq!((flow.pending, flow.completed + flow.cancelled), (0, 4));
    }
}

/// No row without its parent.
async fn a_removal_that_races_a_report_leaves_nothing(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..10 {
        let parent = fx.park_as(job(), fail_fast(children(&["a", "b"]))).await;
        fx.race(2, |_, number| {
            let (fx, parent) = (handles[number].clone(), parent.clone());
            async move {
                if number == 0 {
                    fx.record_one(parent.report("a", Failed)).await;
                    return;
                }
                match fx.store.remove(&parent.id).await {
                    Ok(true) => {}
                    Err(StoreError::IllegalState { .. }) => {}
                    other => panic!("expected true or IllegalState, got {other:?}"),
                }
            }
        })
        .await;
        fx.store.remove(&parent.id).await.must();
        assert_eq!(fx.find(&parent.id).await, None);
        assert_eq!(fx.results(&parent).await, []);
        assert_eq!(fx.swept_keys().await, (vec![], vec![]));
    }
}

/// Duplicates, foreign reports, marks and sweeps among them.
async fn a_storm_of_reports_and_a_cancel_leaves_exact_counters(fx: Fixture) {
    const CHILDREN: usize = 120;
    let handles = two_handles(&fx).await;
    let parent = fx.park_many(CHILDREN).await;
    let applied = fx
        .race(8, |_, runner| {
            let (fx, parent) = (handles[runner % 2].clone(), parent.clone());
            async move {
                let mut applied = 0;
                for round in 0..CHILDREN / 2 {
                    let key = format!("{:05}", (round * 7 + runner * 15) % CHILDREN);
                    let outcome = [Completed, Failed, Cancelled][round % 3];
                    let mut report = parent.report(key.as_str(), outcome);
                    if round % 11 == 10 {
                        report.manifest = "another".into();
                    }
                    applied += u64::from(fx.record_one(report).await.applied);
                    if round % 10 == 9 {
                        fx.mark(&parent, &[&key]).await;
                        fx.sweep_page(AGE, 3).await;
                    }
                    if (runner, round) == (3, 20) {
                        fx.store.cancel(&parent.id).await.must();
                    }
                }
                applied
            }
        })
        .await;
    let applied: u64 = applied.into_iter().sum();
    let flow = fx.flow_counts(&parent).await;
    let rows = fx.results(&parent).await;
    let mut found = counts(0, 0, 0, 0);
    for row in &rows {
        match row.status {
            ChildStatus::Pending => found.pending += 1,
            ChildStatus::Completed => found.completed += 1,
            ChildStatus::Failed => found.failed += 1,
            ChildStatus::Cancelled => found.cancelled += 1,
        }
    }
    assert_eq!((rows.len(), flow), (CHILDREN, found));
    assert_eq!(flow.pending, 0, "it was cancelled, or all have reported");
    assert_eq!(fx.state(&parent.id).await, JobState::Cancelled);
    let all = child_keys(
        &keys(CHILDREN)
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    fx.advance(AGE);
    let owed = fx.sweep().await.cascade.len() as u64;
    assert!(
        owed + applied <= CHILDREN as u64,
        "{owed} owed, {applied} reported"
    );
    fx.store
        .mark_children_cascaded(&parent.id, &parent.lock().token, &all)
        .await
        .must();
    fx.advance(AGE);
    assert_eq!(fx.sweep().await.cascade, []);
}
