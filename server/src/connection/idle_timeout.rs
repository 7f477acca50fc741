//! Implements the HTTP library's timeout for the head of a request without a runtime timer for each request.
//!
//! A deadline is compared with the clock only when its connection is polled, at the latest by the next tick of
//! [`poll_in_intervals`]. A head may therefore exceed its deadline by one interval. In return, a request adds no entry
//! to the timers that all threads share.

use crate::clock;
use hyper::rt::{Sleep, Timer};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleTimeout;

impl Timer for IdleTimeout {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Deadline(deadline))
    }

    fn now(&self) -> Instant {
        clock::instant()
    }
}

struct Deadline(Instant);

impl Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if IdleTimeout.now() >= self.0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Drives a connection until it closes or is given up. Polls it at regular intervals even if nothing happens on it.
pub(crate) async fn poll_in_intervals<C: Future, G>(
    connection: C,
    interval: Duration,
    mut give_up: impl FnMut() -> Option<G>,
) -> Result<C::Output, G> {
    let mut connection = pin!(connection);
    let mut ticks = tokio::time::interval(interval);
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => return Ok(ended),
            _ = ticks.tick() => if let Some(reason) = give_up() {
                return Err(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Empty;
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const HEAD_TIME: Duration = Duration::from_mins(1);
    const POLL_INTERVAL: Duration = Duration::from_secs(5);

    async fn life(sent: &'static [u8]) -> (Duration, Vec<u8>) {
        let (mut client, server) = duplex(1024);
        let respond = |_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
        let connection = http1::Builder::new()
            .timer(IdleTimeout)
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(server), service_fn(respond));
        let began = tokio::time::Instant::now();
        let served = tokio::spawn(async move {
            poll_in_intervals(connection, POLL_INTERVAL, || None::<()>).await.is_ok_and(|ended| ended.is_ok())
        });
        client.write_all(sent).await.unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert!(!served.await.unwrap(), "the connection closes by its deadline");
        (began.elapsed(), received)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_ends_the_connection_at_the_first_poll_after_its_deadline() {
        let expected = HEAD_TIME..=HEAD_TIME + POLL_INTERVAL + Duration::from_millis(10);
        for (sent, is_answered) in [
            (&b""[..], false),
            (&b"GET / HTTP/1.1\r\nHost: "[..], false),
            (&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], true),
        ] {
            let (life, received) = life(sent).await;
            assert!(expected.contains(&life), "{life:?}");
            assert_eq!(received.starts_with(b"HTTP/1.1 200 OK\r\n"), is_answered);
        }
    }
}
