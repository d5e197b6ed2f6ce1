//! Handlers as users write them, made into what the worker runs.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use mq_core::{Defect, DefectKind, HandlerError, Job, RawJson};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::context::JobContext;
use crate::extension::PhaseRunner;
use crate::outcome::{Retry, RunEnd};

/// What runs the jobs of one name.
#[derive(Clone)]
pub(crate) enum Handler {
    /// A handler.
    Plain(Arc<dyn Start>),
    /// Both phases of a flow's parent.
    Phases(Arc<dyn PhaseRunner>),
}

/// Begins the run of a job.
pub(crate) trait Start: Send + Sync {
    /// Begins the run; the caller keeps panics in.
    fn start(&self, context: JobContext) -> Work;
}

/// A run on its way.
pub(crate) enum Work {
    /// It ended before it began.
    Ended(RunEnd),
    /// It runs when polled, and stops when dropped.
    Future(BoxFuture<'static, RunEnd>),
    /// It runs on the blocking pool, where it cannot be stopped; it answers
    /// nothing if the run was called off before it began.
    Blocking(JoinHandle<Option<RunEnd>>),
}

impl Handler {
    pub(crate) fn start(&self, context: JobContext) -> Work {
        match self {
            Self::Phases(runner) => {
                let runner = Arc::clone(runner);
                Work::Future(Box::pin(async move { runner.run(context).await }))
            }
            Self::Plain(_) if context.record().flow.is_some() => Work::Ended(no_phase(&context)),
            Self::Plain(handler) => handler.start(context),
        }
    }
}

/// A parent that has fanned out must not run from the top again: its children
/// are on their way.
fn no_phase(context: &JobContext) -> RunEnd {
    let message = format!(
        "the job has fanned out, but its handler on this worker knows no flow: register the flow of {:?} on every worker that serves it",
        context.name()
    );
    RunEnd::defect(&Defect::new(DefectKind::NoPhase, message), Retry::Never)
}

/// An async handler of `J`.
pub(crate) struct AsyncHandler<J, F> {
    function: F,
    job: PhantomData<fn(J)>,
}

impl<J, F> AsyncHandler<J, F> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function,
            job: PhantomData,
        }
    }
}

impl<J, F, Fut> Start for AsyncHandler<J, F>
where
    J: Job,
    F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<J::Output, HandlerError<J::Error>>> + Send + 'static,
{
    fn start(&self, context: JobContext) -> Work {
        match context.payload::<J>() {
            Err(end) => Work::Ended(end),
            Ok(job) => {
                let run = (self.function)(job, context);
                Work::Future(Box::pin(async move { RunEnd::of::<J>(run.await) }))
            }
        }
    }
}

/// A handler of `J` for the blocking pool.
pub(crate) struct BlockingHandler<J, F> {
    function: Arc<F>,
    job: PhantomData<fn(J)>,
}

impl<J, F> BlockingHandler<J, F> {
    pub(crate) fn new(function: F) -> Self {
        Self {
            function: Arc::new(function),
            job: PhantomData,
        }
    }
}

impl<J, F> Start for BlockingHandler<J, F>
where
    J: Job,
    F: Fn(J, JobContext) -> Result<J::Output, HandlerError<J::Error>> + Send + Sync + 'static,
{
    fn start(&self, context: JobContext) -> Work {
        match context.payload::<J>() {
            Err(end) => Work::Ended(end),
            Ok(job) => {
                let function = Arc::clone(&self.function);
                let span = tracing::Span::current();
                Work::Blocking(tokio::task::spawn_blocking(move || {
                    let may_begin = context.begins_to_block();
                    may_begin.then(|| span.in_scope(|| RunEnd::of::<J>(function(job, context))))
                }))
            }
        }
    }
}

/// Decodes a text; what is wrong with it comes with the path to the place.
pub(crate) fn decode<T: DeserializeOwned>(text: &RawJson) -> Result<T, String> {
    text.decode().map_err(|error| {
        // Tracking the path costs, so only texts that are wrong are read twice.
        let again = &mut serde_json::Deserializer::from_str(text.get());
        match serde_path_to_error::deserialize::<_, T>(again) {
            Err(with_path) => with_path.to_string(),
            Ok(_) => error.to_string(),
        }
    })
}
