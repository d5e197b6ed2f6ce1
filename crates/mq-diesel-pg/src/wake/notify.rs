//! Telling other processes.
//!
//! `NOTIFY` takes a lock on the whole database when its transaction commits,
//! so it is never part of a hot one. The first word about a topic goes out at
//! once; what follows within a few milliseconds goes out together.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Topic;
use crate::store::Inner;

/// How long words are gathered before the next go out.
const GATHERED_FOR: Duration = Duration::from_millis(5);

/// How many words one statement carries.
const MOST_WORDS: usize = 1_000;

pub(crate) const NOTIFY: &str =
    "SELECT count(pg_notify($1, word)) FROM unnest($2::text[]) AS w(word)";

/// Words that have yet to go out.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashSet<Topic>,
    /// Whether there is a task that sends them.
    sending: bool,
}

impl Inner {
    /// Tells all who wait for one of these, here and elsewhere.
    pub(crate) fn announce(self: &Arc<Self>, topics: Vec<Topic>) {
        if topics.is_empty() {
            return;
        }
        self.wakes.tell(&topics);
        let mut state = self.outgoing.state.lock();
        state.waiting.extend(topics);
        if !std::mem::replace(&mut state.sending, true) {
            // The store stays until all is said, even if it is dropped now.
            tokio::spawn(send(Arc::clone(self)));
        }
    }
}

/// The word for a topic: who says it, what about, and the name.
pub(crate) fn word(speaker: &str, topic: &Topic) -> String {
    match topic {
        Topic::Queue(queue) => format!("{speaker} q {queue}"),
        Topic::Job(id) => format!("{speaker} j {id}"),
    }
}

async fn send(inner: Arc<Inner>) {
    loop {
        let words: Vec<String> = {
            let mut state = inner.outgoing.state.lock();
            let some: Vec<Topic> = state.waiting.iter().take(MOST_WORDS).cloned().collect();
            for topic in &some {
                state.waiting.remove(topic);
            }
            if some.is_empty() {
                state.sending = false;
                return;
            }
            some.iter()
                .map(|topic| word(&inner.speaker, topic))
                .collect()
        };
        if let Err(error) = inner.say(&words).await {
            // Those who miss it poll.
            tracing::debug!(%error, "could not notify other processes");
        }
        tokio::time::sleep(GATHERED_FOR).await;
    }
}

impl Inner {
    /// Sends words to all who listen.
    pub(crate) async fn say(&self, words: &[String]) -> mq_core::Result<()> {
        let statement = self
            .statement(NOTIFY)
            .bind(&*self.channel)
            .bind(words.iter().map(String::as_str).collect::<Vec<_>>());
        self.query(&statement).await.map(drop)
    }
}
