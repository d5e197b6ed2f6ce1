//! Wake-ups: who waits for work in a queue, and who for the end of a job.
//!
//! Scripts announce both on one channel of the store. Each handle has one
//! connection of its own that listens, from the first claim or watch on, and
//! numbers what it hears; a cursor is such a number, so what happens between a
//! claim and the wait that follows it is seen by comparing. What may have been
//! missed while the connection was gone counts as heard.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use mq_core::{JobId, QueueName};
use parking_lot::Mutex;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, RedisResult};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many events are remembered before the older ones are forgotten, and
/// with them what was missed and what was not.
const MOST_REMEMBERED: usize = 65_536;

/// What is announced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// Something may be runnable in a queue.
    Wake(QueueName),
    /// A watched job has ended, or is gone.
    End(JobId),
}

impl Event {
    /// Reads a message as scripts publish it.
    fn parse(message: &str) -> Option<Self> {
        match message.split_at_checked(1)? {
            ("q", queue) => Some(Self::Wake(queue.into())),
            ("e", id) => Some(Self::End(id.into())),
            _ => None,
        }
    }
}

struct Heard {
    /// The number of the latest event.
    last: u64,
    /// Before this number, anything may have been missed or forgotten.
    certain_from: u64,
    events: HashMap<Event, u64>,
    waiters: HashMap<Event, Vec<Arc<Notify>>>,
}

impl Heard {
    fn new() -> Self {
        Self {
            last: 1,
            certain_from: 1,
            events: HashMap::new(),
            waiters: HashMap::new(),
        }
    }

    fn hear(&mut self, event: Event) {
        self.last += 1;
        if self.events.len() >= MOST_REMEMBERED {
            self.forget();
        }
        for waiter in self.waiters.get(&event).into_iter().flatten() {
            waiter.notify_one();
        }
        self.events.insert(event, self.last);
    }

    fn forget(&mut self) {
        self.events.clear();
        self.certain_from = self.last;
    }

    /// Counts everything as heard, since anything may have been missed.
    fn miss(&mut self) {
        self.last += 1;
        self.forget();
        for waiter in self.waiters.values().flatten() {
            waiter.notify_one();
        }
    }

    fn happened(&self, event: &Event, since: u64) -> bool {
        since < self.certain_from || self.events.get(event).is_some_and(|at| *at > since)
    }

    fn stop_waiting(&mut self, events: &[Event], waiter: &Arc<Notify>) {
        for event in events {
            if let Some(waiters) = self.waiters.get_mut(event) {
                waiters.retain(|other| !Arc::ptr_eq(other, waiter));
                if waiters.is_empty() {
                    self.waiters.remove(event);
                }
            }
        }
    }
}

/// The wake-ups of one handle on a store.
pub(crate) struct Wakes {
    listener: Arc<Listener>,
    task: Mutex<Option<AbortHandle>>,
}

struct Listener {
    clients: Vec<Client>,
    channel: String,
    /// How long an answer may take; after twice as long without a word the
    /// connection is tried with a ping.
    patience: Duration,
    heard: Mutex<Heard>,
    /// Whether the channel has ever been listened to.
    listening: watch::Sender<bool>,
}

impl Wakes {
    pub(crate) fn new(clients: Vec<Client>, channel: String, patience: Duration) -> Self {
        Self {
            listener: Arc::new(Listener {
                clients,
                channel,
                patience,
                heard: Mutex::new(Heard::new()),
                listening: watch::Sender::new(false),
            }),
            task: Mutex::new(None),
        }
    }

    /// The number of the latest event, once the channel is listened to. If that
    /// takes too long, whoever waits from here is woken as soon as it is.
    pub(crate) async fn subscribed_cursor(&self) -> u64 {
        self.start();
        let mut listening = self.listener.listening.subscribe();
        if !*listening.borrow() {
            let _ = timeout(self.listener.patience, listening.wait_for(|is| *is)).await;
        }
        self.listener.heard.lock().last
    }

    /// Waits until one of these events has happened since a cursor was taken.
    pub(crate) async fn wait(&self, events: &[Event], since: u64) {
        self.start();
        let waiter = Arc::new(Notify::new());
        {
            let mut heard = self.listener.heard.lock();
            if events.iter().any(|event| heard.happened(event, since)) {
                return;
            }
            for event in events {
                let waiters = heard.waiters.entry(event.clone()).or_default();
                waiters.push(Arc::clone(&waiter));
            }
        }
        let _stop = StopWaiting {
            listener: &self.listener,
            events,
            waiter: &waiter,
        };
        waiter.notified().await;
    }

    fn start(&self) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            let listener = Arc::clone(&self.listener);
            *task = Some(tokio::spawn(async move { listener.run().await }).abort_handle());
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

/// Takes a waiter off the list however its wait ends.
struct StopWaiting<'a> {
    listener: &'a Listener,
    events: &'a [Event],
    waiter: &'a Arc<Notify>,
}

impl Drop for StopWaiting<'_> {
    fn drop(&mut self) {
        let mut heard = self.listener.heard.lock();
        heard.stop_waiting(self.events, self.waiter);
    }
}

impl Listener {
    /// Listens for ever, again and again after each loss.
    async fn run(&self) {
        let mut pause = SHORTEST_PAUSE;
        let mut outage = false;
        for client in self.clients.iter().cycle() {
            match timeout(self.patience, self.subscribe(client)).await {
                Ok(Ok((sink, stream))) => {
                    if outage {
                        tracing::info!(channel = self.channel, "wake-ups arrive again");
                    }
                    (pause, outage) = (SHORTEST_PAUSE, false);
                    self.heard.lock().miss();
                    self.listening.send_replace(true);
                    self.listen(sink, stream).await;
                }
                failed => {
                    if !outage {
                        let error = match failed {
                            Ok(Err(error)) => error.to_string(),
                            _ => format!("no answer within {:?}", self.patience),
                        };
                        tracing::warn!(
                            channel = self.channel,
                            error,
                            "wake-ups cannot be listened to: work is found by polling until they \
                             can"
                        );
                    }
                    outage = true;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn subscribe(&self, client: &Client) -> RedisResult<(PubSubSink, PubSubStream)> {
        let mut connection = client.get_async_pubsub().await?;
        connection.subscribe(&self.channel).await?;
        Ok(connection.split())
    }

    /// Hears what comes until the connection is lost, or does not answer a ping
    /// any more.
    async fn listen(&self, mut sink: PubSubSink, mut stream: PubSubStream) {
        loop {
            // A connection of which only one half is open is silent for ever.
            match timeout(self.patience * 2, stream.next()).await {
                Ok(Some(message)) => {
                    let event = message.get_payload::<String>().ok();
                    if let Some(event) = event.as_deref().and_then(Event::parse) {
                        self.heard.lock().hear(event);
                    }
                }
                Ok(None) => return,
                Err(_silent) => match timeout(self.patience, sink.ping::<redis::Value>()).await {
                    Ok(Ok(_)) => {}
                    _ => return,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(queue: &str) -> Event {
        Event::Wake(queue.into())
    }

    #[test]
    fn an_event_counts_for_cursors_from_before_it() {
        let mut heard = Heard::new();
        let before = heard.last;
        heard.hear(wake("a"));
        assert!(heard.happened(&wake("a"), before));
        assert!(!heard.happened(&wake("a"), heard.last));
        assert!(!heard.happened(&wake("b"), before));
        assert!(!heard.happened(&Event::End("a".into()), before));
    }

    #[test]
    fn after_a_loss_everything_may_have_happened() {
        let mut heard = Heard::new();
        let before = heard.last;
        heard.miss();
        assert!(heard.happened(&wake("a"), before));
        assert!(!heard.happened(&wake("a"), heard.last));
    }

    #[test]
    fn what_is_forgotten_counts_as_heard() {
        let mut heard = Heard::new();
        let before = heard.last;
        for number in 0..=MOST_REMEMBERED {
            heard.hear(wake(&number.to_string()));
        }
        assert!(heard.events.len() < MOST_REMEMBERED);
        assert!(heard.happened(&wake("0"), before));
        assert!(!heard.happened(&wake("0"), heard.last));
    }

    #[test]
    fn messages_are_told_apart_by_their_first_letter() {
        assert_eq!(Event::parse("qa queue"), Some(wake("a queue")));
        assert_eq!(Event::parse("ean id"), Some(Event::End("an id".into())));
        assert_eq!(Event::parse("?x"), None);
        assert_eq!(Event::parse(""), None);
        assert_eq!(Event::parse("ä"), None);
    }
}
