//! Connections to the admin listener: few and short.
//!
//! They have limits of their own, so that operators can connect while clients use up theirs.

use super::{Admin, routes};
use crate::connection::idle_timeout::{IdleTimeout, poll_in_intervals};
use crate::connection::slow_reader::MonitoredStream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::limits::{ADMIN_CONNECTIONS_MAX, ADMIN_HEAD_BYTES_MAX, ADMIN_IDLE_SECONDS_MAX, ADMIN_REQUEST_SECONDS_MAX};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

/// How long a client may take for the head of a request, and a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(ADMIN_IDLE_SECONDS_MAX);
/// How long a client may leave its response unread.
const BLOCKED_TIME_MAX: Duration = Duration::from_secs(ADMIN_REQUEST_SECONDS_MAX);
/// How often these limits are checked on each connection.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long to wait when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until the process ends.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let permits = Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX));
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let admin = Arc::clone(&admin);
                tokio::spawn(async move {
                    serve_one(stream, admin, is_local).await;
                    drop(permit);
                });
            }
            Err(error) => {
                warn!("accepting an admin connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, admin: Arc<Admin>, is_local: bool) {
    let handler = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { routes::handle(&admin, is_local, request).await }
    });
    let (stream, monitor) = MonitoredStream::new(stream);
    let connection = http1::Builder::new()
        .timer(IdleTimeout)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(ADMIN_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), handler);
    match poll_in_intervals(connection, POLL_INTERVAL, || monitor.is_blocked_longer_than(BLOCKED_TIME_MAX)).await {
        Some(Ok(())) | None => {}
        Some(Err(error)) => debug!("an admin connection ended: {error}"),
    }
}
