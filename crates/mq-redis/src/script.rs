//! The scripts: one per operation, each behind the prelude.

use std::sync::LazyLock;

const PRELUDE: &str = include_str!("lua/prelude.lua");
const TERMINAL: &str = include_str!("lua/terminal.lua");

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
    ENQUEUE = "enqueue" after [PRELUDE];
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
}
