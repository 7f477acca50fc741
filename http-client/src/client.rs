//! Sends requests, within their limits on time and size.
//!
//! This module must not know how connections are opened.

use crate::address::is_valid;
use crate::connector::Connector;
use crate::error::HttpError;
use crate::limits::{CONNECT_TIME_MAX, CONNECTION_IDLE_MAX, REQUEST_TIME_MAX, RESPONSE_BODY_BYTES_MAX};
use crate::proxy::Proxies;
use bytes::Bytes;
use http::header::{CONNECTION, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

const PRODUCT: HeaderValue = HeaderValue::from_static(concat!("Rowhouse/", env!("CARGO_PKG_VERSION")));

/// The limits of an [`HttpClient`] and the handling of its connections.
///
/// ```
/// # use rowhouse_http_client::HttpOptions;
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
/// # use rowhouse_http_client::{HttpClient, HttpOptions, system_roots, tls_config};
///
/// # async fn example(endpoint: &str) -> Result<(), Box<dyn std::error::Error>> {
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
/// # use rowhouse_http_client::{HttpError, HttpResponse};
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

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            request_time_max: REQUEST_TIME_MAX,
            connect_time_max: Some(CONNECT_TIME_MAX),
            body_bytes_max: RESPONSE_BODY_BYTES_MAX,
            keeps_connections: true,
        }
    }
}

impl HttpClient {
    /// Creates a client without proxies. The TLS configuration is used for `https` addresses; its ALPN protocols are
    /// ignored, because the client supports only HTTP/1.1.
    ///
    /// ```
    /// # use rowhouse_http_client::{HttpClient, HttpOptions, system_roots, tls_config};
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
    /// # use rowhouse_http_client::{HttpClient, HttpOptions, Proxies, system_roots, tls_config};
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
    /// # use rowhouse_http_client::{HttpClient, HttpError};
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
    /// # use rowhouse_http_client::{HttpClient, HttpError};
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
    /// # use rowhouse_http_client::{HttpError, HttpResponse};
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
