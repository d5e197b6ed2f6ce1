//! Flows where nothing goes wrong but children.
#![allow(clippy::unwrap_used)]

mod support;

use mq_core::{AdminOps, ChildStatus, FlowCounts, FlowOps, InspectOps, JobState, Outcome};
use mq_flow::{ChildResults, FlowWorker};
use mq_worker::{StartError, Worker};
use support::Does::{Complete, Fail, Run};
use support::*;

#[tokio::test(start_paused = true)]
async fn a_parent_collects_what_its_children_came_to() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let mails = names(&[("ada", Complete), ("bob", Fail), ("eve", Complete)]);
    let id = world.durable.enqueue(&Digest(mails)).await;
    let summary = world.settles_once(&id).await;
    assert_eq!(
        (summary.completed, summary.failed, summary.cancelled),
        (2, 1, 0)
    );
    assert_eq!(summary.sent, ["sent to ada", "sent to eve"]);
    assert_eq!(world.runs.others_than_once(), []);
    let job = world.durable.job(&id).await;
    assert_eq!(job.attempts_made, 1, "a fan-out uses no attempt");
}

#[tokio::test(start_paused = true)]
async fn reports_are_delivered_the_moment_acks_land() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let begun = tokio::time::Instant::now();
    let id = world
        .durable
        .enqueue(&Digest(names(&[("ada", Complete)])))
        .await;
    world.settles_once(&id).await;
    assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_a_relay_of_their_own_reports_come_within_an_interval() {
    let world = World::new().await;
    let _parents = world
        .parents()
        .flow_interval(secs(10))
        .start()
        .await
        .unwrap();
    let _children = world.silent_children().start().await.unwrap();
    let begun = tokio::time::Instant::now();
    let id = world
        .durable
        .enqueue(&Digest(names(&[("ada", Complete)])))
        .await;
    world.settles_once(&id).await;
    assert!(begun.elapsed() < secs(21), "{:?}", begun.elapsed());
    assert_eq!(world.runs.others_than_once(), []);
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_without_children_is_collected_at_once() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let id = world.durable.enqueue(&Digest(names(&[]))).await;
    assert_eq!(world.settles_once(&id).await, Summary::default());
}

#[tokio::test(start_paused = true)]
async fn seven_hundred_and_fifty_children_cross_the_pages() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let children = world.children().concurrency("mail", 250);
    let _children = children.start().await.unwrap();
    let mails = (0..750).map(|number| (format!("reader {number:03}"), Complete));
    let all = Names {
        mails: mails.collect(),
        ..Names::default()
    };
    let id = world.durable.enqueue(&Digest(all)).await;
    let summary = world.settles_once(&id).await;
    assert_eq!(summary.completed, 750);
    let expected: Vec<_> = (0..750)
        .map(|number| format!("sent to reader {number:03}"))
        .collect();
    assert_eq!(summary.sent, expected);
    assert_eq!(world.runs.others_than_once(), []);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_a_flow_settles_before_its_parent() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _inner = world.inner().start().await.unwrap();
    let book = Book(vec![
        names(&[("ada", Complete), ("bob", Fail)]),
        names(&[]),
        names(&[("eve", Complete)]),
    ]);
    let id = world.durable.enqueue(&book).await;
    let summary = world.settles_once(&id).await;
    assert_eq!(summary.completed, 3);
    assert_eq!(summary.sent, ["sent to ada", "sent to eve"]);
    assert_eq!(world.runs.of("ada"), 1);
    let depths: Vec<_> = world.ephemeral.jobs::<Mail>().await;
    assert!(
        depths
            .iter()
            .all(|job| job.parent.as_ref().unwrap().depth == 2)
    );
}

#[tokio::test(start_paused = true)]
async fn two_flows_share_stores_parent_ids_and_child_keys() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _inner = world.inner().start().await.unwrap();
    let one = world
        .durable
        .enqueue_as("same", &Digest(names(&[("a", Complete)])))
        .await;
    let other = world
        .ephemeral
        .enqueue_as("same", &Chapter(names(&[("a", Fail)])))
        .await;
    assert_eq!(world.settles_once(&one).await.completed, 1);
    let other = world.ephemeral.finished(&other).await;
    assert_eq!((summary(&other).completed, summary(&other).failed), (0, 1));
    assert_eq!(world.runs.of("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_parent_enqueued_again_under_its_id_has_children_of_its_own() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let first = world
        .durable
        .enqueue_as("again", &Digest(names(&[("a", Complete)])))
        .await;
    world.settles_once(&first).await;
    assert!(world.durable.plain.remove(&first).await.unwrap());
    let second = world
        .durable
        .enqueue_as("again", &Digest(names(&[("a", Complete)])))
        .await;
    assert_eq!(world.settles_once(&second).await.completed, 1);
    assert_eq!(world.runs.of("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn children_that_are_pruned_at_once_are_not_run_again() {
    let world = World::new().await;
    let _parents = world
        .parents()
        .flow_interval(secs(1))
        .start()
        .await
        .unwrap();
    let _children = world
        .silent_children()
        .concurrency("mail", 1)
        .start()
        .await
        .unwrap();
    // The last one keeps the flow open over many sweeps.
    let mut mails = names(&[("a", Complete), ("b", Fail), ("c", Complete), ("z", Run)]);
    mails.pruned = true;
    let id = world.durable.enqueue(&Digest(mails)).await;
    let parked = world.durable.until(&id, |job| {
        job.flow
            .as_ref()
            .is_some_and(|flow| flow.counts.pending == 1)
    });
    parked.await;
    world.sweeps(20).await;
    let last = world.ephemeral.jobs::<Mail>().await;
    assert_eq!(last.len(), 1, "the finished ones are pruned");
    world.ephemeral.plain.cancel(&last[0].id).await.unwrap();
    let summary = world.settles_once(&id).await;
    assert_eq!(
        (summary.completed, summary.failed, summary.cancelled),
        (2, 1, 1)
    );
    assert_eq!(world.runs.others_than_once(), []);
}

#[tokio::test(start_paused = true)]
async fn a_collect_that_fails_is_tried_again_and_its_children_are_not() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let mut mails = names(&[("a", Complete)]);
    mails.failures = 2;
    let id = world.durable.enqueue(&Digest(mails)).await;
    assert_eq!(world.settles_once(&id).await.completed, 1);
    assert_eq!(world.durable.job(&id).await.attempts_made, 3);
    assert_eq!(world.runs.of("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retried_parent_collects_again_from_the_same_children() {
    let world = World::new().await;
    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    let mut mails = names(&[("a", Complete)]);
    mails.failures = 3;
    let id = world.durable.enqueue(&Digest(mails)).await;
    assert_eq!(world.durable.finished(&id).await.state, JobState::Failed);
    world.durable.plain.retry(&id).await.unwrap();
    assert_eq!(world.settles_once(&id).await.sent, ["sent to a"]);
    assert_eq!(world.runs.of("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn results_can_be_read_outside_the_handler_in_any_state_of_the_parent() {
    let world = World::new().await;
    let client = world.durable.handle.client();
    let mails = names(&[("a", Complete), ("b", Fail), ("z", Run)]);
    let id = world.durable.enqueue(&Digest(mails)).await;
    assert!(
        ChildResults::<Gather>::of(&client, &id)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        ChildResults::<Gather>::of(&client, &"unknown".into())
            .await
            .unwrap()
            .is_none()
    );
    let of_another_kind = ChildResults::<Strict>::of(&client, &id).await.unwrap_err();
    assert!(
        of_another_kind.to_string().contains("another kind"),
        "{of_another_kind}"
    );

    let _parents = world.parents().start().await.unwrap();
    let _children = world.children().start().await.unwrap();
    world
        .durable
        .until(&id, |job| {
            job.flow
                .as_ref()
                .is_some_and(|flow| flow.counts.pending == 1)
        })
        .await;
    let results = ChildResults::<Gather>::of(&client, &id)
        .await
        .unwrap()
        .unwrap();
    let expected = FlowCounts {
        pending: 1,
        completed: 1,
        failed: 1,
        cancelled: 0,
    };
    assert_eq!(results.counts(), expected);
    let all = results.all().await.unwrap();
    let states: Vec<_> = all
        .iter()
        .map(|child| (child.key().as_str(), child.status()))
        .collect();
    let expected = [
        ("a", ChildStatus::Completed),
        ("b", ChildStatus::Failed),
        ("z", ChildStatus::Pending),
    ];
    assert_eq!(states, expected);
    assert!(
        matches!(all[0].outcome::<Mail>(), Some(Outcome::Completed(sent)) if sent == "sent to a")
    );
    assert!(
        matches!(all[1].outcome::<Mail>(), Some(Outcome::Failed(error)) if error.message == "no mailbox b")
    );
    assert!(all[2].outcome::<Mail>().is_none());
    assert!(
        all[0].outcome::<Chapter>().is_none(),
        "it is of another kind"
    );

    world.durable.plain.cancel(&id).await.unwrap();
    let results = ChildResults::<Gather>::of(&client, &id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(results.counts().cancelled, 1);
    assert!(matches!(
        results.all().await.unwrap()[2].outcome::<Mail>(),
        Some(Outcome::Cancelled)
    ));
}

#[tokio::test(start_paused = true)]
async fn an_interval_that_no_store_can_tell_is_refused_at_start() {
    let world = World::new().await;
    let refused = world
        .parents()
        .flow_interval(secs(0))
        .start()
        .await
        .unwrap_err();
    assert!(
        matches!(
            refused,
            StartError::Duration {
                option: "flow_interval",
                ..
            }
        ),
        "{refused}"
    );
    let builder = Worker::builder(world.ephemeral.handle.clone());
    let only_relay = builder.relay_to(&world.durable.handle).start().await;
    assert!(only_relay.is_ok(), "a relay needs no handler");
}

#[tokio::test(start_paused = true)]
async fn reports_for_a_store_nobody_holds_wait_and_block_no_others() {
    let world = World::new().await;
    let _children = world
        .silent_children()
        .relay_to(&world.durable.handle)
        .start()
        .await
        .unwrap();
    let _parents = world.parents().start().await.unwrap();
    let foreign = mq_core::ParentEnvelope {
        flow_name: "other".into(),
        flow_id: "p".into(),
        manifest: "t".into(),
        child_key: "k".into(),
        parent_store: "elsewhere".into(),
        depth: 1,
    };
    let strangers = (0..300).map(|number| {
        let mail = Mail {
            to: format!("stranger {number}"),
            does: Complete,
        };
        mq_core::NewJob {
            parent: Some(foreign.clone()),
            ..mq_core::NewJob::new(mq_core::JobSpec::of(&mail).unwrap())
        }
    });
    use mq_core::EnqueueOps;
    world
        .ephemeral
        .plain
        .enqueue_many(strangers.collect())
        .await
        .unwrap();
    eventually(async || {
        (world.ephemeral.plain.counts(None).await.unwrap().completed == 300).then_some(())
    })
    .await;
    let id = world
        .durable
        .enqueue(&Digest(names(&[("a", Complete)])))
        .await;
    assert_eq!(world.durable.finished(&id).await.state, JobState::Completed);
    eventually(async || {
        let page = world
            .ephemeral
            .plain
            .peek_outbox(None, 1_000)
            .await
            .unwrap();
        (page.entries.len() == 300).then_some(())
    })
    .await;
}
