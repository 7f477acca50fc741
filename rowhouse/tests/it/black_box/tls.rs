//! Tests of TLS, with certificates that are created by the test.

use super::client::{Client, Request, account_file, key, tls_config};
use super::process::{Folder, Server};
use rustls::ALL_VERSIONS;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use test_support::TIMEOUT;

pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) trusted: CertificateDer<'static>,
}

fn make_pair() -> (String, String, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem(), made.cert.der().clone())
}

pub(crate) fn write_pair(folder: &Folder) -> Pair {
    let (certificate, key, trusted) = make_pair();
    Pair { certificate: folder.write("cert.pem", &certificate), key: folder.write("key.pem", &key), trusted }
}

pub(crate) fn start(folder: &Folder, more: &[&str]) -> (Server, CertificateDer<'static>) {
    let pair = write_pair(folder);
    let accounts = folder.write("accounts", &account_file("orchard", &key(1), &key(2)));
    let arguments = ["--listen", "127.0.0.1:0", "--tls-cert", &pair.certificate, "--tls-key", &pair.key];
    let server = Server::start(&[&arguments[..], &["--accounts", &accounts], more].concat(), &[]);
    (server, pair.trusted)
}

#[test]
fn the_server_says_https_wherever_it_names_its_address() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &[]);
    let endpoint = format!("https://{}", server.address);
    assert!(server.announcement.contains(&format!("listening on {endpoint}\n")), "{}", server.announcement);
    let connection_string = format!(
        "DefaultEndpointsProtocol=https;AccountName=orchard;AccountKey=<key>;TableEndpoint={endpoint}/orchard;"
    );
    assert!(server.announcement.contains(&connection_string), "{}", server.announcement);

    let mut client = Client::tls(server.address, &trusted).unwrap();
    let created = client.send(Request::create_table(&key(1)));
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.header("location").unwrap(), "https://127.0.0.1/orchard/Tables('apples')");
    assert!(created.body.contains(r#""odata.metadata":"https://127.0.0.1/orchard/$metadata"#), "{}", created.body);
    assert!(created.body.contains(r#""odata.id":"https://127.0.0.1/orchard/Tables('apples')""#), "{}", created.body);
}

#[test]
fn tls_1_2_and_1_3_are_supported_and_only_http_1_1() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &[]);
    for version in [&TLS12, &TLS13] {
        for (offered, agreed) in [
            (&[][..], None),
            (&[&b"http/1.1"[..]], Some(b"http/1.1".to_vec())),
            (&[b"h2", b"http/1.1"], Some(b"http/1.1".to_vec())),
        ] {
            let config = tls_config(&trusted, &[version], offered);
            let (mut client, protocol) = Client::tls_with(server.address, config).unwrap();
            assert_eq!(protocol, agreed);
            assert_eq!(client.send(Request::list_tables(&key(1))).status, 200);
            assert_eq!(client.send(Request::list_tables(&key(1))).status, 200, "the connection stays open");
        }
    }
    let h2_only = Client::tls_with(server.address, tls_config(&trusted, ALL_VERSIONS, &[b"h2"]));
    assert!(h2_only.is_err_and(|error| error.contains("NoApplicationProtocol")));
}

#[test]
fn plain_http_on_a_tls_port_is_told_to_use_https() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &[]);
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // The server may have closed the connection before the end of a long request.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let head = "POST /orchard/Tables HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n";
    for body in [0, 40_000] {
        let answer = ask(format!("{head}{}", "x".repeat(body)).as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{body}: {answer:?}");
        assert!(answer.contains("\r\nx-ms-error-code: AccountRequiresHttps\r\n"), "{body}: {answer:?}");
        assert!(answer.ends_with("use a URL with https://.\r\n"), "{body}: {answer:?}");
    }
    // The connection of an endless request is closed.
    let endless = "x".repeat(16 * 1024 * 1024);
    ask(format!("{head}{endless}").as_bytes());
    // Bytes that are neither HTTP nor TLS get no HTTP response.
    assert!(!ask(b"\x00\x01\x02\x03\x04\x05").contains("HTTP"));
    assert!(Client::tls(server.address, &trusted).is_ok());
    let url = format!("http://{}/orchard", server.address);
    let ran = crate::PROGRAM.folder().run("table", &["list", "--endpoint", &url], &[("ROWHOUSE_KEY", &key(1))]);
    assert!(ran.code == Some(1) && ran.stderr.contains("start the URL with https://"), "{ran:?}");
}

#[test]
fn a_slow_handshake_delays_no_others_and_gives_its_place_to_them() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &["--max-connections", "3"]);
    let mut unfinished: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // One of them starts a handshake, and stops in the middle.
    unfinished[0].write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    let mut first = Client::tls(server.address, &trusted).unwrap();
    assert_eq!(first.send(Request::list_tables(&key(1))).status, 200);
    // All three slots are in use: the next connection replaces a slow one.
    let mut second = Client::tls(server.address, &trusted).unwrap();
    assert_eq!(second.send(Request::list_tables(&key(1))).status, 200);
    assert_eq!(first.send(Request::list_tables(&key(1))).status, 200);
}

#[test]
fn an_unfinished_handshake_does_not_prevent_the_stop() {
    let folder = Folder::new();
    let (mut server, trusted) = start(&folder, &["--shutdown-seconds", "30"]);
    let _stalled = TcpStream::connect(server.address).unwrap();
    let mut client = Client::tls(server.address, &trusted).unwrap();
    assert_eq!(client.send(Request::list_tables(&key(1))).status, 200);
    let begun = Instant::now();
    server.signal("TERM");
    assert!(server.wait());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn a_new_certificate_is_taken_and_open_connections_go_on() {
    let folder = Folder::new();
    let (server, old) = start(&folder, &[]);
    let mut open = Client::tls(server.address, &old).unwrap();
    assert_eq!(open.send(Request::list_tables(&key(1))).status, 200);

    let (certificate, private, new) = make_pair();
    folder.replace("cert.pem", &certificate);
    folder.replace("key.pem", &private);
    server.wait_for_log(0, "TLS certificate: reloaded");
    assert!(Client::tls(server.address, &old).is_err());
    let mut renewed = Client::tls(server.address, &new).unwrap();
    assert_eq!(renewed.send(Request::list_tables(&key(1))).status, 200);
    assert_eq!(open.send(Request::list_tables(&key(1))).status, 200);

    // A certificate without its key, and then a malformed certificate: the current certificate stays in use.
    let (certificate, private, newest) = make_pair();
    for broken in [certificate.as_str(), "nonsense"] {
        let start = server.log().len();
        folder.replace("cert.pem", broken);
        server.wait_for_log(start, "TLS certificate: not reloaded");
        assert!(Client::tls(server.address, &new).is_ok());
    }
    let start = server.log().len();
    std::fs::remove_file(folder.path("cert.pem")).unwrap();
    server.wait_for_log(start, "No such file");
    assert!(Client::tls(server.address, &new).is_ok());

    let start = server.log().len();
    folder.replace("cert.pem", &certificate);
    folder.replace("key.pem", &private);
    server.signal("HUP");
    server.wait_for_log(start, "TLS certificate: reloaded");
    assert!(Client::tls(server.address, &newest).is_ok());
    assert!(!server.log().contains(private.lines().nth(1).unwrap()));
    assert_eq!(open.send(Request::list_tables(&key(1))).status, 200);
}

#[test]
fn a_warning_is_logged_for_a_key_that_others_may_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let (server, _) = start(&folder, &[]);
    assert!(!server.log().contains("chmod"), "{}", server.log());
    drop(server);
    let paths = [folder.path("cert.pem"), folder.path("key.pem"), folder.path("accounts")];
    for path in &paths {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let [certificate, private, accounts] = &paths;
    let arguments =
        ["--listen", "127.0.0.1:0", "--accounts", accounts, "--tls-cert", certificate, "--tls-key", private];
    let server = Server::start(&arguments, &[]);
    for secret in [private, accounts] {
        server.wait_for_log(0, &format!("chmod 600 {secret}"));
    }
    assert!(!server.log().contains(&format!("chmod 600 {certificate}")));
}
