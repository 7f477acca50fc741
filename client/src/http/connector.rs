//! Opens connections, directly or through a proxy.
//!
//! This module must not know requests or TLS.

use super::cause::root_cause;
use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// Opens the TCP connection for an address.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) direct: HttpConnector,
    pub(super) proxies: Option<Arc<Matcher>>,
}

type TcpStream = <HttpConnector as Service<Uri>>::Response;

/// A TCP connection to a server or to a proxy.
#[derive(Debug)]
pub(super) struct Stream {
    tcp: TcpStream,
    /// True if a proxy reads the requests, which then contain the complete URL.
    is_to_proxy: bool,
}

/// The error if a proxy cannot be reached or refuses to open a tunnel.
#[derive(Debug)]
pub(super) struct ProxyError {
    /// The address of the proxy, without credentials.
    proxy: Uri,
    error: Box<dyn StdError + Send + Sync>,
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.as_ref().and_then(|proxies| proxies.intercept(&uri)) else {
            let connecting = self.direct.call(uri);
            return Box::pin(async { Ok(Stream { tcp: connecting.await?, is_to_proxy: false }) });
        };
        let address = proxy.uri().clone();
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let mut tunnel = Tunnel::new(address.clone(), self.direct.clone());
            if let Some(authorization) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            let connecting = tunnel.call(uri);
            return Box::pin(async {
                let tcp = connecting.await.map_err(|error| ProxyError { proxy: address, error: error.into() })?;
                Ok(Stream { tcp, is_to_proxy: false })
            });
        }
        let connecting = self.direct.call(address.clone());
        Box::pin(async {
            let tcp = connecting.await.map_err(|error| ProxyError { proxy: address, error: error.into() })?;
            Ok(Stream { tcp, is_to_proxy: true })
        })
    }
}

impl ProxyError {
    /// Returns true if the proxy answered 407.
    pub(super) fn requires_authorization(&self) -> bool {
        // The type of this error of the library is private.
        self.error.to_string().ends_with("proxy authorization required")
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.proxy.authority().map_or("", |authority| authority.as_str());
        write!(f, "proxy {host}: {}", root_cause(self.error.as_ref()))
    }
}

// There is no source, because the message contains the cause.
impl StdError for ProxyError {}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.tcp.connected().proxy(self.is_to_proxy)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, slices)
    }
}
