//! Tests of `rowhouse health`, and of the notifications to a service manager.

use crate::PROGRAM;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread::{self, JoinHandle};
use test_support::{ReservedPort, TIMEOUT};

/// Runs the command. Returns whether it found a ready server, and its output. The timeout is set to its maximum unless
/// an argument sets it.
fn health(args: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
    let timeout = if args.contains(&"--timeout") { &[][..] } else { &["--timeout", "60"] };
    let mut command = PROGRAM.command(&[&["health"], args, timeout].concat());
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.success(), said)
}

fn answering(bytes: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        String::from_utf8(request[..length].to_vec()).unwrap()
    });
    (address, thread)
}

#[test]
fn a_server_is_found_by_the_options_it_was_started_with() {
    // Nothing else listens there when the server has stopped.
    let port = ReservedPort::new();
    let server = PROGRAM.start(&["--in-memory", "--listen", &port.address()]);
    let (good, said) = health(&["--listen", &server.address], &[]);
    assert!(good && said.contains("responds"), "{said}");
    assert!(health(&[], &[("ROWHOUSE_LISTEN", &server.address)]).0);
    let everywhere = server.address.replace("127.0.0.1", "0.0.0.0");
    assert!(health(&[], &[("ROWHOUSE_LISTEN", &everywhere)]).0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rowhouse.toml");
    fs::write(&file, format!("listen = \"{}\"\nquery-seconds = 3\n", server.address)).unwrap();
    assert!(health(&[], &[("ROWHOUSE_CONFIG", file.to_str().unwrap())]).0);
    assert!(server.stop().0.success());
    let (good, said) = health(&["--listen", &port.address()], &[]);
    assert!(!good && said.contains("nothing is listening"), "{said}");
}

#[test]
fn an_https_server_is_asked_over_https() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["tables.example.net".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let server = PROGRAM.start(&["--in-memory", "--tls-cert", &text(&certificate), "--tls-key", &text(&key)]);
    let (good, said) = health(&["--listen", &server.address, "--tls-cert", &text(&certificate)], &[]);
    assert!(good, "{said}");
    let plain = health(&["--listen", &server.address], &[]);
    assert!(!plain.0 && plain.1.contains("requires HTTPS"), "{}", plain.1);
}

#[test]
fn the_answer_of_the_admin_listener_decides() {
    let (address, asked) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let (good, said) = health(&["--admin", &address], &[("ROWHOUSE_LISTEN", "127.0.0.1:1")]);
    assert!(good, "{said}");
    assert!(asked.join().unwrap().starts_with("GET /readyz HTTP/1.1\r\n"));

    let (address, asked) = answering("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nthe disk is full\n");
    let (good, said) = health(&[], &[("ROWHOUSE_ADMIN", &address)]);
    assert!(!good && said.contains("503 the disk is full"), "{said}");
    asked.join().unwrap();

    for nonsense in ["", "SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 twohundred\r\n\r\n"] {
        let (address, asked) = answering(nonsense);
        let (good, said) = health(&["--admin", &address], &[]);
        assert!(!good && said.contains("does not respond like"), "{nonsense}: {said}");
        asked.join().unwrap();
    }
    assert!(!health(&["--admin", "nowhere"], &[]).0);
}

#[test]
fn a_silent_server_is_not_ready() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (good, said) = health(&["--admin", &address, "--timeout", "1"], &[]);
    assert!(!good && said.contains("waiting for a response"), "{said}");
}

fn told(socket: &UnixDatagram, name: &str) -> Vec<String> {
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let next = || {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let server = PROGRAM.start_with(&["--in-memory"], |command| {
        command.env("NOTIFY_SOCKET", name);
    });
    let ready = next();
    assert!(ready.ends_with(&server.address), "{ready}");
    assert!(server.stop().0.success());
    vec![ready, next()]
}

#[test]
fn the_service_manager_is_notified_of_the_start_and_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let messages = told(&UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
    assert!(messages[0].starts_with("READY=1\n") && messages[1].starts_with("STOPPING=1\n"), "{messages:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn abstract_sockets_of_the_service_manager_are_supported() {
    use std::os::linux::net::SocketAddrExt;
    let name = format!("rowhouse-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let messages = told(&UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
    assert!(messages[0].starts_with("READY=1\n"), "{messages:?}");
}

#[test]
fn a_missing_service_manager_does_not_prevent_the_start() {
    let server = PROGRAM.start_with(&["--in-memory"], |command| {
        command.env("NOTIFY_SOCKET", "/nowhere/notify");
    });
    server.wait_for_log("failed to notify");
    assert!(health(&["--listen", &server.address], &[]).0);
}
