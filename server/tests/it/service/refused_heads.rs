//! Requests that the HTTP library refuses get the error of the service and a reason in the log (06 §6), and characters
//! that only the library refuses in the query part are accepted (02 §1).

use crate::Server;
use std::time::{Duration, Instant};
use test_support::{ACCOUNT, Response, TIMEOUT, head};

const JSON: &[(&str, &str)] = &[("Accept", "application/json;odata=nometadata")];

fn request(line: &str, headers: &str) -> Vec<u8> {
    format!("{line}\r\nHost: h\r\nx-ms-client-request-id: mine\r\n{headers}\r\n").into_bytes()
}

fn exchange(server: &Server, bytes: &[u8]) -> Response {
    let mut client = server.client();
    // The server may have responded before it has read everything.
    let _ = client.send(bytes);
    client.receive().unwrap()
}

fn query(filter: &str) -> String {
    format!("/tab?$filter={filter}")
}

#[test]
fn each_reason_is_logged_with_the_request_id_and_the_code() {
    let server = Server::start();
    let get = |target: &str| request(&format!("GET {target} HTTP/1.1"), "");
    let with = |headers: &str| request("GET / HTTP/1.1", headers);
    for (bytes, status, code, reason) in [
        (get("/a b"), 400, "RequestUrlFailedToParse", "the URL contains a space, which must be written as %20"),
        (get("/t?$filter=A eq 'b'"), 400, "RequestUrlFailedToParse", "the URL contains a space"),
        (get("/a<b"), 400, "RequestUrlFailedToParse", "the URL contains the character <, which must be written as %3C"),
        (get("/a<b?c=\"d"), 400, "RequestUrlFailedToParse", "the URL contains the character <"),
        (get("/a\tb"), 400, "RequestUrlFailedToParse", "the URL contains the control character 0x09"),
        (
            [b"GET /\xff", &get("")[4..]].concat(),
            400,
            "RequestUrlFailedToParse",
            "the URL contains bytes that are not UTF-8",
        ),
        (get(&format!("/{}", "x".repeat(65_600))), 414, "OutOfRangeInput", "the URL is longer than 65534 bytes"),
        (
            with(&format!("x: {}\r\n", "y".repeat(200_000))),
            431,
            "OutOfRangeInput",
            "the headers of the request have more",
        ),
        (with(&"x: y\r\n".repeat(101)), 431, "OutOfRangeInput", "the request has more than 100 headers"),
        (request("G(T / HTTP/1.1", ""), 400, "InvalidHttpVerb", "the request does not begin with a method"),
        (request("GET / HTTP/1.7", ""), 400, "InvalidInput", "does not end with HTTP/1.1 or HTTP/1.0"),
        (b"GET /\r\n\r\n".to_vec(), 400, "InvalidInput", "does not end with HTTP/1.1 or HTTP/1.0"),
        (get("/a`b"), 400, "RequestUrlFailedToParse", "or contains a character that must be written as %XX"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), 400, "InvalidInput", "the client speaks HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03".to_vec(), 400, "InvalidInput", "use a URL with http://"),
        (with("nonsense\r\n"), 400, "InvalidHeaderValue", "line 3 of the headers has no colon"),
        (with("x y: z\r\n"), 400, "InvalidHeaderValue", "the name in line 3 of the headers"),
        (
            with("x-token: secret\0\r\n"),
            400,
            "InvalidHeaderValue",
            "the value of the header x-token contains a control",
        ),
        (with("Content-Length: x\r\n"), 400, "InvalidHeaderValue", "the Content-Length is not a number"),
        (with("Content-Length: 1\r\nContent-Length: 2\r\n"), 400, "InvalidHeaderValue", "or is given twice"),
        (with("Transfer-Encoding: gzip\r\n"), 400, "InvalidHeaderValue", "the Transfer-Encoding is not chunked"),
        (
            request("GET / HTTP/1.0", "Transfer-Encoding: chunked\r\n"),
            400,
            "InvalidHeaderValue",
            "or the request is HTTP/1.0",
        ),
    ] {
        let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let answer = exchange(&server, &bytes);
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (status, Some(code)), "{sent}");
        for name in ["date", "server", "content-type", "content-length"] {
            assert!(answer.header(name).is_some(), "{name}: {sent}");
        }
        assert_eq!((answer.header("connection"), answer.header("x-ms-version")), (Some("close"), None), "{sent}");
        let body = String::from_utf8(answer.body.clone()).unwrap();
        let id = answer.header("x-ms-request-id").unwrap();
        assert!(
            body.contains(&format!("<m:code>{code}</m:code>")) && body.contains(&format!("RequestId:{id}\n")),
            "{body}"
        );
        let log = server.log();
        let line = log.lines().find(|line| line.contains(id)).unwrap_or_else(|| panic!("{sent}: {log}"));
        assert!(line.contains("INFO") && line.contains(reason) && line.contains(code), "{sent}: {line}");
        assert!(!line.contains("secret") && line.len() < 500, "{line}");
    }
    server.assert_unharmed();
}

#[test]
fn a_known_client_request_id_is_repeated_and_a_head_request_gets_no_body() {
    let server = Server::start();
    let answer = exchange(&server, &request("GET / HTTP/1.1", "nonsense\r\n"));
    assert_eq!(answer.header("x-ms-client-request-id"), Some("mine"));
    let mut client = server.client();
    client.send(&request("HEAD / HTTP/1.1", "nonsense\r\n")).unwrap();
    let all = String::from_utf8(client.receive_all()).unwrap();
    assert!(all.starts_with("HTTP/1.1 400 ") && all.ends_with("\r\n\r\n"), "{all}");
    assert!(all.contains("\r\nContent-Length: ") && !all.contains("Content-Length: 0"), "{all}");
}

#[test]
fn the_log_of_refused_heads_is_bounded() {
    let server = Server::start();
    let began = Instant::now();
    for _ in 0..200 {
        assert_eq!(exchange(&server, b"GET /a b HTTP/1.1\r\n\r\n").status, 400);
    }
    // A burst, and the rate for the time that the requests took.
    let lines = server.log().matches("the URL contains").count() as u64;
    let most = 100 + 10 * (1 + began.elapsed().as_secs());
    assert!((100..=most).contains(&lines), "{lines}");
}

#[test]
fn the_error_follows_the_responses_to_earlier_requests() {
    let server = Server::with_tables(&["tab"]);
    let refused = request("GET / HTTP/1.1", "nonsense\r\n");
    let good = head("GET", "/Tables", JSON);
    let mut client = server.client();
    client.send(&[good.as_bytes(), good.as_bytes(), &refused, good.as_bytes()].concat()).unwrap();
    let statuses = [(); 3].map(|()| client.receive().unwrap().status);
    assert_eq!(statuses, [200, 200, 400]);
    assert_eq!(client.receive_all(), b"", "the connection is closed");
    let mut client = server.client();
    assert_eq!(client.request("GET", "/Tables", JSON, b"").status, 200);
    client.send(&refused).unwrap();
    assert_eq!(client.receive().unwrap().status, 400);
}

#[test]
fn two_refused_at_once_and_a_slow_one_get_their_own_answers() {
    let server = Server::start();
    let [mut first, mut second] = [server.client(), server.client()];
    let refused = request("GET / HTTP/1.1", "nonsense\r\n");
    let (begin, end) = refused.split_at(10);
    first.send(begin).unwrap();
    second.send(&refused).unwrap();
    let second = second.receive().unwrap();
    for byte in end {
        first.send(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let first = first.receive().unwrap();
    assert_eq!((first.status, second.status), (400, 400));
    assert_ne!(first.header("x-ms-request-id"), second.header("x-ms-request-id"));
}

#[test]
fn a_cut_head_gets_no_answer() {
    let server = Server::start();
    for cut in [&b"GET /tab?$filter=A+eq+\"b"[..], b"GET /tab?\"b HTTP/1.1\r\nHost", b"GET"] {
        let mut client = server.client();
        client.send(cut).unwrap();
        client.close_sending().unwrap();
        assert_eq!(client.receive_all(), b"");
    }
    server.assert_unharmed();
}

#[test]
fn quotes_and_angle_brackets_are_accepted_in_the_query_part() {
    let server = Server::with_tables(&["tab"]);
    let mut client = server.client();
    let entity = br#"{"PartitionKey":"p","RowKey":"r","Name":"a<\"b\">?c"}"#;
    assert_eq!(client.request("POST", "/tab", JSON, entity).status, 201);
    for filter in ["Name+eq+'a<\"b\">?c'", "Name+eq+'a%3C%22b%22>?c'"] {
        let found = client.request("GET", &query(filter), JSON, b"");
        assert_eq!((found.status, found.results().len()), (200, 1), "{filter}: {found:?}");
        let other = client.request("GET", &query(&filter.replace("?c", "?d")), JSON, b"");
        assert_eq!((other.status, other.results().len()), (200, 0), "on the same connection");
    }
    assert_eq!(client.request("GET", "/Tables", JSON, b"").status, 200, "on the same connection");
    // The first request of a connection, in pieces.
    let sent = head("GET", &query("Name+eq+'a<\"b\">?c'"), JSON);
    for step in [1, 30] {
        let mut client = server.client();
        for piece in sent.as_bytes().chunks(step) {
            client.send(piece).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(client.receive().unwrap().results().len(), 1, "{step}");
        assert_eq!(client.request("GET", "/Tables", JSON, b"").status, 200);
    }
    server.assert_unharmed();
}

/// The body follows the head in the same packet, begins with line breaks, and must arrive unchanged.
#[test]
fn a_body_after_an_encoded_query_part_is_unchanged() {
    let server = Server::with_tables(&["tab"]);
    let mut client = server.client();
    let text = "<\">".repeat(40_000);
    let body = serde_json::json!({ "PartitionKey": "p", "RowKey": "r", "A": text[..30_000], "B": text[..30_000] });
    let body = format!("\r\n\n{body}");
    let length = body.len().to_string();
    for (query, status) in [("?x=<\"", 201), ("?x=<\"", 409)] {
        let headers = [("Content-Length", length.as_str()), ("Content-Type", "application/json")];
        let head = head("POST", &format!("/tab{query}"), &headers);
        client.send(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        assert_eq!(client.receive().unwrap().status, status);
    }
    let stored = client.request("GET", "/tab", JSON, b"").results();
    assert_eq!(stored[0]["A"], text[..30_000]);
}

/// A body in a separate packet that looks like a request line.
#[test]
fn a_body_that_looks_like_a_head_is_unchanged() {
    let server = Server::with_tables(&["tab"]);
    let mut client = server.client();
    client.set_read_timeout(TIMEOUT);
    let body = "GET /tab?\"<> HTTP/1.1\r\n\r\n";
    let head = head("POST", "/tab", &[("Content-Length", &body.len().to_string())]);
    client.send(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    client.send(body.as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 400);
    assert_eq!(client.request("GET", "/Tables", JSON, b"").status, 200, "on the same connection");
}

#[test]
fn the_path_of_the_account_is_not_encoded() {
    let server = Server::start();
    let answer = exchange(&server, format!("GET /{ACCOUNT}/t<b?x=\"y HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (400, Some("RequestUrlFailedToParse")));
}
