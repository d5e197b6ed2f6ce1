//! Flows under workers that are driven by hand.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AdminOps, ManualClock, MemoryStore};
use mq_worker::{ByHand, Worker};
use support::Does::{Complete, Fail};
use support::*;

/// Two stores on one clock, and a worker on each.
async fn world() -> (World, Worker<Durable, ByHand>, Worker<Ephemeral, ByHand>) {
    let clock = ManualClock::default();
    let builder = || MemoryStore::builder().time(clock.clone());
    let world = World {
        durable: Side::on(builder()).await,
        ephemeral: Side::on(builder()).await,
        runs: Runs::default(),
    };
    let parents = world.parents().start_by_hand(clock.clone()).await.unwrap();
    let children = world.children().start_by_hand(clock).await.unwrap();
    (world, parents, children)
}

#[tokio::test]
async fn a_flow_goes_to_its_end_when_its_workers_take_turns() {
    let (world, mut parents, mut children) = world().await;
    let mails = names(&[("ada", Complete), ("bob", Fail), ("eve", Complete)]);
    let id = world.durable.enqueue(&Digest(mails)).await;
    assert_eq!(parents.run_until_idle().await.unwrap().runs, 1);
    assert_eq!(children.run_until_idle().await.unwrap().runs, 3);
    assert_eq!(parents.run_until_idle().await.unwrap().runs, 1);
    let summary = world.settles_once(&id).await;
    assert_eq!((summary.completed, summary.failed), (2, 1));
    assert_eq!(world.runs.others_than_once(), []);
}

#[tokio::test]
async fn a_child_that_was_lost_is_found_when_time_passes() {
    let (world, mut parents, mut children) = world().await;
    let id = world
        .durable
        .enqueue(&Digest(names(&[("ada", Complete)])))
        .await;
    parents.run_until_idle().await.unwrap();
    let child = world.ephemeral.jobs::<Mail>().await.remove(0).id;
    assert!(world.ephemeral.plain.remove(&child).await.unwrap());
    assert_eq!(children.run_until_idle().await.unwrap().runs, 0);
    parents.advance(secs(29)).await.unwrap();
    assert_eq!(children.run_until_idle().await.unwrap().runs, 0);
    parents.advance(secs(1)).await.unwrap();
    assert_eq!(children.run_until_idle().await.unwrap().runs, 1);
    assert_eq!(parents.drain().await.unwrap().runs, 1);
    assert_eq!(world.settles_once(&id).await.sent, ["sent to ada"]);
}
