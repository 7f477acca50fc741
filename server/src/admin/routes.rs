//! The paths of the admin listener and their responses.

use super::readiness::ReadinessReport;
use super::responses::{JSON, json, read_body, respond, text};
use super::{Admin, host, test_routes};
use crate::telemetry::metrics;
use crate::telemetry::version;
use bytes::Bytes;
use http::header::{ACCEPT, ALLOW};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use model::limits::ADMIN_REQUEST_SECONDS_MAX;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::timeout;
use tracing::error;

/// The timeout for a response.
const TIME: Duration = Duration::from_secs(ADMIN_REQUEST_SECONDS_MAX);

const INDEX: &str = "\
/livez    whether the process works
/readyz   whether it accepts requests: 200 or 503; add ?verbose or send Accept: application/json for the reasons;
          with ?primary, a standby is not ready
/healthz  the same as /readyz
/metrics  metrics for Prometheus
/version  the version of this build
/log      the log filter; PUT changes it, and with an empty body resets it
";

/// Handles one request. If the listener is reachable only from this machine, the request must name an IP address or
/// `localhost` as its host (`host.rs`).
pub(super) async fn handle(admin: &Admin, is_local: bool, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if is_local && !host::is_local(&request) {
        return text(StatusCode::FORBIDDEN, host::REFUSAL);
    }
    let response = timeout(TIME, route(admin, request)).await;
    response.unwrap_or_else(|_| text(StatusCode::SERVICE_UNAVAILABLE, "the response took too long\n"))
}

async fn route(admin: &Admin, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let controls = admin.test_controls();
    if let Some(controls) = controls
        && let Some(path) = path.strip_prefix("/test/")
    {
        return test_routes::handle(controls, path, request).await;
    }
    let index = || [INDEX, controls.map_or("", |_| test_routes::INDEX)].concat();
    match path.as_str() {
        "/log" if request.method() == Method::PUT => change_log(admin, request).await,
        "/log" if !is_read => not_allowed("GET, HEAD, PUT"),
        "/" | "/livez" | "/readyz" | "/healthz" | "/metrics" | "/version" if !is_read => not_allowed("GET, HEAD"),
        "/" => text(StatusCode::OK, index()),
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" | "/healthz" => readiness(admin, &request).await,
        "/metrics" => metrics_page(admin).await,
        "/version" => {
            let facts = version::facts(admin.metrics.revision).into_iter();
            let facts = facts.map(|(name, value)| (name.to_owned(), Value::from(value)));
            json(StatusCode::OK, &Value::Object(facts.collect::<Map<_, _>>()))
        }
        "/log" => text(StatusCode::OK, admin.log.current() + "\n"),
        _ => text(StatusCode::NOT_FOUND, format!("not found; the paths are\n{}", index())),
    }
}

async fn readiness(admin: &Admin, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let has_option = |wanted: &str| {
        let query = request.uri().query().unwrap_or_default();
        query.split('&').any(|option| option.split_once('=').map_or(option, |(name, _)| name) == wanted)
    };
    let checks = ReadinessReport::collect(admin, has_option("primary")).await;
    let status = if checks.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains(JSON));
    if request.headers().get_all(ACCEPT).iter().any(accepts) {
        json(status, &checks.json())
    } else if has_option("verbose") {
        text(status, checks.verbose())
    } else {
        text(status, checks.brief())
    }
}

async fn metrics_page(admin: &Admin) -> Response<Full<Bytes>> {
    match metrics::write(&admin.snapshot().await) {
        Ok(page) => respond(StatusCode::OK, metrics::CONTENT_TYPE, page),
        Err(error) => {
            error!("the metrics page could not be written: {error}");
            text(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be written\n")
        }
    }
}

async fn change_log(admin: &Admin, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = match read_body(request).await {
        Ok(body) => body,
        Err((status, reason)) => return text(status, reason + "\n"),
    };
    let Ok(levels) = std::str::from_utf8(&body) else {
        return text(StatusCode::BAD_REQUEST, "the filter must be UTF-8 text\n");
    };
    match admin.log.change(levels) {
        Ok(levels) => text(StatusCode::OK, levels + "\n"),
        Err(error) => text(StatusCode::BAD_REQUEST, format!("{error:#}\n")),
    }
}

fn not_allowed(allow: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, format!("method not allowed: use {allow}\n"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
