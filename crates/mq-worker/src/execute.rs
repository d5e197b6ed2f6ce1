//! Runs one handler: keeps panics in, watches the time, and gives it a grace
//! when it is told to stop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mq_core::AckOutcome;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span, debug, info, info_span, warn};

use crate::context::JobContext;
use crate::handler::{Handler, Work};
use crate::outcome::RunEnd;
use crate::panic;
use crate::run::{Run, StopReason};
use crate::runtime::Shared;
use crate::slots::Slot;
use crate::verdict::{Ended, Verdict, decide};

/// Runs a claimed job to its end, and passes on what became of it.
///
/// It is not begun after `safe_until`, when its lock may have expired: it goes
/// back instead.
pub(crate) async fn execute(
    shared: Arc<Shared>,
    run: Arc<Run>,
    handler: Handler,
    safe_until: Instant,
    slot: Slot,
) {
    let verdict = if shared.stopping.is_cancelled() || Instant::now() >= safe_until {
        Verdict::Release
    } else {
        let judged = AssertUnwindSafe(judge(&shared, &run, &handler)).catch_unwind();
        judged.await.unwrap_or_else(|payload| {
            // Whatever panics, the run ends: its lock would be extended for ever.
            let ended = Ended::Panicked(panic::message(payload));
            decide(&run.job, ended, run.stop_reason())
        })
    };
    shared.held.ended(&run);
    shared.settle(run, verdict).await;
    // Only now: whoever acknowledges more slowly than handlers end holds them up.
    drop(slot);
}

/// Runs the handler, and decides what became of it.
async fn judge(shared: &Arc<Shared>, run: &Arc<Run>, handler: &Handler) -> Verdict {
    let span = span_of(run);
    let ended = drive(shared, run, handler, &span).await;
    let verdict = decide(&run.job, ended, run.stop_reason());
    span.in_scope(|| log(run, &verdict));
    verdict
}

/// The span of a run: everything a handler logs is in it.
fn span_of(run: &Run) -> Span {
    info_span!(
        "job",
        job_id = %run.job.id,
        job_name = %run.job.spec.name,
        queue = %run.job.spec.queue,
        attempt = run.attempt(),
    )
}

async fn drive(shared: &Arc<Shared>, run: &Arc<Run>, handler: &Handler, span: &Span) -> Ended {
    let context = JobContext::new(Arc::clone(run), Arc::clone(shared));
    let started = catch_unwind(AssertUnwindSafe(|| {
        span.in_scope(|| handler.start(context))
    }));
    match started {
        Err(payload) => Ended::Panicked(panic::message(payload)),
        Ok(Work::Ended(end)) => Ended::Returned(end),
        Ok(Work::Blocking(task)) => {
            let task = task.map(|joined| match joined {
                Ok(Some(end)) => Ended::Returned(end),
                Ok(None) => Ended::Dropped,
                Err(error) => match error.try_into_panic() {
                    Ok(payload) => Ended::Panicked(panic::message(payload)),
                    // The runtime shuts down, and never began it.
                    Err(_) => Ended::Dropped,
                },
            });
            let mut task = std::pin::pin!(task);
            match until_told_to_stop(run, &mut task).await {
                Some(ended) => ended,
                // No thread may be free for it for long: it is not waited for.
                None if run.call_off() => Ended::Dropped,
                // It cannot be dropped: its lock and its slot are kept.
                None => task.await,
            }
        }
        Ok(Work::Future(future)) => {
            let future = AssertUnwindSafe(future.instrument(span.clone())).catch_unwind();
            attend(run, shared.options.cancel_grace, future).await
        }
    }
}

type Caught = Result<RunEnd, Box<dyn std::any::Any + Send>>;

/// Runs a handler's future to its end, or to the end of its grace.
async fn attend(
    run: &Run,
    grace: Duration,
    mut future: impl Future<Output = Caught> + Unpin,
) -> Ended {
    let ended = match until_told_to_stop(run, &mut future).await {
        Some(caught) => Some(caught),
        None => tokio::time::timeout(grace, &mut future).await.ok(),
    };
    // A handler's values may panic when they are dropped, too.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
        let message = panic::message(payload);
        warn!(job_id = %run.job.id, panic = message, "a handler panicked while it was dropped");
    }
    match ended {
        Some(Ok(end)) => Ended::Returned(end),
        Some(Err(payload)) => Ended::Panicked(panic::message(payload)),
        None => Ended::Dropped,
    }
}

/// Waits for a handler to end; answers nothing once it is told to stop, which
/// it is when its time is over.
async fn until_told_to_stop<T>(
    run: &Run,
    handler: &mut (impl Future<Output = T> + Unpin),
) -> Option<T> {
    let time_is_over = async {
        match run.job.spec.timeout {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    // Unconstrained: a handler that always has something to do uses up its task's
    // share of time in each poll, and would leave none to notice these by.
    tokio::select! {
        biased;
        ended = handler => Some(ended),
        _ = unconstrained(run.stopped()) => None,
        () = unconstrained(time_is_over) => {
            run.stop(StopReason::Timeout);
            None
        }
    }
}

fn log(run: &Run, verdict: &Verdict) {
    let stop = run.stop_reason();
    match verdict {
        Verdict::Ack(AckOutcome::Complete { .. }) => debug!("completed"),
        Verdict::Ack(AckOutcome::Snooze { delay }) => debug!(?delay, "snoozed"),
        Verdict::Ack(AckOutcome::FanOut { children, .. }) => {
            debug!(children = children.len(), "fanned out");
        }
        Verdict::Ack(AckOutcome::Cancelled) => info!("cancelled"),
        Verdict::Ack(AckOutcome::Retry { delay, exit }) => {
            let exit = exit.as_ref().map_or("", |exit| exit.get());
            info!(
                ?delay,
                ?stop,
                exit = shortened(exit),
                "failed, to be retried"
            );
        }
        Verdict::Ack(AckOutcome::Fail { exit }) => {
            let exit = exit.as_ref().map_or("", |exit| exit.get());
            warn!(?stop, exit = shortened(exit), "failed");
        }
        Verdict::Release => info!("broken off, to be run again"),
        Verdict::Abandon => info!("broken off, as the lock is lost"),
    }
}

/// The beginning of an exit, for logs.
fn shortened(exit: &str) -> &str {
    const MOST: usize = 256;
    match exit.char_indices().nth(MOST) {
        Some((end, _)) => &exit[..end],
        None => exit,
    }
}
