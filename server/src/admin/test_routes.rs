//! The paths below `/test/`, with which a test controls the server, and their JSON.
//!
//! Web pages cannot use them. A request that changes something is a `DELETE` or a `PUT`, or has a JSON body, so a
//! browser first asks for permission, which it never gets. If the page's own host name resolves to the server (DNS
//! rebinding), the browser does not ask, but it sends the page's origin. Requests with an origin are rejected.

use super::responses::{json, no_content, read_body};
use crate::accounts::connection_string;
use crate::test_controls::{ClockChange, ControlError, TestAccount, TestControls};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, ORIGIN};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use model::DateTime;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(super) const INDEX: &str = "\
/test/clock      the server's clock; PUT changes it
/test/accounts   POST creates an account, DELETE /test/accounts/NAME removes it
/test/snapshots  POST takes a snapshot of all data, POST /test/snapshots/ID/restore restores it
/test/reset      POST restores the state at the time when the server became ready
";

type Refusal = (StatusCode, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountBody {
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ClockBody {
    now: Option<String>,
    advance_seconds: Option<f64>,
    stopped: Option<bool>,
    #[serde(default)]
    system: bool,
}

/// Handles a request. `path` is the part of the URL path after `/test/`.
pub(super) async fn handle(
    controls: &Arc<TestControls>,
    path: &str,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    if request.headers().contains_key(ORIGIN) {
        return refusal(StatusCode::FORBIDDEN, "web pages cannot use the test controls: send no Origin header");
    }
    let parts: Vec<&str> = path.split('/').collect();
    respond(controls, &parts, request).await.unwrap_or_else(|(status, reason)| refusal(status, &reason))
}

async fn respond(
    controls: &Arc<TestControls>,
    path: &[&str],
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let method = request.method().clone();
    let is_read = matches!(method, Method::GET | Method::HEAD);
    Ok(match *path {
        ["clock"] if is_read => clock(controls),
        ["clock"] if method == Method::PUT => {
            let change = clock_change(body(request).await?)?;
            controls.change_clock(change);
            clock(controls)
        }
        ["clock"] => not_allowed("GET, HEAD, PUT"),
        ["accounts"] if method == Method::POST => {
            let AccountBody { name } = body(request).await?;
            let TestAccount { name, key, endpoint } =
                run(controls, move |controls| controls.add_account(name.as_deref())).await?;
            let connection_string = connection_string(&name, &key, &endpoint);
            let account =
                json!({ "name": name, "key": key, "endpoint": endpoint, "connectionString": connection_string });
            json(StatusCode::CREATED, &account)
        }
        ["accounts", name] if method == Method::DELETE => {
            let name = name.to_owned();
            run(controls, move |controls| controls.delete_account(&name)).await?;
            no_content()
        }
        ["snapshots"] if is_read => json(StatusCode::OK, &json!({ "snapshots": controls.snapshots() })),
        ["snapshots"] if method == Method::POST => {
            let EmptyBody {} = body(request).await?;
            let snapshot = run(controls, TestControls::take_snapshot).await?;
            json(StatusCode::CREATED, &json!({ "snapshot": snapshot }))
        }
        ["snapshots", id] if method == Method::DELETE => {
            let id = id.to_owned();
            run(controls, move |controls| controls.delete_snapshot(&id)).await?;
            no_content()
        }
        ["snapshots", id, "restore"] if method == Method::POST => {
            let EmptyBody {} = body(request).await?;
            let id = id.to_owned();
            run(controls, move |controls| controls.restore(&id)).await?;
            no_content()
        }
        ["reset"] if method == Method::POST => {
            let EmptyBody {} = body(request).await?;
            run(controls, |controls| {
                controls.reset();
                Ok(())
            })
            .await?;
            no_content()
        }
        ["snapshots"] => not_allowed("GET, HEAD, POST"),
        ["accounts" | "reset"] | ["snapshots", _, "restore"] => not_allowed("POST"),
        ["accounts" | "snapshots", _] => not_allowed("DELETE"),
        _ => refusal(StatusCode::NOT_FOUND, "not found: the path / lists all paths"),
    })
}

/// Runs on a thread that can block: a control may wait for other controls and free many entities.
async fn run<T: Send + 'static>(
    controls: &Arc<TestControls>,
    control: impl FnOnce(&TestControls) -> Result<T, ControlError> + Send + 'static,
) -> Result<T, Refusal> {
    let controls = Arc::clone(controls);
    let result = tokio::task::spawn_blocking(move || control(&controls)).await;
    let failed = |_| (StatusCode::INTERNAL_SERVER_ERROR, "the control failed; the reason is in the log".to_owned());
    result.map_err(failed)?.map_err(|error| match error {
        ControlError::Invalid(reason) => (StatusCode::BAD_REQUEST, reason),
        ControlError::NotFound(reason) => (StatusCode::NOT_FOUND, reason),
        ControlError::Conflict(reason) => (StatusCode::CONFLICT, reason),
    })
}

fn clock(controls: &TestControls) -> Response<Full<Bytes>> {
    let (now, stopped) = controls.clock();
    let mut text = Vec::new();
    now.write_seven_digits_to(&mut text);
    json(StatusCode::OK, &json!({ "now": String::from_utf8_lossy(&text), "stopped": stopped }))
}

fn clock_change(body: ClockBody) -> Result<ClockChange, Refusal> {
    let ClockBody { now, advance_seconds, stopped, system } = body;
    let invalid = |reason: &str| (StatusCode::BAD_REQUEST, reason.to_owned());
    if system && (now.is_some() || advance_seconds.is_some() || stopped.is_some()) {
        return Err(invalid(
            "\"system\" resets the clock to the real time, so it cannot be combined with other fields",
        ));
    }
    if !system && now.is_none() && advance_seconds.is_none() && stopped.is_none() {
        return Err(invalid("give \"now\", \"advanceSeconds\", \"stopped\" or \"system\""));
    }
    let now = now.map(|text| DateTime::parse(&text)).transpose();
    let now = now.map_err(|_| invalid("\"now\" is not a time from 1601 to 9999 such as 2031-07-01T08:00:00Z"))?;
    if advance_seconds.is_some_and(|seconds| seconds < 0.0) {
        return Err(invalid("\"advanceSeconds\" is negative: to set the clock back, give the time as \"now\""));
    }
    // A value too large for a duration moves the clock to its maximum, like every other value that is too large.
    let advance = advance_seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    Ok(ClockChange { is_system: system, now, advance, stopped })
}

/// The media type must be declared, which a web page cannot do without permission.
async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refusal> {
    let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let reason = "the body must be JSON: send the header Content-Type: application/json";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, reason.to_owned()));
    }
    let bytes = read_body(request).await?;
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(bytes).map_err(|error| (StatusCode::BAD_REQUEST, format!("the body is invalid: {error}")))
}

fn not_allowed(allow: &'static str) -> Response<Full<Bytes>> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &format!("method not allowed: use {allow}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

fn refusal(status: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    json(status, &Value::from_iter([("error", reason)]))
}
