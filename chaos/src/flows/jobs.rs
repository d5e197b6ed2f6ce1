//! The flows of a run: what a parent fans out into, and what its children do.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use mq_core::{Backoff, Failure, HandlerError, Job, JobDefaults, Keep, Retention, StoreName};
use mq_flow::{Child, ChildResults, Children, Flow, OnChildFailure};
use mq_worker::JobContext;
use serde::{Deserialize, Serialize};

use crate::log::Writer;
use crate::worker::Run;

/// The store on Postgres.
pub(crate) struct Pg;
impl StoreName for Pg {
    const NAME: &'static str = "pg";
}

/// The store on Redis.
pub(crate) struct Redis;
impl StoreName for Redis {
    const NAME: &'static str = "redis";
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Does {
    /// It ends well.
    Complete,
    /// It ends well, after one failure.
    Recover,
    /// It fails for good.
    Fail,
    /// It runs until it is called off.
    Run,
}

/// A child on the store `S`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Leaf<S> {
    pub(crate) key: String,
    pub(crate) does: Does,
    /// How long its handler takes, in milliseconds.
    pub(crate) takes: u64,
    #[serde(skip)]
    on: PhantomData<fn(S)>,
}

impl<S: StoreName> Job for Leaf<S> {
    const NAME: &'static str = "leaf";
    const QUEUE: &'static str = "leaves";
    type Store = S;
    type Output = String;
    type Error = Failure;

    fn defaults() -> JobDefaults {
        JobDefaults {
            attempts: 2,
            backoff: Some(Backoff::Fixed {
                delay: Duration::from_millis(50),
            }),
            ..JobDefaults::default()
        }
    }
}

/// Runs a child, and writes it down.
pub(crate) async fn run_leaf<S>(
    leaf: Leaf<S>,
    context: JobContext,
    log: Writer,
) -> Result<String, HandlerError<Failure>> {
    let _run = Run::begin(log, context.lock());
    tokio::time::sleep(Duration::from_millis(leaf.takes)).await;
    match leaf.does {
        Does::Complete => Ok(came_of(&leaf.key)),
        Does::Recover if context.attempt() == 1 => {
            Err(HandlerError::Error(Failure::new("the first attempt fails")))
        }
        Does::Recover => Ok(came_of(&leaf.key)),
        Does::Fail => Err(HandlerError::Unrecoverable(Failure::new("it is to fail"))),
        Does::Run => {
            context.cancelled().await;
            std::future::pending().await
        }
    }
}

/// What a child returns that ends well.
pub(crate) fn came_of(key: &str) -> String {
    format!("{key} is done")
}

/// A child as a parent's payload names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) key: String,
    pub(crate) does: Does,
    pub(crate) takes: u64,
}

/// A parent on the store `S`; if it is strict, its first failed child fails it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Parent<S, const STRICT: bool> {
    pub(crate) children: Vec<Named>,
    /// Whether finished children are pruned at once.
    pub(crate) pruned: bool,
    #[serde(skip)]
    on: PhantomData<fn(S)>,
}

impl<S: StoreName, const STRICT: bool> Job for Parent<S, STRICT> {
    const NAME: &'static str = if STRICT { "strict" } else { "gather" };
    const QUEUE: &'static str = "parents";
    type Store = S;
    type Output = Gathered;
    type Error = Failure;

    fn defaults() -> JobDefaults {
        JobDefaults {
            attempts: 3,
            ..JobDefaults::default()
        }
    }
}

/// What a parent returns.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gathered {
    pub(crate) completed: BTreeMap<String, String>,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
}

/// Parents on `P`, their children on `C`.
pub(crate) struct Gather<P, C, const STRICT: bool> {
    log: Writer,
    over: PhantomData<fn(P, C)>,
}

impl<P, C, const STRICT: bool> Gather<P, C, STRICT> {
    pub(crate) fn new(log: &Writer) -> Self {
        Self {
            log: log.clone(),
            over: PhantomData,
        }
    }
}

impl<P: StoreName, C: StoreName, const STRICT: bool> Flow for Gather<P, C, STRICT> {
    const NAME: &'static str = "gather";
    type Parent = Parent<P, STRICT>;
    type Children = (Leaf<C>,);
    const ON_CHILD_FAILURE: OnChildFailure = match STRICT {
        true => OnChildFailure::FailFast,
        false => OnChildFailure::Continue,
    };

    async fn fan_out(
        &self,
        job: &Parent<P, STRICT>,
        context: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        let _run = Run::begin(self.log.clone(), context.lock());
        let mut children = Children::new();
        for named in &job.children {
            let child = Child::new(Leaf {
                key: named.key.clone(),
                does: named.does,
                takes: named.takes,
                on: PhantomData,
            });
            let child = match job.pruned {
                true => child.keep(Keep::all(Retention {
                    count: Some(0),
                    age: None,
                })),
                false => child,
            };
            children.push(named.key.as_str(), child);
        }
        Ok(children)
    }

    async fn collect(
        &self,
        _: &Parent<P, STRICT>,
        results: ChildResults<Self>,
        context: &JobContext,
    ) -> Result<Gathered, HandlerError<Failure>> {
        let _run = Run::begin(self.log.clone(), context.lock());
        let counts = results.counts();
        let completed = results.completed::<Leaf<C>>().await?.into_iter();
        Ok(Gathered {
            completed: completed
                .map(|(key, came)| (key.to_string(), came))
                .collect(),
            failed: counts.failed,
            cancelled: counts.cancelled,
        })
    }
}
