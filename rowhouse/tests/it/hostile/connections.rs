//! Connections that are held, and requests that do not end.

use super::scene::Scene;
use super::traffic::{AT_ONE_TIME, connect, reconnect_again_and_again, send_again_and_again, send_on_each};
use crate::PROGRAM;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use test_support::{Client, TIMEOUT};

/// Connections with a body each, more than fit `--body-mib` whatever is counted for one.
const BODIES: usize = 66;
/// The body that each of them announces, in bytes.
const ANNOUNCED_BYTES: usize = 4 * 1024 * 1024;
const HEADS: usize = 1000;
/// A head that does not end; one more header of the same size is refused.
const HEAD_BYTES: usize = 125_000;
/// What a server for few clients admits.
const CONNECTIONS_MAX: usize = 200;
const ADMIN_CONNECTIONS: usize = 100;

/// The head of an insert with a signature that may do nothing but add to one table.
fn insert_by_signature(scene: &Scene, framing: &str) -> Vec<u8> {
    let service = format!("http://{}/{}", scene.server.address, scene.hostile.name);
    let accounts = scene.accounts();
    let arguments = ["table", "tiny", "--permissions", "a", "--expiry", "1h", "--account", &scene.hostile.name];
    let arguments = [&arguments[..], &["--accounts", &accounts, "--endpoint", &service]].concat();
    let made = PROGRAM.folder().run("sas", &arguments, &[]);
    let url = made.stdout.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let target = url.strip_prefix(&format!("http://{}", scene.server.address)).unwrap();
    let usual = "Host: 127.0.0.1\r\nx-ms-version: 2019-02-02\r\nContent-Type: application/json";
    let accept = "Accept: application/json;odata=nometadata";
    format!("POST {target} HTTP/1.1\r\n{usual}\r\n{accept}\r\n{framing}\r\n\r\n").into_bytes()
}

#[test]
fn bodies_that_are_announced_and_do_not_come() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let insert = insert_by_signature(&scene, &format!("Content-Length: {ANNOUNCED_BYTES}"));
    scene.withstand(|scene| {
        let streams = send_on_each(&scene.server.address, BODIES, &[&insert[..], b"{"].concat());
        send_again_and_again(streams, b" ".to_vec())
    });
}

#[test]
fn bodies_in_tiny_chunks() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let insert = insert_by_signature(&scene, "Transfer-Encoding: chunked");
    scene.withstand(|scene| {
        let streams = send_on_each(&scene.server.address, BODIES, &[&insert[..], b"1\r\n{\r\n"].concat());
        send_again_and_again(streams, b"1\r\n \r\n".repeat(1000))
    });
}

#[test]
fn bodies_that_are_almost_complete() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let mut insert = insert_by_signature(&scene, &format!("Content-Length: {ANNOUNCED_BYTES}"));
    insert.resize(insert.len() + ANNOUNCED_BYTES - 1, b' ');
    scene.withstand(|scene| send_on_each(&scene.server.address, AT_ONE_TIME, &insert));
}

#[test]
fn heads_that_do_not_end() {
    let scene = Scene::start(&[]);
    let mut head = scene.hostile.head("GET", "/Tables", &[]).trim_end().to_owned();
    head += "\r\nx: ";
    head += &"x".repeat(HEAD_BYTES - head.len());
    scene.withstand(|scene| send_on_each(&scene.server.address, HEADS, head.as_bytes()));
}

fn few_connections() -> Scene {
    Scene::start(&["--max-connections", &CONNECTIONS_MAX.to_string()])
}

#[test]
fn connections_on_which_nothing_is_sent() {
    let scene = few_connections();
    scene.withstand(|scene| reconnect_again_and_again(&scene.server.address, 2 * CONNECTIONS_MAX, b""));
}

#[test]
fn connections_that_are_idle_after_a_request() {
    let scene = few_connections();
    let request = b"GET /hostile/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    scene.withstand(|scene| reconnect_again_and_again(&scene.server.address, 2 * CONNECTIONS_MAX, request));
}

#[test]
fn connections_with_half_a_head() {
    let scene = few_connections();
    let request = b"GET /hostile/Tables HTTP/1.1\r\nHost: ";
    scene.withstand(|scene| reconnect_again_and_again(&scene.server.address, 2 * CONNECTIONS_MAX, request));
}

#[test]
fn connections_that_come_and_go() {
    let scene = Scene::start(&[]);
    let request = scene.hostile.head("GET", "/Tables", &[]).into_bytes();
    scene.withstand(|scene| {
        for number in 0..3000 {
            let mut stream = connect(&scene.server.address);
            stream.write_all(&request[..request.len() * (number % 3) / 2]).unwrap();
            if number % 2 == 0 {
                let _ = stream.shutdown(Shutdown::Write);
            }
        }
    });
}

#[test]
fn requests_without_end_on_one_connection() {
    let scene = Scene::start(&[]);
    let requests = scene.hostile.head("GET", "/Tables", &[]).repeat(200).into_bytes();
    scene.withstand(|scene| {
        let streams = (0..AT_ONE_TIME).map(|_| connect(&scene.server.address)).collect();
        send_again_and_again(streams, requests)
    });
}

#[test]
fn idle_connections_to_the_admin_listener() {
    let scene = Scene::start(&["--admin", "127.0.0.1:0"]);
    scene.withstand(|scene| {
        let idle: Vec<TcpStream> = (0..ADMIN_CONNECTIONS).map(|_| connect(&scene.server.admin)).collect();
        for path in ["/livez", "/healthz", "/readyz", "/metrics"] {
            let mut client = Client::connect(&scene.server.admin).unwrap();
            client.set_read_timeout(TIMEOUT);
            client.send(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(client.receive_head().unwrap().status, 200, "{path}");
        }
        idle
    });
}
