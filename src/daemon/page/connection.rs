//! Connections to the page: bounded in number, and closed when nothing moves on them. A browser that stops reading
//! holds up its own connection and nothing else, and not for long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits;

/// A listener that lets in so many at once. The others wait in the kernel's queue.
pub struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

/// A connection that is closed once nothing has moved on it for a while.
pub struct Connection {
    stream: TcpStream,
    idle: Duration,
    end: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    pub fn new(listener: TcpListener) -> Self {
        let places = Arc::new(Semaphore::new(limits::PAGE_CONNECTIONS_MAX));
        Self { listener, places, idle: limits::PAGE_IDLE }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // An error means that the semaphore was closed, which nobody does.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        (Connection::new(stream, self.idle, place), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connection {
    fn new(stream: TcpStream, idle: Duration, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, idle, end: Box::pin(sleep(idle)), _place: place }
    }

    /// Puts off the end where something has moved, and ends where nothing has for too long.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        moved: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if moved.is_ready() {
            self.end.as_mut().reset(Instant::now() + self.idle);
            return moved;
        }
        self.end.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, moved)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, moved)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;

    use super::*;

    /// Both ends: ours, and a peer that neither reads nor writes.
    async fn silent(idle: Duration) -> (Connection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Connection::new(stream, idle, None), peer)
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_let_go() {
        let (mut connection, _peer) = silent(Duration::from_millis(50)).await;
        let mut room = [0; 8];
        let read =
            poll_fn(|cx| Pin::new(&mut connection).poll_read(cx, &mut ReadBuf::new(&mut room)));
        assert_eq!(read.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_let_go() {
        let (mut connection, mut peer) = silent(Duration::from_millis(200)).await;
        let page = [b'x'; 64 * 1024];
        let mut sent = 0;
        let error = loop {
            let write = poll_fn(|cx| Pin::new(&mut connection).poll_write(cx, &page));
            match write.await {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
            assert!(sent < 1 << 30, "the kernel takes no more than its buffers hold");
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        // What had been sent is there; then it ends.
        let mut got = Vec::new();
        let _reset = peer.read_to_end(&mut got);
        assert!(got.len() <= sent);
    }
}
