//! The proxy does to connections what it says.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used)]

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mq_testkit::proxy::{Fault, Proxy, Which};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A server that sends back each line it gets, and remembers all of them.
struct Echo {
    address: String,
    heard: Arc<watch::Sender<Vec<String>>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::new(watch::Sender::new(Vec::new()));
        let by_server = heard.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(echo(stream, by_server.clone()));
            }
        });
        Self { address, heard }
    }

    async fn until_heard(&self, line: &str) {
        let mut heard = self.heard.subscribe();
        let is_there = |lines: &Vec<String>| lines.iter().any(|of| of == line);
        heard.wait_for(is_there).await.unwrap();
    }
}

async fn echo(mut stream: TcpStream, heard: Arc<watch::Sender<Vec<String>>>) {
    let mut line = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        line.push(byte);
        if byte == b'\n' {
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            heard.send_modify(|lines| lines.push(text.trim_end().to_owned()));
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

async fn both() -> (Echo, Proxy) {
    let echo = Echo::start().await;
    let proxy = Proxy::start(&echo.address).await.unwrap();
    (echo, proxy)
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn send(stream: &mut TcpStream, line: &str) {
    stream
        .write_all(format!("{line}\n").as_bytes())
        .await
        .unwrap();
}

async fn receive(stream: &mut TcpStream) -> Result<String, ErrorKind> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await {
            Ok(b'\n') => return Ok(String::from_utf8(line).unwrap()),
            Ok(byte) => line.push(byte),
            Err(error) => return Err(error.kind()),
        }
    }
}

async fn ask(stream: &mut TcpStream, line: &str) -> Result<String, ErrorKind> {
    send(stream, line).await;
    receive(stream).await
}

fn is_silent(stream: &TcpStream) -> bool {
    let error = stream.try_read(&mut [0]).unwrap_err();
    error.kind() == ErrorKind::WouldBlock
}

#[tokio::test]
async fn what_passes_arrives_and_is_counted() {
    let (_echo, proxy) = both().await;
    let (mut one, mut other) = (connect(&proxy).await, connect(&proxy).await);
    assert_eq!(ask(&mut one, "a").await.unwrap(), "a");
    assert_eq!(ask(&mut other, "b").await.unwrap(), "b");
    assert_eq!(ask(&mut other, "c").await.unwrap(), "c");
    assert_eq!(proxy.round_trips(), 3);
    assert_eq!(proxy.accepted(), 2);
    assert_eq!(proxy.open(), 2);
    drop(one);
    proxy.until_open(1).await;
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn a_large_message_passes_whole() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    let large = "x".repeat(100_000);
    assert_eq!(ask(&mut stream, &large).await.unwrap(), large);
}

#[tokio::test]
async fn refused_connections_are_refused_while_open_ones_stay() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "before").await.unwrap(), "before");
    proxy.refuse().await;
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut stream, "meanwhile").await.unwrap(), "meanwhile");
    proxy.heal().await;
    let mut new = connect(&proxy).await;
    assert_eq!(ask(&mut new, "after").await.unwrap(), "after");
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn a_reset_before_the_reply_lets_the_request_through() {
    let (echo, proxy) = both().await;
    proxy.set(Which::All, Fault::ResetAfter { bytes: 0 });
    let mut stream = connect(&proxy).await;
    assert_eq!(
        ask(&mut stream, "request").await,
        Err(ErrorKind::ConnectionReset)
    );
    echo.until_heard("request").await;
    let mut again = connect(&proxy).await;
    assert_eq!(
        ask(&mut again, "again").await,
        Err(ErrorKind::ConnectionReset)
    );
}

#[tokio::test]
async fn a_reset_before_the_request_keeps_it_from_the_server() {
    let (echo, proxy) = both().await;
    proxy.set_once(Which::All, Fault::ResetBeforeRequest);
    let mut stream = connect(&proxy).await;
    assert_eq!(
        ask(&mut stream, "lost").await,
        Err(ErrorKind::ConnectionReset)
    );
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "heard").await.unwrap(), "heard");
    assert_eq!(*echo.heard.borrow(), ["heard"]);
}

#[tokio::test]
async fn a_reset_can_come_in_the_middle_of_a_reply() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "first").await.unwrap(), "first");
    proxy.set(Which::All, Fault::ResetAfter { bytes: 9 });
    assert_eq!(ask(&mut stream, "second").await.unwrap(), "second");
    send(&mut stream, "third").await;
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // What had arrived before the reset may be dropped with it.
    assert!(b"th".starts_with(&rest), "{rest:?}");
}

#[tokio::test]
async fn a_fault_that_strikes_once_strikes_once() {
    let (_echo, proxy) = both().await;
    proxy.set_once(Which::All, Fault::ResetAfter { bytes: 0 });
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "a").await, Err(ErrorKind::ConnectionReset));
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "b").await.unwrap(), "b");
}

#[tokio::test]
async fn swallowed_replies_stay_lost_after_healing() {
    let (echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "a").await.unwrap(), "a");
    let answered = proxy.round_trips();
    proxy.set(Which::All, Fault::SwallowReplies);
    send(&mut stream, "b").await;
    echo.until_heard("b").await;
    while proxy.round_trips() == answered {
        tokio::task::yield_now().await;
    }
    assert!(is_silent(&stream));
    proxy.heal().await;
    assert_eq!(ask(&mut stream, "c").await.unwrap(), "c");
}

#[tokio::test]
async fn what_was_frozen_goes_on_after_healing() {
    let (echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "a").await.unwrap(), "a");
    proxy.set(Which::All, Fault::Freeze);
    send(&mut stream, "b").await;
    // A connection of its own shows that time has passed for the server.
    let mut direct = TcpStream::connect(&echo.address).await.unwrap();
    assert_eq!(ask(&mut direct, "direct").await.unwrap(), "direct");
    assert_eq!(*echo.heard.borrow(), ["a", "direct"]);
    assert!(is_silent(&stream));
    proxy.heal().await;
    assert_eq!(receive(&mut stream).await.unwrap(), "b");
}

#[tokio::test]
async fn only_the_connections_that_said_a_word_are_struck() {
    let (_echo, proxy) = both().await;
    let (mut subscriber, mut other) = (connect(&proxy).await, connect(&proxy).await);
    assert_eq!(
        ask(&mut subscriber, "subscribe x").await.unwrap(),
        "subscribe x"
    );
    assert_eq!(ask(&mut other, "get x").await.unwrap(), "get x");
    proxy.set(Which::Said("SUBSCRIBE".into()), Fault::Freeze);
    send(&mut subscriber, "ping").await;
    assert_eq!(ask(&mut other, "get y").await.unwrap(), "get y");
    assert!(is_silent(&subscriber));
    proxy.cut(Which::NotSaid("SUBSCRIBE".into()));
    assert_eq!(receive(&mut other).await, Err(ErrorKind::ConnectionReset));
    proxy.heal().await;
    assert_eq!(receive(&mut subscriber).await.unwrap(), "ping");
}

#[tokio::test]
async fn a_cut_ends_the_connections_there_are_and_no_later_ones() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "a").await.unwrap(), "a");
    proxy.cut(Which::All);
    assert_eq!(receive(&mut stream).await, Err(ErrorKind::ConnectionReset));
    proxy.until_open(0).await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "b").await.unwrap(), "b");
}

#[tokio::test]
async fn a_delayed_reply_comes_no_earlier() {
    let (_echo, proxy) = both().await;
    let delay = Duration::from_millis(50);
    proxy.set(Which::All, Fault::Delay(delay));
    let mut stream = connect(&proxy).await;
    let started = Instant::now();
    assert_eq!(ask(&mut stream, "a").await.unwrap(), "a");
    assert!(started.elapsed() >= delay);
}

#[tokio::test]
async fn a_server_that_is_gone_looks_like_a_reset() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let proxy = Proxy::start(address).await.unwrap();
    let mut stream = connect(&proxy).await;
    assert_eq!(receive(&mut stream).await, Err(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_dropped_proxy_takes_its_connections_along() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "a").await.unwrap(), "a");
    let address = proxy.address();
    drop(proxy);
    assert!(receive(&mut stream).await.is_err());
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
