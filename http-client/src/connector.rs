//! Opens connections, directly or through a proxy, with TLS for `https` addresses.
//!
//! This module must not know requests.

use crate::address::server_name;
use crate::cause::root_cause;
use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use std::error::Error as StdError;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_rustls::TlsConnector;
use tower_service::Service;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Opens the connection for an address.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) direct: HttpConnector,
    pub(crate) proxies: Option<Arc<Matcher>>,
    pub(crate) tls: TlsConnector,
}

type TcpStream = <HttpConnector as Service<Uri>>::Response;

/// A connection to a server or to a proxy.
pub(crate) struct Stream {
    /// TCP, or TLS over TCP.
    transport: Box<dyn ByteStream>,
    /// True if a proxy reads the requests, which then contain the complete URL.
    is_to_proxy: bool,
}

trait ByteStream: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> ByteStream for T {}

/// The error if a proxy cannot be reached or refuses to open a tunnel.
#[derive(Debug)]
pub(crate) struct ProxyError {
    /// The address of the proxy, without credentials.
    proxy: Uri,
    error: BoxError,
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

impl Connector {
    /// Opens a connection and, for an `https` address, completes the TLS handshake. An error of the handshake is a
    /// plain [`io::Error`], unlike all other errors.
    async fn connect(self, uri: Uri) -> Result<Stream, BoxError> {
        let tls = self.tls.clone();
        let is_https = uri.scheme() == Some(&Scheme::HTTPS);
        let name = if is_https { Some(server_name(&uri)?) } else { None };
        let (tcp, is_to_proxy) = self.connect_tcp(uri).await?;
        let transport: Box<dyn ByteStream> = match name {
            Some(name) => Box::new(TokioIo::new(tls.connect(name, tcp.into_inner()).await?)),
            None => Box::new(tcp),
        };
        Ok(Stream { transport, is_to_proxy })
    }

    /// Opens a TCP connection, or a tunnel for an `https` address. Returns it, and whether a proxy reads the requests.
    async fn connect_tcp(mut self, uri: Uri) -> Result<(TcpStream, bool), BoxError> {
        let Some(proxy) = self.proxies.as_ref().and_then(|proxies| proxies.intercept(&uri)) else {
            return Ok((self.direct.call(uri).await?, false));
        };
        let address = proxy.uri().clone();
        let is_tunnel = uri.scheme() == Some(&Scheme::HTTPS);
        let connected = if is_tunnel {
            let mut tunnel = Tunnel::new(address.clone(), self.direct);
            if let Some(authorization) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            tunnel.call(uri).await.map_err(BoxError::from)
        } else {
            self.direct.call(address.clone()).await.map_err(BoxError::from)
        };
        let tcp = connected.map_err(|error| ProxyError { proxy: address, error })?;
        Ok((tcp, !is_tunnel))
    }
}

impl ProxyError {
    /// Returns true if the proxy answered 407.
    pub(crate) fn requires_authorization(&self) -> bool {
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
        Connected::new().proxy(self.is_to_proxy)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write_vectored(context, slices)
    }
}
