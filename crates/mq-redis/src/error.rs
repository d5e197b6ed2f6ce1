//! What the server's and the connection's errors mean to a caller.

use std::time::Duration;

use mq_core::{Cause, StoreError};
use redis::{ErrorKind, RedisError};

/// Says what an error of `operation` means, on which server, and what to do.
pub(crate) fn classify(
    error: RedisError,
    server: &str,
    operation: &str,
    response_timeout: Duration,
) -> StoreError {
    let transient = |message: String| StoreError::Unavailable {
        message: format!("{operation} at {server}: {message}"),
        source: Some(Cause::new(error.clone())),
    };
    let permanent = |message: String| StoreError::Backend {
        message: format!("{operation} at {server}: {message}"),
        source: Some(Cause::new(error.clone())),
    };
    if error.is_timeout() {
        return transient(format!(
            "no answer within {response_timeout:?}; whether it took effect is unknown"
        ));
    }
    if error.is_connection_refusal() {
        return transient(
            "the connection was refused: is the server running, and is this its address?".into(),
        );
    }
    match error.code() {
        Some("READONLY") => transient(
            "the server is a replica and takes no writes (READONLY), as after a failover: \
             it works again once the address leads to the master"
                .into(),
        ),
        Some("LOADING") => {
            transient("the server is still loading its data (LOADING): try again soon".into())
        }
        Some("BUSY") => transient(
            "the server is busy with a script that does not end (BUSY): it is none of this \
             library's; end it with SCRIPT KILL"
                .into(),
        ),
        Some("OOM") => transient(
            "the server is out of memory (OOM) and nothing was written: raise maxmemory, or \
             remove finished jobs"
                .into(),
        ),
        Some("MISCONF") => transient(
            "the server refuses writes because it cannot save its data (MISCONF): see its log"
                .into(),
        ),
        Some("CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK") => transient(format!(
            "the cluster does not serve this store's slot at the moment ({})",
            error.code().unwrap_or_default()
        )),
        Some("NOSCRIPT") => transient(
            "the server forgot the script as often as it was loaded (NOSCRIPT): who calls \
             SCRIPT FLUSH?"
                .into(),
        ),
        Some("NOAUTH") => permanent(
            "the server asks for a password (NOAUTH): put it into the URL, \
             redis://user:password@host"
                .into(),
        ),
        Some("WRONGPASS") => permanent(
            "the server does not accept the user name or password in the URL (WRONGPASS)".into(),
        ),
        Some("NOPERM") => permanent(format!(
            "the server's access rules forbid what the store needs (NOPERM): {}",
            error.detail().unwrap_or_default()
        )),
        Some("CROSSSLOT") => permanent(
            "the store's keys lie in several slots (CROSSSLOT), which is a defect of this library"
                .into(),
        ),
        Some("WRONGTYPE") => permanent(
            "a key of the store holds something else (WRONGTYPE): does another program use the \
             same prefix?"
                .into(),
        ),
        _ => match error.kind() {
            ErrorKind::AuthenticationFailed => {
                permanent("the server does not accept the user name or password in the URL".into())
            }
            ErrorKind::InvalidClientConfig => permanent(format!("the URL cannot be used: {error}")),
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => transient(format!(
                "the connection was lost ({error}); whether it took effect is unknown"
            )),
            _ if error.is_connection_dropped() || error.is_unrecoverable_error() => transient(
                format!("the connection was lost ({error}); whether it took effect is unknown"),
            ),
            _ => permanent(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use redis::ErrorKind;

    use super::*;

    fn classified(error: RedisError) -> StoreError {
        classify(error, "redis://host", "claim", Duration::from_secs(1))
    }

    fn server_error(code: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), Some("detail".to_owned()))
    }

    #[test]
    fn faults_that_pass_are_transient_and_named() {
        for code in ["BUSY", "OOM", "MISCONF"] {
            let error = classified(server_error(code));
            assert!(error.is_transient(), "{code}");
            assert!(error.to_string().contains(code), "{error}");
            assert!(error.to_string().contains("redis://host"), "{error}");
        }
    }

    #[test]
    fn faults_that_need_somebody_are_permanent() {
        for code in ["NOAUTH", "WRONGPASS", "WRONGTYPE"] {
            assert!(!classified(server_error(code)).is_transient(), "{code}");
        }
        let error = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert!(!classified(error).is_transient());
    }

    #[test]
    fn a_slow_server_and_a_lost_connection_are_transient() {
        let io = |kind: std::io::ErrorKind| RedisError::from(std::io::Error::from(kind));
        let slow = classified(io(std::io::ErrorKind::TimedOut));
        assert!(
            slow.is_transient() && slow.to_string().contains("1s"),
            "{slow}"
        );
        for kind in [
            std::io::ErrorKind::ConnectionRefused,
            std::io::ErrorKind::ConnectionReset,
            std::io::ErrorKind::BrokenPipe,
            std::io::ErrorKind::UnexpectedEof,
        ] {
            assert!(classified(io(kind)).is_transient(), "{kind:?}");
        }
    }
}
