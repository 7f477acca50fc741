//! The bodies of requests to the admin listener, and its responses.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use model::limits::ADMIN_BODY_BYTES_MAX;
use serde_json::Value;

const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// Returns the body of a request, or the status and the reason why it was not read.
pub(super) async fn read_body(request: Request<Incoming>) -> Result<Bytes, (StatusCode, String)> {
    match Limited::new(request.into_body(), ADMIN_BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {ADMIN_BODY_BYTES_MAX} bytes")))
        }
        Err(_) => Err((StatusCode::BAD_REQUEST, "the body cannot be read".to_owned())),
    }
}

pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Response<Full<Bytes>> {
    respond(status, TEXT, body.into())
}

pub(super) fn no_content() -> Response<Full<Bytes>> {
    let mut response = respond(StatusCode::NO_CONTENT, JSON, String::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

pub(super) fn json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    respond(status, JSON, format!("{body:#}\n"))
}

pub(super) fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
