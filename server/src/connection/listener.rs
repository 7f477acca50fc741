//! Connections: accepted, bounded in number and in patience, and ended in order.
//!
//! A TLS handshake runs beside the loop that accepts: a client that is slow at it, or fails, holds up nobody. It has its
//! place among the connections from the first packet on.

use crate::connection::idle_timeout::{IdleTimeout, watched};
use crate::connection::slow_reader::WatchedStream;
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
/// How long a client may take nothing of its answer.
const STALL_TIME: Duration = Duration::from_secs(60);
/// How often it is looked whether a connection takes too long with any of this.
const LOOKS: Duration = Duration::from_secs(15);
/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Most bytes of a request's head: the longest target and as much again for headers.
const HEAD_BYTES_MAX: usize = 2 * model::limits::REQUEST_TARGET_BYTES_MAX;
/// How long to wait when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections are accepted.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    /// What TLS connections are accepted with; `None` for plain HTTP. One that is accepted keeps what it began with.
    pub(crate) tls: Option<Arc<Live<ServerConfig>>>,
    pub(crate) connections_max: usize,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) shutdown_time: Duration,
}

/// A connection that was accepted, with its place among those that may be.
struct Accepted<S> {
    stream: S,
    peer: SocketAddr,
    place: (OwnedSemaphorePermit, OpenConnection),
}

/// Serves connections until `stop` is done; then lets requests finish, but no longer than the shutdown time.
pub(crate) async fn serve<E: Engine>(listening: Listening, service: Arc<Service<E>>, stop: impl Future<Output = ()>) {
    let Listening { listener, tls, connections_max, connections, shutdown_time } = listening;
    let places = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    let mut handshakes = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &places, &connections) => match &tls {
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
    // No request that came over these has been looked at.
    drop((listener, handshakes));
    if tokio::time::timeout(shutdown_time, graceful.shutdown()).await.is_err() {
        warn!("requests that did not finish in {} s are cut off", shutdown_time.as_secs());
    }
}

/// The next connection, once there is a place for it; until then it waits in the system's queue.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    connections: &Arc<ConnectionCounters>,
) -> Accepted<TcpStream> {
    let place = Arc::clone(places).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // If this fails the connection is lost already, which shows when it is read.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!("the connection from {peer} is lost: {error}");
                }
                return Accepted { stream, peer, place: (place, connections.accept()) };
            }
            Err(error) => {
                warn!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The encrypted connection; `None`, and its place free again, if the client cannot or does not do its part.
async fn handshake(
    acceptor: TlsAcceptor,
    accepted: Accepted<TcpStream>,
    connections: Arc<ConnectionCounters>,
) -> Option<Accepted<TlsStream<TcpStream>>> {
    let Accepted { stream, peer, place } = accepted;
    match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(Accepted { stream, peer, place }),
        Ok(Err(error)) => debug!("the TLS handshake with {peer} failed: {error}"),
        Err(_) => debug!("the TLS handshake with {peer} took longer than {} s", HANDSHAKE_TIME.as_secs()),
    }
    connections.handshake_failed();
    None
}

fn serve_one<S, E>(
    accepted: Accepted<S>,
    is_tls: bool,
    service: &Arc<Service<E>>,
    graceful: &GracefulShutdown,
    connections: &Arc<ConnectionCounters>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    E: Engine,
{
    let Accepted { stream, peer, place } = accepted;
    let info = ConnectionInfo { peer, is_tls };
    let service = Arc::clone(service);
    // In a place of its own while there is one: the HTTP library moves what it is given, and has room for it in every
    // connection, idle or not.
    let handler = service_fn(move |request| Box::pin(Arc::clone(&service).handle(request, info)));
    let (stream, stall) = WatchedStream::new(stream);
    let connection = http1::Builder::new()
        .timer(IdleTimeout)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), handler);
    // In one place of its own: a task that takes a future by value, and hands it on, has room for it in every hand.
    let connection = Box::pin(graceful.watch(connection));
    let connections = Arc::clone(connections);
    tokio::spawn(async move {
        match watched(connection, LOOKS, || stall.is_longer_than(STALL_TIME)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => debug!("a connection ended: {error}"),
            None => {
                connections.cut_off();
                debug!("the client {peer} takes nothing of its answer");
            }
        }
        drop(place);
    });
}
