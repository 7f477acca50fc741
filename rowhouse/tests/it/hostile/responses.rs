//! Requests whose responses are much larger than what they read.

use super::scene::Scene;
use super::traffic::{AT_ONE_TIME, exchange_at_one_time, read_byte_by_byte, send_on_each};
use std::thread;

/// Entities of one page.
const PAGE: usize = 1000;
const FULL: [(&str, &str); 2] = [("Accept", "application/json;odata=fullmetadata"), ("x-ms-version", "2019-02-02")];
/// Later versions have no Atom.
const ATOM: [(&str, &str); 2] = [("Accept", "application/atom+xml"), ("x-ms-version", "2013-08-15")];
/// The longest that fits the head of a request.
const LONG_HOST_BYTES: usize = 120_000;

/// A name of the longest that DNS allows.
fn longest_name() -> String {
    let label = "h".repeat(62);
    [&label, &label, &label, &label[..61]].map(str::to_owned).join(".")
}

fn row_keys() -> Vec<String> {
    (0..PAGE).map(|number| format!("{number:03}")).collect()
}

/// The same query in each format and with each of these hosts, as often as connections attack at one time.
fn queries(scene: &Scene, path: &str, hosts: &[&str]) -> Vec<Vec<u8>> {
    let of_host = |host| {
        [FULL, ATOM]
            .map(|format| scene.hostile.head("GET", path, &[&format[..], &[("Host", host)]].concat()).into_bytes())
    };
    let each: Vec<_> = hosts.iter().flat_map(|host| of_host(*host)).collect();
    each.iter().cycle().take(AT_ONE_TIME).cloned().collect()
}

fn exchange(scene: &Scene, requests: &[Vec<u8>]) {
    let (bytes, statuses) = exchange_at_one_time(&scene.server.address, requests);
    println!("{} KiB of responses: {statuses:?}", bytes / 1024);
}

#[test]
fn pages_with_a_long_host_on_every_entity() {
    let scene = Scene::start(&[]);
    scene.fill("tiny", "p", &row_keys());
    scene.withstand(|scene| exchange(scene, &queries(scene, "/tiny", &[&"h".repeat(LONG_HOST_BYTES)])));
}

/// Each of these characters of a key has nine bytes in an address, and every entity has two addresses.
fn fill_with_long_keys(scene: &Scene) {
    let rows: Vec<_> = (0..PAGE).map(|number| format!("{number:03}{}", "\u{3042}".repeat(509))).collect();
    scene.fill("keys", &"\u{3042}".repeat(512), &rows);
}

#[test]
fn pages_of_keys_that_are_escaped() {
    let scene = Scene::start(&[]);
    fill_with_long_keys(&scene);
    scene.withstand(|scene| exchange(scene, &queries(scene, "/keys", &[&longest_name()])));
}

/// An address that names properties which no entity has.
fn select_of_absent_properties() -> String {
    let names: Vec<_> = (0..250).map(|number| format!("A{number:03}{}", "x".repeat(246))).collect();
    format!("/tiny?$select={}", names.join(","))
}

#[test]
fn pages_of_selected_properties_that_no_entity_has() {
    let scene = Scene::start(&[]);
    scene.fill("tiny", "p", &row_keys());
    let path = select_of_absent_properties();
    scene.withstand(|scene| exchange(scene, &queries(scene, &path, &["127.0.0.1"])));
}

#[test]
fn pages_of_control_characters() {
    let scene = Scene::start(&[]);
    // Two bytes of each entity's size are six in the response.
    let text = "\\u0001".repeat(32 * 1024);
    let properties: String = (0..15).map(|number| format!(",\"P{number}\":\"{text}\"")).collect();
    scene.create_table("control");
    let mut client = scene.client();
    for row in 0..4 {
        let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"{properties}}}");
        let answer = client.request("POST", "/control", &[("Prefer", "return-no-content")], entity.as_bytes());
        assert_eq!(answer.status, 204);
    }
    scene.withstand(|scene| exchange(scene, &queries(scene, "/control", &["127.0.0.1"])));
}

#[test]
fn lists_of_tables() {
    const THREADS: usize = 4;
    let scene = Scene::start(&[]);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut client = scene.client();
            scope.spawn(move || {
                for number in 0..PAGE / THREADS {
                    let body = format!("{{\"TableName\":\"t{thread}n{number}{}\"}}", "x".repeat(50));
                    let headers = [("Prefer", "return-no-content")];
                    assert_eq!(client.request("POST", "/Tables", &headers, body.as_bytes()).status, 204);
                }
            });
        }
    });
    let hosts = [longest_name(), "h".repeat(LONG_HOST_BYTES)];
    scene.withstand(|scene| exchange(scene, &queries(scene, "/Tables", &[&hosts[0], &hosts[1]])));
}

/// A batch of inserts whose response has the entities in it.
fn echoing_batch(scene: &Scene, host: &str, partition: &str, operations: usize, properties: &str) -> Vec<u8> {
    let operation = |row: usize| {
        let head = "--c\r\nContent-Type: application/http\r\n\r\nPOST /tiny HTTP/1.1";
        let entity = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"{properties}}}");
        let headers = "Accept: application/json;odata=fullmetadata\r\nContent-Type: application/json";
        format!("{head}\r\n{headers}\r\n\r\n{entity}\r\n")
    };
    let operations: String = (0..operations).map(operation).collect();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{operations}--c--\r\n--b--\r\n");
    let length = body.len().to_string();
    let headers = [("Content-Type", "multipart/mixed; boundary=b"), ("Content-Length", &length), ("Host", host)];
    [scene.hostile.head("POST", "/$batch", &headers).into_bytes(), body.into_bytes()].concat()
}

#[test]
fn batches_that_echo_a_long_host() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let host = "h".repeat(LONG_HOST_BYTES);
    let batches: Vec<_> =
        (0..AT_ONE_TIME).map(|number| echoing_batch(&scene, &host, &format!("q{number}"), 100, "")).collect();
    scene.withstand(|scene| exchange(scene, &batches));
}

/// Each character of the text is two bytes in the request and six in the response.
fn growing_batch(scene: &Scene, partition: &str) -> Vec<u8> {
    let text = "\u{e9}".repeat(32 * 1024);
    let properties: String = (0..15).map(|number| format!(",\"P{number}\":\"{text}\"")).collect();
    echoing_batch(scene, "127.0.0.1", partition, 4, &properties)
}

#[test]
fn batches_that_grow_and_whose_responses_nobody_reads() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let batches: Vec<_> = (0..AT_ONE_TIME).map(|number| growing_batch(&scene, &format!("q{number}"))).collect();
    scene.withstand(|scene| {
        let send = |batch: &Vec<u8>| send_on_each(&scene.server.address, 1, batch);
        batches.iter().flat_map(send).collect::<Vec<_>>()
    });
}

#[test]
fn pages_that_nobody_reads() {
    let scene = Scene::start(&[]);
    scene.fill("tiny", "p", &row_keys());
    let path = select_of_absent_properties();
    let query = scene.hostile.head("GET", &path, &FULL);
    scene.withstand(|scene| send_on_each(&scene.server.address, 2 * AT_ONE_TIME, query.repeat(4).as_bytes()));
}

#[test]
fn pages_that_are_read_byte_by_byte() {
    let scene = Scene::start(&[]);
    fill_with_long_keys(&scene);
    let query = scene.hostile.head("GET", "/keys", &ATOM);
    scene.withstand(|scene| {
        let streams = send_on_each(&scene.server.address, 2 * AT_ONE_TIME, query.repeat(4).as_bytes());
        read_byte_by_byte(streams)
    });
}
