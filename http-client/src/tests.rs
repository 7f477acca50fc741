//! Runs the client against servers that send fixed bytes.

use crate::{HttpClient, HttpError, HttpOptions, Proxies, is_permanent, tls_config};
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{Request, StatusCode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{io, thread};
use tokio::time::Instant;

/// A server that sends the same bytes in response to every request.
struct Server {
    /// Host and port.
    authority: String,
    /// The number of the connection and the head, for each request.
    requests: Arc<Mutex<Vec<(usize, String)>>>,
}

/// The pieces of a response and the pause after each of them.
type Pieces = (Vec<&'static [u8]>, Duration);

impl Server {
    fn start(pieces: Pieces, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, pieces) = (Arc::clone(&requests), Arc::new(pieces));
        thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (log, pieces, tls) = (Arc::clone(&log), Arc::clone(&pieces), tls.clone());
                thread::spawn(move || match tls {
                    None => serve(BufReader::new(stream), number, &log, &pieces),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(BufReader::new(StreamOwned::new(connection, stream)), number, &log, &pieces)
                    }
                });
            }
        });
        Self { authority, requests }
    }

    fn sending(bytes: &'static str) -> Self {
        Self::start((vec![bytes.as_bytes()], Duration::ZERO), None)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority)
    }
}

/// Serves a connection until the client closes it or requests its end.
fn serve<S: Read + Write>(
    mut stream: BufReader<S>,
    number: usize,
    log: &Mutex<Vec<(usize, String)>>,
    (pieces, pause): &Pieces,
) -> Option<()> {
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        log.lock().unwrap().push((number, head.clone()));
        for piece in pieces {
            stream.get_mut().write_all(piece).ok()?;
            stream.get_mut().flush().ok()?;
            thread::sleep(*pause);
        }
        if head.contains("connection: close") || !pieces.concat().ends_with(b"ok") {
            return Some(());
        }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An address at which nothing listens. A port that the system chose and that was closed may be in use again.
const CLOSED: &str = "127.0.0.1:1";

const OPTIONS: HttpOptions = HttpOptions {
    request_time_max: Duration::from_mins(1),
    connect_time_max: None,
    body_bytes_max: 10,
    keeps_connections: false,
};

fn client(options: HttpOptions) -> HttpClient {
    HttpClient::new(options, tls_config(RootCertStore::empty()).unwrap())
}

async fn get(client: &HttpClient, url: &str) -> Result<(StatusCode, Bytes), HttpError> {
    let mut response = client.send(Request::get(url).body(Bytes::new()).unwrap()).await?;
    let body = response.read_body().await?;
    Ok((response.status, body))
}

#[tokio::test]
async fn connections_are_kept_only_if_asked_for() {
    for (keeps_connections, expected) in [(true, [0, 0, 0]), (false, [0, 1, 2])] {
        let server = Server::sending(OK);
        let client = client(HttpOptions { keeps_connections, ..OPTIONS });
        for _ in 0..3 {
            assert_eq!(get(&client, &server.url("/a?b")).await.unwrap(), (StatusCode::OK, Bytes::from("ok")));
        }
        let requests = server.requests.lock().unwrap();
        assert_eq!(requests.iter().map(|(number, _)| *number).collect::<Vec<_>>(), expected);
        let head = &requests[0].1;
        assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: {}\r\n", server.authority)), "{head}");
        assert!(head.contains(concat!("user-agent: Rowhouse/", env!("CARGO_PKG_VERSION"), "\r\n")), "{head}");
        assert_eq!(head.contains("connection: close\r\n"), !keeps_connections, "{head}");
    }
}

#[tokio::test]
async fn headers_of_the_caller_win() {
    let server = Server::sending(OK);
    let request = Request::post(server.url("/")).header(USER_AGENT, "other").header("host", "tables.example.net");
    client(OPTIONS).send(request.body(Bytes::from("body")).unwrap()).await.unwrap();
    let head = &server.requests.lock().unwrap()[0].1;
    for line in
        ["POST / HTTP/1.1\r\n", "user-agent: other\r\n", "host: tables.example.net\r\n", "content-length: 4\r\n"]
    {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert!(!head.contains("Rowhouse"), "{head}");
}

#[tokio::test]
async fn bodies_are_limited() {
    for (bytes, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", Some(10)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a", None),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n0123456789a", None),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", Some(10)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n", None),
        ("HTTP/1.1 200 OK\r\n\r\n0123456789", Some(10)),
        ("HTTP/1.1 200 OK\r\n\r\n0123456789a", None),
    ] {
        match (get(&client(OPTIONS), &Server::sending(bytes).url("/")).await, expected) {
            (Ok((_, body)), Some(length)) => assert_eq!(body.len(), length, "{bytes}"),
            (Err(HttpError::BodyTooLarge(10)), None) => {}
            (other, _) => panic!("{bytes}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_ends_in_time_wherever_the_server_stalls() {
    let hour = Duration::from_hours(1);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".as_bytes();
    let client = client(HttpOptions { request_time_max: Duration::from_millis(200), ..OPTIONS });
    let slow_body: Vec<&[u8]> = std::iter::once(head).chain([b"x".as_slice(); 9]).collect();
    for pieces in [
        (vec![b"".as_slice()], hour),
        (vec![b"HTTP/1.1 200".as_slice()], hour),
        (vec![head], hour),
        (slow_body, Duration::from_millis(50)),
    ] {
        let server = Server::start(pieces, None);
        let began = Instant::now();
        let result = get(&client, &server.url("/")).await;
        assert!(matches!(result, Err(HttpError::TimedOut(_))), "{result:?}");
        assert!(began.elapsed() >= Duration::from_millis(200) && began.elapsed() < OPTIONS.request_time_max);
    }
    let endless = self::client(HttpOptions { request_time_max: Duration::MAX, ..OPTIONS });
    assert!(get(&endless, &Server::sending(OK).url("/")).await.is_ok());
}

#[tokio::test]
async fn causes_are_told_apart() {
    let error = get(&client(OPTIONS), &format!("http://{CLOSED}/?sig=secret")).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)), "{error:?}");
    assert!(error.to_string().starts_with("connecting failed: Connection refused"), "{error}");
    assert!(!format!("{error:?} {error}").contains("secret"));
    for bytes in ["", "SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 twohundred\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-"] {
        let error = get(&client(OPTIONS), &Server::sending(bytes).url("/")).await.unwrap_err();
        assert!(matches!(error, HttpError::Exchange(_)), "{bytes}: {error:?}");
    }
    let cut = Server::sending("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n0123");
    let error = get(&client(OPTIONS), &cut.url("/")).await.unwrap_err();
    assert!(matches!(error, HttpError::Body(_)), "{error:?}");
    let error = get(&client(OPTIONS), &format!("https://{}/", cut.authority)).await.unwrap_err();
    assert!(matches!(error, HttpError::Tls(_)), "{error:?}");
    for address in ["/", "ftp://127.0.0.1/", "https://a..b/", "127.0.0.1:1"] {
        let error = get(&client(OPTIONS), address).await.unwrap_err();
        assert!(matches!(error, HttpError::Address), "{address}: {error:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_a_response_like_any_other() {
    let server = Server::sending("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nok");
    let request = Request::get(server.url("/")).body(Bytes::new()).unwrap();
    let response = client(OPTIONS).send(request).await.unwrap();
    assert_eq!((response.status, response.headers["location"].to_str().unwrap()), (StatusCode::FOUND, "/elsewhere"));
    assert_eq!(server.requests.lock().unwrap().len(), 1);
}

/// A change to the default certificate parameters.
type Change = fn(&mut CertificateParams);

/// Returns a server with a new certificate for `localhost`, and that certificate.
fn tls_server(change: impl FnOnce(&mut CertificateParams)) -> (Server, CertificateDer<'static>) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateDer::from(params.self_signed(&key).unwrap());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    (Server::start((vec![OK.as_bytes()], Duration::ZERO), Some(Arc::new(config))), certificate)
}

#[tokio::test]
async fn permanent_failures_of_tls_are_told_in_words() {
    let of_authority = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2001, 1, 1);
    let of_the_future = |params: &mut CertificateParams| params.not_before = date_time_ymd(2999, 1, 1);
    let of_another = |params: &mut CertificateParams| {
        params.subject_alt_names = vec![SanType::DnsName("elsewhere.example".try_into().unwrap())];
    };
    let changes: [(Change, bool, &str); 5] = [
        (of_authority, true, "make one with 'rowhouse certificate'"),
        (expired, true, "has expired"),
        (of_the_future, true, "is not valid yet"),
        (of_another, true, "is for another host name"),
        (|_| (), false, "SSL_CERT_FILE"),
    ];
    for (change, is_trusted, told) in changes {
        let (server, certificate) = tls_server(change);
        let mut roots = RootCertStore::empty();
        if is_trusted {
            roots.add(certificate).unwrap();
        }
        let client = HttpClient::new(OPTIONS, tls_config(roots).unwrap());
        let url = format!("https://localhost:{}/", server.authority.rsplit(':').next().unwrap());
        let error = get(&client, &url).await.unwrap_err();
        assert!(error.to_string().contains(told) && is_permanent(&error), "{told}: {error} {error:?}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    thread::spawn(move || listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let error = get(&client(OPTIONS), &url).await.unwrap_err();
    assert!(error.to_string().contains("use an http address") && is_permanent(&error), "{error} {error:?}");
    // A connection that breaks once may work the next time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    thread::spawn(move || drop(listener.accept()));
    let error = get(&client(OPTIONS), &url).await.unwrap_err();
    assert!(matches!(error, HttpError::Tls(_)) && !is_permanent(&error), "{error} {error:?}");
}

#[tokio::test]
async fn only_certificates_of_trusted_roots_for_the_host_are_accepted() {
    let (server, certificate) = tls_server(|_| ());
    let port = server.authority.rsplit(':').next().unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let trusting = HttpClient::new(OPTIONS, tls_config(roots).unwrap());
    let named = format!("https://localhost:{port}/");
    assert_eq!(get(&trusting, &named).await.unwrap().1, "ok");
    for (client, url) in [(client(OPTIONS), &named), (trusting, &format!("https://127.0.0.1:{port}/"))] {
        let error = get(&client, url).await.unwrap_err();
        assert!(matches!(error, HttpError::Tls(_)) && error.to_string().contains("certificate"), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn alpn_protocols_of_the_configuration_are_ignored() {
    let (server, certificate) = tls_server(|_| ());
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut config = tls_config(roots).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let url = format!("https://localhost:{}/", server.authority.rsplit(':').next().unwrap());
    assert_eq!(get(&HttpClient::new(OPTIONS, config), &url).await.unwrap().1, "ok");
}

/// Starts a proxy that opens tunnels to a server. Returns its address and the heads of its requests.
fn tunnel(server: &Server) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://user:secret@{}", listener.local_addr().unwrap());
    let (heads, target) = (Arc::new(Mutex::new(Vec::new())), server.authority.clone());
    let log = Arc::clone(&heads);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            log.lock().unwrap().push(head);
            (&client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let server = TcpStream::connect(&target).unwrap();
            let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client);
            thread::spawn(move || io::copy(&mut from_server, &mut to_client));
            thread::spawn(move || io::copy(&mut reader, &mut &server));
        }
    });
    (address, heads)
}

#[tokio::test]
async fn https_goes_through_a_tunnel_of_the_proxy() {
    let (server, certificate) = tls_server(|params| {
        params.subject_alt_names = vec![SanType::DnsName("tables.invalid".try_into().unwrap())];
    });
    let (proxy, heads) = tunnel(&server);
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let proxies = Proxies::all(&proxy).unwrap();
    let client = HttpClient::with_proxies(OPTIONS, tls_config(roots).unwrap(), &proxies);
    assert_eq!(get(&client, "https://tables.invalid:4711/a?b").await.unwrap().1, "ok");
    let head = heads.lock().unwrap().concat();
    assert!(head.starts_with("CONNECT tables.invalid:4711 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{head}");
    let inner = &server.requests.lock().unwrap()[0].1;
    assert!(inner.starts_with("GET /a?b HTTP/1.1\r\n") && !inner.to_lowercase().contains("proxy"), "{inner}");
}

#[tokio::test]
async fn http_goes_to_the_proxy_with_the_whole_address() {
    let proxy = Server::sending(OK);
    let address = format!("http://user:secret@{}", proxy.authority);
    let proxies = Proxies::all(&address).unwrap().except("direct.invalid");
    let client = HttpClient::with_proxies(OPTIONS, tls_config(RootCertStore::empty()).unwrap(), &proxies);
    assert_eq!(get(&client, "http://tables.invalid/a?b").await.unwrap().1, "ok");
    let head = proxy.requests.lock().unwrap()[0].1.clone();
    assert!(head.starts_with("GET http://tables.invalid/a?b HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("host: tables.invalid\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{head}");
    let error = get(&client, "http://direct.invalid/").await.unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)) && !format!("{error:?}").contains("secret"), "{error:?}");
    assert_eq!(proxy.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn refusals_of_the_proxy_are_told_from_those_of_the_server() {
    let refused = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
    let proxy = Server::sending(refused);
    let proxies = Proxies::all(&format!("user:secret@{}", proxy.authority)).unwrap();
    let client = HttpClient::with_proxies(OPTIONS, tls_config(RootCertStore::empty()).unwrap(), &proxies);
    for url in ["http://tables.invalid/", "https://tables.invalid/"] {
        let error = get(&client, url).await.unwrap_err();
        assert!(matches!(error, HttpError::ProxyAuthorization) && is_permanent(&error), "{url}: {error:?}");
        assert!(!format!("{error} {error:?} {client:?}").contains("secret"), "{error:?} {client:?}");
    }
    let direct = self::client(OPTIONS);
    let status = get(&direct, &proxy.url("/")).await.unwrap().0;
    assert_eq!(status, StatusCode::PROXY_AUTHENTICATION_REQUIRED, "a response of the server itself");

    let proxy = Server::sending("HTTP/1.1 503 Service Unavailable\r\n\r\n");
    for (address, url, cause) in [
        (proxy.authority.as_str(), "https://tables.invalid/", "tunnel error: unsuccessful"),
        (CLOSED, "https://tables.invalid/", "Connection refused"),
        (CLOSED, "http://tables.invalid/", "Connection refused"),
    ] {
        let proxies = Proxies::all(address).unwrap();
        let client = HttpClient::with_proxies(OPTIONS, tls_config(RootCertStore::empty()).unwrap(), &proxies);
        let error = get(&client, url).await.unwrap_err();
        assert!(matches!(error, HttpError::Connect(_)) && !is_permanent(&error), "{error:?}");
        let told = format!("connecting failed: proxy {address}: {cause}");
        assert!(error.to_string().starts_with(&told), "{error}, not {told}");
    }
}
