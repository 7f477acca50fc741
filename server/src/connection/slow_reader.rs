//! Detects clients that read their responses too slowly or not at all. It measures how much a connection has sent since
//! its client first made it wait.

use super::raw_query::KeptHead;
use crate::clock;
use crate::limits::connections::ConnectionState;
use model::limits::{RESPONSE_BYTES_PER_SECOND_MIN, RESPONSE_PROGRESS_SECONDS};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The amount that a client must read within [`PROGRESS_TIME`] while its connection is unable to send, in bytes.
const PROGRESS_BYTES_MIN: u64 = RESPONSE_BYTES_PER_SECOND_MIN * RESPONSE_PROGRESS_SECONDS;
const PROGRESS_TIME: Duration = Duration::from_secs(RESPONSE_PROGRESS_SECONDS);

#[derive(Debug)]
pub(crate) struct SendMonitor {
    began: Instant,
    /// Milliseconds after the connection began, plus one; zero if everything was sent.
    slow_since: AtomicU64,
    sent: AtomicU64,
}

impl SendMonitor {
    fn now(&self) -> u64 {
        u64::try_from(clock::elapsed_since(self.began).as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        let slow_since = self.slow_since.load(Ordering::Relaxed);
        slow_since != 0 && u128::from(self.now() - slow_since) > PROGRESS_TIME.as_millis()
    }

    fn record_write(&self, written: &Poll<io::Result<usize>>) {
        let is_slow = self.slow_since.load(Ordering::Relaxed) != 0;
        match written {
            // Only the first of several attempts counts.
            Poll::Pending if !is_slow => {
                self.sent.store(0, Ordering::Relaxed);
                self.slow_since.store(self.now(), Ordering::Relaxed);
            }
            Poll::Ready(Ok(bytes)) if is_slow => {
                let before = self.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
                if before + *bytes as u64 >= PROGRESS_BYTES_MIN {
                    self.slow_since.store(0, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// The HTTP library flushes when there is nothing more to write.
    fn record_flush(&self, flushed: &Poll<io::Result<()>>) {
        match flushed {
            Poll::Pending => self.record_write(&Poll::Pending),
            Poll::Ready(_) if self.slow_since.load(Ordering::Relaxed) != 0 => {
                self.slow_since.store(0, Ordering::Relaxed);
            }
            Poll::Ready(_) => {}
        }
    }
}

/// A stream that updates its [`SendMonitor`], and counts the bytes of request heads that it receives.
#[derive(Debug)]
pub(crate) struct MonitoredStream<S> {
    stream: S,
    monitor: Arc<SendMonitor>,
    connection: Arc<ConnectionState>,
    pub(super) kept_head: KeptHead,
}

impl<S> MonitoredStream<S> {
    pub(crate) fn new(stream: S, connection: Arc<ConnectionState>) -> (Self, Arc<SendMonitor>) {
        let (slow_since, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        let monitor = Arc::new(SendMonitor { began: clock::instant(), slow_since, sent });
        (Self { stream, monitor: Arc::clone(&monitor), connection, kept_head: KeptHead::default() }, monitor)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, connection, kept_head, .. } = &mut *self;
        if kept_head.replay(buf) {
            return Poll::Ready(Ok(()));
        }
        let is_waiting = connection.is_waiting();
        if is_waiting && !connection.has_begun_head() {
            kept_head.begin();
        }
        let before = buf.filled().len();
        let read = Pin::new(stream).poll_read(cx, buf);
        let received = buf.filled().get(before..).filter(|received| !received.is_empty());
        if let (true, Some(received)) = (is_waiting, received) {
            let kept_before = kept_head.kept_bytes();
            kept_head.receive(received);
            let kept = kept_head.kept_bytes();
            // What is kept counts twice, for as long as it is kept.
            connection.release(kept_before.saturating_sub(kept));
            if !connection.receive(received.len() + kept.saturating_sub(kept_before)) {
                return Poll::Ready(Err(io::Error::other("there is no memory for the head of the request")));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.monitor.record_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.monitor.record_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.monitor.record_flush(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::connections::ConnectionRegistry;
    use model::limits::HEAD_BYTES_UNCOUNTED;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    async fn connection() -> (tokio::io::DuplexStream, MonitoredStream<tokio::io::DuplexStream>, Arc<SendMonitor>) {
        let registry = ConnectionRegistry::new(1, None, Arc::default());
        let place = registry.admit([127, 0, 0, 1].into()).await.unwrap();
        let (client, server) = duplex(4);
        let (stream, monitor) = MonitoredStream::new(server, place.state());
        (client, stream, monitor)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_too_slow_from_when_it_stops_reading_until_it_has_read_everything() {
        let (mut client, mut stream, monitor) = connection().await;
        stream.write_all(b"four").await.unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(2 * PROGRESS_TIME).await;
        assert!(!monitor.is_too_slow(), "nothing is waiting to be sent");
        let writing = tokio::spawn(async move {
            stream.write_all(b"more").await.unwrap();
            stream.flush().await
        });
        tokio::time::sleep(PROGRESS_TIME / 2).await;
        assert!(!monitor.is_too_slow());
        tokio::time::sleep(PROGRESS_TIME).await;
        assert!(monitor.is_too_slow());
        client.read_exact(&mut [0; 4]).await.unwrap();
        writing.await.unwrap().unwrap();
        assert!(!monitor.is_too_slow());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_some_bytes_now_and_then_is_too_slow_and_one_that_reads_steadily_is_not() {
        for (pause, is_too_slow) in [(Duration::from_secs(1), true), (Duration::from_millis(2), false)] {
            let (mut client, mut stream, monitor) = connection().await;
            let writing = tokio::spawn(async move { stream.write_all(&vec![0; 1 << 20]).await });
            let began = tokio::time::Instant::now();
            while began.elapsed() < 2 * PROGRESS_TIME && !monitor.is_too_slow() {
                client.read_exact(&mut [0; 4]).await.unwrap();
                tokio::time::sleep(pause).await;
            }
            assert_eq!(monitor.is_too_slow(), is_too_slow, "four bytes every {pause:?}");
            writing.abort();
        }
    }

    #[tokio::test]
    async fn a_long_first_line_counts_twice_only_while_it_must_be_kept() {
        let path = "a".repeat(2 * HEAD_BYTES_UNCOUNTED);
        for (query, is_kept) in [("?b", false), ("?\"", true)] {
            let registry = ConnectionRegistry::new(1, None, Arc::default());
            let place = registry.admit([127, 0, 0, 1].into()).await.unwrap();
            let (mut client, server) = duplex(HEAD_BYTES_UNCOUNTED);
            let (mut stream, _monitor) = MonitoredStream::new(server, place.state());
            let mut send = async |sent: String| {
                let mut received = vec![0; sent.len()];
                tokio::try_join!(client.write_all(sent.as_bytes()), stream.read_exact(&mut received)).unwrap();
                registry.counted_heads_bytes()
            };
            let line = format!("GET /{path}{query}");
            assert_eq!(send(line.clone()).await, 2 * line.len(), "the line may yet contain such a character");
            let rest = " HTTP/1.1\r\nHost: h\r\n";
            let copies = if is_kept { 2 } else { 1 };
            assert_eq!(send(rest.to_owned()).await, copies * (line.len() + rest.len()), "{query}");
        }
    }
}
