//! What happens to flows when many act at once; with real tasks, on several
//! handles.

use super::steps::{
    Completed, DROPPED, Failed, Parent, SETTLED, counts, fan_out, keys, many, to_cancel,
};
use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{LOCK, ack, job, ms};
use crate::record::{AttemptOutcome, JobState};
use crate::store::Cancelled as Answer;

cases! { __contract_flow_race, flow::race:
    of_two_last_reports_one_settles,
    of_many_reports_one_settles,
    of_two_failures_one_settles,
    copies_of_a_report_that_race_apply_once,
    a_cancel_that_races_the_fan_out_wins,
    copies_of_a_fan_out_that_race_land_once,
    a_fan_out_that_races_a_recovery_is_decided_once,
    a_heartbeat_beside_a_large_fan_out_is_answered,
    a_report_that_races_the_close_is_counted_once,
    a_failure_that_races_the_last_report_is_decided_once,
}

/// A handle for each runner, of two.
pub(super) async fn two_handles(fx: &Fixture) -> [Fixture; 2] {
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
            let again = fx.claim_one().await;
            fx.ack(&again, fan_out(many(2))).await;
            assert_eq!(fx.results(&parent).await.len(), 2);
        }
        fx.store.cancel(&parent.id).await.must();
    }
}

/// The lock is extended until the parent is parked, and lost from then on.
async fn a_heartbeat_beside_a_large_fan_out_is_answered(fx: Fixture) {
    let handles = two_handles(&fx).await;
    for _ in 0..3 {
        let held = fx.start(job()).await;
        let end = ack(&held, fan_out(many(1_000)));
        fx.race(2, |_, number| {
            let (fx, held, end) = (handles[number].clone(), held.clone(), end.clone());
            async move {
                if number == 0 {
                    assert!(fx.store.ack(end).await.must().applied);
                    return;
                }
                let mut lost = false;
                for _ in 0..20 {
                    let beat = fx.store.extend_locks(vec![held.clone()], ms(LOCK));
                    let now_lost = !beat.await.must().lost.is_empty();
                    assert!(now_lost || !lost, "a lock that was lost came back");
                    lost = now_lost;
                }
            }
        })
        .await;
        assert_eq!(fx.state(&held.id).await, JobState::WaitingChildren);
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
