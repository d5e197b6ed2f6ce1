//! What the store is told of a run, from how its handler ended and why it was
//! told to stop, if it was.

use std::time::Duration;

use mq_core::{AckOutcome, Defect, DefectKind, JobRecord, LONGEST, RawJson};

use crate::outcome::{Retry, RunEnd, defect_exit};
use crate::run::StopReason;

/// What became of a handler.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It returned.
    Returned(RunEnd),
    /// It panicked, with this message.
    Panicked(String),
    /// It was told to stop, did not within its grace, and was dropped.
    Dropped,
}

/// What the store is told.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The run has ended like this.
    Ack(AckOutcome),
    /// The job goes back, as if it had not been claimed.
    Release,
    /// Nothing: the lock is lost, whatever is said would be refused.
    Abandon,
}

/// Decides. A handler that succeeds in spite of being told to stop has
/// succeeded; what else it returns then is taken as heeding the signal, except
/// that it may rule out another attempt.
pub(crate) fn decide(job: &JobRecord, ended: Ended, stop: Option<StopReason>) -> Verdict {
    match (stop, ended) {
        (Some(StopReason::LockLost), _) => Verdict::Abandon,
        (Some(StopReason::Cancel), Ended::Returned(end @ RunEnd::Completed { .. })) => {
            returned(job, end)
        }
        (Some(StopReason::Cancel), _) => Verdict::Ack(AckOutcome::Cancelled),
        (_, Ended::Panicked(message)) => {
            failed(job, defect(DefectKind::Panic, message), Retry::ByPolicy)
        }
        (None, Ended::Returned(end)) => returned(job, end),
        (_, Ended::Returned(end)) if stands(&end) => returned(job, end),
        (Some(StopReason::Shutdown), Ended::Returned(end @ RunEnd::Snoozed { .. })) => {
            returned(job, end)
        }
        (Some(StopReason::Timeout), _) => timed_out(job),
        (Some(StopReason::Shutdown) | None, _) => Verdict::Release,
    }
}

/// Whether an end counts although the handler had been told to stop: its work
/// is done, or can never be.
fn stands(end: &RunEnd) -> bool {
    match end {
        RunEnd::Completed { .. } | RunEnd::FannedOut { .. } => true,
        RunEnd::Failed { retry, .. } => *retry == Retry::Never,
        RunEnd::Snoozed { .. } => false,
    }
}

fn returned(job: &JobRecord, end: RunEnd) -> Verdict {
    match end {
        RunEnd::Completed { exit } => Verdict::Ack(AckOutcome::Complete { exit: Some(exit) }),
        RunEnd::Failed { exit, retry } => failed(job, exit, retry),
        RunEnd::Snoozed { delay } => Verdict::Ack(AckOutcome::Snooze {
            delay: delay.min(LONGEST),
        }),
        RunEnd::FannedOut {
            fail_fast,
            children,
        } => Verdict::Ack(AckOutcome::FanOut {
            fail_fast,
            children,
        }),
    }
}

fn timed_out(job: &JobRecord) -> Verdict {
    let limit = job.spec.timeout.unwrap_or_default();
    let message = format!("the run took longer than {limit:?}");
    failed(job, defect(DefectKind::Timeout, message), Retry::ByPolicy)
}

fn defect(kind: DefectKind, message: String) -> RawJson {
    defect_exit(&Defect::new(kind, message))
}

fn failed(job: &JobRecord, exit: RawJson, retry: Retry) -> Verdict {
    let exit = Some(exit);
    Verdict::Ack(match delay(job, retry) {
        Some(delay) => AckOutcome::Retry { delay, exit },
        None => AckOutcome::Fail { exit },
    })
}

/// How long until the next attempt; none if there is none.
fn delay(job: &JobRecord, retry: Retry) -> Option<Duration> {
    let attempt = job.attempts_made.saturating_add(1);
    if attempt >= job.spec.attempts_max {
        return None;
    }
    match retry {
        Retry::Never => None,
        Retry::After(delay) => Some(delay.min(LONGEST)),
        Retry::ByPolicy => Some(job.spec.backoff.map_or(Duration::ZERO, |backoff| {
            backoff.delay_with_jitter(attempt, fastrand::f64())
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_core::{Backoff, JobSpec, JobState, Metadata, Timestamp};

    fn job(attempts_made: u32, attempts_max: u32) -> JobRecord {
        let mut spec = JobSpec::new("a", "q", RawJson::null());
        spec.attempts_max = attempts_max;
        spec.backoff = Some(Backoff::exponential(Duration::from_secs(1)));
        spec.timeout = Some(Duration::from_secs(9));
        spec.metadata = Metadata::new();
        JobRecord {
            id: "1".into(),
            spec,
            state: JobState::Active,
            attempts_made,
            attempts_recorded: attempts_made,
            stalled_count: 0,
            cancel_requested: false,
            dedupe_key: None,
            trace: None,
            parent: None,
            flow: None,
            run_at: Timestamp::MIN,
            enqueued_at: Timestamp::MIN,
            processed_at: None,
            finished_at: None,
            exit: None,
            failed_reason: None,
            progress: None,
        }
    }

    fn error(retry: Retry) -> Ended {
        Ended::Returned(RunEnd::failed(&"no", retry))
    }

    fn ok() -> Ended {
        Ended::Returned(RunEnd::completed(&1))
    }

    fn say(job: &JobRecord, ended: Ended, stop: Option<StopReason>) -> String {
        let exit_of = |exit: Option<RawJson>| exit.unwrap_or_default().get().to_owned();
        match decide(job, ended, stop) {
            Verdict::Abandon => "abandon".to_owned(),
            Verdict::Release => "release".to_owned(),
            Verdict::Ack(AckOutcome::Complete { exit }) => format!("complete {}", exit_of(exit)),
            Verdict::Ack(AckOutcome::Fail { exit }) => format!("fail {}", exit_of(exit)),
            Verdict::Ack(AckOutcome::Retry { delay, exit }) => {
                format!("retry in {delay:?} {}", exit_of(exit))
            }
            Verdict::Ack(AckOutcome::Cancelled) => "cancelled".to_owned(),
            Verdict::Ack(AckOutcome::Snooze { delay }) => format!("snooze {delay:?}"),
            Verdict::Ack(AckOutcome::FanOut { .. }) => "fan out".to_owned(),
        }
    }

    #[test]
    fn an_error_is_tried_again_while_attempts_are_left() {
        let by_policy = |made| say(&job(made, 3), error(Retry::ByPolicy), None);
        assert_eq!(by_policy(0), r#"retry in 1s {"err":"no"}"#);
        assert_eq!(by_policy(1), r#"retry in 2s {"err":"no"}"#);
        assert_eq!(by_policy(2), r#"fail {"err":"no"}"#);
        let never = say(&job(0, 3), error(Retry::Never), None);
        assert_eq!(never, r#"fail {"err":"no"}"#);
    }

    #[test]
    fn a_delay_of_the_handlers_own_overrides_the_backoff_but_not_the_attempts() {
        let after = |made| say(&job(made, 2), error(Retry::After(Duration::MAX)), None);
        assert_eq!(after(0), format!(r#"retry in {LONGEST:?} {{"err":"no"}}"#));
        assert_eq!(after(1), r#"fail {"err":"no"}"#);
    }

    #[test]
    fn a_success_counts_whatever_the_handler_was_told() {
        for stop in [
            None,
            Some(StopReason::Shutdown),
            Some(StopReason::Timeout),
            Some(StopReason::Cancel),
        ] {
            assert_eq!(say(&job(0, 1), ok(), stop), r#"complete {"ok":1}"#);
        }
        let lost = say(&job(0, 1), ok(), Some(StopReason::LockLost));
        assert_eq!(lost, "abandon");
    }

    #[test]
    fn an_error_after_a_signal_is_the_signals() {
        let stopped = |stop| say(&job(0, 2), error(Retry::ByPolicy), Some(stop));
        let timed_out =
            r#"retry in 1s {"defect":{"kind":"timeout","message":"the run took longer than 9s"}}"#;
        assert_eq!(stopped(StopReason::Timeout), timed_out);
        assert_eq!(stopped(StopReason::Cancel), "cancelled");
        assert_eq!(stopped(StopReason::Shutdown), "release");
        assert_eq!(stopped(StopReason::LockLost), "abandon");
        let last = say(&job(1, 2), Ended::Dropped, Some(StopReason::Timeout));
        assert!(last.starts_with(r#"fail {"defect":{"kind":"timeout""#));
    }

    #[test]
    fn an_unrecoverable_error_after_a_signal_still_fails_unless_the_job_is_called_off() {
        let stopped = |stop| say(&job(0, 2), error(Retry::Never), Some(stop));
        assert_eq!(stopped(StopReason::Timeout), r#"fail {"err":"no"}"#);
        assert_eq!(stopped(StopReason::Shutdown), r#"fail {"err":"no"}"#);
        assert_eq!(stopped(StopReason::Cancel), "cancelled");
    }

    #[test]
    fn a_panic_is_a_failed_attempt() {
        let panicked = |stop| say(&job(0, 2), Ended::Panicked("oh".into()), stop);
        let retry = r#"retry in 1s {"defect":{"kind":"panic","message":"oh"}}"#;
        assert_eq!(panicked(None), retry);
        assert_eq!(panicked(Some(StopReason::Timeout)), retry);
        assert_eq!(panicked(Some(StopReason::Shutdown)), retry);
        assert_eq!(panicked(Some(StopReason::Cancel)), "cancelled");
    }
}
