//! The connection of one HTTP request, with or without TLS.

use std::io::{self, Read, Write};

use super::tcp::TcpConnection;
use super::tls::{TlsStream, tls_error};
use crate::address::HttpAddress;
use crate::error::FetchError;

/// A connection to the server or the proxy.
pub(super) enum HttpConnection {
    Plain(TcpConnection),
    Tls(Box<TlsStream>),
}

impl Read for HttpConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for HttpConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// The error of a connection that broke, or of a failed TLS handshake.
pub(super) fn broken(address: &HttpAddress, error: io::Error) -> FetchError {
    let host = address.authority();
    match tls_error(&error) {
        Some(source) => FetchError::Tls { host, source: Box::new(source) },
        None => FetchError::Connection { host, source: error },
    }
}
