//! Connections of those that ask gitwork something: bounded in number, and closed when they take
//! too long. A client that says nothing or does not read holds up its own connection and nothing
//! else, and not for long.

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

/// When a connection is closed.
#[derive(Debug, Clone, Copy)]
pub enum ConnectionTimeout {
    /// So long after it was made, whatever moves on it.
    Whole(Duration),
    /// Once nothing has moved on it for so long.
    Idle(Duration),
}

/// A listener that lets in so many at once. The others wait in the kernel's queue.
pub struct Bounded<L = TcpListener> {
    listener: L,
    places: Arc<Semaphore>,
    timeout: ConnectionTimeout,
}

/// A connection that does not last for ever.
pub struct Connection<S = TcpStream> {
    stream: S,
    timeout: ConnectionTimeout,
    end: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<L> Bounded<L> {
    /// Accepts at most `connections` at once from `listener`.
    pub fn new(listener: L, connections: usize, timeout: ConnectionTimeout) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections)), timeout }
    }
}

impl<L> Listener for Bounded<L>
where
    L: Listener<Addr = SocketAddr>,
{
    type Io = Connection<L::Io>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        // An error means that the semaphore was closed, which nobody does.
        let place = self.places.clone().acquire_owned().await.ok();
        let (stream, from) = self.listener.accept().await;
        (Connection::new(stream, self.timeout, place), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl<S> Connection<S> {
    fn new(stream: S, timeout: ConnectionTimeout, place: Option<OwnedSemaphorePermit>) -> Self {
        let (ConnectionTimeout::Whole(time) | ConnectionTimeout::Idle(time)) = timeout;
        Self { stream, timeout, end: Box::pin(sleep(time)), _place: place }
    }

    /// Ends what takes too long, and puts the end off where something has moved and that counts.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        moved: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.timeout {
            ConnectionTimeout::Idle(time) if moved.is_ready() => {
                self.end.as_mut().reset(Instant::now() + time);
                moved
            }
            ConnectionTimeout::Idle(_) | ConnectionTimeout::Whole(_) => {
                match self.end.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => moved,
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, moved)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
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
    use std::io::{Read as _, Write as _};

    use super::*;

    /// Both ends: ours, and a peer that neither reads nor writes.
    async fn silent(timeout: ConnectionTimeout) -> (Connection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Connection::new(stream, timeout, None), peer)
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_let_go() {
        let (mut connection, _peer) =
            silent(ConnectionTimeout::Idle(Duration::from_millis(50))).await;
        let mut room = [0; 8];
        let read =
            poll_fn(|cx| Pin::new(&mut connection).poll_read(cx, &mut ReadBuf::new(&mut room)));
        assert_eq!(read.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_drips_is_let_go_where_the_whole_counts() {
        let (mut connection, mut peer) =
            silent(ConnectionTimeout::Whole(Duration::from_millis(100))).await;
        let drip = std::thread::spawn(move || while peer.write_all(b"x").is_ok() {});
        let mut got = 0;
        let error = loop {
            let mut room = [0; 8];
            let read =
                poll_fn(|cx| Pin::new(&mut connection).poll_read(cx, &mut ReadBuf::new(&mut room)));
            match read.await {
                Ok(()) => got += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(got > 0);
        drop(connection);
        drip.join().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_let_go() {
        let (mut connection, mut peer) =
            silent(ConnectionTimeout::Idle(Duration::from_millis(200))).await;
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
