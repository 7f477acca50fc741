//! Tests of who can use the test controls, and when they are disabled.

use super::*;

const CONTROLS: [(&str, &str); 9] = [
    ("GET", "clock"),
    ("PUT", "clock"),
    ("POST", "accounts"),
    ("DELETE", "accounts/test1"),
    ("GET", "snapshots"),
    ("POST", "snapshots"),
    ("POST", "snapshots/1/restore"),
    ("DELETE", "snapshots/1"),
    ("POST", "reset"),
];

#[test]
fn there_are_no_controls_unless_they_are_asked_for() {
    for option in [&[][..], &["--test-controls=false"]] {
        let server = PROGRAM.start(&[&["--in-memory", "--admin", "127.0.0.1:0"], option].concat());
        for (method, path) in CONTROLS {
            assert_eq!(control(&server, method, path, &json!({})).status, 404, "{method} {path}");
        }
        let index = ask(&server.admin, "GET", "/", "", "");
        assert!(!String::from_utf8(index.body).unwrap().contains("/test/"));
        assert!(server.stop().1.iter().all(|line| !line.contains("--test-controls")));
    }
}

#[test]
fn they_are_announced_with_a_warning() {
    let server = server();
    let index = String::from_utf8(ask(&server.admin, "GET", "/", "", "").body).unwrap();
    assert!(index.contains("/test/clock") && index.contains("/test/reset"), "{index}");
    let warnings =
        server.stop().1.iter().filter(|line| line.contains("WARN") && line.contains("--test-controls")).count();
    assert_eq!(warnings, 1);
}

#[test]
fn data_that_are_kept_have_none() {
    let output = PROGRAM.serve(&["--listen", "127.0.0.1:0", "--test-controls"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("add --in-memory"), "{error}");
}

#[test]
fn a_web_page_cannot_use_them() {
    let server = server();
    let (name, _) = new_account(&server, &json!({}));
    // The requests that a page may send to a different origin without a preflight request: a form or text.
    for content_type in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/jsonp\r\n",
    ] {
        for (method, path) in CONTROLS.iter().filter(|(method, _)| ["PUT", "POST"].contains(method)) {
            let response = ask(&server.admin, method, &format!("/test/{path}"), content_type, "{}");
            assert_eq!(response.status, 415, "{method} {path} {content_type}");
            assert!(response.json()["error"].as_str().unwrap().contains("application/json"));
        }
    }
    // All other requests need a preflight request, which is refused.
    for (method, path) in CONTROLS {
        let question = format!(
            "Origin: http://evil.example\r\nAccess-Control-Request-Method: {method}\r\nAccess-Control-Request-Headers: content-type\r\n"
        );
        let response = ask(&server.admin, "OPTIONS", &format!("/test/{path}"), &question, "");
        assert_eq!(response.status, 403, "{method} {path}");
        let allows = response.headers.iter().any(|(name, _)| name.starts_with("access-control"));
        assert!(!allows, "{response:?}");
    }
    // A page whose host name resolves to this machine is refused because of that name.
    for (method, path) in CONTROLS {
        let mut client = Client::connect(&server.admin).unwrap();
        let head =
            format!("{method} /test/{path} HTTP/1.1\r\nHost: evil.example\r\n{JSON}Content-Length: 2\r\n\r\n{{}}");
        client.send(head.as_bytes()).unwrap();
        assert_eq!(client.receive_head().unwrap().status, 403, "{method} {path}");
    }
    let deleted = control(&server, "DELETE", &format!("accounts/{name}"), &Value::Null);
    assert_eq!(deleted.status, 204, "the requests must have no effect");
}

#[test]
fn a_page_of_the_same_origin_cannot_use_them_on_any_address() {
    let network = ["--in-memory", "--test-controls", "--admin", "0.0.0.0:0", "--allow-admin-on-network"];
    for server in [PROGRAM.start(&network), server()] {
        let port = server.admin.rsplit(':').next().unwrap();
        let address = format!("127.0.0.1:{port}");
        for (method, path) in CONTROLS {
            for origin in ["http://localhost", "null"] {
                let headers = format!("{JSON}Origin: {origin}\r\n");
                let response = ask(&address, method, &format!("/test/{path}"), &headers, "{}");
                assert_eq!(response.status, 403, "{method} {path}");
                assert!(response.json()["error"].as_str().unwrap().contains("web pages"), "{response:?}");
            }
        }
        let response = ask(&address, "GET", "/test/snapshots", "", "");
        assert_eq!(response.json(), json!({ "snapshots": [] }), "the request must have no effect");
    }
}

#[test]
fn whatever_is_wrong_is_refused_with_a_reason() {
    let server = server();
    for path in ["", "clocks", "accounts/a/b", "snapshots/1/restore/x", "snapshots//restore/"] {
        assert_eq!(refused(&server, "GET", path, &Value::Null), 404, "{path}");
    }
    for (method, path, allow) in [
        ("DELETE", "clock", "GET, HEAD, PUT"),
        ("GET", "accounts", "POST"),
        ("PUT", "accounts/test1", "DELETE"),
        ("PUT", "snapshots", "GET, HEAD, POST"),
        ("GET", "snapshots/1/restore", "POST"),
        ("GET", "reset", "POST"),
    ] {
        let response = control(&server, method, path, &json!({}));
        assert_eq!((response.status, response.header("allow")), (405, Some(allow)), "{method} {path}");
    }
    let bodies = [("not JSON", 400), ("[1]", 400), (r#"{"more":1}"#, 400), (&"x".repeat(5000), 413)];
    for (body, status) in bodies {
        for path in ["reset", "snapshots", "accounts"] {
            let response = ask(&server.admin, "POST", &format!("/test/{path}"), JSON, body);
            assert_eq!(response.status, status, "{path} {body:.20}");
            assert!(response.json()["error"].is_string());
        }
    }
    for id in ["1", "0", "01", "+1", "18446744073709551616", "x", "%00"] {
        assert_eq!(refused(&server, "POST", &format!("snapshots/{id}/restore"), &json!({})), 404, "{id}");
        assert_eq!(refused(&server, "DELETE", &format!("snapshots/{id}"), &Value::Null), 404, "{id}");
    }
}
