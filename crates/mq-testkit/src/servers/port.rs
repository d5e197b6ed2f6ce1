//! Free ports.

use std::net::{Ipv4Addr, TcpListener};

use super::ServerError;

/// Below the ports that systems give to outgoing connections, so that none of
/// those takes a port while its server is down for a restart.
const RANGE: std::ops::Range<u16> = 15_000..30_000;

/// How many ports are tried before something else must be wrong.
const TRIES: usize = 100;

/// A port of the loopback interface that nothing listens on at the moment.
pub(super) fn free() -> Result<u16, ServerError> {
    for _ in 0..TRIES {
        let port = fastrand::u16(RANGE);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(ServerError::new(format!(
        "no port of 127.0.0.1 can be bound: tried {TRIES} between {} and {}",
        RANGE.start, RANGE.end
    )))
}
