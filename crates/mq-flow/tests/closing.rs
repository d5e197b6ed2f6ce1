//! Flows that close before all their children have ended.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AdminOps, EnqueueOps, FlowOps, InspectOps, JobId, JobState, Outcome};
use mq_flow::ChildResults;
use support::Does::{Complete, Fail, Run};
use support::*;

/// Waits until every mail has ended, and answers the states, by reader.
async fn ends(world: &World, count: usize) -> Vec<(String, JobState)> {
    eventually(async || {
        let mails = world.ephemeral.jobs::<Mail>().await;
        let all = mails.len() == count && mails.iter().all(|job| job.state.is_terminal());
        let mut ends: Vec<_> = mails
            .iter()
            .map(|job| (job.spec.payload.decode::<Mail>().unwrap().to, job.state))
            .collect();
        ends.sort();
        all.then_some(ends)
    })
    .await
}

/// Waits until no cancel is owed any more.
async fn owes_nothing(world: &World) {
    world.ephemeral.outbox_is_empty().await;
    world.durable.outbox_is_empty().await;
    world.sweeps(6).await;
    let work = world
        .durable
        .plain
        .flow_sweep_work(secs(0), 250)
        .await
        .unwrap();
    assert_eq!(work.cascade, []);
}

async fn with_running_child(world: &World, id: &JobId, to: &str) {
    eventually(async || (world.runs.of(to) == 1).then_some(())).await;
    assert_eq!(world.durable.job(id).await.state, JobState::WaitingChildren);
}

#[tokio::test(start_paused = true)]
async fn under_fail_fast_the_first_failed_child_fails_the_parent_and_calls_off_the_others() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let mails = names(&[("a", Complete), ("b", Run), ("c", Fail)]);
    let id = world.durable.enqueue(&StrictDigest(mails)).await;
    let job = world.durable.finished(&id).await;
    assert_eq!(job.state, JobState::Failed);
    let reason = job.failed_reason.unwrap();
    assert!(reason.contains(r#"flow child "c" failed"#), "{reason}");
    let ends = ends(&world, 3).await;
    assert_eq!(ends[1], ("b".to_owned(), JobState::Cancelled));
    assert_eq!(world.runs.others_than_once(), []);
    owes_nothing(&world).await;
    assert_eq!(world.durable.job(&id).await.state, JobState::Failed);
}

#[tokio::test(start_paused = true)]
async fn under_fail_fast_all_that_complete_are_collected() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let id = world
        .durable
        .enqueue(&StrictDigest(names(&[("a", Complete), ("b", Complete)])))
        .await;
    assert_eq!(world.settles_once(&id).await.completed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_fast_parent_that_is_retried_collects_what_there_is() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let id = world
        .durable
        .enqueue(&StrictDigest(names(&[("b", Run), ("c", Fail)])))
        .await;
    assert_eq!(world.durable.finished(&id).await.state, JobState::Failed);
    ends(&world, 2).await;
    world.durable.plain.retry(&id).await.unwrap();
    let job = world.durable.finished(&id).await;
    let summary = summary(&job);
    assert_eq!((summary.failed, summary.cancelled), (1, 1));
    assert_eq!(world.runs.others_than_once(), []);
    owes_nothing(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_parent_calls_off_its_children() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world
        .children()
        .concurrency("mail", 1)
        .start()
        .await
        .unwrap();
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Run), ("b", Run)])))
        .await;
    with_running_child(&world, &id, "a").await;
    world.durable.plain.cancel(&id).await.unwrap();
    let ends = ends(&world, 2).await;
    assert!(
        ends.iter().all(|(_, state)| *state == JobState::Cancelled),
        "{ends:?}"
    );
    assert_eq!(world.runs.of("b"), 0, "it had not begun");
    owes_nothing(&world).await;
    assert_eq!(world.durable.job(&id).await.state, JobState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_leaves_of_three_levels() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _inner = world.inner().start().await.unwrap();
    let book = Book(vec![
        names(&[("a", Run), ("b", Complete)]),
        names(&[("c", Run)]),
    ]);
    let id = world.durable.enqueue(&book).await;
    with_running_child(&world, &id, "a").await;
    with_running_child(&world, &id, "c").await;
    world.durable.plain.cancel(&id).await.unwrap();
    let ends = ends(&world, 3).await;
    let called_off: Vec<_> = ends
        .iter()
        .map(|(to, state)| (to.as_str(), *state))
        .collect();
    let (cancelled, completed) = (JobState::Cancelled, JobState::Completed);
    assert_eq!(
        called_off,
        [("a", cancelled), ("b", completed), ("c", cancelled)]
    );
    let chapters = world.ephemeral.jobs::<Chapter>().await;
    assert_eq!(chapters.len(), 2);
    assert!(chapters.iter().all(|job| job.state == cancelled));
    assert_eq!(world.runs.others_than_once(), []);
    owes_nothing(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_closes_while_its_children_are_enqueued_has_them_called_off() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let hold = world.ephemeral.faults.hold(Operation::EnqueueMany);
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Run), ("b", Run)])))
        .await;
    hold.reached().await;
    world.durable.plain.cancel(&id).await.unwrap();
    drop(hold);
    let begun = tokio::time::Instant::now();
    let ends = ends(&world, 2).await;
    assert!(
        ends.iter().all(|(_, state)| *state == JobState::Cancelled),
        "{ends:?}"
    );
    assert!(
        begun.elapsed() < secs(1),
        "whoever enqueued them looked again"
    );
    owes_nothing(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_races_the_fan_out_leaves_no_children() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let hold = world.durable.faults.hold(Operation::AckMany);
    let id = world.durable.enqueue(&Digest(names(&[("a", Run)]))).await;
    hold.reached().await;
    world.durable.plain.cancel(&id).await.unwrap();
    drop(hold);
    assert_eq!(world.durable.finished(&id).await.state, JobState::Cancelled);
    owes_nothing(&world).await;
    assert_eq!(world.ephemeral.jobs::<Mail>().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_lands_after_the_first_cancel_is_called_off_by_the_second() {
    let world = World::new().await;
    let parents = world.parents().start().await.unwrap();
    let hold = world.ephemeral.faults.hold(Operation::EnqueueMany);
    let id = world.durable.enqueue(&Digest(names(&[("a", Run)]))).await;
    hold.reached().await;
    // The sender dies; what it sent is still on its way.
    drop(parents);
    drop(hold);
    let work = world
        .durable
        .plain
        .flow_sweep_work(secs(0), 1)
        .await
        .unwrap();
    let on_its_way = work.reconcile[0].child.job.clone();
    world.durable.plain.cancel(&id).await.unwrap();

    let cancels = world.ephemeral.faults.calls(Operation::CancelMany);
    let _parents = world.parents().start().await.unwrap();
    soon(
        world
            .ephemeral
            .faults
            .called(Operation::CancelMany, cancels + 1),
    )
    .await;
    world.ephemeral.plain.enqueue(on_its_way).await.unwrap();
    assert_eq!(
        world.durable.faults.calls(Operation::MarkChildrenCascaded),
        0
    );
    let ends = ends(&world, 1).await;
    assert_eq!(ends[0].1, JobState::Cancelled);
    owes_nothing(&world).await;
    assert_eq!(
        world.durable.faults.calls(Operation::MarkChildrenCascaded),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_report_to_a_closed_flow_is_dropped() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let children = world.silent_children().start().await.unwrap();
    let hold = world.ephemeral.faults.hold(Operation::PeekOutbox);
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Complete)])))
        .await;
    eventually(async || (world.runs.of("a") == 1).then_some(())).await;
    children.shutdown().await;
    world.durable.plain.cancel(&id).await.unwrap();
    drop(hold);
    owes_nothing(&world).await;
    let client = world.durable.handle.client();
    let results = ChildResults::<Gather>::of(&client, &id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (results.counts().completed, results.counts().cancelled),
        (0, 1)
    );
    let child = &results.all().await.unwrap()[0];
    assert!(matches!(child.outcome::<Mail>(), Some(Outcome::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn a_report_to_a_parent_that_was_removed_is_dropped() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Complete)])))
        .await;
    eventually(async || (world.ephemeral.jobs::<Mail>().await.len() == 1).then_some(())).await;
    world.durable.plain.cancel(&id).await.unwrap();
    assert!(world.durable.plain.remove(&id).await.unwrap());
    let _children = world.children().start().await.unwrap();
    assert_eq!(ends(&world, 1).await[0].1, JobState::Completed);
    world.ephemeral.outbox_is_empty().await;
    assert!(world.durable.plain.get_job(&id).await.unwrap().is_none());
}
