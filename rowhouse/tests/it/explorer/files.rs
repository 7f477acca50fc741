//! Tests of the explorer's files: all of them are served, with the necessary headers, and nothing else is served below
//! their path.

use super::{check_common_headers, get, send};
use crate::PROGRAM;
use crate::black_box::client::{Client as TlsClient, Request, key};
use crate::black_box::process::Folder;
use crate::black_box::tls;
use std::path::Path;
use test_support::Server;

fn server() -> Server {
    PROGRAM.start(&["--in-memory"])
}

#[test]
fn every_file_is_served_without_a_credential() {
    let server = server();
    let mut client = server.client();
    for (name, media_type) in [
        ("", "text/html"),
        ("index.html", "text/html"),
        ("explorer.js", "text/javascript"),
        ("views.js", "text/javascript"),
        ("patterns.md", "text/plain"),
    ] {
        let path = format!("/_rowhouse/{name}");
        let response = send(&mut client, "GET", &path, "");
        assert_eq!(response.status, 200, "{path}");
        assert!(!response.body.is_empty(), "{path}");
        check_common_headers(&response, &path);
        let media_type = format!("{media_type}; charset=utf-8");
        assert_eq!(response.header("content-type"), Some(&*media_type), "{path}");
    }
    let page = send(&mut client, "GET", "/_rowhouse/", "");
    let index = send(&mut client, "GET", "/_rowhouse/index.html", "");
    assert_eq!((&page.body, page.header("etag")), (&index.body, index.header("etag")));
    let guide = send(&mut client, "GET", "/_rowhouse/patterns.md", "");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/patterns.md");
    assert!(guide.body == std::fs::read(source).unwrap());
}

#[test]
fn files_are_compressed_for_clients_that_accept_it() {
    let server = server();
    let mut client = server.client();
    for name in ["", "explorer.js", "views.js", "patterns.md"] {
        let path = format!("/_rowhouse/{name}");
        let plain = send(&mut client, "GET", &path, "Accept-Encoding: gzip;q=0, br\r\n");
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{path}");
        let gzip = send(&mut client, "GET", &path, "Accept-Encoding: gzip, deflate, br, zstd\r\n");
        assert_eq!((gzip.status, gzip.header("content-encoding")), (200, Some("gzip")), "{path}");
        assert!(gzip.body.starts_with(&[0x1F, 0x8B]) && gzip.body.len() < plain.body.len(), "{path}");
        assert_eq!(gzip.header("content-type"), plain.header("content-type"), "{path}");
        // Caches must not confuse the two forms.
        assert_ne!(gzip.header("etag"), plain.header("etag"), "{path}");
        for response in [&plain, &gzip] {
            assert_eq!(response.header("vary"), Some("Accept-Encoding"), "{path}");
            check_common_headers(response, &path);
        }
        let tag = gzip.header("etag").unwrap();
        let headers = format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n");
        let known = send(&mut client, "GET", &path, &headers);
        assert_eq!(
            (known.status, known.header("etag"), known.header("vary")),
            (304, Some(tag), Some("Accept-Encoding"))
        );
        let other_form = send(&mut client, "GET", &path, &format!("If-None-Match: {tag}\r\n"));
        assert!((other_form.status, &other_form.body) == (200, &plain.body), "{path}");
    }
}

#[test]
fn a_file_that_the_browser_has_is_not_sent_again() {
    let server = server();
    let mut client = server.client();
    let whole = send(&mut client, "GET", "/_rowhouse/", "");
    let tag = whole.header("etag").unwrap().to_owned();
    for known in [tag.clone(), format!("W/{tag}"), format!("\"another\", {tag}"), "*".to_owned()] {
        for method in ["GET", "HEAD"] {
            let response = send(&mut client, method, "/_rowhouse/", &format!("If-None-Match: {known}\r\n"));
            assert_eq!((response.status, response.header("etag")), (304, Some(&*tag)), "{known}");
            assert_eq!((response.header("content-length"), response.header("content-type")), (None, None), "{known}");
            check_common_headers(&response, &known);
        }
    }
    for other in ["\"another\"", "", "W/\"\"", &tag[1..]] {
        let response = send(&mut client, "GET", "/_rowhouse/", &format!("If-None-Match: {other}\r\n"));
        assert!((response.status, &response.body) == (200, &whole.body), "{other}");
    }
    let several_lines = format!("If-None-Match: \"another\"\r\nIf-None-Match: {tag}\r\n");
    assert_eq!(send(&mut client, "GET", "/_rowhouse/", &several_lines).status, 304);
}

#[test]
fn a_head_request_gets_the_headers_alone() {
    let server = server();
    let mut client = server.client();
    for path in ["/_rowhouse/", "/_rowhouse/settings.json", "/_rowhouse/nothing.js", "/_rowhouse"] {
        let whole = send(&mut client, "GET", path, "");
        let head = send(&mut client, "HEAD", path, "");
        let without_id = |headers: Vec<(String, String)>| -> Vec<_> {
            headers.into_iter().filter(|(name, _)| name != "x-ms-request-id").collect()
        };
        assert_eq!(head.status, whole.status, "{path}");
        assert_eq!(without_id(head.headers), without_id(whole.headers), "{path}");
    }
}

#[test]
fn the_address_without_the_slash_leads_to_the_page() {
    let server = server();
    for path in ["/_rowhouse", "/_rowhouse?filter=x"] {
        let response = get(&server, path);
        assert_eq!((response.status, response.header("location")), (308, Some("/_rowhouse/")), "{path}");
        check_common_headers(&response, path);
    }
}

#[test]
fn no_other_path_leads_to_a_file() {
    let server = server();
    let mut client = server.client();
    let long = format!("/_rowhouse/{}", "a/".repeat(20_000));
    for path in [
        "/_rowhouse/nothing.js",
        "/_rowhouse//",
        "/_rowhouse/.",
        "/_rowhouse/..",
        "/_rowhouse/../",
        "/_rowhouse/../devstoreaccount1/Tables",
        "/_rowhouse/../../../../../../etc/passwd",
        "/_rowhouse/%2e%2e/%2e%2e/etc/passwd",
        "/_rowhouse/..%2f..%2fetc/passwd",
        "/_rowhouse/..%5c..%5cetc%5cpasswd",
        "/_rowhouse//etc/passwd",
        "/_rowhouse/%2fetc%2fpasswd",
        "/_rowhouse/index.html/",
        "/_rowhouse/index%2ehtml",
        "/_rowhouse/index.html%00",
        "/_rowhouse/INDEX.HTML",
        "/_rowhouse/%F0%28%8C%BC",
        "/_rowhouse/Cargo.toml",
        &long,
    ] {
        let response = send(&mut client, "GET", path, "");
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"), "{path}");
        assert_eq!(response.body, b"There is no such file in the explorer.\n", "{path}");
        check_common_headers(&response, path);
    }
    for path in ["/_rowhouses/", "/_ROWHOUSE/", "//_rowhouse/", "/%5Frowhouse/", "/devstoreaccount1/_rowhouse/"] {
        let response = send(&mut client, "GET", path, "");
        assert_eq!(response.header("x-ms-error-code"), Some("AuthenticationFailed"), "{path}: {response:?}");
    }
}

#[test]
fn query_options_and_credentials_change_nothing() {
    let server = server();
    let mut client = server.client();
    let page = send(&mut client, "GET", "/_rowhouse/", "").body;
    let huge = "a".repeat(60_000);
    let wrong = format!("Authorization: SharedKey devstoreaccount1:{}=\r\n", "A".repeat(43));
    for (query, headers) in [
        (huge.as_str(), ""),
        ("restype=service&comp=properties", ""),
        ("$filter=%FF&$top=x&sig=x&se=x", ""),
        ("", wrong.as_str()),
        ("", "x-ms-version: nonsense\r\nAccept: nothing/at-all\r\nDataServiceVersion: 9\r\n"),
        ("", "Origin: https://stranger.example\r\nSec-Fetch-Site: cross-site\r\n"),
        ("", "Range: bytes=0-1\r\n"),
    ] {
        let response = send(&mut client, "GET", &format!("/_rowhouse/?{query}"), headers);
        assert!((response.status, &response.body) == (200, &page), "{query} {headers}: {}", response.status);
        check_common_headers(&response, query);
    }
    let address = format!("http://{}/_rowhouse/", server.address);
    assert!(send(&mut client, "GET", &address, "").body == page, "an absolute URL in the request line");
}

#[test]
fn other_methods_are_refused_and_their_bodies_are_not_kept() {
    let server = server();
    let mut client = server.client();
    let preflight = "Origin: https://stranger.example\r\nAccess-Control-Request-Method: PUT\r\n";
    for (method, headers) in [
        ("POST", "Content-Length: 3\r\n"),
        ("PUT", "Content-Length: 0\r\n"),
        ("DELETE", ""),
        ("MERGE", ""),
        ("TRACE", ""),
        ("OPTIONS", preflight),
    ] {
        for path in ["/_rowhouse/", "/_rowhouse", "/_rowhouse/settings.json"] {
            let body = if method == "POST" { "a=b" } else { "" };
            let text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
            client.send(text.as_bytes()).unwrap();
            // The connection continues after a short body.
            let response = client.receive().unwrap();
            assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
            assert_eq!(response.header("connection"), None, "{method} {path}");
            check_common_headers(&response, path);
        }
    }
    let mut client = server.client();
    client.send(b"POST /_rowhouse/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
    let response = client.receive().unwrap();
    assert_eq!((response.status, response.header("connection")), (405, Some("close")));
    assert_eq!(client.receive_all(), b"");
    // The same applies to a request that is otherwise valid.
    let mut client = server.client();
    client.send(b"GET /_rowhouse/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na=b").unwrap();
    assert_eq!(client.receive().unwrap().status, 200);
    assert_eq!(send(&mut client, "GET", "/_rowhouse/", "").status, 200);
}

#[test]
fn heads_are_checked_before() {
    let server = server();
    for headers in
        ["Host: a\r\nHost: b\r\n", "Host: me@localhost\r\n", "Host: a\r\nTransfer-Encoding: gzip, chunked\r\n"]
    {
        let response = send(&mut server.client(), "GET", "/_rowhouse/", headers);
        assert_eq!((response.status, response.header("connection")), (400, Some("close")), "{headers}");
    }
}

#[test]
fn a_server_with_tls_serves_it_too() {
    let folder = Folder::new();
    let (server, trusted) = tls::start(&folder, &["--explorer"]);
    let mut client = TlsClient::tls(server.address, &trusted).unwrap();
    let page = client.send_text("GET /_rowhouse/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((page.status, page.header("content-security-policy")), (200, Some(super::POLICY)));
    let settings = client.send_text("GET /_rowhouse/settings.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(settings.body.contains("\"development\":false"), "{}", settings.body);
    // The same connection serves data.
    assert_eq!(client.send(Request::list_tables(&key(1))).status, 200);
}

#[test]
fn metrics_show_it_as_an_operation_of_no_account() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--log", "info,rowhouse::access=debug"]);
    let mut client = server.client();
    for path in ["/_rowhouse/", "/_rowhouse/nothing.js", "/_rowhouse"] {
        send(&mut client, "GET", path, "Host: devstoreaccount1.table.localhost\r\n");
    }
    send(&mut client, "GET", "/_rowhouse/", "If-None-Match: *\r\n");
    server.wait_for_log("operation=\"Explorer\"");
    let metrics = send(&mut test_support::Client::connect(&server.admin).unwrap(), "GET", "/metrics", "").body;
    let metrics = String::from_utf8(metrics).unwrap();
    for status in [200, 404, 308, 304] {
        let line = format!("rowhouse_requests_total{{operation=\"Explorer\",status=\"{status}\",code=\"\"}} 1");
        assert!(metrics.contains(&line), "{status}: {metrics}");
    }
    assert!(!metrics.contains("rowhouse_account_requests_total{"), "{metrics}");
}
