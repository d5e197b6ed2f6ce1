//! Records what a client sends to a server, and sends it again in one piece.
//!
//! What then takes time is the server's own work: nothing is encoded, decoded or
//! waited for between two requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type Recordings = Arc<Mutex<Vec<Vec<u8>>>>;

/// Passes connections on to a server and keeps what their clients send. It ends
/// when it is dropped.
pub struct Recorder {
    address: SocketAddr,
    recordings: Recordings,
    task: JoinHandle<()>,
}

impl Recorder {
    /// Listens on a free port in front of the server of this port.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start(server: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let recordings = Recordings::default();
        let kept = Arc::clone(&recordings);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, Arc::clone(&kept)));
            }
        });
        Ok(Self {
            address,
            recordings,
            task,
        })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All that the busiest connection sent from its start.
    pub fn busiest(&self) -> Vec<u8> {
        let recordings = self.recordings.lock();
        let busiest = recordings.iter().max_by_key(|bytes| bytes.len());
        busiest.cloned().unwrap_or_default()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, server: u16, recordings: Recordings) -> std::io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let place = {
        let mut recordings = recordings.lock();
        recordings.push(Vec::new());
        recordings.len() - 1
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from_client.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        recordings.lock()[place].extend_from_slice(&buffer[..read]);
        to_server.write_all(&buffer[..read]).await?;
    }
    to_server.shutdown().await?;
    answers.await.ok();
    Ok(())
}

/// Decides from a server's answers whether all requests are answered.
pub trait Answers: Send + 'static {
    /// Takes in the next bytes; true once all is answered.
    ///
    /// # Errors
    /// If the server refused a request.
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<bool>;
}

/// Sends recorded bytes in one piece, and waits until the server has answered
/// all of them.
///
/// # Errors
/// If the server refuses a request or the connection ends.
pub async fn replay(
    server: u16,
    bytes: Vec<u8>,
    mut answers: impl Answers,
) -> anyhow::Result<Duration> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer): (OwnedReadHalf, OwnedWriteHalf) = stream.into_split();
    let begun = Instant::now();
    let sent = tokio::spawn(async move {
        writer.write_all(&bytes).await?;
        // Held until the last answer is read: an early end would end the server's side.
        std::io::Result::Ok(writer)
    });
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = reader.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "the server ended the connection in a replay");
        if answers.take(&buffer[..read])? {
            break;
        }
    }
    let elapsed = begun.elapsed();
    sent.await??;
    Ok(elapsed)
}
