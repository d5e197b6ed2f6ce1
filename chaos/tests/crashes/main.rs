//! Each step of the protocol of flows, with a process that dies (`SIGKILL`) before or
//! after it: parents on Postgres with children on Redis, and the other way round.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeMap;

use mq_core::{AttemptOutcome, ChildStatus, JobState};
use world::{Keep, Relay, Role, Way, World};

const TWO: [(&str, &str); 2] = [("a", "complete"), ("b", "fail")];

/// Declares each scenario as two tests.
macro_rules! each_way {
    ($($name:ident: $scenario:ident($($argument:expr),*);)*) => {
        $(
            mod $name {
                use super::*;

                #[tokio::test]
                async fn with_parents_on_postgres() {
                    $scenario(Way::PgParents $(, $argument)*).await;
                }

                #[tokio::test]
                async fn with_parents_on_redis() {
                    $scenario(Way::RedisParents $(, $argument)*).await;
                }
            }
        )*
    };
}

fn once_each() -> BTreeMap<String, u32> {
    ["a", "b"].map(|key| (key.to_owned(), 1)).into()
}

/// The parents' worker dies as it fans out; there are no children's workers yet.
async fn fan_out_dies(way: Way, step: &str) {
    let mut world = World::new(way).await;
    let victim = world.start_to_die(Role::Parents, Relay::Yes, step);
    let id = world.enqueue("gather", &TWO, Keep::All).await;
    world.dies(victim).await;
    let _parents = world.start(Role::Parents, Relay::Yes);
    let _children = world.start(Role::Children, Relay::Yes);
    world.settles_once(&id).await;
    assert_eq!(world.runs(), once_each());
}

each_way! {
    before_park: fan_out_dies("parents:park:1:before");
    after_park: fan_out_dies("parents:park:1:after");
    before_enqueue_reads_the_outbox: fan_out_dies("children:undelivered_reports:1:before");
    after_enqueue_read_the_outbox: fan_out_dies("children:undelivered_reports:1:after");
    before_enqueue_asks_which_are_pending: fan_out_dies("parents:pending_children:1:before");
    after_enqueue_asked_which_are_pending: fan_out_dies("parents:pending_children:1:after");
    before_enqueue: fan_out_dies("children:enqueue_many:1:before");
    after_enqueue: fan_out_dies("children:enqueue_many:1:after");
    before_look_again: fan_out_dies("parents:pending_children:2:before");
    after_look_again: fan_out_dies("parents:pending_children:2:after");
}

/// The children's worker dies; only it relays.
async fn children_die(way: Way, step: &str) -> World {
    let mut world = World::new(way).await;
    let _parents = world.start(Role::Parents, Relay::No);
    let victim = world.start_to_die(Role::Children, Relay::Yes, step);
    let id = world.enqueue("gather", &TWO, Keep::All).await;
    world.dies(victim).await;
    let _children = world.start(Role::Children, Relay::Yes);
    world.settles_once(&id).await;
    world
}

async fn child_runs_again(way: Way, step: &str) {
    let runs = children_die(way, step).await.runs();
    assert!(runs.values().any(|times| *times == 2), "{runs:?}");
}

async fn relay_dies(way: Way, step: &str) {
    let world = children_die(way, step).await;
    // The other one may have been at work when the relay died.
    let runs = world.runs();
    assert!(
        runs.len() == 2 && runs.values().any(|times| *times == 1),
        "{runs:?}"
    );
}

each_way! {
    before_a_childs_end: child_runs_again("children:child:1:before");
    after_a_childs_end: relay_dies("children:child:1:after");
    after_peek: relay_dies("children:peek_outbox:1:after");
    before_record: relay_dies("parents:record_child_results:1:before");
    after_record: relay_dies("parents:record_child_results:1:after");
    before_delete: relay_dies("children:delete_outbox:1:before");
    after_delete: relay_dies("children:delete_outbox:1:after");
}

/// The parents' worker dies as it ends the second phase.
async fn collect_dies(way: Way, step: &str) {
    let mut world = World::new(way).await;
    let victim = world.start_to_die(Role::Parents, Relay::Yes, step);
    let _children = world.start(Role::Children, Relay::Yes);
    let id = world.enqueue("gather", &TWO, Keep::All).await;
    world.dies(victim).await;
    let _parents = world.start(Role::Parents, Relay::Yes);
    world.settles_once(&id).await;
    assert_eq!(world.runs(), once_each());
}

each_way! {
    before_collect_ends: collect_dies("parents:collect:1:before");
    after_collect_ended: collect_dies("parents:collect:1:after");
}

/// A worker has died once it had parked the parent; the one whose sweeper is to enqueue
/// the children dies, too.
async fn sweeper_dies(way: Way, step: &str) {
    let mut world = World::new(way).await;
    let first = "children:undelivered_reports:1:before";
    let first = world.start_to_die(Role::Parents, Relay::Yes, first);
    let id = world.enqueue("gather", &TWO, Keep::All).await;
    world.dies(first).await;
    let victim = world.start_to_die(Role::Parents, Relay::Yes, step);
    world.dies(victim).await;
    let _parents = world.start(Role::Parents, Relay::Yes);
    let _children = world.start(Role::Children, Relay::Yes);
    world.settles_once(&id).await;
    assert_eq!(world.runs(), once_each());
}

each_way! {
    after_reconcile_got_its_work: sweeper_dies("parents:flow_sweep_work:1:after");
    before_reconcile_looks_for_children: sweeper_dies("children:get_jobs:1:before");
    after_reconcile_looked_for_children: sweeper_dies("children:get_jobs:1:after");
    before_reconcile_reads_the_outbox: sweeper_dies("children:undelivered_reports:1:before");
    after_reconcile_read_the_outbox: sweeper_dies("children:undelivered_reports:1:after");
    before_reconcile_asks_which_are_pending: sweeper_dies("parents:pending_children:1:before");
    after_reconcile_asked_which_are_pending: sweeper_dies("parents:pending_children:1:after");
    before_reconcile_enqueues: sweeper_dies("children:enqueue_many:1:before");
    after_reconcile_enqueued: sweeper_dies("children:enqueue_many:1:after");
    before_reconcile_looks_again: sweeper_dies("parents:pending_children:2:before");
    after_reconcile_looked_again: sweeper_dies("parents:pending_children:2:after");
}

/// Nobody relays, so the sweeper finds children that have ended; it dies.
async fn finder_dies(way: Way, keep: Keep, step: &str) {
    let mut world = World::new(way).await;
    let victim = world.start_to_die(Role::Parents, Relay::No, step);
    let children = world.start(Role::Children, Relay::No);
    let id = world.enqueue("gather", &TWO, keep).await;
    world.dies(victim).await;
    let _parents = world.start(Role::Parents, Relay::Yes);
    world.settles_once(&id).await;
    assert_eq!(world.runs(), once_each());
    drop(children);
}

each_way! {
    before_reconcile_records_from_a_childs_record: finder_dies(Keep::All, "parents:record_child_results:1:before");
    after_reconcile_recorded_from_a_childs_record: finder_dies(Keep::All, "parents:record_child_results:1:after");
    before_reconcile_records_a_pruned_childs_report: finder_dies(Keep::None, "parents:record_child_results:1:before");
    after_reconcile_recorded_a_pruned_childs_report: finder_dies(Keep::None, "parents:record_child_results:1:after");
    before_reconcile_deletes_a_pruned_childs_report: finder_dies(Keep::None, "children:delete_outbox:1:before");
    after_reconcile_deleted_a_pruned_childs_report: finder_dies(Keep::None, "children:delete_outbox:1:after");
}

/// The parent is cancelled while its children run; the worker that calls them off dies.
async fn cascade_dies(way: Way, step: &str) {
    let mut world = World::new(way).await;
    let victim = world.start_to_die(Role::Parents, Relay::Yes, step);
    let _children = world.start(Role::Children, Relay::Yes);
    let id = world
        .enqueue("gather", &[("a", "run"), ("b", "run")], Keep::All)
        .await;
    world.are_running(2).await;
    world.parents.cancel(&id).await.unwrap();
    world.dies(victim).await;
    let _parents = world.start(Role::Parents, Relay::Yes);
    assert_eq!(world.ends(&id).await.state, JobState::Cancelled);
    world.nothing_is_left().await;
    world.children_are(&[JobState::Cancelled; 2]).await;
    world
        .ledger_is(&id, &[AttemptOutcome::FannedOut, AttemptOutcome::Cancelled])
        .await;
    let results = [("a", ChildStatus::Cancelled), ("b", ChildStatus::Cancelled)];
    world.results_are(&id, &results).await;
    assert_eq!(world.runs(), once_each());
}

each_way! {
    after_cascade_got_its_work: cascade_dies("parents:flow_sweep_work:1:after");
    before_cascade_cancels: cascade_dies("children:cancel_many:1:before");
    after_cascade_cancelled: cascade_dies("children:cancel_many:1:after");
    before_cascade_marks: cascade_dies("parents:mark_children_cascaded:1:before");
    after_cascade_marked: cascade_dies("parents:mark_children_cascaded:1:after");
}

/// A report that fails its strict parent is recorded by a relay that dies.
async fn fail_fast_dies(way: Way, step: &str) {
    let mut world = World::new(way).await;
    let _parents = world.start(Role::Parents, Relay::No);
    let victim = world.start_to_die(Role::Children, Relay::Yes, step);
    let id = world
        .enqueue("strict", &[("a", "run"), ("b", "fail")], Keep::All)
        .await;
    world.dies(victim).await;
    let _children = world.start(Role::Children, Relay::Yes);
    assert_eq!(world.ends(&id).await.state, JobState::Failed);
    world.nothing_is_left().await;
    world
        .children_are(&[JobState::Cancelled, JobState::Failed])
        .await;
    world
        .ledger_is(&id, &[AttemptOutcome::FannedOut, AttemptOutcome::Failed])
        .await;
    let results = [("a", ChildStatus::Cancelled), ("b", ChildStatus::Failed)];
    world.results_are(&id, &results).await;
}

each_way! {
    before_the_record_that_closes: fail_fast_dies("parents:record_child_results:1:before");
    after_the_record_that_closed: fail_fast_dies("parents:record_child_results:1:after");
}
