//! Mistakes in a fan-out that no repetition mends.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;

use mq_core::{AttemptOutcome, Failure, HandlerError, Job, JobRecord, JobState};
use mq_flow::{Child, ChildResults, Children, Flow, FlowWorker};
use mq_worker::{JobContext, Worker};
use serde::{Deserialize, Serialize};
use support::*;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Mistake {
    EmptyKey,
    SameKeys,
    LongKey,
    Unencodable,
    NoAttempts,
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "wrong", store = Durable, attempts = 5)]
struct Wrong(Mistake, String);

#[derive(Serialize, Deserialize, Job)]
#[job(name = "plain", store = Durable)]
struct Plain(HashMap<(u8, u8), u8>);

struct Mistaken;

impl Flow for Mistaken {
    const NAME: &'static str = "mistaken";
    type Parent = Wrong;
    type Children = (Plain,);

    async fn fan_out(
        &self,
        job: &Wrong,
        _: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        let plain = || Plain(HashMap::new());
        let children = Children::new();
        Ok(match job.0 {
            Mistake::EmptyKey => children.add("", plain()),
            Mistake::SameKeys => children.add("twice", plain()).add("twice", plain()),
            Mistake::LongKey => children.add("k".repeat(256), plain()),
            Mistake::Unencodable => children.add("k", Plain(HashMap::from([((1, 2), 3)]))),
            Mistake::NoAttempts => children.add("k", Child::new(plain()).attempts(0)),
        })
    }

    async fn collect(
        &self,
        _: &Wrong,
        _: ChildResults<Self>,
        _: &JobContext,
    ) -> Result<(), HandlerError<Failure>> {
        Ok(())
    }
}

async fn fails_at_once(mistake: Mistake, id: &str) -> String {
    let world = World::new().await;
    let durable = world.durable.handle.clone();
    let worker = Worker::builder(durable.clone()).flow(Mistaken, durable);
    let _worker = worker.start().await.unwrap();
    let id = world
        .durable
        .enqueue_as(id, &Wrong(mistake, String::new()))
        .await;
    let job = world.durable.finished(&id).await;
    assert_eq!(job.state, JobState::Failed);
    assert_eq!(world.durable.outcomes(&id).await, [AttemptOutcome::Failed]);
    assert!(job.flow.is_none());
    exit(&job).to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_empty_key_fails_the_parent_at_once() {
    let exit = fails_at_once(Mistake::EmptyKey, "p").await;
    assert!(
        exit.contains("child key") && exit.contains("is empty"),
        "{exit}"
    );
}

#[tokio::test(start_paused = true)]
async fn two_children_of_one_key_fail_the_parent_at_once() {
    let exit = fails_at_once(Mistake::SameKeys, "p").await;
    assert!(
        exit.contains("twice") && exit.contains("two children"),
        "{exit}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_childs_id_that_comes_out_too_long_fails_the_parent_at_once() {
    let exit = fails_at_once(Mistake::LongKey, &"p".repeat(800)).await;
    assert!(
        exit.contains(r#""kind":"too-large""#) && exit.contains("job id"),
        "{exit}"
    );
}

#[tokio::test(start_paused = true)]
async fn data_that_do_not_encode_fail_the_parent_at_once() {
    let exit = fails_at_once(Mistake::Unencodable, "p").await;
    assert!(exit.contains(r#""kind":"encode""#), "{exit}");
    assert!(exit.contains(r#"job \"plain\" does not encode"#), "{exit}");
}

#[tokio::test(start_paused = true)]
async fn an_option_that_no_store_takes_fails_the_parent_at_once() {
    let exit = fails_at_once(Mistake::NoAttempts, "p").await;
    assert!(exit.contains("attempts"), "{exit}");
}

/// A job with so many more below it.
#[derive(Serialize, Deserialize, Job)]
#[job(name = "tree", store = Durable, output = u32, attempts = 3)]
struct Tree(u32);

struct Grow;

impl Flow for Grow {
    const NAME: &'static str = "grow";
    type Parent = Tree;
    type Children = (Tree,);

    async fn fan_out(
        &self,
        tree: &Tree,
        _: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        Ok(match tree.0 {
            0 => Children::new(),
            below => Children::new().add("below", Tree(below - 1)),
        })
    }

    async fn collect(
        &self,
        _: &Tree,
        results: ChildResults<Self>,
        _: &JobContext,
    ) -> Result<u32, HandlerError<Failure>> {
        let below = results.completed::<Tree>().await?;
        Ok(below.iter().map(|(_, height)| height + 1).sum())
    }
}

async fn grown(below: u32) -> (JobRecord, Vec<JobRecord>) {
    let world = World::new().await;
    let durable = world.durable.handle.clone();
    let worker = Worker::builder(durable.clone()).flow(Grow, durable);
    let _worker = worker.start().await.unwrap();
    let id = world.durable.enqueue(&Tree(below)).await;
    let top = world.durable.finished(&id).await;
    (top, world.durable.jobs::<Tree>().await)
}

#[tokio::test(start_paused = true)]
async fn flows_nest_to_a_depth_of_eight() {
    let (top, all) = grown(8).await;
    assert_eq!(exit(&top), r#"{"ok":8}"#);
    assert_eq!(all.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_flow_below_the_eighth_level_fails_at_once() {
    let (top, all) = grown(9).await;
    assert_eq!(exit(&top), r#"{"ok":7}"#, "the eighth level failed");
    let failed: Vec<_> = all
        .iter()
        .filter(|job| job.state == JobState::Failed)
        .collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (
            failed[0].parent.as_ref().unwrap().depth,
            failed[0].attempts_made
        ),
        (8, 1)
    );
    assert!(
        exit(failed[0]).contains("nested deeper than 8"),
        "{}",
        exit(failed[0])
    );
}
