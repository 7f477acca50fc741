//! One HTTP exchange over connections that are kept alive: bounded in time and size.

use crate::limits::{ATTEMPT_TIME_MAX, CONNECT_TIME_MAX, RESPONSE_BODY_BYTES_MAX};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum TransportError {
    /// The connection could not be opened, or broke.
    Broken(Box<dyn std::error::Error + Send + Sync>),
    /// The answer is larger than the bound.
    TooLarge,
}

impl Answer {
    /// A header that is plain text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Transport {
    /// With TLS, trusts the certificate authorities of the system (or of `SSL_CERT_FILE`).
    pub(crate) fn new(is_https: bool) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        if is_https {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIME_MAX));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(https);
        Ok(Self { http })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, TransportError> {
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| TransportError::Broken(error.into()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, RESPONSE_BODY_BYTES_MAX).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() { TransportError::TooLarge } else { TransportError::Broken(error) }
            })?;
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
        };
        let timed = tokio::time::timeout(ATTEMPT_TIME_MAX, exchange).await;
        timed.unwrap_or_else(|_| {
            let seconds = ATTEMPT_TIME_MAX.as_secs();
            Err(TransportError::Broken(format!("there was no whole answer within {seconds} s").into()))
        })
    }
}
