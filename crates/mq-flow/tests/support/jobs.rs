//! Jobs and flows over two stores.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mq_core::{Failure, HandlerError, Job, Keep, Retention, StoreName};
use mq_flow::{Child, ChildResults, Children, Flow, OnChildFailure};
use mq_worker::JobContext;
use serde::{Deserialize, Serialize};

pub struct Durable;
impl StoreName for Durable {
    const NAME: &'static str = "durable";
}

pub struct Ephemeral;
impl StoreName for Ephemeral {
    const NAME: &'static str = "ephemeral";
}

/// How often each job ran, by what it is called.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<Mutex<BTreeMap<String, u32>>>);

impl Runs {
    pub fn note(&self, name: &str) -> u32 {
        let mut runs = self.0.lock().unwrap();
        let count = runs.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub fn of(&self, name: &str) -> u32 {
        self.0.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    /// What did not run exactly once.
    pub fn others_than_once(&self) -> Vec<(String, u32)> {
        let runs = self.0.lock().unwrap();
        let others = runs.iter().filter(|(_, count)| **count != 1);
        others.map(|(name, count)| (name.clone(), *count)).collect()
    }
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Does {
    Complete,
    Fail,
    /// It runs until it is called off.
    Run,
}

#[derive(Clone, Debug, Serialize, Deserialize, Job)]
#[job(name = "mail", store = Ephemeral, queue = "mail", output = String)]
pub struct Mail {
    pub to: String,
    pub does: Does,
}

pub async fn send(
    mail: Mail,
    context: JobContext,
    runs: Runs,
) -> Result<String, HandlerError<Failure>> {
    runs.note(&mail.to);
    match mail.does {
        Does::Complete => Ok(format!("sent to {}", mail.to)),
        Does::Fail => Err(Failure::new(format!("no mailbox {}", mail.to)).into()),
        Does::Run => {
            context.cancelled().await;
            std::future::pending().await
        }
    }
}

/// What `collect` saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub sent: Vec<String>,
}

/// The children of a parent in these tests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Names {
    pub mails: Vec<(String, Does)>,
    /// Whether finished children are pruned at once.
    pub pruned: bool,
    /// How many runs of `collect` fail first.
    pub failures: u32,
}

pub fn names(mails: &[(&str, Does)]) -> Names {
    Names {
        mails: mails
            .iter()
            .map(|(to, does)| ((*to).to_owned(), *does))
            .collect(),
        ..Names::default()
    }
}

impl Names {
    fn children<F>(&self) -> Children<F>
    where
        F: Flow<Children = (Mail,)>,
    {
        let mut children = Children::new();
        for (to, does) in &self.mails {
            let mail = Mail {
                to: to.clone(),
                does: *does,
            };
            let child = Child::new(mail);
            let keep = Keep::all(Retention {
                count: Some(0),
                age: None,
            });
            let child = match self.pruned {
                true => child.keep(keep),
                false => child,
            };
            children.push(to.as_str(), child);
        }
        children
    }

    async fn collect<F: Flow>(
        &self,
        results: ChildResults<F>,
    ) -> Result<Summary, HandlerError<Failure>> {
        let counts = results.counts();
        let sent = results.completed::<Mail>().await?;
        Ok(Summary {
            completed: counts.completed,
            failed: counts.failed,
            cancelled: counts.cancelled,
            sent: sent.into_iter().map(|(_, sent)| sent).collect(),
        })
    }
}

macro_rules! gathering {
    ($(#[$doc:meta])* $flow:ident, $parent:ident, $name:literal, $store:ident, $policy:ident) => {
        #[derive(Clone, Debug, Serialize, Deserialize, Job)]
        #[job(name = $name, store = $store, queue = "parents", output = Summary, attempts = 3)]
        pub struct $parent(pub Names);

        $(#[$doc])*
        pub struct $flow(Runs);

        impl $flow {
            pub fn new(runs: &Runs) -> Self {
                Self(runs.clone())
            }
        }

        impl Flow for $flow {
            const NAME: &'static str = $name;
            type Parent = $parent;
            type Children = (Mail,);
            const ON_CHILD_FAILURE: OnChildFailure = OnChildFailure::$policy;

            async fn fan_out(
                &self,
                job: &$parent,
                _: &JobContext,
            ) -> Result<Children<Self>, HandlerError<Failure>> {
                Ok(job.0.children())
            }

            async fn collect(
                &self,
                job: &$parent,
                results: ChildResults<Self>,
                context: &JobContext,
            ) -> Result<Summary, HandlerError<Failure>> {
                if self.0.note(&format!("collect {}", context.id())) <= job.0.failures {
                    return Err(Failure::new("not yet").into());
                }
                job.0.collect(results).await
            }
        }
    };
}

gathering!(
    /// Collects whatever the children came to.
    Gather, Digest, "digest", Durable, Continue
);
gathering!(
    /// Fails with the first failed child.
    Strict, StrictDigest, "strict-digest", Durable, FailFast
);
gathering!(
    /// A flow on the children's store.
    Inner, Chapter, "chapter", Ephemeral, Continue
);

/// A parent whose children are flows themselves.
#[derive(Clone, Debug, Serialize, Deserialize, Job)]
#[job(name = "book", store = Durable, queue = "parents", output = Summary)]
pub struct Book(pub Vec<Names>);

pub struct Outer(Runs);

impl Outer {
    pub fn new(runs: &Runs) -> Self {
        Self(runs.clone())
    }
}

impl Flow for Outer {
    const NAME: &'static str = "book";
    type Parent = Book;
    type Children = (Chapter,);

    async fn fan_out(
        &self,
        book: &Book,
        _: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        let chapters = book.0.iter().enumerate();
        Ok(chapters.fold(Children::new(), |children, (number, names)| {
            children.add(number.to_string(), Chapter(names.clone()))
        }))
    }

    async fn collect(
        &self,
        _: &Book,
        results: ChildResults<Self>,
        _: &JobContext,
    ) -> Result<Summary, HandlerError<Failure>> {
        let chapters = results.completed::<Chapter>().await?;
        Ok(Summary {
            completed: results.counts().completed,
            sent: chapters
                .into_iter()
                .flat_map(|(_, chapter)| chapter.sent)
                .collect(),
            ..Summary::default()
        })
    }
}
