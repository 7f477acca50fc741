//! The HTTP client that sends all requests of this library and of Rowhouse's commands: over HTTPS or plain HTTP, with
//! limits on time and size.
//!
//! Invariants:
//!
//! 1. A request never takes longer than its timeout, including the body of the response.
//! 2. The body of a response never takes more memory than its limit.
//! 3. The client follows no redirects and stores no cookies. It uses proxies only if it is given any.
//! 4. Errors never show the address or the headers of a request, because they may contain a credential.
//!
//! This module must not know the Table protocol.

mod address;
mod cause;
mod connector;
mod proxy;
mod tls_failure;

use crate::limits::CONNECTION_IDLE_MAX;
pub use address::bare_host;
use address::is_valid;
use bytes::Bytes;
use cause::root_cause;
use connector::{Connector, ProxyError};
use http::header::{CONNECTION, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
pub use proxy::{MalformedProxy, Proxies};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("Rowhouse/", env!("CARGO_PKG_VERSION")));

/// The limits of an [`HttpClient`] and the handling of its connections.
///
/// ```
/// use rowhouse_client::http::HttpOptions;
/// use std::time::Duration;
///
/// let options = HttpOptions { connect_time_max: Some(Duration::from_secs(3)), ..HttpOptions::default() };
/// assert!(options.keeps_connections);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct HttpOptions {
    /// The timeout for a request, including the body of the response.
    pub request_time_max: Duration,
    /// The timeout for opening a TCP connection. With `None`, only the timeout of the request applies.
    pub connect_time_max: Option<Duration>,
    /// The maximum size of a response body, in bytes.
    pub body_bytes_max: usize,
    /// True if connections are reused. Otherwise, each request opens its own connection.
    pub keeps_connections: bool,
}

/// An HTTP client. Clones share their connections.
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let endpoint = server.endpoint();
/// let client = HttpClient::new(HttpOptions::default(), tls_config(system_roots())?);
/// let mut response = client.send(Request::get(endpoint).body(Bytes::new())?).await?;
/// assert!(response.status.is_client_error(), "the request is not signed");
/// println!("{} bytes", response.read_body().await?.len());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HttpClient {
    http: legacy::Client<Connector, Full<Bytes>>,
    options: HttpOptions,
    /// `None` if there are no proxies.
    proxies: Option<Arc<Matcher>>,
}

/// A response whose body has not been read yet.
///
/// ```
/// use rowhouse_client::http::{HttpError, HttpResponse};
///
/// async fn text(mut response: HttpResponse) -> Result<String, HttpError> {
///     let body = response.read_body().await?;
///     Ok(format!("{}: {}", response.status, String::from_utf8_lossy(&body)))
/// }
/// # let _ = text;
/// ```
#[derive(Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    sent: Instant,
    options: HttpOptions,
}

/// The reason why no complete response arrived. The message includes the cause.
///
/// ```
/// use rowhouse_client::HttpError;
/// use std::time::Duration;
///
/// let error = HttpError::TimedOut(Duration::from_secs(60));
/// assert_eq!(error.to_string(), "the response was not complete after 60 s");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is not an `http` or `https` address with a valid host.
    Address,
    /// The TCP connection could not be opened.
    Connect(Box<dyn StdError + Send + Sync>),
    /// The proxy requires a user name and a password, or rejects those in its address.
    ProxyAuthorization,
    /// The TLS handshake failed, for example because the certificate is not trusted. The message says what to do about
    /// it.
    Tls(Box<dyn StdError + Send + Sync>),
    /// The connection broke before the head of the response arrived, or the head is not HTTP/1.1.
    Exchange(Box<dyn StdError + Send + Sync>),
    /// The connection broke within the body of the response, or the body is malformed.
    Body(Box<dyn StdError + Send + Sync>),
    /// The body of the response exceeds this limit, in bytes.
    BodyTooLarge(usize),
    /// The request exceeded this timeout.
    TimedOut(Duration),
}

/// Returns the certificate authorities that the system trusts, or those in `SSL_CERT_FILE`.
///
/// ```
/// let trusts_any = !rowhouse_client::http::system_roots().is_empty();
/// # let _ = trusts_any;
/// ```
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Returns a TLS configuration that trusts these certificate authorities and has no client certificate.
///
/// ```
/// use rowhouse_client::http::{HttpClient, HttpOptions, tls_config};
/// use rustls::RootCertStore;
///
/// let mut own = RootCertStore::empty();
/// # let certificates: Vec<rustls::pki_types::CertificateDer<'_>> = Vec::new();
/// own.add_parsable_certificates(certificates);
/// let client = HttpClient::new(HttpOptions::default(), tls_config(own)?);
/// # let _ = client;
/// # Ok::<(), rustls::Error>(())
/// ```
pub fn tls_config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl HttpClient {
    /// Creates a client without proxies. The TLS configuration is used for `https` addresses; its ALPN protocols are
    /// ignored, because the client supports only HTTP/1.1.
    ///
    /// ```
    /// # use rowhouse_client::http::{HttpClient, HttpOptions, system_roots, tls_config};
    /// let client = HttpClient::new(HttpOptions::default(), tls_config(system_roots())?);
    /// # let _ = client;
    /// # Ok::<(), rustls::Error>(())
    /// ```
    pub fn new(options: HttpOptions, tls: ClientConfig) -> Self {
        Self::with_proxies(options, tls, &Proxies::none())
    }

    /// Creates a client like [`new`](Self::new), whose requests go through these proxies.
    ///
    /// ```
    /// # use rowhouse_client::http::{HttpClient, HttpOptions, Proxies, system_roots, tls_config};
    /// let proxies = Proxies::from_environment()?;
    /// let client = HttpClient::with_proxies(HttpOptions::default(), tls_config(system_roots())?, &proxies);
    /// # let _ = client;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_proxies(options: HttpOptions, mut tls: ClientConfig, proxies: &Proxies) -> Self {
        let proxies = proxies.matcher().map(Arc::new);
        // The client sends HTTP/1.1 only.
        tls.alpn_protocols.clear();
        let mut direct = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        direct.set_connect_timeout(options.connect_time_max);
        let connector = Connector { direct, proxies: proxies.clone(), tls: TlsConnector::from(Arc::new(tls)) };
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(CONNECTION_IDLE_MAX);
        if !options.keeps_connections {
            builder.pool_max_idle_per_host(0);
        }
        Self { http: builder.build(connector), options, proxies }
    }

    /// Sends a request with an absolute URL and returns when the head of the response has arrived.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use rowhouse_client::http::{HttpClient, HttpError};
    /// # async fn example(client: HttpClient, request: http::Request<Bytes>) -> Result<(), HttpError> {
    /// let response = client.send(request).await?;
    /// println!("{}", response.status);
    /// # Ok(()) }
    /// ```
    pub async fn send(&self, request: Request<Bytes>) -> Result<HttpResponse, HttpError> {
        self.send_within(request, self.options.request_time_max).await
    }

    /// Sends a request like [`send`](Self::send), with a different timeout.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use rowhouse_client::http::{HttpClient, HttpError};
    /// # use std::time::Duration;
    /// # async fn example(client: HttpClient, request: http::Request<Bytes>) -> Result<(), HttpError> {
    /// let response = client.send_within(request, Duration::from_secs(2)).await?;
    /// println!("{}", response.status);
    /// # Ok(()) }
    /// ```
    pub async fn send_within(
        &self,
        mut request: Request<Bytes>,
        request_time_max: Duration,
    ) -> Result<HttpResponse, HttpError> {
        if !is_valid(request.uri()) {
            return Err(HttpError::Address);
        }
        // For `https` addresses, the credentials are in the request for the tunnel.
        let is_http = request.uri().scheme() == Some(&Scheme::HTTP);
        let proxies = self.proxies.as_ref().filter(|_| is_http);
        let proxy = proxies.and_then(|proxies| proxies.intercept(request.uri()));
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(PRODUCT);
        if let Some(authorization) = proxy.as_ref().and_then(|proxy| proxy.basic_auth()) {
            headers.insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        if !self.options.keeps_connections {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let (options, sent) = (HttpOptions { request_time_max, ..self.options }, Instant::now());
        let exchange = self.http.request(request.map(Full::new));
        let response = timeout(options.request_time_max, exchange).await;
        let response =
            response.map_err(|_| HttpError::TimedOut(options.request_time_max))?.map_err(HttpError::from_hyper)?;
        if proxy.is_some() && response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            return Err(HttpError::ProxyAuthorization);
        }
        let (head, body) = response.into_parts();
        Ok(HttpResponse { status: head.status, headers: head.headers, body, sent, options })
    }
}

impl HttpResponse {
    /// Reads the body, within the limits of the client. If the body is not read, its connection is closed.
    ///
    /// ```
    /// # use rowhouse_client::http::{HttpError, HttpResponse};
    /// # async fn example(mut response: HttpResponse) -> Result<(), HttpError> {
    /// let body = response.read_body().await?;
    /// println!("{} bytes", body.len());
    /// # Ok(()) }
    /// ```
    pub async fn read_body(&mut self) -> Result<Bytes, HttpError> {
        let HttpOptions { request_time_max, body_bytes_max, .. } = self.options;
        let remaining = request_time_max.saturating_sub(self.sent.elapsed());
        let body = Limited::new(&mut self.body, body_bytes_max).collect();
        match timeout(remaining, body).await {
            Err(_) => Err(HttpError::TimedOut(request_time_max)),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(HttpError::BodyTooLarge(body_bytes_max)),
            Ok(Err(error)) => Err(HttpError::Body(error)),
            Ok(Ok(body)) => Ok(body.to_bytes()),
        }
    }
}

impl HttpError {
    /// Returns true if every further attempt would fail in the same way until someone changes something.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Address | Self::ProxyAuthorization => true,
            Self::Tls(error) => tls_failure::find(error.as_ref()).is_some_and(tls_failure::is_permanent),
            _ => false,
        }
    }

    fn from_hyper(error: legacy::Error) -> Self {
        // The connector wraps TCP errors in its own type; TLS errors are plain I/O errors.
        let is_tls = matches!(error.source(), Some(source) if source.is::<io::Error>());
        let proxy_error = error.source().and_then(|source| source.downcast_ref::<ProxyError>());
        match error.is_connect() {
            true if proxy_error.is_some_and(ProxyError::requires_authorization) => Self::ProxyAuthorization,
            true if is_tls => Self::Tls(error.into()),
            true => Self::Connect(error.into()),
            false => Self::Exchange(error.into()),
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("the URL must be an http or https address with a valid host"),
            Self::ProxyAuthorization => f.write_str("the proxy requires a valid user name and password in its address"),
            Self::Connect(error) => write!(f, "connecting failed: {}", root_cause(error.as_ref())),
            Self::Tls(error) => {
                f.write_str("the TLS handshake failed: ")?;
                match tls_failure::find(error.as_ref()) {
                    Some(failure) => tls_failure::explain(failure, f),
                    None => write!(f, "{}", root_cause(error.as_ref())),
                }
            }
            Self::Exchange(error) => write!(f, "the response was not valid: {}", root_cause(error.as_ref())),
            Self::Body(error) => {
                write!(f, "the body of the response could not be read: {}", root_cause(error.as_ref()))
            }
            Self::BodyTooLarge(bytes_max) => write!(f, "the body of the response is larger than {bytes_max} bytes"),
            Self::TimedOut(time_max) => write!(f, "the response was not complete after {} s", time_max.as_secs_f64()),
        }
    }
}

impl StdError for HttpError {}

#[cfg(test)]
mod tests;
