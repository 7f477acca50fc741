//! The HTTP client for requests to other services: to issuers of bearer tokens, and to the collector of traces.
//!
//! Without the feature `outgoing`, [`tls_config`] fails with the reason, so no client exists that could send a request.

use http::Uri;

#[cfg(not(feature = "outgoing"))]
pub(crate) use absent::{HttpClient, HttpError, HttpOptions, is_loopback, system_roots, tls_config};
#[cfg(feature = "outgoing")]
pub(crate) use http_client::{HttpClient, HttpError, HttpOptions, is_loopback, system_roots, tls_config};

/// Returns the URL without its user and its query, which may contain credentials.
pub(crate) fn without_secrets(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let port = uri.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}://{host}{port}{}", uri.scheme_str().unwrap_or_default(), uri.path())
}

#[cfg(not(feature = "outgoing"))]
mod absent {
    use bytes::Bytes;
    use http::{HeaderMap, Request, StatusCode, Uri};
    use rustls::{Error, RootCertStore};
    use std::fmt;
    use std::time::Duration;

    /// The TLS settings of a client, of which there are none.
    #[derive(Clone, Copy)]
    pub(crate) enum TlsConfig {}

    pub(crate) struct HttpClient(TlsConfig);

    pub(crate) struct HttpOptions {
        pub(crate) request_time_max: Duration,
        pub(crate) connect_time_max: Option<Duration>,
        pub(crate) body_bytes_max: usize,
        pub(crate) keeps_connections: bool,
    }

    #[derive(Debug)]
    pub(crate) enum HttpError {
        Address,
        TimedOut(Duration),
        Transport,
    }

    pub(crate) struct HttpResponse {
        pub(crate) status: StatusCode,
        pub(crate) headers: HeaderMap,
        none: TlsConfig,
    }

    impl fmt::Display for HttpError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("this server sends no requests")
        }
    }

    impl std::error::Error for HttpError {}

    impl HttpClient {
        pub(crate) fn new(_: HttpOptions, none: TlsConfig) -> Self {
            match none {}
        }

        #[allow(clippy::unused_async, reason = "the client that exists is asynchronous")]
        pub(crate) async fn send(&self, _: Request<Bytes>) -> Result<HttpResponse, HttpError> {
            match self.0 {}
        }
    }

    impl HttpResponse {
        #[allow(clippy::unused_async, reason = "the client that exists is asynchronous")]
        pub(crate) async fn read_body(&mut self) -> Result<Bytes, HttpError> {
            match self.none {}
        }
    }

    pub(crate) fn tls_config(_: RootCertStore) -> Result<TlsConfig, Error> {
        Err(Error::General("this server was built without the feature 'outgoing'".to_owned()))
    }

    pub(crate) fn system_roots() -> RootCertStore {
        RootCertStore::empty()
    }

    pub(crate) fn is_loopback(_: &Uri) -> bool {
        false
    }
}
