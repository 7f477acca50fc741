//! Requests that the server itself sends to token issuers and collectors, over HTTPS or plain HTTP.
//!
//! Each has a connection of its own; there are no proxies and no cookies. This module must not know what is sent.

use http::header::{CONNECTION, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Why there is no response.
#[derive(Debug)]
pub(crate) enum SendError {
    Connection(std::io::Error),
    /// The host is not a name that a certificate can have.
    Name(InvalidDnsNameError),
    Tls(std::io::Error),
    Http(hyper::Error),
}

/// The certificate authorities of the system (or of `SSL_CERT_FILE`).
pub(crate) fn system_authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Trusts these certificate authorities, and shows no certificate itself.
pub(crate) fn connector(roots: RootCertStore) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Sends a request to an address, over TLS if a connector is given. The path is that of the address; the headers `Host`,
/// `Connection` and `User-Agent` are filled in where the request has none.
pub(crate) async fn send<B>(
    uri: &Uri,
    tls: Option<&TlsConnector>,
    mut request: Request<B>,
) -> Result<Response<Incoming>, SendError>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let path = uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
    *request.uri_mut() = path;
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let headers = request.headers_mut();
    headers.entry(HOST).or_insert_with(|| {
        HeaderValue::from_str(authority).expect("the authority of a parsed address is a header value")
    });
    headers.entry(CONNECTION).or_insert(HeaderValue::from_static("close"));
    let sender = HeaderValue::from_static(concat!("Rowhouse/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(sender);
    let host = bare_host(uri).to_owned();
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(SendError::Connection)?;
    match tls {
        None => exchange(stream, request).await,
        Some(tls) => {
            let name = ServerName::try_from(host).map_err(SendError::Name)?;
            exchange(tls.connect(name, stream).await.map_err(SendError::Tls)?, request).await
        }
    }
}

async fn exchange<B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<B>,
) -> Result<Response<Incoming>, SendError>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(SendError::Http)?;
    // Ends by itself when the response was read or dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(SendError::Http)
}

/// The host without the brackets around IPv6 addresses.
pub(crate) fn bare_host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}
