//! A proxy between clients and a server, for faults of the network that a server
//! cannot be asked for.
//!
//! ```no_run
//! use mq_testkit::proxy::{Fault, Proxy, Which};
//!
//! # async fn example() -> std::io::Result<()> {
//! let proxy = Proxy::start("127.0.0.1:6379").await?;
//! let url = format!("redis://{}", proxy.address());
//! // … connect to the URL, then:
//! proxy.set(Which::Said("SUBSCRIBE".into()), Fault::Freeze);
//! # Ok(()) }
//! ```

mod connection;
mod rules;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use connection::Connection;
use rules::Rules;
pub use rules::{Fault, Which};

/// How often a proxy tries to take its port again.
const BIND_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);

/// A proxy in front of one server. It and all its connections end when it is
/// dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What the proxy and its connections have in common.
#[derive(Debug)]
struct Shared {
    server: String,
    rules: watch::Sender<Rules>,
    accepted: AtomicU64,
    round_trips: AtomicU64,
    open: watch::Sender<u64>,
    wanted: watch::Sender<Listening>,
    actual: watch::Sender<Listening>,
}

/// Whether somebody listens at the proxy's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

impl Proxy {
    /// Starts one in front of the server at this address, `host:port`, on a free
    /// port of the loopback interface.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn start(server: impl Into<String>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: server.into(),
            rules: watch::Sender::new(Rules::default()),
            accepted: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            open: watch::Sender::new(0),
            wanted: watch::Sender::new(Listening::Yes),
            actual: watch::Sender::new(Listening::Yes),
        });
        let task = tokio::spawn(listen(listener, address, shared.clone()));
        Ok(Self {
            address,
            shared,
            task,
        })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has something go wrong with these connections, those that are open
    /// already and those to come, until [`Proxy::heal`].
    pub fn set(&self, which: Which, fault: Fault) {
        self.shared
            .rules
            .send_modify(|rules| rules.set(which, fault));
    }

    /// Has something go wrong with the first of these connections that it can
    /// strike, and with no other; that is a fault that ends a connection.
    pub fn set_once(&self, which: Which, fault: Fault) {
        self.shared
            .rules
            .send_modify(|rules| rules.set_once(which, fault));
    }

    /// Lets everything pass again, on the connections that are left. What was
    /// frozen goes on; what was swallowed stays lost.
    pub async fn heal(&self) {
        self.shared.rules.send_modify(Rules::clear);
        self.listening(Listening::Yes).await;
    }

    /// Refuses new connections until [`Proxy::heal`]: nobody listens any more.
    /// Connections that are open stay.
    pub async fn refuse(&self) {
        self.listening(Listening::No).await;
    }

    /// Resets these connections, all that are open now.
    pub fn cut(&self, which: Which) {
        self.shared.rules.send_modify(|rules| rules.cut(which));
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open(&self) -> u64 {
        *self.shared.open.borrow()
    }

    /// Waits until this many connections are open.
    pub async fn until_open(&self, count: u64) {
        let mut open = self.shared.open.subscribe();
        // The sender lives as long as this.
        open.wait_for(|now| *now == count).await.ok();
    }

    /// How often a server's answer followed a client's request, over all
    /// connections. Requests sent before the answer to an earlier one came do not
    /// count on their own.
    pub fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::SeqCst)
    }

    async fn listening(&self, wanted: Listening) {
        self.shared.wanted.send_replace(wanted);
        let mut actual = self.shared.actual.subscribe();
        actual.wait_for(|now| *now == wanted).await.ok();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections. Those end with this task, as their set is dropped.
async fn listen(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut listener = Some(listener);
    let mut wanted = shared.wanted.subscribe();
    loop {
        let now = *wanted.borrow_and_update();
        match (now, &listener) {
            (Listening::Yes, None) => listener = Some(bind(address).await),
            (Listening::No, Some(_)) => listener = None,
            _ => {}
        }
        shared.actual.send_replace(now);
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            client = accept(listener.as_ref()) => {
                connections.spawn(Connection::serve(client, shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        // Errors here are a connection's that ended before it began.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}

async fn bind(address: SocketAddr) -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(BIND_INTERVAL).await;
    }
}
