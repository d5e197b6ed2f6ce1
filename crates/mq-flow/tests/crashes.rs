//! Each step of the protocol, interrupted: by a store that fails before or
//! after the step or never answers, and by the death of who did it.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AdminOps, EnqueueOps, FlowOps, JobState, MemoryStore, NewJob};
use mq_flow::{ChildResults, FlowWorker};
use support::Does::{Complete, Fail, Run};
use support::*;

const TWO: [(&str, Does); 2] = [("a", Complete), ("b", Fail)];

/// Runs a flow of two children for each of these faults, and checks that it
/// settles once and runs each child once.
async fn with_faults(on: On, operation: Operation, faults: Vec<Fault>) {
    for fault in faults {
        let world = World::new().await;
        let faulty = on.of(&world);
        faulty.script(operation, [fault]);
        let _parents = world.parents().start().await.unwrap();
        let _children = world.children().start().await.unwrap();
        let id = world.durable.enqueue(&Digest(names(&TWO))).await;
        let summary = world.settles_once(&id).await;
        assert_eq!((summary.completed, summary.failed), (1, 1));
        assert_eq!(world.runs.others_than_once(), []);
        assert!(faulty.calls(operation) >= 1, "the fault was met");
    }
}

#[derive(Clone, Copy)]
enum On {
    Durable,
    Ephemeral,
}

impl On {
    fn of(self, world: &World) -> &Faults {
        match self {
            Self::Durable => &world.durable.faults,
            Self::Ephemeral => &world.ephemeral.faults,
        }
    }
}

fn each_way() -> Vec<Fault> {
    vec![Fault::Before, Fault::After, Fault::Hang, Fault::Panic]
}

/// Runs a flow whose parents' worker dies as it makes this call, and begins
/// anew; the children are there to run.
async fn with_death_of_the_parents_worker(on: On, operation: Operation) -> World {
    let world = World::new().await;
    let faulty = on.of(&world);
    let hold = faulty.hold(operation);
    let parents = world.parents().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&TWO))).await;
    hold.reached().await;
    drop(parents);
    drop(hold);
    let _parents = world.parents().start().await.unwrap();
    let _children = world.silent_children().start().await.unwrap();
    let summary = world.settles_once(&id).await;
    assert_eq!((summary.completed, summary.failed), (1, 1));
    for to in ["a", "b"] {
        assert_eq!(world.runs.of(to), 1, "{to}");
    }
    world
}

// ---- Fan out: park

#[tokio::test(start_paused = true)]
async fn a_fan_out_that_fails_before_it_parks_the_parent_is_repeated() {
    with_faults(On::Durable, Operation::AckMany, vec![Fault::Before]).await;
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_whose_answer_is_lost_counts_as_landed() {
    with_faults(On::Durable, Operation::AckMany, vec![Fault::After]).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_before_it_parks_the_parent_has_it_fan_out_again() {
    with_death_of_the_parents_worker(On::Durable, Operation::AckMany).await;
}

// ---- Fan out: enqueue children

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_after_it_parked_the_parent_has_the_sweeper_enqueue_the_children() {
    with_death_of_the_parents_worker(On::Ephemeral, Operation::UndeliveredReports).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_before_it_asks_what_is_pending_has_the_sweeper_enqueue() {
    with_death_of_the_parents_worker(On::Durable, Operation::PendingChildren).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_before_it_enqueues_has_the_sweeper_do_it() {
    with_death_of_the_parents_worker(On::Ephemeral, Operation::EnqueueMany).await;
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_cannot_be_read_before_an_enqueue_is_read_again() {
    with_faults(On::Ephemeral, Operation::UndeliveredReports, each_way()).await;
}

#[tokio::test(start_paused = true)]
async fn a_parents_store_that_does_not_say_what_is_pending_is_asked_again() {
    with_faults(On::Durable, Operation::PendingChildren, each_way()).await;
}

#[tokio::test(start_paused = true)]
async fn an_enqueue_that_fails_or_loses_its_answer_is_repeated_and_no_child_runs_twice() {
    with_faults(On::Ephemeral, Operation::EnqueueMany, each_way()).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_store_that_is_down_during_the_fan_out_gets_its_children_later() {
    let world = World::new().await;
    world.ephemeral.faults.go_down();
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&TWO))).await;
    world.durable.in_state(&id, JobState::WaitingChildren).await;
    tokio::time::sleep(secs(300)).await;
    assert_eq!(
        world.durable.job(&id).await.state,
        JobState::WaitingChildren
    );
    world.ephemeral.faults.come_back();
    assert_eq!(world.settles_once(&id).await.completed, 1);
    assert_eq!(world.runs.others_than_once(), []);
}

// ---- Fan out: look again

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_before_it_looks_again_leaves_no_child_of_a_closed_flow() {
    let world = World::new().await;
    let parents = world.parents().start().await.unwrap();
    let enqueue = world.ephemeral.faults.hold(Operation::EnqueueMany);
    let id = world.durable.enqueue(&Digest(names(&[("a", Run)]))).await;
    enqueue.reached().await;
    world.durable.plain.cancel(&id).await.unwrap();
    let look = world.durable.faults.hold(Operation::PendingChildren);
    drop(enqueue);
    look.reached().await;
    drop(parents);
    drop(look);
    assert_eq!(
        world.ephemeral.jobs::<Mail>().await[0].state,
        JobState::Waiting
    );
    let _parents = world.parents().start().await.unwrap();
    let child = &world.ephemeral.jobs::<Mail>().await[0].id;
    assert_eq!(
        world.ephemeral.finished(child).await.state,
        JobState::Cancelled
    );
}

// ---- Relay

#[tokio::test(start_paused = true)]
async fn a_relay_that_cannot_peek_tries_again() {
    with_faults(On::Ephemeral, Operation::PeekOutbox, each_way()).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_or_loses_its_answer_is_repeated_and_counts_once() {
    with_faults(On::Durable, Operation::RecordChildResults, each_way()).await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_or_loses_its_answer_has_the_report_delivered_twice_and_counted_once() {
    with_faults(On::Ephemeral, Operation::DeleteOutbox, each_way()).await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_dies_before_it_records_leaves_the_report_in_the_outbox() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let record = world.durable.faults.hold(Operation::RecordChildResults);
    let children = world.children().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&TWO))).await;
    record.reached().await;
    drop(children);
    let left = world.ephemeral.plain.peek_outbox(None, 10).await.unwrap();
    assert!(!left.entries.is_empty());
    drop(record);
    let _children = world.children().start().await.unwrap();
    assert_eq!(world.settles_once(&id).await.completed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_dies_before_it_deletes_delivers_twice_and_settles_once() {
    let world = World::new().await;
    let parents = world.parents().start().await.unwrap();
    let delete = world.ephemeral.faults.hold(Operation::DeleteOutbox);
    let children = world.children().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&TWO))).await;
    delete.reached().await;
    drop(children);
    drop(parents);
    drop(delete);
    let recorded = world.durable.faults.calls(Operation::RecordChildResults);
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let summary = world.settles_once(&id).await;
    assert_eq!((summary.completed, summary.failed), (1, 1));
    assert!(world.durable.faults.calls(Operation::RecordChildResults) > recorded);
}

#[tokio::test(start_paused = true)]
async fn a_parents_store_that_is_down_while_children_finish_gets_their_reports_later() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&TWO))).await;
    eventually(async || (world.ephemeral.jobs::<Mail>().await.len() == 2).then_some(())).await;
    world.durable.faults.go_down();
    let _children = world.children().start().await.unwrap();
    eventually(async || (world.runs.of("b") == 1).then_some(())).await;
    tokio::time::sleep(secs(300)).await;
    assert_eq!(
        world
            .ephemeral
            .plain
            .peek_outbox(None, 10)
            .await
            .unwrap()
            .entries
            .len(),
        2
    );
    world.durable.faults.come_back();
    assert_eq!(world.settles_once(&id).await.completed, 1);
    assert_eq!(world.runs.others_than_once(), []);
}

// ---- Sweep, reconcile

/// A parked flow whose children nobody has enqueued: their worker died.
async fn abandoned(mails: &[(&str, Does)]) -> (World, mq_core::JobId) {
    let world = World::new().await;
    let hold = world.ephemeral.faults.hold(Operation::UndeliveredReports);
    let parents = world.parents().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(mails))).await;
    hold.reached().await;
    drop(parents);
    (world, id)
}

async fn with_sweep_faults(on: On, operation: Operation) {
    for fault in each_way() {
        let (world, id) = abandoned(&TWO).await;
        let faulty = on.of(&world);
        let before = faulty.calls(operation);
        faulty.script(operation, [fault]);
        let _parents = world.parents().start().await.unwrap();
        let _children = world.silent_children().start().await.unwrap();
        let summary = world.settles_once(&id).await;
        assert_eq!((summary.completed, summary.failed), (1, 1));
        assert_eq!((world.runs.of("a"), world.runs.of("b")), (1, 1));
        assert!(faulty.calls(operation) > before, "the fault was met");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_cannot_read_its_work_is_begun_again() {
    with_sweep_faults(On::Durable, Operation::FlowSweepWork).await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_cannot_look_for_a_child_looks_again() {
    with_sweep_faults(On::Ephemeral, Operation::GetJobs).await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_cannot_read_the_outbox_enqueues_nothing_and_begins_again() {
    with_sweep_faults(On::Ephemeral, Operation::UndeliveredReports).await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_does_not_learn_what_is_pending_enqueues_nothing_and_begins_again() {
    with_sweep_faults(On::Durable, Operation::PendingChildren).await;
}

#[tokio::test(start_paused = true)]
async fn a_sweep_whose_enqueue_fails_or_loses_its_answer_runs_no_child_twice() {
    with_sweep_faults(On::Ephemeral, Operation::EnqueueMany).await;
}

#[tokio::test(start_paused = true)]
async fn a_sweeper_delivers_the_report_that_it_finds_of_a_pruned_child() {
    let world = World::new().await;
    // No relay reads the outbox, so only the sweeper can find what is there.
    let peek = world.ephemeral.faults.hold(Operation::PeekOutbox);
    let _parents = world
        .parents()
        .flow_interval(secs(5))
        .start()
        .await
        .unwrap();
    let _children = world.silent_children().start().await.unwrap();
    let mut mails = names(&TWO);
    mails.pruned = true;
    let id = world.durable.enqueue(&Digest(mails)).await;
    let job = world.durable.finished(&id).await;
    assert_eq!((summary(&job).completed, summary(&job).failed), (1, 1));
    assert_eq!(world.runs.others_than_once(), []);
    drop(peek);
    world.ephemeral.outbox_is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_sweeper_delivers_the_report_of_a_finished_child_from_its_record() {
    let world = World::new().await;
    let peek = world.ephemeral.faults.hold(Operation::PeekOutbox);
    let _parents = world
        .parents()
        .flow_interval(secs(5))
        .start()
        .await
        .unwrap();
    let _children = world.silent_children().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&TWO))).await;
    let job = world.durable.finished(&id).await;
    assert_eq!(summary(&job).sent, ["sent to a"]);
    drop(peek);
    assert_eq!(world.settles_once(&id).await.failed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_removed_while_pending_is_enqueued_again() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Complete)])))
        .await;
    let child = eventually(async || world.ephemeral.jobs::<Mail>().await.pop())
        .await
        .id;
    assert!(world.ephemeral.plain.remove(&child).await.unwrap());
    let _children = world.children().start().await.unwrap();
    assert_eq!(world.settles_once(&id).await.completed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_another_kind_under_a_childs_id_is_reported_as_that_childs_failure() {
    let (world, id) = abandoned(&[("a", Complete), ("b", Complete)]).await;
    let work = world
        .durable
        .plain
        .flow_sweep_work(secs(0), 250)
        .await
        .unwrap();
    let mut taken: NewJob = work.reconcile[0].child.job.clone();
    taken.parent = None;
    world.ephemeral.plain.enqueue(taken).await.unwrap();
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let summary = world.settles_once(&id).await;
    assert_eq!((summary.completed, summary.failed), (1, 1));
    let client = world.durable.handle.client();
    let results = ChildResults::<Gather>::of(&client, &id)
        .await
        .unwrap()
        .unwrap();
    let reason = results.all().await.unwrap()[0]
        .record()
        .failed_reason
        .clone()
        .unwrap();
    assert!(reason.contains("is not this child"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_its_store_never_takes_fails_and_its_neighbours_do_not() {
    let mut world = World::new().await;
    world.ephemeral = Side::on(MemoryStore::builder().max_payload(200)).await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let large = "x".repeat(250);
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Complete), (&large, Complete)])))
        .await;
    let job = world.durable.finished(&id).await;
    assert_eq!((summary(&job).completed, summary(&job).failed), (1, 1));
}

// ---- Sweep, cascade

async fn with_cascade_faults(on: On, operation: Operation) {
    for fault in each_way() {
        let world = World::new().await;
        let _parents = world.parents().start().await.unwrap();
        let mails = names(&[("a", Run), ("b", Run)]);
        let id = world.durable.enqueue(&Digest(mails)).await;
        let enqueued = async || (world.ephemeral.jobs::<Mail>().await.len() == 2).then_some(());
        eventually(enqueued).await;
        let faulty = on.of(&world);
        faulty.script(operation, [fault]);
        world.durable.plain.cancel(&id).await.unwrap();
        soon(faulty.called(operation, 1)).await;
        for child in world.ephemeral.jobs::<Mail>().await {
            let child = world.ephemeral.finished(&child.id).await;
            assert_eq!(child.state, JobState::Cancelled);
        }
        world.sweeps(6).await;
        let work = world
            .durable
            .plain
            .flow_sweep_work(secs(0), 250)
            .await
            .unwrap();
        assert_eq!(work.cascade, []);
        world.ephemeral.outbox_is_empty().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_fails_or_loses_its_answer_is_owed_until_it_succeeds() {
    with_cascade_faults(On::Ephemeral, Operation::CancelMany).await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_fails_or_loses_its_answer_is_repeated() {
    with_cascade_faults(On::Durable, Operation::MarkChildrenCascaded).await;
}
