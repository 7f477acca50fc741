//! Closes a connection whose client is still sending a rejected request.
//!
//! A socket that is closed with unread data is reset, and the reset discards the response before the client has read
//! it. Many clients send their whole body first. Therefore, only the sending side is closed after the response. Data
//! that arrives later is read and dropped until the client closes its side, within limits on time and amount. In the
//! meantime, the connection is the first candidate to be closed when all slots are in use (`limits/connections.rs`).

use crate::clock;
use crate::limits::connections::ConnectionState;
use model::limits::{LINGERING_BYTES_MAX, LINGERING_PAUSE_SECONDS_MAX, LINGERING_SECONDS_MAX};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

const READ_BYTES: usize = 16 * 1024;
const TIME_MAX: Duration = Duration::from_secs(LINGERING_SECONDS_MAX);
const PAUSE_MAX: Duration = Duration::from_secs(LINGERING_PAUSE_SECONDS_MAX);

#[derive(Debug)]
pub(crate) struct LingeringStream<S> {
    stream: S,
    connection: Arc<ConnectionState>,
    lingering: Option<Box<Lingering>>,
}

#[derive(Debug)]
struct Lingering {
    deadline: Instant,
    bytes_left: usize,
    pause: Pin<Box<Sleep>>,
}

impl<S> LingeringStream<S> {
    pub(crate) fn new(stream: S, connection: Arc<ConnectionState>) -> Self {
        Self { stream, connection, lingering: None }
    }
}

impl Lingering {
    fn new() -> Self {
        Self {
            deadline: clock::instant() + TIME_MAX,
            bytes_left: LINGERING_BYTES_MAX,
            pause: Box::pin(sleep(PAUSE_MAX)),
        }
    }

    /// Reads and drops what arrives. Completes when the client has closed its side or a limit is reached.
    fn poll_discard<S: AsyncRead + Unpin>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<()> {
        let mut piece = [0; READ_BYTES];
        loop {
            let mut buf = ReadBuf::new(&mut piece);
            let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut buf) else {
                return self.pause.as_mut().poll(cx);
            };
            let received = buf.filled().len();
            if read.is_err() || received == 0 || received > self.bytes_left || clock::instant() >= self.deadline {
                return Poll::Ready(());
            }
            self.bytes_left -= received;
            self.pause.as_mut().reset(self.deadline.min(clock::instant() + PAUSE_MAX).into());
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, connection, lingering } = &mut *self;
        if lingering.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            if !connection.is_lingering() {
                return Poll::Ready(Ok(()));
            }
        }
        let lingering = lingering.get_or_insert_with(|| Box::new(Lingering::new()));
        lingering.poll_discard(stream, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::connections::ConnectionRegistry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    /// Returns the client's side of a connection, and the task that closes the server's side after a refusal, if it
    /// lingers.
    async fn closing(is_lingering: bool) -> (DuplexStream, JoinHandle<Duration>) {
        let registry = ConnectionRegistry::new(1, None, Arc::default());
        let place = registry.admit([127, 0, 0, 1].into()).await.unwrap();
        let request = place.state().begin_request(crate::clock::instant()).unwrap();
        if is_lingering {
            request.linger();
        }
        drop(request);
        let (client, server) = duplex(64 * 1024);
        let mut stream = LingeringStream::new(server, place.state());
        let began = Instant::now();
        let task = tokio::spawn(async move {
            stream.write_all(b"refused").await.unwrap();
            stream.shutdown().await.unwrap();
            began.elapsed()
        });
        (client, task)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_sees_the_response_after_it_has_sent_everything() {
        let (mut client, task) = closing(true).await;
        for _ in 0..13 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.write_all(&vec![0; 1024 * 1024]).await.unwrap();
        }
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert_eq!(response, "refused");
        drop(client);
        assert_eq!(task.await.unwrap().as_secs(), 13, "it closes when the client does");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_lingers_only_after_a_refusal() {
        let (_client, task) = closing(false).await;
        assert_eq!(task.await.unwrap(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn time_pauses_and_the_amount_are_bounded() {
        let (_silent, task) = closing(true).await;
        assert_eq!(task.await.unwrap().as_secs(), LINGERING_PAUSE_SECONDS_MAX);

        let (mut client, task) = closing(true).await;
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(task.await.unwrap().as_secs(), LINGERING_SECONDS_MAX);

        let (mut client, task) = closing(true).await;
        let (piece, mut sent) = (vec![0; READ_BYTES], 0);
        while client.write_all(&piece).await.is_ok() {
            sent += READ_BYTES;
        }
        assert!((LINGERING_BYTES_MAX..LINGERING_BYTES_MAX + 1024 * 1024).contains(&sent), "{sent}");
        assert_eq!(task.await.unwrap(), Duration::ZERO);
    }
}
