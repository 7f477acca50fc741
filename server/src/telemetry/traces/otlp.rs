//! Spans in the JSON form of OTLP, the protocol of OpenTelemetry.

use super::Trace;
use crate::telemetry::summary::{self, Outcome, RequestSummary};
use model::limits::TRACE_TEXT_CHARS_MAX;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(super) struct Span {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    state: Option<String>,
    name: &'static str,
    began_at: SystemTime,
    duration: Duration,
    error: Option<&'static str>,
    attributes: Vec<Value>,
    steps: Vec<StepSpan>,
}

#[derive(Debug)]
pub(super) struct StepSpan {
    pub(super) name: &'static str,
    pub(super) id: u64,
    /// The time from the beginning of the request to the beginning of the step.
    pub(super) offset: Duration,
    pub(super) duration: Duration,
}

const KIND_INTERNAL: u8 = 1;
const KIND_SERVER: u8 = 2;
const STATUS_ERROR: u8 = 2;

impl Span {
    pub(super) fn new(trace: &Trace, steps: Vec<StepSpan>, summary: &RequestSummary<'_>) -> Self {
        let error = match summary.outcome {
            // The status of a batch is 202 even if the server was too busy for it.
            Outcome::Responded { code: Some(code), .. } if code.status() >= 500 => Some(code.as_str()),
            Outcome::Responded { .. } => None,
            Outcome::Aborted => Some("aborted"),
        };
        Self {
            trace: trace.id,
            id: trace.span,
            parent: trace.parent,
            state: trace.state.clone(),
            name: summary.operation.name(),
            began_at: summary.began_at,
            duration: summary.duration,
            error,
            attributes: attributes(summary),
            steps,
        }
    }

    fn write(self, spans: &mut Vec<Value>) {
        let hex = |id: u64| format!("{id:016x}");
        let trace_id = format!("{:032x}", self.trace);
        for step in &self.steps {
            let (start, end) = times(self.began_at + step.offset, step.duration);
            spans.push(json!({
                "traceId": trace_id, "spanId": hex(step.id), "parentSpanId": hex(self.id),
                "name": step.name, "kind": KIND_INTERNAL, "startTimeUnixNano": start, "endTimeUnixNano": end,
            }));
        }
        let (start, end) = times(self.began_at, self.duration);
        let mut span = json!({
            "traceId": trace_id, "spanId": hex(self.id), "name": self.name, "kind": KIND_SERVER,
            "startTimeUnixNano": start, "endTimeUnixNano": end, "attributes": self.attributes,
        });
        if let Value::Object(fields) = &mut span {
            if let Some(parent) = self.parent {
                fields.insert("parentSpanId".to_owned(), hex(parent).into());
            }
            if let Some(state) = self.state {
                fields.insert("traceState".to_owned(), state.into());
            }
            if let Some(error) = self.error {
                fields.insert("status".to_owned(), json!({"code": STATUS_ERROR, "message": error}));
            }
        }
        spans.push(span);
    }
}

pub(super) fn batch(resource: &[(String, String)], spans: Vec<Span>) -> Vec<u8> {
    let resource: Vec<_> = resource.iter().map(|(name, value)| text(name, value)).collect();
    let mut written = Vec::with_capacity(2 * spans.len());
    for span in spans {
        span.write(&mut written);
    }
    let scope = json!({"name": "rowhouse", "version": env!("CARGO_PKG_VERSION")});
    let scopes = json!([{"scope": scope, "spans": written}]);
    json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": scopes}]}).to_string().into_bytes()
}

/// Returns the beginning and the end in nanoseconds of Unix time, as strings, because JSON numbers are not precise
/// enough.
fn times(start: SystemTime, duration: Duration) -> (String, String) {
    let start = start.duration_since(UNIX_EPOCH).unwrap_or_default();
    (start.as_nanos().to_string(), (start + duration).as_nanos().to_string())
}

fn text(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

/// Returns an attribute with a string that a client chose, truncated if it is long.
fn client_text(name: &str, value: &str) -> Value {
    let end = value.char_indices().nth(TRACE_TEXT_CHARS_MAX).map_or(value.len(), |(end, _)| end);
    text(name, value.get(..end).unwrap_or_default())
}

fn number(name: &str, value: u64) -> Value {
    json!({"key": name, "value": {"intValue": value.to_string()}})
}

/// Returns the attributes of a request: those defined by the OpenTelemetry conventions, and additional attributes of
/// this server.
fn attributes(summary: &RequestSummary<'_>) -> Vec<Value> {
    let mut attributes = vec![
        client_text("http.request.method", summary.method),
        client_text("url.path", summary.path),
        text("url.scheme", if summary.is_tls { "https" } else { "http" }),
        text("client.address", &summary.client.to_string()),
        text("network.peer.address", &summary.peer.ip().to_string()),
        number("network.peer.port", summary.peer.port().into()),
        number("http.request.body.size", summary.request_bytes),
        number("http.response.body.size", summary.response_bytes),
        text("rowhouse.request_id", summary.request_id),
        text("rowhouse.credential", summary.credential.name()),
    ];
    let optional = [
        ("user_agent.original", summary::text(summary.user_agent)),
        ("rowhouse.client_request_id", summary::text(summary.client_request_id)),
        ("rowhouse.account", summary.account.map(model::AccountName::as_str)),
        ("rowhouse.table", summary.table),
        ("error.type", summary.outcome.code().map(wire::ErrorCode::as_str)),
    ];
    attributes.extend(optional.into_iter().filter_map(|(name, value)| Some(client_text(name, value?))));
    if let Outcome::Responded { status, .. } = summary.outcome {
        attributes.push(number("http.response.status_code", status.into()));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_is_cut_between_characters() {
        let length = |text: &str| {
            let value = client_text("url.path", text);
            value["value"]["stringValue"].as_str().unwrap().chars().count()
        };
        assert_eq!(length("short"), 5);
        assert_eq!(length(&"a".repeat(TRACE_TEXT_CHARS_MAX)), TRACE_TEXT_CHARS_MAX);
        assert_eq!(length(&"ü".repeat(100_000)), TRACE_TEXT_CHARS_MAX);
    }
}
