//! Tests of bad input over raw sockets: the result must be the right error or a closed connection, within bounds of
//! time and memory. There must be no 500 and no panic, and the server must still work afterwards.
//!
//! `conformance/python/test_bad_input.py` tests the requirements of the protocol, on any endpoint. The cases here need
//! the server's log, or specify the behavior of this server where the protocol does not define it.

use crate::Server;
use std::io::ErrorKind;
use std::time::Duration;
use test_support::{ACCOUNT, Client, TIMEOUT, head};

const JSON: &[(&str, &str)] = &[];
const MIB: usize = 1024 * 1024;

fn server() -> Server {
    Server::with_tables(&["tab"])
}

fn assert_unharmed(server: Server) {
    let mut client = server.client();
    let stored = client.request("GET", "/tab", JSON, b"");
    assert_eq!((stored.status, stored.json()["value"].as_array().map(Vec::len)), (200, Some(0)), "nothing was stored");
    drop(client);
    server.assert_unharmed();
}

fn exchange(server: &Server, bytes: &[u8]) -> Option<u16> {
    let mut client = server.client();
    // The server may have responded and closed the connection before it has read everything.
    let _ = client.send(bytes);
    answer(&mut client)
}

/// Sends a truncated request: the client signals that nothing more will come.
fn exchange_truncated(server: &Server, bytes: &[u8]) -> Option<u16> {
    let mut client = server.client();
    let _ = client.send(bytes);
    let _ = client.close_sending();
    answer(&mut client)
}

fn answer(client: &mut Client) -> Option<u16> {
    match client.receive() {
        Ok(answer) => Some(answer.status),
        Err(error) => {
            let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(closed.contains(&error.kind()), "neither a response nor a closed connection: {error}");
            None
        }
    }
}

fn insert(body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    [head("POST", "/tab", &[("Content-Length", &length)]).as_bytes(), body].concat()
}

fn chunked_insert(chunks: &[u8]) -> Vec<u8> {
    [head("POST", "/tab", &[("Transfer-Encoding", "chunked")]).as_bytes(), chunks].concat()
}

fn query(change: impl Fn(String) -> String) -> Vec<u8> {
    change(head("GET", "/Tables", JSON)).into_bytes()
}

fn query_with(line: &str) -> Vec<u8> {
    query(|head| head.replacen("\r\n", &format!("\r\n{line}\r\n"), 1))
}

#[test]
fn bodies() {
    let server = server();
    let deep = [b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":".to_vec(), b"[".repeat(MIB)].concat();
    let key = br#"{"PartitionKey":"p","RowKey":"r","A":"#;
    let value = |bytes: &[u8]| [key.as_slice(), bytes, b"}"].concat();
    for (name, body, expected) in [
        ("nothing", b"".to_vec(), 400),
        ("not closed", key.to_vec(), 400),
        ("not an object", b"[]".to_vec(), 400),
        ("text after the object", b"{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}x".to_vec(), 400),
        ("a bare word", value(b"tru"), 400),
        ("invalid UTF-8", value(b"\"\xFF\""), 400),
        ("an incomplete character", value(b"\"\xE2\x82\""), 400),
        ("half a surrogate pair", value(br#""\ud800""#), 400),
        ("too deep", deep, 400),
        ("a number beyond Double", value(b"1e999"), 400),
        ("zeros", vec![0; 100], 400),
        ("too large", vec![b' '; 4 * MIB + 1], 413),
        ("far too large", vec![b' '; 9 * MIB], 413),
    ] {
        assert_eq!(exchange(&server, &insert(&body)), Some(expected), "{name}");
    }
    assert_unharmed(server);
}

#[test]
fn bodies_with_wrong_framing() {
    let server = server();
    let chunk = |size: usize| [format!("{size:x}\r\n").into_bytes(), vec![b' '; size], b"\r\n".to_vec()].concat();
    let framed = |headers| head("POST", "/tab", headers).into_bytes();
    for (name, bytes, expected) in [
        ("neither length nor chunks", framed(&[]), 411),
        ("a negative length", framed(&[("Content-Length", "-1")]), 400),
        ("two lengths", framed(&[("Content-Length", "1"), ("Content-Length", "2")]), 400),
        ("an unknown encoding", framed(&[("Transfer-Encoding", "rot13")]), 400),
        ("too large in chunks", chunked_insert(&[chunk(MIB).repeat(5), b"0\r\n\r\n".to_vec()].concat()), 413),
        ("far too large in chunks", chunked_insert(&chunk(MIB).repeat(20)), 413),
        ("a chunk size that is not a number", chunked_insert(b"x\r\n"), 400),
        ("a chunk size out of range", chunked_insert(b"fffffffffffffffff\r\n"), 400),
        ("an endless chunk size", chunked_insert(&b"0".repeat(MIB)), 400),
        ("an endless extension", chunked_insert(&[b"1;".to_vec(), b"x".repeat(MIB)].concat()), 400),
        ("an endless trailer", chunked_insert(&[b"0\r\n".to_vec(), b"x: y\r\n".repeat(MIB / 6)].concat()), 400),
    ] {
        let status = exchange(&server, &bytes);
        let closed = expected != 411 && status.is_none();
        assert!(closed || status == Some(expected), "{name}: {status:?}");
    }
    assert_unharmed(server);
}

#[test]
fn malformed_chunks_are_answered_and_the_connection_ends() {
    let server = server();
    for (name, chunks) in [
        ("not a number", &b"zz\r\n"[..]),
        ("a negative number", b"-1\r\n"),
        ("out of range", b"ffffffffffffffffff\r\n"),
        ("no line break after the size", b"2\rx{}\r\n"),
        ("no line break after the chunk", b"2\r\n{}x"),
        ("a malformed second chunk", b"2\r\n{}\r\nzz\r\n"),
        ("no line break at the end", b"2\r\n{}\r\n0\r\nx\r\n\r\n"),
    ] {
        let mut client = server.client();
        client.send(&chunked_insert(chunks)).unwrap();
        let answer = client.receive().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (400, Some("InvalidInput")), "{name}");
        assert_eq!(answer.header("connection"), Some("close"), "{name}");
        assert_eq!(client.receive_all(), b"", "{name}");
    }
    assert_eq!(exchange_truncated(&server, &chunked_insert(b"2\r\n{")), None, "a disconnected client gets no response");
    assert_unharmed(server);
}

#[test]
fn truncated_requests() {
    let server = server();
    let whole = insert(br#"{"PartitionKey":"p","RowKey":"r"}"#);
    let head_only = head("POST", "/tab", &[("Content-Length", "99999999999")]).into_bytes();
    let without_last_chunk = chunked_insert(b"21\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\r\n");
    let ends = (0..whole.len()).step_by(7).chain([whole.len() - 1]).map(|end| whole[..end].to_vec());
    for bytes in ends.chain([head_only, without_last_chunk]) {
        let status = exchange_truncated(&server, &bytes);
        assert!(matches!(status, None | Some(400)), "{status:?} to {}", String::from_utf8_lossy(&bytes));
    }
    assert_unharmed(server);
}

#[test]
fn heads() {
    let server = server();
    let many = vec!["x: y"; 1000].join("\r\n");
    for (name, bytes, allowed) in [
        ("too many headers", query_with(&many), &[431, 400][..]),
        ("a huge header", query_with(&format!("x: {}", "y".repeat(MIB))), &[431, 400]),
        ("an endless header", format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(8 * MIB)).into_bytes(), &[431, 400]),
        (
            "a huge target",
            query(|head| head.replacen("/Tables", &format!("/{}", "t".repeat(MIB)), 1)),
            &[414, 431, 400],
        ),
        ("a long target", query(|head| head.replacen("/Tables", &format!("/{}", "t".repeat(60_000)), 1)), &[403]),
        ("no Host", query(|head| head.replacen("Host: 127.0.0.1\r\n", "", 1)), &[400]),
        ("an empty Host", query(|head| head.replacen("Host: 127.0.0.1", "Host:", 1)), &[400]),
        ("no colon", query_with("nonsense"), &[400]),
        ("a name with a space", query_with("x y: z"), &[400]),
        ("a NUL", query_with("x: \0"), &[400]),
        ("a header that is not ASCII", query_with("If-Match: é"), &[400]),
        ("an invalid version", query(|head| head.replacen("2019-02-02", "yesterday", 1)), &[400]),
        ("a version that is not ASCII", query(|head| head.replacen("2019-02-02", "é", 1)), &[400]),
        ("no credential", query(|head| head.replacen("Authorization", "x", 1)), &[404]),
        ("a malformed credential", query(|head| head.replacen("SharedKey ", "SharedKey : : ", 1)), &[400, 403]),
        ("no date", query(|head| head.replacen("x-ms-date", "x", 1)), &[403]),
        ("an unknown method", head("FROB", "/Tables", JSON).into_bytes(), &[405, 400]),
        ("an unknown method, unsigned", b"FROB / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), &[403]),
        ("a proxy's request", b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n".to_vec(), &[400, 403, 405]),
        ("an asterisk", b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), &[400, 403]),
        ("a relative target", b"GET Tables HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(), &[400, 403]),
        ("HTTP/0.9", b"GET /\r\n\r\n".to_vec(), &[400]),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[400, 505]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03".to_vec(), &[400]),
    ] {
        let status = exchange(&server, &bytes);
        assert!(status.is_none_or(|status| allowed.contains(&status)), "{name}: {status:?}");
    }
    assert_unharmed(server);
}

#[test]
fn unusual_valid_requests() {
    let server = server();
    let absolute = format!("GET http://{}/{ACCOUNT}/Tables", server.address);
    for (name, bytes) in [
        ("HTTP/1.0", query(|head| head.replacen("HTTP/1.1", "HTTP/1.0", 1))),
        ("an absolute target", query(|head| head.replacen(&format!("GET /{ACCOUNT}/Tables"), &absolute, 1))),
        ("an empty line before", query(|head| format!("\r\n{head}"))),
        ("bare line feeds", query(|head| head.replace("\r\n", "\n"))),
    ] {
        assert_eq!(exchange(&server, &bytes), Some(200), "{name}");
    }
    let mut client = server.client();
    let pipelined: String =
        (0..20).map(|i| head("GET", "/Tables", &[("x-ms-client-request-id", &i.to_string())])).collect();
    client.send(pipelined.as_bytes()).unwrap();
    for i in 0..20 {
        let answer = client.receive().unwrap();
        assert_eq!((answer.status, answer.header("x-ms-client-request-id")), (200, Some(i.to_string().as_str())));
    }
    assert_unharmed(server);
}

/// The body of a refused request is received, so that the connection can continue.
#[test]
fn a_refused_request_whose_body_comes_later() {
    let server = server();
    let body = br#"{"PartitionKey":"p","RowKey":"r"}"#;
    let length = body.len().to_string();
    let head = head("POST", "/tab", &[("Content-Length", &length)])
        .replace("SharedKey devstoreaccount1:", "SharedKey devstoreaccount1:x");
    let mut client = server.client();
    client.send(head.as_bytes()).unwrap();
    client.set_read_timeout(Duration::from_millis(200));
    let early = client.receive().map_err(|error| error.kind());
    assert!(matches!(early, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "before the body: {early:?}");
    client.set_read_timeout(TIMEOUT);
    client.send(body).unwrap();
    assert_eq!(answer(&mut client), Some(403));
    assert_eq!(client.request("GET", "/Tables", JSON, b"").status, 200, "on the same connection");
    drop(client);
    assert_unharmed(server);
}

/// A client that sends everything before it reads still gets the response.
#[test]
fn refusals_of_requests_with_unread_bodies_arrive() {
    let server = Server::start();
    for size in [100_000, 1_000_000, 4_000_000, 13_000_000] {
        let mut client = server.client();
        let signature = format!("SharedKey {ACCOUNT}:AAAA");
        let refused = client.request("POST", "/apples", &[("Authorization", &signature)], &vec![b'x'; size]);
        assert_eq!((refused.status, refused.header("connection")), (403, Some("close")));
    }
    let mut client = server.client();
    client.send(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2 * MIB)).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 431);
}
