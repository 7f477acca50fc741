//! Connections: accepted, bounded in number and in time, and ended in order.
//!
//! A TLS handshake runs in a task of its own, so a client that is slow or fails delays no other. It counts as a connection
//! from the first packet on.

use crate::connection::idle_timeout::{IdleTimeout, poll_in_intervals};
use crate::connection::slow_reader::MonitoredStream;
use crate::reload::Live;
use crate::request::ConnectionInfo;
use crate::service::Service;
use crate::telemetry::metrics::{ConnectionCounters, OpenConnection};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::Engine;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

/// How long a client may take to send the head of a request, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(120);
/// How long a client may leave its response unread.
const BLOCKED_TIME_MAX: Duration = Duration::from_secs(60);
/// How often these limits are checked on each connection.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Most bytes of a request's head: the longest target and as much again for headers.
const HEAD_BYTES_MAX: usize = 2 * model::limits::REQUEST_TARGET_BYTES_MAX;
/// How long to wait when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections are accepted.
pub(crate) struct ListenerSettings {
    pub(crate) listener: TcpListener,
    /// The TLS settings of new connections; `None` for plain HTTP. An accepted connection keeps those it began with.
    pub(crate) tls: Option<Arc<Live<ServerConfig>>>,
    pub(crate) connections_max: usize,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) shutdown_time: Duration,
}

/// A connection that was accepted, with its permit.
struct AcceptedConnection<S> {
    stream: S,
    peer: SocketAddr,
    permit: (OwnedSemaphorePermit, OpenConnection),
}

/// Serves connections until `stop` is done; then lets requests finish, but no longer than the shutdown time.
pub(crate) async fn serve<E: Engine>(
    listening: ListenerSettings,
    service: Arc<Service<E>>,
    stop: impl Future<Output = ()>,
) {
    let ListenerSettings { listener, tls, connections_max, connections, shutdown_time } = listening;
    let permits = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    let mut handshakes = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &permits, &connections) => match &tls {
                None => serve_one(accepted, false, &service, &graceful, &connections),
                Some(tls) => {
                    let acceptor = TlsAcceptor::from(tls.current());
                    handshakes.spawn(handshake(acceptor, accepted, Arc::clone(&connections)));
                }
            },
            Some(done) = handshakes.join_next() => if let Ok(Some(accepted)) = done {
                serve_one(accepted, true, &service, &graceful, &connections);
            },
        }
    }
    // No request was read from these.
    drop((listener, handshakes));
    if tokio::time::timeout(shutdown_time, graceful.shutdown()).await.is_err() {
        warn!("requests that did not finish within {} s are aborted", shutdown_time.as_secs());
    }
}

/// The next connection, once a permit is free; until then it waits in the queue of the operating system.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    connections: &Arc<ConnectionCounters>,
) -> AcceptedConnection<TcpStream> {
    let permit = Arc::clone(permits).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // If this fails the connection is lost already, which shows when it is read.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!("the connection from {peer} is lost: {error}");
                }
                return AcceptedConnection { stream, peer, permit: (permit, connections.accept()) };
            }
            Err(error) => {
                warn!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The encrypted connection; `None` if the handshake fails, which also frees the permit.
async fn handshake(
    acceptor: TlsAcceptor,
    accepted: AcceptedConnection<TcpStream>,
    connections: Arc<ConnectionCounters>,
) -> Option<AcceptedConnection<TlsStream<TcpStream>>> {
    let AcceptedConnection { stream, peer, permit } = accepted;
    match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(AcceptedConnection { stream, peer, permit }),
        Ok(Err(error)) => debug!("the TLS handshake with {peer} failed: {error}"),
        Err(_) => debug!("the TLS handshake with {peer} took longer than {} s", HANDSHAKE_TIME.as_secs()),
    }
    connections.handshake_failed();
    None
}

fn serve_one<S, E>(
    accepted: AcceptedConnection<S>,
    is_tls: bool,
    service: &Arc<Service<E>>,
    graceful: &GracefulShutdown,
    connections: &Arc<ConnectionCounters>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    E: Engine,
{
    let AcceptedConnection { stream, peer, permit } = accepted;
    let info = ConnectionInfo { peer, is_tls };
    let service = Arc::clone(service);
    // Boxed, because the HTTP library keeps room for the whole future in every connection, idle or not.
    let handler = service_fn(move |request| Box::pin(Arc::clone(&service).handle(request, info)));
    let (stream, monitor) = MonitoredStream::new(stream);
    let connection = http1::Builder::new()
        .timer(IdleTimeout)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), handler);
    // Boxed, because every function that passes a future on by value has room for all of it.
    let connection = Box::pin(graceful.watch(connection));
    let connections = Arc::clone(connections);
    tokio::spawn(async move {
        match poll_in_intervals(connection, POLL_INTERVAL, || monitor.is_blocked_longer_than(BLOCKED_TIME_MAX)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => debug!("a connection ended: {error}"),
            None => {
                connections.count_slow_reader();
                debug!("the connection of {peer} is closed, because the client does not read its response");
            }
        }
        drop(permit);
    });
}
