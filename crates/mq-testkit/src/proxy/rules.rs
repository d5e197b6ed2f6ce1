//! What goes wrong, and with which connections.

use std::time::Duration;

/// What goes wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset when the client sends something; the server does
    /// not see it.
    ResetBeforeRequest,
    /// The server gets what the client sends, and the connection is reset when
    /// this many bytes of answers have passed since the fault was set and more
    /// are due. With 0, the client sees nothing of the answer.
    ResetAfter {
        /// How many bytes of answers pass.
        bytes: usize,
    },
    /// The server gets what the client sends, and its answers are lost: a
    /// connection of which only one half is open.
    SwallowReplies,
    /// Nothing moves in either direction, and nobody is told.
    Freeze,
    /// Each piece of an answer comes this much later.
    Delay(Duration),
}

/// Which connections are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those whose client has sent this text among its first 16 KiB, in whatever
    /// case: `SUBSCRIBE`, `LISTEN`.
    Said(String),
    /// Those whose client has not.
    NotSaid(String),
}

impl Which {
    fn means(&self, said: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Said(text) => holds(said, text),
            Self::NotSaid(text) => !holds(said, text),
        }
    }
}

fn holds(said: &[u8], text: &str) -> bool {
    text.is_empty()
        || said
            .windows(text.len())
            .any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
}

/// What is to go wrong.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    cuts: Vec<Which>,
    version: u64,
}

#[derive(Debug)]
struct Rule {
    which: Which,
    fault: Fault,
    strikes: Strikes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strikes {
    Always,
    Once,
}

impl Rules {
    pub(super) fn set(&mut self, which: Which, fault: Fault) {
        self.add(which, fault, Strikes::Always);
    }

    pub(super) fn set_once(&mut self, which: Which, fault: Fault) {
        self.add(which, fault, Strikes::Once);
    }

    fn add(&mut self, which: Which, fault: Fault, strikes: Strikes) {
        self.rules.retain(|rule| rule.which != which);
        self.rules.push(Rule {
            which,
            fault,
            strikes,
        });
        self.version += 1;
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.version += 1;
    }

    pub(super) fn cut(&mut self, which: Which) {
        self.cuts.push(which);
    }

    /// What goes wrong with a connection whose client has said this: the rule set
    /// last counts.
    pub(super) fn fault(&self, said: &[u8]) -> Option<Fault> {
        self.rule(said).map(|at| self.rules[at].fault)
    }

    /// Whether a fault that ends a connection is still there to do so; one that
    /// strikes once is then used up.
    pub(super) fn strike(&mut self, said: &[u8], fault: Fault) -> bool {
        match self.rule(said) {
            Some(at) if self.rules[at].fault == fault => {
                if self.rules[at].strikes == Strikes::Once {
                    self.rules.remove(at);
                }
                true
            }
            _ => false,
        }
    }

    fn rule(&self, said: &[u8]) -> Option<usize> {
        self.rules.iter().rposition(|rule| rule.which.means(said))
    }

    /// Whether such a connection has been cut since there were this many cuts.
    pub(super) fn is_cut(&self, since: usize, said: &[u8]) -> bool {
        self.cuts[since..].iter().any(|which| which.means(said))
    }

    /// How many cuts there have been.
    pub(super) fn cuts(&self) -> usize {
        self.cuts.len()
    }

    /// Changes with every fault that is set.
    pub(super) fn version(&self) -> u64 {
        self.version
    }
}
