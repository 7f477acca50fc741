//! Connections: accepted, bounded in number and in patience, and ended in order.

use crate::connection::ConnectionInfo;
use crate::service::Service;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

/// How long a client may take to send the head of a request, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(120);
/// Most bytes of a request's head: the longest target and as much again for headers.
const HEAD_BYTES_MAX: usize = 2 * model::limits::REQUEST_TARGET_BYTES_MAX;
/// How long to wait when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `stop` is done; then lets requests finish, but no longer than `shutdown_time`.
pub(crate) async fn serve<E: Engine>(
    listener: TcpListener,
    service: Arc<Service<E>>,
    connections_max: usize,
    shutdown_time: Duration,
    stop: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            (stream, peer, place) = accept(&listener, &places) => {
                let info = ConnectionInfo { peer, is_tls: false };
                serve_one(stream, info, place, &service, &graceful);
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(shutdown_time, graceful.shutdown()).await.is_err() {
        warn!("requests that did not finish in {} s are cut off", shutdown_time.as_secs());
    }
}

/// The next connection, once there is a place for it; until then it waits in the system's queue.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let place = Arc::clone(places).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => {
                warn!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn serve_one<E: Engine>(
    stream: TcpStream,
    info: ConnectionInfo,
    place: OwnedSemaphorePermit,
    service: &Arc<Service<E>>,
    graceful: &GracefulShutdown,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!("a connection was lost before it was served: {error}");
        return;
    }
    let service = Arc::clone(service);
    let handler = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { service.handle(request, info).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), handler);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!("a connection ended: {error}");
        }
        drop(place);
    });
}
