//! Tests of traces: what a collector receives, and that a slow or missing collector delays no request.

use super::page::page;
use crate::PROGRAM;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use test_support::{ACCOUNT, Server, TIMEOUT, eventually};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn server(args: &[&str], variables: &[(&str, &str)]) -> Server {
    PROGRAM.start_with(&[&["--admin", "127.0.0.1:0"], args].concat(), |command| {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OTEL_")) {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
    })
}

fn create(server: &Server) {
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"Cars"}"#).status, 201);
}

fn named<'s>(spans: &'s [Value], name: &str) -> Vec<&'s Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn nanoseconds(span: &Value, field: &str) -> u128 {
    span[field].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_request_is_a_span_with_its_steps_in_the_trace_of_the_client() {
    let collector = Collector::start("200 OK", Duration::ZERO);
    let server = server(
        &["--in-memory"],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=very%20secret"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
            ("OTEL_SERVICE_NAME", "tables"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ],
    );
    create(&server);
    let mut client = server.client();
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "a=1"), ("User-Agent", "tester/1")];
    let body = br#"{"PartitionKey":"p","RowKey":"r"}"#;
    let answer = client.request("POST", "/Cars", &headers, body);
    assert_eq!(answer.status, 201);
    assert_eq!(client.request("GET", "/Cars()", &[("traceparent", "nonsense")], b"").status, 200);
    let unsampled = format!("00-{TRACE}-{SPAN}-00");
    assert_eq!(client.request("GET", "/Tables", &[("traceparent", &unsampled)], b"").status, 200);

    let spans =
        eventually("the spans", || Some(collector.spans()).filter(|spans| !named(spans, "QueryEntities").is_empty()));
    let span = named(&spans, "InsertEntity")[0];
    assert_eq!((&span["traceId"], &span["parentSpanId"]), (&TRACE.into(), &SPAN.into()));
    assert_eq!((&span["kind"], &span["traceState"], &span["status"]), (&2.into(), &"a=1".into(), &Value::Null));
    let length = body.len().to_string();
    for (name, expected) in [
        ("http.request.method", "POST"),
        ("url.path", &format!("/{ACCOUNT}/Cars")),
        ("url.scheme", "http"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "tester/1"),
        ("http.response.status_code", "201"),
        ("http.request.body.size", &length),
        ("rowhouse.account", ACCOUNT),
        ("rowhouse.table", "Cars"),
        ("rowhouse.request_id", answer.header("x-ms-request-id").unwrap()),
    ] {
        assert_eq!(attribute(span, name).as_deref(), Some(expected), "{name}");
    }
    for name in ["receive body", "commit"] {
        let steps = named(&spans, name);
        let step = steps.iter().find(|step| step["parentSpanId"] == span["spanId"]).unwrap();
        assert_eq!((&step["traceId"], &step["kind"]), (&TRACE.into(), &1.into()));
        let (start, end) = (nanoseconds(step, "startTimeUnixNano"), nanoseconds(step, "endTimeUnixNano"));
        assert!(nanoseconds(span, "startTimeUnixNano") <= start && start <= end, "{step}");
        assert!(end <= nanoseconds(span, "endTimeUnixNano"), "{step}");
    }
    let query = named(&spans, "QueryEntities")[0];
    assert_eq!((&query["parentSpanId"], query["traceId"].as_str().unwrap().len()), (&Value::Null, 32));
    assert!(named(&spans, "scan").iter().any(|step| step["parentSpanId"] == query["spanId"]));
    assert!(named(&spans, "QueryTables").is_empty(), "the client requested no trace");

    let export = &collector.exports()[0];
    assert_eq!(export.path, "/v1/traces");
    assert!(export.headers.contains(&("api-key".to_owned(), "very secret".to_owned())), "{:?}", export.headers);
    let resource = &export.body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name").as_deref(), Some("tables"));
    assert_eq!(attribute(resource, "deployment.environment").as_deref(), Some("test"));
    let (status, log) = server.stop();
    assert!(status.success());
    assert!(!log.iter().any(|line| line.contains("very secret")), "{log:?}");
}

#[test]
fn server_errors_are_span_errors_and_remaining_spans_are_sent_at_the_end() {
    let collector = Collector::start("200 OK", Duration::ZERO);
    let address = format!("{}/anywhere", collector.endpoint);
    let folder = tempfile::tempdir().unwrap();
    // More than the size of any disk.
    let full = ["--data", folder.path().to_str().unwrap(), "--min-free-space", "8000000000"];
    // Nothing is sent for an hour unless the server stops.
    let variables = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*address), ("OTEL_BSP_SCHEDULE_DELAY", "3600000")];
    let server = server(&full, &variables);
    let mut client = server.client();
    assert_eq!(client.request("GET", "/Ghosts()", &[], b"").status, 404);
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"Cars"}"#).status, 503);
    assert!(server.stop().0.success());
    let spans = collector.spans();
    assert_eq!(collector.exports()[0].path, "/anywhere");
    let (query, create) = (named(&spans, "QueryEntities")[0], named(&spans, "CreateTable")[0]);
    assert_eq!(attribute(query, "error.type").as_deref(), Some("TableNotFound"));
    assert_eq!(query["status"], Value::Null, "this is a client error");
    assert_eq!(attribute(create, "error.type").as_deref(), Some("ServerBusy"));
    assert_eq!(create["status"], serde_json::json!({"code": 2, "message": "ServerBusy"}));
}

fn slowest(server: &Server) -> Duration {
    create(server);
    let mut client = server.client();
    let times = (0..50).map(|row| {
        let began = Instant::now();
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        assert_eq!(client.request("POST", "/Cars", &[], body.as_bytes()).status, 201);
        began.elapsed()
    });
    times.max().unwrap()
}

#[test]
fn a_missing_or_slow_collector_delays_no_request() {
    // Nothing listens on this port.
    let gone = "http://127.0.0.1:1".to_owned();
    // This collector accepts connections but never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = format!("http://{}", silent.local_addr().unwrap());
    let refusing = Collector::start("400 Bad Request", Duration::ZERO);
    for endpoint in [&gone, &silent_address, &refusing.endpoint] {
        let server = server(
            &["--in-memory"],
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
                ("OTEL_BSP_SCHEDULE_DELAY", "1"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "600000"),
            ],
        );
        let slowest = slowest(&server);
        // Waiting for the collector would last until its connection is given up.
        assert!(slowest < TIMEOUT, "{endpoint}: {slowest:?}");
        eventually("discarded spans", || {
            (page(&server).count("rowhouse_trace_spans_dropped_total") > 10).then_some(())
        });
        assert_eq!(page(&server).count("rowhouse_trace_spans_exported_total"), 0);
        let began = Instant::now();
        assert!(server.stop().0.success());
        assert!(began.elapsed() < TIMEOUT, "{endpoint}");
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Export {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

pub(crate) struct Collector {
    pub(crate) endpoint: String,
    exports: Arc<Mutex<Vec<Export>>>,
}

impl Collector {
    pub(crate) fn start(status: &'static str, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let exports = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&exports);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let Some(export) = receive(&stream) else { return };
                    kept.lock().unwrap().push(export);
                    std::thread::sleep(delay);
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                    let _ = (&stream).write_all(answer.as_bytes());
                });
            }
        });
        Self { endpoint, exports }
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.exports.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Value> {
        let list = |value: &Value, field: &str| value[field].as_array().unwrap().clone();
        let exports = self.exports();
        let resources = exports.iter().flat_map(|export| list(&export.body, "resourceSpans"));
        let scopes = resources.flat_map(|resource| list(&resource, "scopeSpans"));
        scopes.flat_map(|scope| list(&scope, "spans")).collect()
    }
}

fn receive(stream: &TcpStream) -> Option<Export> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Export { path, headers, body: serde_json::from_slice(&body).ok()? })
}

pub(crate) fn attribute(of: &Value, name: &str) -> Option<String> {
    let attribute = of["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == name)?;
    let value = &attribute["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).map(str::to_owned)
}
