//! Clients that do not read their answers: how long a connection has been unable to send.

use crate::clock;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Since when a connection cannot send: milliseconds after it began, plus one; zero while it can.
#[derive(Debug)]
pub(crate) struct Stall {
    began: Instant,
    since: AtomicU64,
}

impl Stall {
    fn now(&self) -> u64 {
        u64::try_from(clock::elapsed_since(self.began).as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether the client has taken nothing for this long.
    pub(crate) fn is_longer_than(&self, time: Duration) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && u128::from(self.now() - since) > time.as_millis()
    }

    fn note<T>(&self, written: &Poll<T>) {
        match written {
            Poll::Pending => {
                // Only the first of several attempts counts.
                let _ = self.since.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
            }
            Poll::Ready(_) if self.since.load(Ordering::Relaxed) != 0 => self.since.store(0, Ordering::Relaxed),
            Poll::Ready(_) => {}
        }
    }
}

/// A stream that keeps account of its [`Stall`].
#[derive(Debug)]
pub(crate) struct WatchedStream<S> {
    stream: S,
    stall: Arc<Stall>,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S) -> (Self, Arc<Stall>) {
        let stall = Arc::new(Stall { began: clock::instant(), since: AtomicU64::new(0) });
        (Self { stream, stall: Arc::clone(&stall) }, stall)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.stall.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.stall.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.stall.note(&flushed);
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
    async fn a_stall_begins_when_the_client_takes_no_more_and_ends_when_it_does() {
        let minute = Duration::from_secs(60);
        let (mut client, server) = duplex(4);
        let (mut watched, stall) = WatchedStream::new(server);
        watched.write_all(b"four").await.unwrap();
        tokio::time::sleep(2 * minute).await;
        assert!(!stall.is_longer_than(minute), "nothing is waiting to be sent");
        let writing = tokio::spawn(async move { watched.write_all(b"more").await });
        tokio::time::sleep(minute / 2).await;
        assert!(!stall.is_longer_than(minute));
        tokio::time::sleep(minute).await;
        assert!(stall.is_longer_than(minute));
        client.read_exact(&mut [0; 4]).await.unwrap();
        writing.await.unwrap().unwrap();
        assert!(!stall.is_longer_than(minute));
    }
}
