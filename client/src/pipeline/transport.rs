//! Delivers requests to a service, over HTTP or through a transport that a test provides.
//!
//! This module must not depend on the Table protocol.

use crate::future::BoxFuture;
use crate::http::{HttpClient, HttpError};
use bytes::Bytes;
use http::{Request, Response};
use std::fmt;
use std::time::Duration;

/// Sends requests and returns responses. The library implements it for HTTP and HTTPS; a test can provide its own
/// implementation.
///
/// Dropping the future abandons the request.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use rowhouse_client::{BoxFuture, HttpError, TableService, Transport};
/// use std::time::Duration;
///
/// /// Responds to every request like a service that is too busy.
/// #[derive(Debug)]
/// struct Busy;
///
/// impl Transport for Busy {
///     fn send(&self, _: Request<Bytes>, _: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
///         Box::pin(async { Ok(Response::builder().status(503).body(Bytes::new()).expect("a valid response")) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), rowhouse_client::Error> {
/// let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?
///     .transport(Busy)
///     .retry(rowhouse_client::RetryPolicy::none())
///     .build()?;
/// let error = service.tables().all().await.unwrap_err();
/// assert_eq!(error.kind(), rowhouse_client::ErrorKind::Throttled);
/// # Ok(()) }
/// ```
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends a request with an absolute URL, and returns the complete response within `time_max`.
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>>;
}

impl Transport for HttpClient {
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        Box::pin(async move {
            let mut response = self.send_within(request, time_max).await?;
            let body = response.read_body().await?;
            let mut whole = Response::new(body);
            *whole.status_mut() = response.status;
            *whole.headers_mut() = response.headers;
            Ok(whole)
        })
    }
}
