//! Accepts the connections to the admin listener.
//!
//! They have their own limits, so operators can still connect when clients have used up all other connections.

use super::{Admin, responses, routes};
use crate::clock;
use crate::connection::handler::RequestAborted;
use crate::connection::idle_timeout::poll_in_intervals;
use crate::connection::refusal::Refusal;
use crate::connection::watch::serve_watched;
use crate::limits::connections::{ConnectionRegistry, OpenConnection};
use hyper::service::service_fn;
use model::limits::{ADMIN_CONNECTIONS_MAX, ADMIN_HEAD_BYTES_MAX, ADMIN_IDLE_SECONDS_MAX};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

const IDLE_TIME: Duration = Duration::from_secs(ADMIN_IDLE_SECONDS_MAX);
/// The interval between checks of a connection. A client has one to two intervals to send the head of a request.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The pause before accepting again when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let connections = ConnectionRegistry::new(ADMIN_CONNECTIONS_MAX, None, Arc::default());
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Some(place) = connections.admit(peer.ip()).await else { continue };
                let state = place.state();
                state.set_task(tokio::spawn(serve_one(stream, place, Arc::clone(&admin), is_local)).abort_handle());
            }
            Err(error) => {
                warn!("cannot accept an admin connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, place: OpenConnection, admin: Arc<Admin>, is_local: bool) {
    let state = place.state();
    let handler = service_fn(move |request| {
        let (in_progress, admin) = (state.begin_request(clock::instant()), Arc::clone(&admin));
        Box::pin(async move {
            let _in_progress = in_progress.ok_or(RequestAborted)?;
            Ok::<_, RequestAborted>(routes::handle(&admin, is_local, request).await)
        })
    });
    let refuse = |refusal: &Refusal<'_>| responses::text(refusal.status(), format!("{refusal}\n"));
    let limits = (IDLE_TIME, ADMIN_HEAD_BYTES_MAX);
    let (connection, mut watch) = serve_watched(stream, place.state(), limits, handler, refuse, None);
    match poll_in_intervals(connection, CHECK_INTERVAL, || watch.check()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("an admin connection failed: {error}"),
        Err(reason) => debug!("an admin connection was closed: {reason}"),
    }
    drop(place);
}
