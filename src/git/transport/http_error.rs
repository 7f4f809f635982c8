//! The errors of an HTTP exchange, of its connection and of TLS.

use std::error::Error as _;
use std::io;

use crate::error::FetchError;

/// The error of a connection that broke, or of a failed TLS handshake.
pub(super) fn broken(host: &str, error: &io::Error) -> FetchError {
    let host = host.to_owned();
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(tls) => FetchError::Tls { host, source: Box::new(tls.clone()) },
        None => FetchError::Connection { host, source: copied(error) },
    }
}

/// The error of an exchange with `host`.
pub(super) fn violated(host: &str, error: &hyper::Error) -> FetchError {
    if let Some(io) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        return broken(host, io);
    }
    let host = host.to_owned();
    if error.is_parse() {
        let problem = "the head of its response is not valid, or is too long";
        return FetchError::Http { host, problem };
    }
    let source = if error.is_incomplete_message() {
        io::ErrorKind::UnexpectedEof.into()
    } else {
        io::Error::other(error.to_string())
    };
    FetchError::Connection { host, source }
}

/// IO errors cannot be cloned.
fn copied(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
