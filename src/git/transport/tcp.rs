//! TCP with the attempt's bounds, directly or through an HTTP proxy.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::attempt::RemoteAttempt;
use crate::address::{ProxyAddress, bracketed};
use crate::error::FetchError;
use crate::limits;

/// A TCP connection whose reads and writes end when the attempt ends.
pub struct TcpConnection {
    pub stream: TcpStream,
    attempt: Arc<RemoteAttempt>,
    /// For messages.
    host: String,
}

impl TcpConnection {
    /// Connects to a host, through the proxy's CONNECT if there is one.
    pub fn open(attempt: &Arc<RemoteAttempt>, host: &str, port: u16) -> Result<Self, FetchError> {
        let shown = format!("{}:{port}", bracketed(host));
        let Some(proxy) = &attempt.proxy else {
            return Self::direct(attempt, host, port, &shown);
        };
        let mut connection = Self::to_proxy(attempt, proxy)?;
        connection.request_tunnel(proxy, &shown)?;
        connection.host = shown;
        Ok(connection)
    }

    /// Connects to the proxy, for plain HTTP requests that the proxy makes itself.
    pub fn to_proxy(
        attempt: &Arc<RemoteAttempt>,
        proxy: &ProxyAddress,
    ) -> Result<Self, FetchError> {
        let shown = format!("the proxy {}", proxy.shown());
        Self::direct(attempt, &proxy.host, proxy.port, &shown)
    }

    fn direct(
        attempt: &Arc<RemoteAttempt>,
        host: &str,
        port: u16,
        shown: &str,
    ) -> Result<Self, FetchError> {
        let mut last = io::Error::other("its name has no address");
        for address in resolve(attempt, host, port, shown)? {
            match connect(attempt, address)? {
                Ok(stream) => {
                    // Requests are written whole, so Nagle's algorithm only adds delay.
                    let _ = stream.set_nodelay(true);
                    let host = shown.to_owned();
                    return Ok(Self { stream, attempt: Arc::clone(attempt), host });
                }
                Err(error) => last = error,
            }
        }
        Err(FetchError::Connect { host: shown.to_owned(), source: last })
    }

    /// Sends CONNECT (RFC 9110, section 9.3.6). `target` is `host:port`.
    fn request_tunnel(&mut self, proxy: &ProxyAddress, target: &str) -> Result<(), FetchError> {
        let failed = |source| FetchError::Connection {
            host: format!("the proxy {}", proxy.shown()),
            source,
        };
        let credentials = proxy_authorization(proxy);
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{credentials}\r\n");
        self.write_all(request.as_bytes()).map_err(failed)?;
        // Byte by byte: everything after the head belongs to the tunnel.
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if self.read(&mut byte).map_err(failed)? == 0 {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            head.extend(byte);
            if head.len() > limits::HTTP_HEAD_BYTES_MAX {
                return Err(failed(io::ErrorKind::InvalidData.into()));
            }
        }
        let text = String::from_utf8_lossy(&head);
        let status = text.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
        match status {
            Some(200..=299) => Ok(()),
            Some(status) => {
                Err(FetchError::Proxy { proxy: proxy.shown(), host: target.to_owned(), status })
            }
            None => Err(failed(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Blocks in slices, so that a deadline or a cancellation takes effect soon.
    fn wait<T>(&self, mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let started = Instant::now();
        loop {
            if let Err(error) = self.attempt.check() {
                return Err(self.attempt.fail(error));
            }
            let slice = Some(self.attempt.slice());
            self.stream.set_read_timeout(slice)?;
            self.stream.set_write_timeout(slice)?;
            match step() {
                Err(e) if is_pending(&e) => {
                    if started.elapsed() >= self.attempt.stall() {
                        return Err(self.attempt.fail(self.stalled()));
                    }
                }
                other => return other,
            }
        }
    }

    /// The error of a silent server.
    pub fn stalled(&self) -> FetchError {
        FetchError::Stalled {
            url: self.attempt.url(),
            host: self.host.clone(),
            limit: self.attempt.stall(),
        }
    }
}

/// Whether an IO error only means that nothing has happened yet.
fn is_pending(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

impl Read for TcpConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.wait(|| (&self.stream).read(buffer))?;
        self.attempt.count(count);
        Ok(count)
    }
}

impl Write for TcpConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|| (&self.stream).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The header line that logs in at the proxy; empty without credentials.
pub fn proxy_authorization(proxy: &ProxyAddress) -> String {
    proxy.credentials.as_ref().map_or_else(String::new, |credentials| {
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(credentials))
    })
}

/// Looks a name up in a thread, because the system's resolver cannot be interrupted. An abandoned
/// thread ends when the resolver gives up.
fn resolve(
    attempt: &RemoteAttempt,
    host: &str,
    port: u16,
    shown: &str,
) -> Result<Vec<SocketAddr>, FetchError> {
    let failed = |source| FetchError::Resolve { host: shown.to_owned(), source };
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let name = host.to_owned();
    thread::Builder::new()
        .name("git-resolve".to_owned())
        .spawn(move || {
            let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
            // The receiver is gone if the attempt has ended.
            let _ = sender.send(found);
        })
        .map_err(failed)?;
    loop {
        attempt.check()?;
        match receiver.recv_timeout(attempt.slice()) {
            Ok(found) => return found.map_err(failed),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(failed(io::Error::other("the resolver failed")));
            }
        }
    }
}

/// Connects to one address. The outer error ends the attempt; after the inner one the caller tries
/// the next address.
fn connect(
    attempt: &RemoteAttempt,
    address: SocketAddr,
) -> Result<io::Result<TcpStream>, FetchError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let limit = attempt.stall();
    let thread = thread::Builder::new().name("git-connect".to_owned()).spawn(move || {
        let _ = sender.send(TcpStream::connect_timeout(&address, limit));
    });
    if let Err(error) = thread {
        return Ok(Err(error));
    }
    loop {
        attempt.check()?;
        match receiver.recv_timeout(attempt.slice()) {
            Ok(stream) => return Ok(stream),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Ok(Err(io::Error::other("the connection failed")));
            }
        }
    }
}
