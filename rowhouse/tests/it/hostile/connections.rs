//! Attacks with connections that are held open, and requests that do not end.

use super::Attacker;
use super::scene::{BODY_MIB, Scene, memory_bytes_max, peak_bytes};
use super::traffic::{
    CONCURRENT_CONNECTIONS, Ongoing, keep_reconnecting, send_on_each, send_repeatedly, send_without_end,
};
use crate::black_box::{Folder, key, list, tls};
use model::limits::ADMIN_CONNECTIONS_MAX;
use std::net::{Shutdown, TcpStream};
use test_support::Client;

/// The number of connections that send a body: more than fit in `--body-mib`, however the bodies are counted.
const BODIES: usize = 66;
/// The size of the body that each of them announces, in bytes.
const ANNOUNCED_BYTES: usize = 4 * 1024 * 1024;
const HEADS: usize = 1000;
/// The size of a head that does not end; a second header of this size would be refused.
const HEAD_BYTES: usize = 125_000;
/// The maximum number of connections for a server that serves only a few clients.
const CONNECTIONS_MAX: usize = 200;
/// More connections than the maximum of the admin listener. The excess is smaller than the kernel's queue on any
/// system, because the server never sees connections that the kernel drops.
const ADMIN_CONNECTIONS: usize = ADMIN_CONNECTIONS_MAX + 100;

fn insert_by_signature(attacker: &Attacker, framing: &str) -> Vec<u8> {
    let target = attacker.signed_target("tiny");
    let usual = "Host: 127.0.0.1\r\nx-ms-version: 2019-02-02\r\nContent-Type: application/json";
    let accept = "Accept: application/json;odata=nometadata";
    format!("POST {target} HTTP/1.1\r\n{usual}\r\n{accept}\r\n{framing}\r\n\r\n").into_bytes()
}

/// Sends bodies slowly: one byte arrives occasionally.
pub(super) fn announce_bodies(attacker: &Attacker) -> Ongoing {
    let insert = insert_by_signature(attacker, &format!("Content-Length: {ANNOUNCED_BYTES}"));
    let streams = send_on_each(&attacker.address, BODIES, &[&insert[..], b"{"].concat());
    send_repeatedly(streams, b" ".to_vec())
}

/// Sends bodies of unknown length in chunks of one byte.
pub(super) fn send_tiny_chunks(attacker: &Attacker) -> Ongoing {
    let insert = insert_by_signature(attacker, "Transfer-Encoding: chunked");
    let streams = send_on_each(&attacker.address, BODIES, &[&insert[..], b"1\r\n{\r\n"].concat());
    send_repeatedly(streams, b"1\r\n \r\n".repeat(1000))
}

pub(super) fn send_almost_complete_bodies(attacker: &Attacker) -> Vec<TcpStream> {
    let mut insert = insert_by_signature(attacker, &format!("Content-Length: {ANNOUNCED_BYTES}"));
    insert.resize(insert.len() + ANNOUNCED_BYTES - 1, b' ');
    send_on_each(&attacker.address, CONCURRENT_CONNECTIONS, &insert)
}

/// Sends heads that end with a header of the maximum length that the server reads.
pub(super) fn send_endless_heads(attacker: &Attacker) -> Vec<TcpStream> {
    let mut head = attacker.account.head("GET", "/Tables", &[]).trim_end().to_owned() + "\r\nx: ";
    head += &"x".repeat(HEAD_BYTES - head.len());
    send_on_each(&attacker.address, HEADS, head.as_bytes())
}

pub(super) fn open_connections(attacker: &Attacker) -> Ongoing {
    keep_reconnecting(&attacker.address, 2 * CONNECTIONS_MAX, b"")
}

/// Sends bodies although the server refuses them for lack of a credential, on more connections than the server's
/// maximum.
pub(super) fn send_refused_bodies(attacker: &Attacker) -> Ongoing {
    let refused = b"POST /hostile/tiny HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000000\r\n\r\n";
    send_without_end(&attacker.address, 2 * CONNECTIONS_MAX, refused, vec![b' '; 16 * 1024])
}

pub(super) fn pipeline(attacker: &Attacker) -> Ongoing {
    let requests = attacker.account.head("GET", "/Tables", &[]).repeat(200).into_bytes();
    send_repeatedly(send_on_each(&attacker.address, CONCURRENT_CONNECTIONS, b""), requests)
}

pub(super) fn connect_and_disconnect(attacker: &Attacker) {
    let request = attacker.account.head("GET", "/Tables", &[]).into_bytes();
    for number in 0..3000 {
        let sent = &request[..request.len() * (number % 3) / 2];
        for stream in send_on_each(&attacker.address, 1, sent) {
            if number % 2 == 0 {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    }
}

fn with_table() -> Scene {
    let scene = Scene::start(&[]);
    scene.attacker.create_table("tiny");
    scene
}

fn with_few_connections() -> Scene {
    Scene::start(&["--max-connections", &CONNECTIONS_MAX.to_string()])
}

#[test]
fn bodies_that_are_announced_and_do_not_come() {
    with_table().withstand(announce_bodies);
}

#[test]
fn bodies_in_tiny_chunks() {
    with_table().withstand(send_tiny_chunks);
}

#[test]
fn bodies_that_are_refused_and_do_not_end() {
    with_few_connections().withstand(send_refused_bodies);
}

#[test]
fn bodies_that_are_almost_complete() {
    with_table().withstand(send_almost_complete_bodies);
}

#[test]
fn heads_that_do_not_end() {
    Scene::start(&[]).withstand(send_endless_heads);
}

#[test]
fn connections_on_which_nothing_is_sent() {
    with_few_connections().withstand(open_connections);
}

#[test]
fn connections_that_are_idle_after_a_request() {
    let request = b"GET /hostile/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    with_few_connections().withstand(|attacker| keep_reconnecting(&attacker.address, 2 * CONNECTIONS_MAX, request));
}

#[test]
fn connections_with_half_a_head() {
    let request = b"GET /hostile/Tables HTTP/1.1\r\nHost: ";
    with_few_connections().withstand(|attacker| keep_reconnecting(&attacker.address, 2 * CONNECTIONS_MAX, request));
}

#[test]
fn connections_that_come_and_go() {
    Scene::start(&[]).withstand(connect_and_disconnect);
}

#[test]
fn requests_without_end_on_one_connection() {
    Scene::start(&[]).withstand(pipeline);
}

#[test]
fn idle_connections_to_the_admin_listener() {
    let scene = Scene::start(&["--admin", "127.0.0.1:0"]);
    let admin = scene.admin();
    scene.withstand(|_| {
        let idle = keep_reconnecting(&admin, ADMIN_CONNECTIONS, b"");
        for path in ["/livez", "/healthz", "/readyz", "/metrics"] {
            let mut client = Client::connect(&admin).unwrap();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(client.receive_head().unwrap().status, 200, "{path}");
        }
        idle
    });
}

#[test]
fn tls_handshakes_that_do_not_end() {
    const NEWCOMERS: usize = 5;
    let folder = Folder::new();
    let (server, trusted) = tls::start(&folder, &["--max-connections", &CONNECTIONS_MAX.to_string()]);
    // The beginning of the first message.
    let held = keep_reconnecting(&server.address, 2 * CONNECTIONS_MAX, &[22, 3, 1, 2, 0, 1]);
    for _ in 0..NEWCOMERS {
        assert_eq!(list(&mut tls::connect(&server.address, &trusted, &key(1)).unwrap()), 200);
    }
    let peak = peak_bytes(server.id());
    println!("resident: {} MiB at most", peak / (1024 * 1024));
    assert!(peak <= memory_bytes_max(BODY_MIB), "{peak} bytes were resident");
    drop(held);
}
