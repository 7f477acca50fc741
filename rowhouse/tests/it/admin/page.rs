//! Unsigned requests to the admin listener, and a strict parser for the page of metrics.

use std::collections::BTreeMap;
use test_support::{Client, Response, Server};

pub(crate) fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let mut client = Client::connect(address).unwrap();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    client.send(request.as_bytes()).unwrap();
    if method == "HEAD" { client.receive_head().unwrap() } else { client.receive().unwrap() }
}

pub(crate) fn get(server: &Server, path: &str) -> Response {
    ask(&server.admin, "GET", path, "", "")
}

pub(crate) fn text(response: &Response) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

/// The samples by name and labels, as written, such as `a_total{b="c"}`.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) BTreeMap<String, f64>);

impl Page {
    /// Reads a page, and checks the rules of the format: every sample belongs to the preceding family, no family or
    /// sample occurs twice, histograms are cumulative, and nothing follows the end marker.
    pub(crate) fn read(text: &str) -> Self {
        let mut samples = BTreeMap::new();
        let mut families: Vec<(String, String)> = Vec::new();
        let (body, end) = text.split_at(text.len() - "# EOF\n".len());
        assert_eq!(end, "# EOF\n");
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(families.iter().all(|(known, _)| known != name), "{name} occurs twice");
                families.push((name.to_owned(), kind.to_owned()));
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                assert!(rest.split_once(' ').unwrap().1.len() > 10, "{line}");
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').unwrap();
                assert!(name.ends_with(&format!("_{unit}")), "{line}");
            } else {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let bare = name.split('{').next().unwrap();
                let (family, kind) = families.last().unwrap();
                let ends: &[&str] = match kind.as_str() {
                    "counter" => &["_total"],
                    "gauge" => &[""],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    other => panic!("{other}"),
                };
                assert!(ends.iter().any(|end| bare.strip_suffix(end) == Some(family)), "{line} below {family}");
                assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} occurs twice");
            }
        }
        let page = Self(samples);
        for (family, _) in families.iter().filter(|(_, kind)| kind == "histogram") {
            page.check_histogram(text, family);
        }
        page
    }

    fn check_histogram(&self, text: &str, family: &str) {
        let start = format!("{family}_bucket{{");
        let mut last = 0.0;
        for line in text.lines().filter(|line| line.starts_with(&start)) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            assert!(value >= last, "{line}");
            last = value;
            if name.contains(r#"le="+Inf""#) {
                let labels = name[start.len()..].replace(r#"le="+Inf""#, "").trim_end_matches('}').to_owned();
                let labels = labels.trim_matches(',').to_owned();
                let count =
                    if labels.is_empty() { format!("{family}_count") } else { format!("{family}_count{{{labels}}}") };
                assert_eq!(self.0.get(&count), Some(&value), "{count} of {line}");
                last = 0.0;
            }
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of things")]
    pub(crate) fn count(&self, sample: &str) -> u64 {
        self.0.get(sample).copied().unwrap_or(0.0) as u64
    }

    pub(crate) fn sum(&self, start: &str) -> u64 {
        self.0.keys().filter(|name| name.starts_with(start)).map(|name| self.count(name)).sum()
    }
}

pub(crate) fn page(server: &Server) -> Page {
    let response = get(server, "/metrics");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    Page::read(text(&response))
}
