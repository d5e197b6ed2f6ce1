//! Hearing of other processes: one connection that does nothing but `LISTEN`.
//!
//! Such a connection can die without a sign. So it sends itself a word every
//! half minute, by way of the pool, and is given up if that does not come.

use std::sync::Weak;
use std::time::Duration;

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use futures::StreamExt;
use mq_core::Result;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Topic;
use crate::store::Inner;

/// How the connection is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probing {
    /// How often.
    pub(crate) every: Duration,
    /// How long the word may take to come back.
    pub(crate) echo_within: Duration,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            echo_within: Duration::from_secs(10),
        }
    }
}

/// How long until another try to connect, at first and at the most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The listener's task, ended with the store.
#[derive(Debug)]
pub(crate) struct Listener {
    task: tokio::task::JoinHandle<()>,
    tried: watch::Receiver<bool>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    pub(crate) fn start(inner: Weak<Inner>) -> Self {
        let (tried, tried_rx) = watch::channel(false);
        Self {
            task: tokio::spawn(run(inner, tried)),
            tried: tried_rx,
        }
    }

    /// A way to wait until it listens, or has failed to for the first time.
    pub(crate) fn tried(&self) -> watch::Receiver<bool> {
        self.tried.clone()
    }
}

async fn run(inner: Weak<Inner>, tried: watch::Sender<bool>) {
    let mut pause = FIRST_PAUSE;
    let mut warned = false;
    loop {
        let Some(strong) = inner.upgrade() else {
            return;
        };
        let listening = strong.listen().await;
        match listening {
            Ok(connection) => {
                if warned {
                    tracing::info!(server = strong.connections.server(), "listens again");
                }
                (pause, warned) = (FIRST_PAUSE, false);
                if *tried.borrow() {
                    // What was said meanwhile went unheard.
                    strong.wakes.tell_all();
                }
                tried.send_replace(true);
                let probing = strong.probing;
                drop(strong);
                hear(&inner, connection, probing).await;
            }
            Err(error) => {
                if !warned {
                    tracing::warn!(
                        server = strong.connections.server(), %error,
                        "cannot listen for wake-ups: workers poll until it can"
                    );
                }
                warned = true;
                tried.send_replace(true);
                drop(strong);
                tokio::time::sleep(pause.mul_f64(fastrand::f64().mul_add(0.5, 0.5))).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Hears words until the connection fails.
async fn hear(inner: &Weak<Inner>, mut connection: AsyncPgConnection, probing: Probing) {
    let mut words = Box::pin(connection.notifications_stream());
    let mut echo_due = None;
    let mut probe_at = Instant::now() + probing.every;
    loop {
        let until = echo_due.unwrap_or(probe_at);
        match tokio::time::timeout_at(until, words.next()).await {
            Ok(Some(Ok(notification))) => {
                let Some(inner) = inner.upgrade() else { return };
                if inner.hear(&notification.channel, &notification.payload) {
                    echo_due = None;
                }
            }
            Ok(Some(Err(_)) | None) => return,
            Err(_) if echo_due.is_some() => {
                tracing::debug!("the listening connection gives no echo");
                return;
            }
            Err(_) => {
                let Some(inner) = inner.upgrade() else { return };
                let word = format!("{} p", inner.speaker);
                if inner.say(&[word]).await.is_ok() {
                    echo_due = Some(Instant::now() + probing.echo_within);
                }
                probe_at = Instant::now() + probing.every;
            }
        }
    }
}

impl Inner {
    async fn listen(&self) -> Result<AsyncPgConnection> {
        let mut connection = match &self.listen_url {
            Some(url) => crate::pool::connect(url).await.map_err(|error| {
                let error = diesel_async::pooled_connection::PoolError::ConnectionError(error);
                crate::error::of_connection(error, self.connections.server())
            })?,
            None => self.connections.dedicated().await?,
        };
        let listen = format!("LISTEN \"{}\"", self.channel);
        connection
            .batch_execute(&listen)
            .await
            .map_err(|error| crate::error::of_statement(error, self.connections.server(), None))?;
        Ok(connection)
    }

    /// Takes a word; whether it was this handle's own probe.
    fn hear(&self, channel: &str, word: &str) -> bool {
        if channel != &*self.channel {
            return false;
        }
        let mut parts = word.splitn(3, ' ');
        let speaker = parts.next();
        let own = speaker == Some(&*self.speaker);
        match (parts.next(), parts.next()) {
            (Some("p"), _) => return own,
            // Its own waiters were told when it happened.
            _ if own => {}
            (Some("q"), Some(queue)) => self.wakes.tell(&[Topic::Queue(queue.into())]),
            (Some("j"), Some(id)) => self.wakes.tell(&[Topic::Job(id.into())]),
            _ => tracing::debug!(word, "heard a word of another version"),
        }
        false
    }
}
