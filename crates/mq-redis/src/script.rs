//! The scripts: one per operation, each behind the prelude.

use std::sync::{LazyLock, OnceLock};

const PRELUDE: &str = include_str!("lua/prelude.lua");
const TERMINAL: &str = include_str!("lua/terminal.lua");
const INSERT: &str = include_str!("lua/insert.lua");
const FLOWS: &str = include_str!("lua/flows.lua");
const CANCELLING: &str = include_str!("lua/cancelling.lua");

/// What to make of each script before its first use, given its name and its text.
/// Only the chaos harness sets it, to show that it notices a store whose scripts
/// lack a check.
#[doc(hidden)]
pub static TAMPER: OnceLock<fn(&str, String) -> String> = OnceLock::new();

/// A script as the server knows it.
pub(crate) struct Script {
    /// The name of its file, for messages.
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) sha: String,
}

impl Script {
    fn new(name: &'static str, parts: &[&str]) -> Self {
        let text = parts.join("\n");
        let text = match TAMPER.get() {
            Some(tamper) => tamper(name, text),
            None => text,
        };
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, sha }
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $constant:ident = $file:literal after [$($part:ident),*];)*) => {$(
        $(#[$doc])*
        pub(crate) static $constant: LazyLock<Script> = LazyLock::new(|| {
            Script::new($file, &[$($part,)* include_str!(concat!("lua/", $file, ".lua"))])
        });
    )*};
}

scripts! {
    OPEN = "open" after [PRELUDE];
    ENQUEUE = "enqueue" after [PRELUDE, INSERT];
    CLAIM = "claim" after [PRELUDE];
    ACK = "ack" after [PRELUDE, TERMINAL];
    RELEASE = "release" after [PRELUDE, TERMINAL];
    EXTEND = "extend" after [PRELUDE];
    PROGRESS = "progress" after [PRELUDE];
    STALLS = "stalls" after [PRELUDE, TERMINAL];
    GET = "get" after [PRELUDE];
    ATTEMPTS = "attempts" after [PRELUDE];
    COUNTS = "counts" after [PRELUDE];
    NOW = "now" after [PRELUDE];
    WATCH = "watch" after [PRELUDE, TERMINAL];
    LIST = "list" after [PRELUDE];
    INDEX_BUILD = "index_build" after [PRELUDE];
    INDEX_DROP = "index_drop" after [PRELUDE];
    INDEX_STATE = "index_state" after [PRELUDE];
    RETRY = "retry" after [PRELUDE, TERMINAL];
    CANCEL = "cancel" after [PRELUDE, TERMINAL, FLOWS, CANCELLING];
    CANCEL_KEYED = "cancel_keyed" after [PRELUDE, TERMINAL, FLOWS, CANCELLING];
    PROMOTE = "promote" after [PRELUDE];
    REMOVE = "remove" after [PRELUDE, TERMINAL];
    SET_QUEUE = "set_queue" after [PRELUDE];
    SWEEP_HISTORY = "sweep_history" after [PRELUDE, TERMINAL];
    REPORT_WORKER = "report_worker" after [PRELUDE];
    WORKERS = "workers" after [PRELUDE];
    BIND_NAME = "bind_name" after [PRELUDE];
    FAN_OUT = "fan_out" after [PRELUDE, TERMINAL, FLOWS];
    RECORD_RESULTS = "record_results" after [PRELUDE, TERMINAL, FLOWS];
    CHILD_RESULTS = "child_results" after [PRELUDE, TERMINAL, FLOWS];
    PENDING_CHILDREN = "pending_children" after [PRELUDE, TERMINAL, FLOWS];
    SWEEP_FLOWS = "sweep_flows" after [PRELUDE, TERMINAL, FLOWS];
    MARK_CASCADED = "mark_cascaded" after [PRELUDE, TERMINAL, FLOWS];
    PEEK_OUTBOX = "peek_outbox" after [PRELUDE];
    DELETE_OUTBOX = "delete_outbox" after [PRELUDE, TERMINAL];
    UNDELIVERED_REPORTS = "undelivered_reports" after [PRELUDE, TERMINAL];
    UPSERT_SCHEDULE = "upsert_schedule" after [PRELUDE];
    REMOVE_SCHEDULE = "remove_schedule" after [PRELUDE];
    LIST_SCHEDULES = "list_schedules" after [PRELUDE];
    DUE_SCHEDULES = "due_schedules" after [PRELUDE];
    TICK_SCHEDULE = "tick_schedule" after [PRELUDE, INSERT];
}
