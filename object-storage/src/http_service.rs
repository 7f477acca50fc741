//! Sends the library's requests with `http-client`.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use http_client::{HttpError, HttpOptions, Proxies, is_permanent, system_roots, tls_config};
use object_store::ClientOptions;
use object_store::client::{self, HttpErrorKind, HttpRequest, HttpResponse, HttpService};
use parking_lot::Mutex;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// After failures for this time, a warning says that requests are repeated.
const SILENT_TIME_MAX: Duration = Duration::from_secs(5);
/// The addresses from which instances and containers get credentials. A proxy would have other credentials.
const METADATA_HOSTS: &str = "169.254.169.254, 169.254.170.2, 169.254.170.23";

/// Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: http_client::HttpClient,
    outage: Arc<Mutex<Outage>>,
}

#[derive(Debug, Default)]
struct Outage {
    /// The time of the first failure since the last success.
    began: Option<Instant>,
    has_warned: bool,
}

impl Http {
    pub(crate) fn new() -> Result<Self, Box<dyn StdError>> {
        let options = HttpOptions { connect_time_max: Some(CONNECT_TIME_MAX), ..HttpOptions::default() };
        let proxies = Proxies::from_environment()?.except(METADATA_HOSTS);
        let client = http_client::HttpClient::with_proxies(options, tls_config(system_roots())?, &proxies);
        Ok(Self { client, outage: Arc::default() })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut response = self.client.send(request).await?;
        let body = response.read_body().await?;
        let mut complete = Response::new(body);
        *complete.status_mut() = response.status;
        *complete.headers_mut() = response.headers;
        Ok(complete)
    }

    /// Warns once if the storage fails for a while, because the library repeats requests silently.
    fn record(&self, failure: Option<&dyn std::fmt::Display>) {
        let mut outage = self.outage.lock();
        let Some(failure) = failure else {
            *outage = Outage::default();
            return;
        };
        let began = *outage.began.get_or_insert_with(Instant::now);
        if began.elapsed() > SILENT_TIME_MAX && !outage.has_warned {
            outage.has_warned = true;
            tracing::warn!("object storage fails, and requests to it are repeated: {failure}");
        }
    }
}

impl client::HttpConnector for Http {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<client::HttpClient> {
        Ok(client::HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, client::HttpError> {
        let (head, body) = request.into_parts();
        let body = match body.as_bytes() {
            Some(bytes) => bytes.clone(),
            None => body.collect().await?.to_bytes(),
        };
        match self.exchange(Request::from_parts(head, body)).await {
            Ok(response) => {
                let status = response.status();
                let has_failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                self.record(has_failed.then_some(&status as _));
                Ok(response.map(Into::into))
            }
            Err(error) => {
                self.record(Some(&error));
                Err(client::HttpError::new(kind(&error), error))
            }
        }
    }
}

/// Returns the kind that determines whether the library sends the request again.
fn kind(error: &HttpError) -> HttpErrorKind {
    match error {
        error if is_permanent(error) => HttpErrorKind::Unknown,
        HttpError::Connect(_) | HttpError::Tls(_) => HttpErrorKind::Connect,
        HttpError::TimedOut(_) => HttpErrorKind::Timeout,
        HttpError::Exchange(_) | HttpError::Body(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}
