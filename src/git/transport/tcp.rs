//! TCP with the attempt's bounds.

use std::io;
use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::attempt::RemoteAttempt;
use crate::error::FetchError;

/// A TCP connection that counts what it transfers for the attempt.
pub struct TcpConnection {
    stream: TcpStream,
    attempt: Arc<RemoteAttempt>,
}

/// Ends a connection when it is dropped, so that no task waits for a silent server any longer.
pub struct HangUp(StdTcpStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        // The server may have ended the connection before.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl TcpConnection {
    /// Connects to the first address that answers. `shown` names the host in messages.
    pub async fn open(
        attempt: Arc<RemoteAttempt>,
        (host, port): (&str, u16),
        shown: &str,
    ) -> Result<(Self, HangUp), FetchError> {
        let resolve = |source| FetchError::Resolve { host: shown.to_owned(), source };
        let mut last = io::Error::other("its name has no address");
        let addresses: Vec<_> = lookup_host((host, port)).await.map_err(resolve)?.collect();
        // A silent address leaves time for the others.
        let share = attempt.stall() / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        for address in addresses {
            let connected = timeout(share, TcpStream::connect(address)).await;
            match connected.map_err(io::Error::from).flatten().and_then(with_hang_up) {
                Ok((stream, hang_up)) => {
                    // Requests are written whole, so Nagle's algorithm only adds delay.
                    let _ = stream.set_nodelay(true);
                    return Ok((Self { stream, attempt }, hang_up));
                }
                Err(error) => last = error,
            }
        }
        Err(FetchError::Connect { host: shown.to_owned(), source: last })
    }
}

fn with_hang_up(stream: TcpStream) -> io::Result<(TcpStream, HangUp)> {
    let stream = stream.into_std()?;
    let hang_up = HangUp(stream.try_clone()?);
    Ok((TcpStream::from_std(stream)?, hang_up))
}

impl AsyncRead for TcpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len().saturating_sub(before);
        Poll::Ready(self.attempt.count(count).map_err(|error| self.attempt.fail(error)))
    }
}

impl AsyncWrite for TcpConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.attempt.note_progress();
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
