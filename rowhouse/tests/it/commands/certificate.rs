//! Tests of `rowhouse certificate`, and of client errors about unacceptable certificates.

use crate::PROGRAM;
use crate::black_box::process::Server;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use test_support::command::{CommandResult, Folder};

fn server(folder: &Folder, certificate: &str, key: &str) -> Server {
    let (certificate, key) = (folder.path(certificate), folder.path(key));
    Server::start(&["--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key], &[])
}

fn ask(folder: &Folder, server: &Server, host: &str, trusted: &str) -> CommandResult {
    let port = server.address.port();
    let url = format!("https://{host}:{port}/devstoreaccount1");
    folder.run("table", &["list", "--endpoint", &url], &[("SSL_CERT_FILE", &folder.path(trusted))])
}

#[test]
fn a_server_with_it_is_trusted_by_clients_that_have_the_file() {
    let folder = PROGRAM.folder();
    let ran = folder.run("certificate", &["tables.example", "192.0.2.7"], &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.contains("for localhost, 127.0.0.1, ::1, tables.example, 192.0.2.7,"), "{ran:?}");
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("key.pem"), mode("cert.pem")), (0o600, 0o644));
    let server = server(&folder, "cert.pem", "key.pem");
    for host in ["localhost", "127.0.0.1"] {
        let ran = ask(&folder, &server, host, "cert.pem");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{host}: {ran:?}");
    }
    let made = fs::read(folder.path("key.pem")).unwrap();
    let ran = folder.run("certificate", &["--cert", "other.pem"], &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("key.pem already exists: choose a different file"), "{ran:?}");
    assert_eq!(fs::read(folder.path("key.pem")).unwrap(), made);
    let ran = folder.run("certificate", &["a b", "--cert", "c", "--key", "k"], &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("neither a host name nor an IP address"), "{ran:?}");
    assert!(!fs::exists(folder.path("k")).unwrap());
}

#[test]
fn a_certificate_that_is_not_accepted_is_reported_at_once() {
    let folder = PROGRAM.folder();
    for name in ["cert", "other"] {
        let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
        assert_eq!(folder.run("certificate", &["--cert", &cert, "--key", &key], &[]).code, Some(0));
    }
    // Like the output of `openssl req -x509`.
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    fs::write(folder.path("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(folder.path("ca.key"), key.serialize_pem()).unwrap();
    for (name, trusted, told) in [
        ("cert", "other.pem", "this machine does not trust the issuer of the server's certificate"),
        ("ca", "ca.pem", "make one with 'rowhouse certificate'"),
    ] {
        let server = server(&folder, &format!("{name}.pem"), &format!("{name}.key"));
        let ran = ask(&folder, &server, "localhost", trusted);
        assert!(ran.code == Some(1) && ran.stderr.contains(told), "{name}: {ran:?}");
        // Another attempt would fail in the same way.
        assert!(ran.stderr.contains("got no response: the TLS handshake failed"), "{name}: {ran:?}");
        let port = server.address.port();
        let from = format!("https://localhost:{port}/devstoreaccount1");
        let trusted = folder.path(trusted);
        let ran = folder.run("export", &["--from", &from, "--to", "out"], &[("SSL_CERT_FILE", &trusted)]);
        assert!(ran.code == Some(1) && ran.stderr.contains("got no response: the TLS"), "{name}: {ran:?}");
    }
}
