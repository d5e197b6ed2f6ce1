//! What happens to flows when many act at once; with real tasks, on several
//! handles.

use std::collections::HashSet;

use super::steps::{
    Cancelled, Completed, DROPPED, Failed, Parent, SETTLED, about, child_job, child_keys, children,
    counts, fail_fast, fan_out, keys, many, to_cancel, to_look_for,
};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{LOCK, Make, ack, complete, job, request};
use crate::error::StoreError;
use crate::record::{AttemptOutcome, JobState, Keep, Retention};
use crate::store::Cancelled as Answer;

cases! { __contract_flow_race, flow::race:
    of_two_last_reports_one_settles,
    of_many_reports_one_settles,
    of_two_failures_one_settles,
    copies_of_a_report_that_race_apply_once,
    a_cancel_that_races_the_fan_out_wins,
    copies_of_a_fan_out_that_race_land_once,
    a_fan_out_that_races_a_recovery_is_decided_once,
    a_report_that_races_the_close_is_counted_once,
    a_failure_that_races_the_last_report_is_decided_once,
    marks_that_race_pay_each_debt_once,
    sweepers_that_race_share_the_rows,
    relays_that_race_deliver_every_report,
    children_that_end_at_once_report_each,
    a_removal_that_races_a_report_leaves_nothing,
    a_storm_of_reports_and_a_cancel_leaves_exact_counters,
}

/// A handle for each runner, of two.
async fn two_handles(fx: &Fixture) -> [Fixture; 2] {
    [fx.clone(), fx.second().await]
}

/// The parent goes on once.
async fn of_two_last_reports_one_settles(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..20 {
        let parent = fx.park(&["a", "b"]).await;
        let answers = fx
            .race(2, |_, number| {
                let (fx, parent) = (handles[number].clone(), parent.clone());
                async move {
                    let key = ["a", "b"][number];
                    fx.record_one(parent.report(key, Completed)).await
                }
            })
            .await;
        assert!(answers.iter().all(|answer| answer.applied), "{answers:?}");
        let settled = answers.iter().filter(|answer| answer.parent_settled);
        assert_eq!(settled.count(), 1, "{answers:?}");
        assert_eq!(fx.flow_counts(&parent).await, counts(0, 2, 0, 0));
        assert_eq!(fx.claim_ids(5).await, [parent.id]);
    }
}

/// Each of them in a task of its own.
async fn of_many_reports_one_settles(fx: Fixture) {
    let handles = two_handles(&fx).await;
    let parent = fx.park_many(64).await;
    let answers = fx
        .race(64, |_, number| {
            let (fx, parent) = (handles[number % 2].clone(), parent.clone());
            async move {
                fx.record_one(parent.report(format!("{number:05}"), Completed))
                    .await
            }
        })
        .await;
    assert!(answers.iter().all(|answer| answer.applied), "{answers:?}");
    let settled = answers.iter().filter(|answer| answer.parent_settled);
    assert_eq!(settled.count(), 1, "{answers:?}");
    assert_eq!(fx.flow_counts(&parent).await, counts(0, 64, 0, 0));
    assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
}

/// The second comes too late, or with the first.
async fn of_two_failures_one_settles(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..20 {
        let parent = fx.park_fail_fast(&["a", "b", "c"]).await;
        let answers = fx
            .race(2, |_, number| {
                let (fx, parent) = (handles[number].clone(), parent.clone());
                async move {
                    fx.record_one(parent.report(["a", "b"][number], Failed))
                        .await
                }
            })
            .await;
        assert!(answers.contains(&SETTLED), "{answers:?}");
        assert!(answers.contains(&DROPPED), "{answers:?}");
        let loser = if answers[0] == SETTLED {
            "\"a\""
        } else {
            "\"b\""
        };
        let record = fx.job(&parent.id).await;
        assert!(record.failed_reason.unwrap_or_default().contains(loser));
        assert_eq!(fx.flow_counts(&parent).await, counts(0, 0, 1, 2));
        assert_eq!(
            fx.outcomes(&parent.id).await,
            [AttemptOutcome::FannedOut, AttemptOutcome::Failed]
        );
    }
}

/// Several relays deliver the same report.
async fn copies_of_a_report_that_race_apply_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..10 {
        let parent = fx.park(&["a"]).await;
        let mut answers = fx
            .race(6, |_, number| {
                let (fx, parent) = (handles[number % 2].clone(), parent.clone());
                async move { fx.record_one(parent.report("a", Completed)).await }
            })
            .await;
        answers.sort_unstable_by_key(|answer| answer.applied);
        assert_eq!(answers.pop(), Some(SETTLED));
        assert_eq!(answers, [DROPPED; 5]);
        assert_eq!(fx.flow_counts(&parent).await, counts(0, 1, 0, 0));
        fx.claim_one().await;
    }
}

/// Whichever came first, the parent is cancelled, and every child with it.
async fn a_cancel_that_races_the_fan_out_wins(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for round in 0..20 {
        let held = fx.start(job()).await;
        let id = held.id.clone();
        let end = ack(&held, fan_out(many(3)));
        let said = fx
            .race(2, |_, number| {
                let fx = handles[number].clone();
                let (id, end) = (id.clone(), end.clone());
                async move {
                    if number == round % 2 {
                        assert!(fx.store.ack(end).await.must().applied);
                        return None;
                    }
                    Some(fx.store.cancel(&id).await.must())
                }
            })
            .await;
        let said = said.into_iter().flatten().next();
        assert!(matches!(said, Some(Answer::Ended | Answer::Requested)));
        let record = fx.job(&held.id).await;
        assert_eq!(
            (record.state, record.cancel_requested),
            (JobState::Cancelled, false)
        );
        let flow = record.flow.expect("the fan-out landed");
        assert_eq!(flow.counts, counts(0, 0, 0, 3));
        assert_eq!(
            fx.outcomes(&held.id).await,
            [AttemptOutcome::FannedOut, AttemptOutcome::Cancelled]
        );
        assert_eq!(to_cancel(&fx.sweep().await.cascade), keys(3));
    }
}

/// Sent again and again, staged side by side.
async fn copies_of_a_fan_out_that_race_land_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..5 {
        let held = fx.start(job()).await;
        let end = ack(&held, fan_out(many(300)));
        let applied = fx
            .race(4, |_, number| {
                let (fx, end) = (handles[number % 2].clone(), end.clone());
                async move { fx.store.ack(end).await.must().applied }
            })
            .await;
        assert_eq!(applied.iter().filter(|applied| **applied).count(), 1);
        let parent = Parent {
            id: held.id,
            manifest: held.token,
        };
        assert_eq!(fx.flow_counts(&parent).await, counts(300, 0, 0, 0));
        assert_eq!(fx.results(&parent).await.len(), 300);
        assert_eq!(fx.ledger(&parent.id).await.len(), 1);
    }
}

/// The parent is parked with all its children, or it stalls with none.
async fn a_fan_out_that_races_a_recovery_is_decided_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..10 {
        let held = fx.start(job()).await;
        fx.advance(LOCK);
        let end = ack(&held, fan_out(many(300)));
        let landed = fx
            .race(2, |_, number| {
                let (fx, end) = (handles[number].clone(), end.clone());
                async move {
                    match number {
                        0 => fx.store.ack(end).await.is_ok(),
                        _ => fx
                            .store
                            .recover_stalled(3, 10)
                            .await
                            .must()
                            .stalled
                            .is_empty(),
                    }
                }
            })
            .await;
        assert_eq!(landed[0], landed[1], "(fanned out, not stalled)");
        let parent = Parent {
            id: held.id,
            manifest: held.token,
        };
        if landed[0] {
            assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
            assert_eq!(fx.results(&parent).await.len(), 300);
        } else {
            assert_eq!(fx.state(&parent.id).await, JobState::Waiting);
            assert_eq!(fx.job(&parent.id).await.flow, None);
            assert_eq!(fx.results(&parent).await, []);
        }
        fx.store.cancel(&parent.id).await.must();
    }
}

/// As completed or as cancelled, and owed a cancel only in that case.
async fn a_report_that_races_the_close_is_counted_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for round in 0..20 {
        let parent = fx.park(&["a", "b"]).await;
        let applied = fx
            .race(2, |_, number| {
                let (fx, parent) = (handles[number].clone(), parent.clone());
                async move {
                    if number == round % 2 {
                        return Some(fx.record_one(parent.report("a", Completed)).await.applied);
                    }
                    assert_eq!(fx.store.cancel(&parent.id).await.must(), Answer::Ended);
                    None
                }
            })
            .await;
        let applied = applied.into_iter().flatten().next();
        let (expected, owed) = match applied {
            Some(true) => (counts(0, 1, 0, 1), vec!["b".to_owned()]),
            _ => (counts(0, 0, 0, 2), vec!["a".into(), "b".into()]),
        };
        assert_eq!(fx.flow_counts(&parent).await, expected);
        assert_eq!(to_cancel(&fx.sweep().await.cascade), owed);
    }
}

/// Whichever comes first, the parent fails: it cannot have gone on.
async fn a_failure_that_races_the_last_report_is_decided_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..20 {
        let parent = fx.park_fail_fast(&["a", "b"]).await;
        let answers = fx
            .race(2, |_, number| {
                let (fx, parent) = (handles[number].clone(), parent.clone());
                async move {
                    let (key, outcome) = [("a", Failed), ("b", Completed)][number];
                    fx.record_one(parent.report(key, outcome)).await
                }
            })
            .await;
        assert_eq!(answers[0], SETTLED);
        assert!(!answers[1].parent_settled);
        assert_eq!(fx.state(&parent.id).await, JobState::Failed);
        let expected = match answers[1].applied {
            true => counts(0, 1, 1, 0),
            false => counts(0, 0, 1, 1),
        };
        assert_eq!(fx.flow_counts(&parent).await, expected);
    }
}

/// Sweepers mark the same rows: the parent owes to the last.
async fn marks_that_race_pay_each_debt_once(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..5 {
        let kept = job().keep(Keep::all(Retention::count(0)));
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
    fx.advance(super::steps::AGE);
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
                        fx.sweep_page(super::steps::AGE, 3).await;
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
            crate::record::ChildStatus::Pending => found.pending += 1,
            crate::record::ChildStatus::Completed => found.completed += 1,
            crate::record::ChildStatus::Failed => found.failed += 1,
            crate::record::ChildStatus::Cancelled => found.cancelled += 1,
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
    fx.advance(super::steps::AGE);
    let owed = fx.sweep().await.cascade.len() as u64;
    assert!(
        owed + applied <= CHILDREN as u64,
        "{owed} owed, {applied} reported"
    );
    fx.store
        .mark_children_cascaded(&parent.id, &parent.lock().token, &all)
        .await
        .must();
    fx.advance(super::steps::AGE);
    assert_eq!(fx.sweep().await.cascade, []);
}
