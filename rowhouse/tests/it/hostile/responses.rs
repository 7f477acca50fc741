//! Attacks with requests whose responses are much larger than the data they read.

use super::scene::Scene;
use super::traffic::{self, CONCURRENT_CONNECTIONS, Ongoing, exchange_concurrently, send_on_each};
use super::{Attacker, longest_texts};
use std::net::TcpStream;
use std::thread;

const PAGE: usize = 1000;
const FULL: [(&str, &str); 2] = [("Accept", "application/json;odata=fullmetadata"), ("x-ms-version", "2019-02-02")];
/// Later versions do not support Atom.
const ATOM: [(&str, &str); 2] = [("Accept", "application/atom+xml"), ("x-ms-version", "2013-08-15")];
/// The length of the longest host name that fits in the head of a request.
const LONG_HOST_BYTES: usize = 120_000;

fn longest_name() -> String {
    let label = "h".repeat(62);
    [&label, &label, &label, &label[..61]].map(str::to_owned).join(".")
}

/// Returns the same query in each format and with each of the given hosts, once for each connection of the attack.
fn queries(attacker: &Attacker, path: &str, hosts: &[&str]) -> Vec<Vec<u8>> {
    let of_host = |host| {
        [FULL, ATOM]
            .map(|format| attacker.account.head("GET", path, &[&format[..], &[("Host", host)]].concat()).into_bytes())
    };
    let each: Vec<_> = hosts.iter().flat_map(|host| of_host(*host)).collect();
    each.iter().cycle().take(CONCURRENT_CONNECTIONS).cloned().collect()
}

fn exchange(attacker: &Attacker, requests: &[Vec<u8>]) {
    let (bytes, statuses) = exchange_concurrently(&attacker.address, requests);
    println!("{} KiB of responses: {statuses:?}", bytes / 1024);
}

pub(super) fn fill_with_tiny_entities(attacker: &Attacker) {
    let rows: Vec<_> = (0..PAGE).map(|number| format!("{number:03}")).collect();
    attacker.fill("tiny", "p", &rows);
}

/// Creates entities whose keys consist of characters that take nine bytes in a URL; every entity in a response has two
/// URLs.
pub(super) fn fill_with_long_keys(attacker: &Attacker) {
    let rows: Vec<_> = (0..PAGE).map(|number| format!("{number:03}{}", "\u{3042}".repeat(509))).collect();
    attacker.fill("keys", &"\u{3042}".repeat(512), &rows);
}

/// Creates entities of nearly 1 MiB. Every two bytes of their size take six bytes in a response.
fn fill_with_control_characters(attacker: &Attacker) {
    let properties = longest_texts("\\u0001");
    attacker.create_table("control");
    let mut client = attacker.client();
    for row in 0..4 {
        let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",{properties}}}");
        let answer = client.request("POST", "/control", &[("Prefer", "return-no-content")], entity.as_bytes());
        assert_eq!(answer.status, 204);
    }
}

fn create_tables(attacker: &Attacker) {
    const THREADS: usize = 4;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut client = attacker.client();
            scope.spawn(move || {
                for number in 0..PAGE / THREADS {
                    let body = format!("{{\"TableName\":\"t{thread}n{number}{}\"}}", "x".repeat(50));
                    let headers = [("Prefer", "return-no-content")];
                    assert_eq!(client.request("POST", "/Tables", &headers, body.as_bytes()).status, 204);
                }
            });
        }
    });
}

/// Reads pages in which each entity contains the longest host name that fits in the head of a request.
pub(super) fn read_with_a_long_host(attacker: &Attacker) {
    exchange(attacker, &queries(attacker, "/tiny", &[&"h".repeat(LONG_HOST_BYTES)]));
}

/// Reads pages in which each entity contains the longest host name that DNS allows, and escaped keys.
pub(super) fn read_long_keys(attacker: &Attacker) {
    exchange(attacker, &queries(attacker, "/keys", &[&longest_name()]));
}

fn select_of_absent_properties() -> String {
    let names: Vec<_> = (0..250).map(|number| format!("A{number:03}{}", "x".repeat(246))).collect();
    format!("/tiny?$select={}", names.join(","))
}

pub(super) fn read_absent_properties(attacker: &Attacker) {
    exchange(attacker, &queries(attacker, &select_of_absent_properties(), &["127.0.0.1"]));
}

/// Like [`read_absent_properties`], with clients that do not read.
pub(super) fn leave_pages_unread(attacker: &Attacker) -> Vec<TcpStream> {
    let query = attacker.account.head("GET", &select_of_absent_properties(), &FULL);
    send_on_each(&attacker.address, 2 * CONCURRENT_CONNECTIONS, query.repeat(4).as_bytes())
}

/// Like [`read_long_keys`], with clients that read one byte at a time.
pub(super) fn read_byte_by_byte(attacker: &Attacker) -> Ongoing {
    let query = attacker.account.head("GET", "/keys", &ATOM);
    traffic::read_byte_by_byte(send_on_each(&attacker.address, 2 * CONCURRENT_CONNECTIONS, query.repeat(4).as_bytes()))
}

fn echoing_batch(attacker: &Attacker, host: &str, partition: &str, operations: usize, properties: &str) -> Vec<u8> {
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
    [attacker.account.head("POST", "/$batch", &headers).into_bytes(), body.into_bytes()].concat()
}

/// Sends batches of 22 KB whose response contains a long host for every operation.
pub(super) fn echo_a_long_host(attacker: &Attacker) {
    let host = "h".repeat(LONG_HOST_BYTES);
    let batch = |number| echoing_batch(attacker, &host, &format!("q{number}"), 100, "");
    exchange(attacker, &(0..CONCURRENT_CONNECTIONS).map(batch).collect::<Vec<_>>());
}

/// Sends batches whose characters take two bytes in the request and six in the response, which is not read.
pub(super) fn leave_growing_batches_unread(attacker: &Attacker) -> Vec<TcpStream> {
    let properties = format!(",{}", longest_texts("\u{e9}"));
    let batch = |number| echoing_batch(attacker, "127.0.0.1", &format!("q{number}"), 4, &properties);
    (0..CONCURRENT_CONNECTIONS).flat_map(|number| send_on_each(&attacker.address, 1, &batch(number))).collect()
}

fn filled(fill: impl FnOnce(&Attacker)) -> Scene {
    let scene = Scene::start(&[]);
    fill(&scene.attacker);
    scene
}

#[test]
fn pages_with_a_long_host_on_every_entity() {
    filled(fill_with_tiny_entities).withstand(read_with_a_long_host);
}

#[test]
fn pages_of_keys_that_are_escaped() {
    filled(fill_with_long_keys).withstand(read_long_keys);
}

#[test]
fn pages_of_selected_properties_that_no_entity_has() {
    filled(fill_with_tiny_entities).withstand(read_absent_properties);
}

#[test]
fn pages_of_control_characters() {
    filled(fill_with_control_characters)
        .withstand(|attacker| exchange(attacker, &queries(attacker, "/control", &["127.0.0.1"])));
}

#[test]
fn lists_of_tables() {
    let hosts = [longest_name(), "h".repeat(LONG_HOST_BYTES)];
    filled(create_tables)
        .withstand(|attacker| exchange(attacker, &queries(attacker, "/Tables", &[&hosts[0], &hosts[1]])));
}

#[test]
fn batches_that_echo_a_long_host() {
    filled(|attacker| attacker.create_table("tiny")).withstand(echo_a_long_host);
}

#[test]
fn batches_that_grow_and_whose_responses_nobody_reads() {
    filled(|attacker| attacker.create_table("tiny")).withstand(leave_growing_batches_unread);
}

#[test]
fn pages_that_nobody_reads() {
    filled(fill_with_tiny_entities).withstand(leave_pages_unread);
}

#[test]
fn pages_that_are_read_byte_by_byte() {
    filled(fill_with_long_keys).withstand(read_byte_by_byte);
}
