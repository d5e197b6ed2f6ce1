//! One client's connection, and the one to the server that belongs to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::{Fault, Shared};

/// How much is remembered of what a client has said, in bytes.
const MEMORY: usize = 16 * 1024;

/// How much moves at once, in bytes.
const PIECE: usize = 16 * 1024;

/// A pair of connections.
pub(super) struct Connection {
    shared: Arc<Shared>,
    said: Mutex<Vec<u8>>,
    waits_for_an_answer: AtomicBool,
    /// How many cuts there had been when it began.
    cuts: usize,
}

/// It ends by a reset of both connections.
struct Reset;

impl Connection {
    /// Moves bytes until either end closes or a fault ends it.
    pub(super) async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        shared.open.send_modify(|open| *open += 1);
        let cuts = shared.rules.borrow().cuts();
        let connection = Self {
            shared,
            said: Mutex::default(),
            waits_for_an_answer: AtomicBool::new(false),
            cuts,
        };
        let Ok(mut server) = TcpStream::connect(&connection.shared.server).await else {
            client.set_zero_linger().ok();
            return;
        };
        client.set_nodelay(true).ok();
        server.set_nodelay(true).ok();
        if let Err(Reset) = connection.pump(&mut client, &mut server).await {
            client.set_zero_linger().ok();
            server.set_zero_linger().ok();
        }
    }

    async fn pump(&self, client: &mut TcpStream, server: &mut TcpStream) -> Result<(), Reset> {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            end = async {
                tokio::try_join!(
                    self.requests(from_client, to_server),
                    self.replies(from_server, to_client),
                )
            } => end.map(|_| ()),
            () = self.cut() => Err(Reset),
        }
    }

    async fn requests(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Reset> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = from.read(&mut piece).await.map_err(|_| Reset)?;
            if length == 0 {
                self.thaw().await;
                to.shutdown().await.ok();
                return Ok(());
            }
            self.remember(&piece[..length]);
            self.waits_for_an_answer.store(true, Ordering::SeqCst);
            self.thaw().await;
            if self.fault() == Some(Fault::ResetBeforeRequest)
                && self.strike(Fault::ResetBeforeRequest)
            {
                return Err(Reset);
            }
            to.write_all(&piece[..length]).await.map_err(|_| Reset)?;
        }
    }

    async fn replies(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), Reset> {
        let mut piece = vec![0; PIECE];
        let (mut version, mut passed) = (0, 0);
        loop {
            let length = from.read(&mut piece).await.map_err(|_| Reset)?;
            self.thaw().await;
            if length == 0 {
                to.shutdown().await.ok();
                return Ok(());
            }
            if self.waits_for_an_answer.swap(false, Ordering::SeqCst) {
                self.shared.round_trips.fetch_add(1, Ordering::SeqCst);
            }
            let now = self.shared.rules.borrow().version();
            if version != now {
                (version, passed) = (now, 0);
            }
            match self.fault() {
                Some(Fault::SwallowReplies) => continue,
                Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
                Some(fault @ Fault::ResetAfter { bytes })
                    if passed + length > bytes && self.strike(fault) =>
                {
                    let rest = &piece[..bytes - passed];
                    to.write_all(rest).await.map_err(|_| Reset)?;
                    return Err(Reset);
                }
                _ => {}
            }
            to.write_all(&piece[..length]).await.map_err(|_| Reset)?;
            passed += length;
        }
    }

    fn remember(&self, bytes: &[u8]) {
        let mut said = self.said.lock();
        let room = MEMORY - said.len();
        said.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn fault(&self) -> Option<Fault> {
        self.shared.rules.borrow().fault(&self.said.lock())
    }

    fn strike(&self, fault: Fault) -> bool {
        let mut strikes = false;
        self.shared.rules.send_if_modified(|rules| {
            strikes = rules.strike(&self.said.lock(), fault);
            strikes
        });
        strikes
    }

    /// Waits until nothing freezes it.
    async fn thaw(&self) {
        let mut rules = self.shared.rules.subscribe();
        rules
            .wait_for(|rules| rules.fault(&self.said.lock()) != Some(Fault::Freeze))
            .await
            .ok();
    }

    /// Waits until it is cut.
    async fn cut(&self) {
        let mut rules = self.shared.rules.subscribe();
        rules
            .wait_for(|rules| rules.is_cut(self.cuts, &self.said.lock()))
            .await
            .ok();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.open.send_modify(|open| *open -= 1);
    }
}
