//! Runs the two phases of a parent.

use std::sync::Arc;

use mq_core::{Store, async_trait};
use mq_worker::{JobContext, PhaseRunner, Retry, RunEnd};

use crate::flow::{Flow, OnChildFailure};
use crate::results::ChildResults;

pub(crate) struct Phases<F> {
    pub(crate) flow: F,
    pub(crate) store: Arc<dyn Store>,
}

#[async_trait]
impl<F: Flow> PhaseRunner for Phases<F> {
    async fn run(&self, context: JobContext) -> RunEnd {
        let job = match context.payload::<F::Parent>() {
            Ok(job) => job,
            Err(end) => return end,
        };
        let record = context.record();
        if let Some(state) = &record.flow {
            let store = Arc::clone(&self.store);
            let results = ChildResults::new(store, record.id.clone(), state.counts);
            return RunEnd::of::<F::Parent>(self.flow.collect(&job, results, &context).await);
        }
        let children = match self.flow.fan_out(&job, &context).await {
            Ok(children) => children,
            Err(error) => return RunEnd::of::<F::Parent>(Err(error)),
        };
        match children.into_manifest(record, &context.lock().token) {
            Ok(children) => RunEnd::FannedOut {
                fail_fast: F::ON_CHILD_FAILURE == OnChildFailure::FailFast,
                children,
            },
            Err(defect) => RunEnd::defect(&defect, Retry::Never),
        }
    }
}
