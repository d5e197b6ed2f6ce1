//! As much of the Redis protocol as it takes to ask a server how it is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends one command of words without spaces; the answer, be it an error's text.
pub(super) fn ask(port: u16, command: &str) -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let Some(length) = line.strip_prefix('$') else {
        return Ok(line.trim_end().to_owned());
    };
    let length = length.trim_end().parse().map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Whether the server on this port is this process, and serves.
pub(super) fn is_served_by(port: u16, process: u32) -> bool {
    ask(port, "PING").is_ok_and(|answer| {
        // A server that asks for a password serves; it does not say who it is.
        answer.starts_with("-NOAUTH")
            || answer == "+PONG"
                && ask(port, "INFO server").is_ok_and(|info| {
                    info.lines()
                        .any(|line| line == format!("process_id:{process}"))
                })
    })
}
