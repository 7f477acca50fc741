//! Tests of the explorer: which servers provide it, and what they serve.
//! `explorer/tests` tests the page itself in a browser.

mod files;
mod settings;

use test_support::{Client, Response, Server};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

fn get(server: &Server, path: &str) -> Response {
    send(&mut server.client(), "GET", path, "")
}

/// `headers` are complete lines.
fn send(client: &mut Client, method: &str, path: &str, headers: &str) -> Response {
    let host = if headers.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    client.send(format!("{method} {path} HTTP/1.1\r\n{host}{headers}\r\n").as_bytes()).unwrap();
    let mut response = if method == "HEAD" { client.receive_head() } else { client.receive() }.unwrap();
    response.headers.retain(|(name, _)| name != "date");
    response
}

fn check_common_headers(response: &Response, path: &str) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(response.header(name), Some(value), "{path}: {name}");
        assert_eq!(response.headers.iter().filter(|(known, _)| known == name).count(), 1, "{path}: {name}");
    }
    for name in ["set-cookie", "access-control-allow-origin", "x-ms-version", "www-authenticate"] {
        assert_eq!(response.header(name), None, "{path}: {name}");
    }
}
