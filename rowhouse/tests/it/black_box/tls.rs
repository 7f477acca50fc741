//! Tests of TLS, with certificates that are created by the test.

use super::{ACCOUNT, Folder, account_file, key, list};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use test_support::{Account, Client, Server, TIMEOUT, eventually};

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
    let arguments = ["--tls-cert", &pair.certificate, "--tls-key", &pair.key, "--accounts", &accounts];
    (super::start(&[&arguments, more].concat()), pair.trusted)
}

/// Opens a connection as the account `orchard`.
pub(crate) fn connect(address: &str, trusted: &CertificateDer<'static>, key: &str) -> Result<Client, String> {
    connect_with(address, key, config(trusted, ALL_VERSIONS, &[])).map(|(client, _)| client)
}

fn connect_with(address: &str, key: &str, config: ClientConfig) -> Result<(Client, Option<Vec<u8>>), String> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    let agreed = connection.alpn_protocol().map(<[u8]>::to_vec);
    Ok((Client::over(StreamOwned::new(connection, stream), &Account::new(ACCOUNT, key)), agreed))
}

fn config(
    trusted: &CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: &[&[u8]],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

#[test]
fn the_server_says_https_wherever_it_names_its_address() {
    let folder = Folder::new();
    let Pair { certificate, key: private, trusted } = write_pair(&folder);
    let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
    let arguments = ["--in-memory", "--listen", "127.0.0.1:0", "--accounts", &accounts];
    let tls = ["--tls-cert", &certificate, "--tls-key", &private];
    let mut child = crate::PROGRAM.serve(&[&arguments[..], &tls].concat()).spawn().unwrap();
    let lines: Vec<_> = BufReader::new(child.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    let endpoint = lines[0].strip_prefix("listening on ").unwrap();
    let address = endpoint.strip_prefix("https://").unwrap();
    let connection_string = format!(
        "DefaultEndpointsProtocol=https;AccountName=orchard;AccountKey=<key>;TableEndpoint={endpoint}/orchard;"
    );
    assert!(lines[1].contains(&connection_string), "{lines:?}");

    let mut client = connect(address, &trusted, &key(1)).unwrap();
    let full = [("Accept", "application/json;odata=fullmetadata")];
    let created = client.request("POST", "/Tables", &full, br#"{"TableName":"apples"}"#);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(created.status, 201, "{created:?}");
    let url = "https://127.0.0.1/orchard/Tables('apples')";
    assert_eq!((created.header("location"), &created.json()["odata.id"]), (Some(url), &url.into()));
    assert!(created.json()["odata.metadata"].as_str().unwrap().starts_with("https://127.0.0.1/orchard/$metadata#"));
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
            let config = config(&trusted, &[version], offered);
            let (mut client, protocol) = connect_with(&server.address, &key(1), config).unwrap();
            assert_eq!(protocol, agreed);
            assert_eq!([list(&mut client), list(&mut client)], [200; 2], "the connection stays open");
        }
    }
    let h2_only = connect_with(&server.address, "", config(&trusted, ALL_VERSIONS, &[b"h2"]));
    assert!(h2_only.is_err_and(|error| error.contains("NoApplicationProtocol")));
}

#[test]
fn plain_http_on_a_tls_port_is_told_to_use_https() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &[]);
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
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
    assert!(connect(&server.address, &trusted, "").is_ok());
    let url = format!("http://{}/orchard", server.address);
    let ran = crate::PROGRAM.folder().run("table", &["list", "--endpoint", &url], &[("ROWHOUSE_KEY", &key(1))]);
    assert!(ran.code == Some(1) && ran.stderr.contains("start the URL with https://"), "{ran:?}");
}

/// A client that sends everything before it reads still gets the response.
#[test]
fn refusals_arrive_over_tls() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &[]);
    let body = "x".repeat(13_000_000);
    for (number, status, code) in [(3, 403, "AuthenticationFailed"), (1, 413, "RequestBodyTooLarge")] {
        let mut client = connect(&server.address, &trusted, &key(number)).unwrap();
        let answer = client.request("PUT", "/apples(PartitionKey='p',RowKey='r')", &[], body.as_bytes());
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (status, Some(code)), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
    }
}

#[test]
fn a_request_that_is_not_valid_http_gets_an_error_over_tls() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &[]);
    let mut client = connect(&server.address, &trusted, &key(1)).unwrap();
    assert_eq!(list(&mut client), 200);
    client.send(b"GET /orchard/a b HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = client.receive().unwrap();
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (400, Some("RequestUrlFailedToParse")));
    assert_eq!(client.receive_all(), b"");
}

#[test]
fn a_slow_handshake_delays_no_others_and_gives_its_place_to_them() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &["--max-connections", "3"]);
    let mut unfinished: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    // One of them starts a handshake, and stops in the middle.
    unfinished[0].write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    let mut first = connect(&server.address, &trusted, &key(1)).unwrap();
    assert_eq!(list(&mut first), 200);
    // All three slots are in use: the next connection replaces a slow one.
    let mut second = connect(&server.address, &trusted, &key(1)).unwrap();
    assert_eq!(list(&mut second), 200);
    assert_eq!(list(&mut first), 200);
}

#[test]
fn an_unfinished_handshake_does_not_prevent_the_stop() {
    let folder = Folder::new();
    let (server, trusted) = start(&folder, &["--shutdown-seconds", "30"]);
    let _stalled = TcpStream::connect(&server.address).unwrap();
    let mut client = connect(&server.address, &trusted, &key(1)).unwrap();
    assert_eq!(list(&mut client), 200);
    let begun = Instant::now();
    assert!(server.stop().0.success());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[test]
fn a_new_certificate_is_taken_and_open_connections_go_on() {
    let folder = Folder::new();
    let (server, old) = start(&folder, &[]);
    let mut open = connect(&server.address, &old, &key(1)).unwrap();
    assert_eq!(list(&mut open), 200);

    let (certificate, private, new) = make_pair();
    folder.replace("cert.pem", &certificate);
    folder.replace("key.pem", &private);
    server.wait_for_log("TLS certificate: reloaded");
    assert!(connect(&server.address, &old, "").is_err());
    let mut renewed = connect(&server.address, &new, &key(1)).unwrap();
    assert_eq!(list(&mut renewed), 200);
    assert_eq!(list(&mut open), 200);

    // A certificate without its key, and then a malformed certificate: the current certificate stays in use.
    let (certificate, private, newest) = make_pair();
    for broken in [certificate.as_str(), "nonsense"] {
        folder.replace("cert.pem", broken);
        server.wait_for_log("TLS certificate: not reloaded");
        assert!(connect(&server.address, &new, "").is_ok());
    }
    std::fs::remove_file(folder.path("cert.pem")).unwrap();
    server.wait_for_log("No such file");
    assert!(connect(&server.address, &new, "").is_ok());

    server.new_log();
    folder.replace("cert.pem", &certificate);
    folder.replace("key.pem", &private);
    server.signal("HUP");
    server.wait_for_log("TLS certificate: reloaded");
    assert!(connect(&server.address, &newest, "").is_ok());
    assert!(!server.log().contains(private.lines().nth(1).unwrap()));
    assert_eq!(list(&mut open), 200);
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
    let server = super::start(&["--accounts", accounts, "--tls-cert", certificate, "--tls-key", private]);
    for secret in [private, accounts] {
        let advice = format!("chmod 600 {secret}");
        eventually("the advice", || server.log().contains(&advice).then_some(()));
    }
    assert!(!server.log().contains(&format!("chmod 600 {certificate}")));
}

#[test]
fn a_certificate_that_the_server_makes_is_kept_and_gets_new_names() {
    let folder = Folder::new();
    let accounts = folder.write("accounts", &account_file("orchard", &key(1), &key(2)));
    let data = folder.path("data");
    let made = |more: &[&str]| {
        let arguments = ["--data", &data, "--accounts", &accounts, "--tls-self-signed"];
        let server = crate::PROGRAM.start(&[&arguments, more].concat());
        let certificate = CertificateDer::from_pem_file(format!("{data}/rowhouse-cert.pem")).unwrap();
        let mut client = connect(&server.address, &certificate, &key(1)).unwrap();
        assert_eq!(list(&mut client), 200);
        let (status, log) = server.stop();
        assert!(status.success(), "{log:?}");
        certificate
    };
    let first = made(&[]);
    let mode = |name: &str| std::fs::metadata(format!("{data}/{name}")).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("rowhouse-key.pem"), mode("rowhouse-cert.pem")), (0o600, 0o644));
    assert_eq!(made(&[]), first);
    let second = made(&["--tls-hosts", "tables.example.net"]);
    assert_ne!(second, first);
    assert_eq!(made(&["--tls-hosts", "tables.example.net"]), second);

    for (arguments, part) in [
        (&["--tls-self-signed", "--listen", "0.0.0.0:0"][..], "add --tls-hosts"),
        (&["--tls-hosts", "tables.example.net"], "add --tls-self-signed"),
        (&["--tls-self-signed", "--tls-cert", "c.pem", "--tls-key", "k.pem"], "only one certificate"),
        (&["--tls-self-signed", "--tls-hosts", "a b"], "neither a host name nor an IP address"),
    ] {
        let arguments = [&["--accounts", &accounts], arguments].concat();
        let message = super::refusal(&arguments, &[]);
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}
