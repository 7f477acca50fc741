//! Clients that do not read their responses: how long a connection has been unable to send.

use crate::clock;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Knows since when a connection has been unable to send.
#[derive(Debug)]
pub(crate) struct SendMonitor {
    began: Instant,
    /// Milliseconds after the connection began, plus one; zero while it can send.
    blocked_since: AtomicU64,
}

impl SendMonitor {
    fn now(&self) -> u64 {
        u64::try_from(clock::elapsed_since(self.began).as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether the client has read nothing for longer than this.
    pub(crate) fn is_blocked_longer_than(&self, time: Duration) -> bool {
        let blocked_since = self.blocked_since.load(Ordering::Relaxed);
        blocked_since != 0 && u128::from(self.now() - blocked_since) > time.as_millis()
    }

    fn record<T>(&self, written: &Poll<T>) {
        match written {
            Poll::Pending => {
                // Only the first of several attempts counts.
                let _ = self.blocked_since.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
            }
            Poll::Ready(_) if self.blocked_since.load(Ordering::Relaxed) != 0 => {
                self.blocked_since.store(0, Ordering::Relaxed);
            }
            Poll::Ready(_) => {}
        }
    }
}

/// A stream that keeps its [`SendMonitor`] current.
#[derive(Debug)]
pub(crate) struct MonitoredStream<S> {
    stream: S,
    monitor: Arc<SendMonitor>,
}

impl<S> MonitoredStream<S> {
    pub(crate) fn new(stream: S) -> (Self, Arc<SendMonitor>) {
        let monitor = Arc::new(SendMonitor { began: clock::instant(), blocked_since: AtomicU64::new(0) });
        (Self { stream, monitor: Arc::clone(&monitor) }, monitor)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.monitor.record(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.monitor.record(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.monitor.record(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_blocked_from_when_the_client_stops_reading_until_it_reads_again() {
        let minute = Duration::from_secs(60);
        let (mut client, server) = duplex(4);
        let (mut stream, monitor) = MonitoredStream::new(server);
        stream.write_all(b"four").await.unwrap();
        tokio::time::sleep(2 * minute).await;
        assert!(!monitor.is_blocked_longer_than(minute), "nothing is waiting to be sent");
        let writing = tokio::spawn(async move { stream.write_all(b"more").await });
        tokio::time::sleep(minute / 2).await;
        assert!(!monitor.is_blocked_longer_than(minute));
        tokio::time::sleep(minute).await;
        assert!(monitor.is_blocked_longer_than(minute));
        client.read_exact(&mut [0; 4]).await.unwrap();
        writing.await.unwrap().unwrap();
        assert!(!monitor.is_blocked_longer_than(minute));
    }
}
