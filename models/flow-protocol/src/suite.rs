//! The explorations: those that the tests make, those that take longer, and
//! the known-bad variants.

use crate::config::Chance::{
    CancelChild, CancelParent, ChildStall, CollectFails, Crash, EnqueueParentAgain, LateRequest,
    LockLoss, LostReply, Outage, RemoveChild, RemoveParent, RetryChild, RetryParent,
};
use crate::config::{ChildRuns, Config, Retention, Timing, Variant};
use crate::model::{CALLED_OFF, DRAINS, RESULTS, RUNS_ONCE, SETTLES_ONCE};

fn one(name: &'static str) -> Config {
    Config::new(name)
}

fn one_pruned(name: &'static str) -> Config {
    Config {
        retention: Retention::PruneChildren,
        ..one(name)
    }
}

fn two(name: &'static str) -> Config {
    Config {
        children: 2,
        ..one(name)
    }
}

fn fail_fast(config: Config) -> Config {
    Config {
        fail_fast: true,
        child_runs: ChildRuns::EndEitherWay,
        ..config
    }
}

fn either_way(config: Config) -> Config {
    Config {
        child_runs: ChildRuns::EndEitherWay,
        ..config
    }
}

fn nested(config: Config) -> Config {
    Config {
        nested: true,
        ..config
    }
}

fn pages(config: Config) -> Config {
    Config { pages: 2, ..config }
}

/// What the tests explore.
pub fn small() -> Vec<Config> {
    vec![
        either_way(one("plain")),
        either_way(one_pruned("pruned")),
        one_pruned("worker_dies").may(Crash, 1).may(LockLoss, 1),
        Config {
            max_stalled_count: 0,
            ..one_pruned("stalls_exhausted")
        }
        .may(Crash, 1)
        .may(LockLoss, 1)
        .may(ChildStall, 1)
        .may(RetryParent, 1),
        one_pruned("replies_lost").may(LostReply, 2),
        one_pruned("requests_late").may(LateRequest, 1),
        one("requests_late_and_cancel")
            .may(LateRequest, 2)
            .may(CancelParent, 1),
        one_pruned("store_down").may(Outage, 1).may(CancelParent, 1),
        Config {
            sweepers: 2,
            relays: 2,
            ..one("two_of_each")
        }
        .may(CancelParent, 1)
        .may(ChildStall, 1),
        Config {
            sweepers: 2,
            ..one_pruned("two_sweepers")
        },
        one_pruned("cancel").may(CancelParent, 1).may(Crash, 1),
        Config {
            timing: Timing::SenderLooksAgain,
            ..one_pruned("cancel_and_slow_senders")
        }
        .may(CancelParent, 1)
        .may(LostReply, 1),
        Config {
            timing: Timing::Unbounded,
            ..one_pruned("cancel_and_stray_senders")
        }
        .may(CancelParent, 1)
        .may(Crash, 1),
        either_way(one_pruned("collect_fails"))
            .may(CollectFails, 1)
            .may(RetryParent, 1)
            .may(LostReply, 1),
        either_way(one_pruned("child_operated"))
            .may(CancelChild, 1)
            .may(RetryChild, 1)
            .may(RemoveChild, 1),
        either_way(two("two_children")),
        fail_fast(two("fail_fast")).may(RetryParent, 1),
        pages(two("two_pages")).may(LockLoss, 1),
        pages(two("two_pages_and_cancel")).may(CancelParent, 1),
        one("enqueued_again")
            .may(RemoveParent, 1)
            .may(EnqueueParentAgain, 1)
            .may(Crash, 1),
        nested(either_way(one("nested"))).may(CancelParent, 1),
        nested(fail_fast(one("nested_fail_fast"))).may(Crash, 1),
        nested(one("nested_operated")).may(CancelChild, 1),
    ]
}

/// What takes too long for the tests.
pub fn large() -> Vec<Config> {
    let two_pruned = |name| Config {
        children: 2,
        ..one_pruned(name)
    };
    vec![
        two_pruned("two_children_pruned"),
        pages(two("two_pages_cancel_and_crash"))
            .may(CancelParent, 1)
            .may(Crash, 1)
            .may(LockLoss, 1),
        Config {
            workers: 1,
            ..nested(one_pruned("nested_pruned"))
        },
        nested(fail_fast(one("nested_fail_fast_and_cancel")))
            .may(CancelParent, 1)
            .may(Crash, 1)
            .may(ChildStall, 1),
        nested(either_way(one("nested_retried")))
            .may(CancelChild, 1)
            .may(RetryChild, 1),
        Config {
            retention: Retention::PruneAll,
            ..one("pruned_and_enqueued_again")
        }
        .may(EnqueueParentAgain, 1),
        one_pruned("removed_and_enqueued_again")
            .may(RemoveParent, 1)
            .may(EnqueueParentAgain, 1),
        one("all_faults_and_cancel")
            .may(Crash, 1)
            .may(LockLoss, 1)
            .may(ChildStall, 1)
            .may(LostReply, 1)
            .may(LateRequest, 1)
            .may(CancelParent, 1),
        fail_fast(two_pruned("fail_fast_pruned")),
    ]
}

/// A variant of the protocol, and the property that refutes it.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    /// Where it shows.
    pub config: Config,
    /// What is different, in words.
    pub what: &'static str,
    /// What does not hold.
    pub refutes: &'static str,
}

/// The known-bad variants.
pub fn broken() -> Vec<Broken> {
    let variant = |config: Config, variant, what, refutes| Broken {
        config: config.broken(variant),
        what,
        refutes,
    };
    vec![
        variant(
            one("report_before_ack").may(ChildStall, 1),
            Variant::ReportBeforeAck,
            "A child's worker reports to the parent's store before it acks, and the ack leaves no \
             report in the outbox. It dies in between: the child's result is recorded, and the \
             child runs again.",
            RUNS_ONCE,
        ),
        variant(
            one_pruned("sweep_without_the_parent_check"),
            Variant::SweepWithoutParentCheck,
            "A sweeper that finds a child missing, and no report of it, enqueues it without \
             asking whether its row is still pending.",
            RUNS_ONCE,
        ),
        variant(
            one_pruned("missing_child_marked_at_once")
                .may(CancelParent, 1)
                .may(Crash, 1),
            Variant::MissingMarkedAtOnce,
            "A cancel that finds no child marks the row cascaded at once. An enqueue that was \
             decided before the close lands after it.",
            CALLED_OFF,
        ),
        variant(
            one_pruned("parent_read_before_the_outbox"),
            Variant::ParentBeforeOutbox,
            "A sweeper asks the parent's store whether the row is pending, then reads the \
             outbox. A relay delivers the report in between.",
            RUNS_ONCE,
        ),
        variant(
            one("no_manifest_mark")
                .may(RemoveParent, 1)
                .may(EnqueueParentAgain, 1),
            Variant::NoManifestMark,
            "Child ids, rows and reports carry no manifest. A parent enqueued again under its \
             old id takes a late report of its former child for its new child's.",
            RESULTS,
        ),
        variant(
            one("no_row_guard"),
            Variant::NoRowGuard,
            "A report applies to its row whatever the row's status. A relay that dies before it \
             deletes delivers twice.",
            SETTLES_ONCE,
        ),
        variant(
            one_pruned("worker_checks_the_flow_only"),
            Variant::WorkerChecksFlowOnly,
            "As the design was first written: after its fan-out ack, a worker asks only whether \
             the parent is still parked under its manifest, not which children are pending.",
            RUNS_ONCE,
        ),
        variant(
            one_pruned("worker_skips_the_outbox"),
            Variant::WorkerSkipsOutbox,
            "A worker asks which children are pending, but does not read the outbox before.",
            RUNS_ONCE,
        ),
        variant(
            one_pruned("ended_child_marked_at_once")
                .may(CancelParent, 1)
                .may(Crash, 1),
            Variant::EndedMarkedAtOnce,
            "As the design was first written: a cascade whose cancel finds or ends the child \
             marks the row at once. The child is pruned, an enqueue that was decided before the \
             close brings it back, its sender dies, and no cancel is owed any more.",
            CALLED_OFF,
        ),
        variant(
            one_pruned("worker_checks_nothing"),
            Variant::WorkerChecksNothing,
            "After its fan-out ack a worker enqueues without looking at anything first.",
            RUNS_ONCE,
        ),
        variant(
            Config {
                timing: Timing::SenderLooksAgain,
                ..one("no_look_again")
            }
            .may(CancelParent, 1),
            Variant::NoLookAgain,
            "Who enqueues a child does not look again afterwards, and is slow.",
            CALLED_OFF,
        ),
        variant(
            pages(two("purge_without_the_lock_check")),
            Variant::PurgeWithoutLockCheck,
            "Rows of no manifest are purged even if a live lock is staging them.",
            DRAINS,
        ),
        variant(
            one_pruned("delete_before_record"),
            Variant::DeleteBeforeRecord,
            "A relay deletes a report from the outbox before it records it, and dies.",
            RUNS_ONCE,
        ),
        variant(
            Config {
                retention: Retention::PruneAll,
                ..one("prune_while_owing")
            }
            .may(CancelParent, 1),
            Variant::PruneWhileOwing,
            "Retention prunes a parent that still owes cancels.",
            CALLED_OFF,
        ),
    ]
}

/// The sound protocol, with the exception to "a finished child is not run
/// again" taken for a fault. Children's records may be pruned, or not.
pub fn exception(retention: Retention) -> Config {
    Config {
        retention,
        ..one("the_exception")
    }
    .broken(Variant::ExceptionForbidden)
}

/// The sound protocol without any bound on enqueues under way, and the stray
/// child that this may leave taken for a fault.
pub fn stray() -> Config {
    Config {
        timing: Timing::Unbounded,
        ..one("a_stray")
    }
    .may(CancelParent, 1)
    .may(Crash, 1)
    .broken(Variant::StrayForbidden)
}
