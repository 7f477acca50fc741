//! Attacks with requests that are expensive to parse or to execute.

use super::scene::Scene;
use super::traffic::{CONCURRENT_CONNECTIONS, Ongoing, exchange_concurrently, send_on_each};
use super::{Attacker, longest_texts};
use std::thread;
use test_support::Account;

pub(super) type NamedRequest = (&'static str, Vec<u8>);

/// The maximum number of requests in flight for a server that serves only a few requests.
const REQUESTS_MAX: usize = 8;
/// The number of concurrent scans: more than can complete while a request waits.
const SCANS: usize = 200;
/// The number of connections that send the same request concurrently.
const EACH: usize = 4;
/// Nearly the maximum size of a head, in bytes.
const HEAD_BYTES: usize = 100_000;
/// Nearly the maximum size of a body, in bytes.
const BODY_BYTES: usize = 4_000_000;
/// Nearly the maximum size of an XML body, in bytes.
const XML_BYTES: usize = 1_000_000;
/// Nearly the maximum length of a filter, in bytes.
const FILTER_BYTES: usize = 30_000;

fn get(attacker: &Attacker, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    attacker.account.head("GET", path, headers).into_bytes()
}

fn send(attacker: &Attacker, (method, path): (&str, &str), headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let head = attacker.account.head(method, path, &[headers, &[("Content-Length", &length)]].concat());
    [head.as_bytes(), body].concat()
}

/// Returns queries with the deepest and longest filters, and some beyond the limits.
pub(super) fn filters(attacker: &Attacker) -> Vec<NamedRequest> {
    let many = |part: &str, between: &str| vec![part; FILTER_BYTES / (part.len() + between.len())].join(between);
    let nested = |depth: usize| format!("{}A%20eq%201{}", "(".repeat(depth), ")".repeat(depth));
    [
        ("too many parentheses", nested(FILTER_BYTES / 2)),
        ("the maximum number of parentheses", nested(255)),
        ("negations", "not(".repeat(FILTER_BYTES / 4)),
        ("alternatives", many("A%20eq%201", "%20or%20")),
        ("ranges", many("RowKey%20eq%20'1'", "%20or%20")),
        ("conditions", many("A%20ne%201", "%20and%20")),
        ("a long string", format!("A%20eq%20'{}'", "x".repeat(FILTER_BYTES))),
        ("quotes", format!("A%20eq%20'{}'", "''".repeat(FILTER_BYTES / 2))),
        ("nested conditions", format!("{}true{}", "(true%20and%20".repeat(200), ")".repeat(200))),
    ]
    .map(|(name, filter)| (name, get(attacker, &format!("/tiny?$filter={filter}"), &[])))
    .into()
}

pub(super) fn strange_heads(attacker: &Attacker) -> Vec<NamedRequest> {
    let long = |text: &str| text.repeat(HEAD_BYTES / text.len());
    let headers = [
        ("media ranges", "/tiny", "Accept", "application/json;q=0.5,"),
        ("parameters of a media range", "/tiny", "Accept", "application/json;"),
        ("a long request id", "/tiny", "x-ms-client-request-id", "x"),
        ("a long origin", "/tiny", "Origin", "http://x"),
        ("conditions", "/tiny(PartitionKey='',RowKey='')", "If-Match", "W/\"x\","),
        ("versions", "/tiny", "x-ms-version", "2019-02-02,"),
        ("a long credential", "/tiny", "Authorization", "Bearer x."),
    ]
    .map(|(name, path, header, part)| (name, get(attacker, path, &[(header, &long(part))])));
    let targets = [
        ("options", format!("/tiny?{}", "a&".repeat(30_000))),
        ("one option many times", format!("/tiny?{}", "$top=1&".repeat(9000))),
        ("a long selection", format!("/tiny?$select={}", ",".repeat(60_000))),
        ("a long token", format!("/tiny?NextPartitionKey={}", "1!8!".repeat(15_000))),
        ("a long key", format!("/tiny(PartitionKey='{}',RowKey='')", "%27%27".repeat(10_000))),
    ]
    .map(|(name, path)| (name, get(attacker, &path, &[])));
    headers.into_iter().chain(targets).collect()
}

/// Concatenates `start`, as many copies of `part` as fit, and `end`.
fn filled(bytes: usize, start: &str, part: &str, end: &str) -> Vec<u8> {
    let count = (bytes - start.len() - end.len()) / part.len();
    [start, &part.repeat(count), end].concat().into_bytes()
}

fn json_bodies(attacker: &Attacker) -> Vec<NamedRequest> {
    const KEY: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":";
    let escapes = longest_texts("\\u00e9");
    [
        ("arrays", filled(BODY_BYTES, KEY, "[", "")),
        ("objects", filled(BODY_BYTES, KEY, "{\"A\":", "")),
        ("members", filled(BODY_BYTES, "{", "\"A\":1,", "\"B\":1}")),
        ("annotations", filled(BODY_BYTES, "{", "\"A@odata.type\":\"Edm.Int64\",", "\"A\":\"1\"}")),
        ("a long number", filled(BODY_BYTES, KEY, "1", "}")),
        ("an unfinished escape", filled(BODY_BYTES, KEY, "\\u00", "")),
        ("the largest entity in escapes", format!("{KEY}1,{escapes}}}").into_bytes()),
    ]
    .map(|(name, body)| (name, send(attacker, ("POST", "/tiny"), &[], &body)))
    .into()
}

fn xml_bodies(attacker: &Attacker) -> Vec<NamedRequest> {
    const ENTRY: &str = "<entry xmlns=\"http://www.w3.org/2005/Atom\">";
    const ATOM: [(&str, &str); 2] = [("Content-Type", "application/atom+xml"), ("x-ms-version", "2013-08-15")];
    let entries = [
        ("elements", filled(BODY_BYTES, ENTRY, "<a>", "")),
        ("attributes", filled(BODY_BYTES, "<entry ", "a='' ", "/>")),
        ("namespaces", filled(BODY_BYTES, "<entry ", "xmlns:a='b' ", "/>")),
        ("XML entities", filled(BODY_BYTES, "<!DOCTYPE a [<!ENTITY a \"b\">]><entry>", "&a;", "</entry>")),
        ("comments", filled(BODY_BYTES, ENTRY, "<!-- -->", "</entry>")),
    ]
    .map(|(name, body)| (name, send(attacker, ("POST", "/tiny"), &ATOM, &body)));
    let policies = filled(XML_BYTES, "<SignedIdentifiers>", "<SignedIdentifier>", "");
    let properties = filled(XML_BYTES, "<StorageServiceProperties>", "<Cors>", "");
    let documents = [
        ("policies", send(attacker, ("PUT", "/tiny?comp=acl"), &[], &policies)),
        ("properties", send(attacker, ("PUT", "/?restype=service&comp=properties"), &[], &properties)),
    ];
    entries.into_iter().chain(documents).collect()
}

fn batches(attacker: &Attacker) -> Vec<NamedRequest> {
    const START: &str = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    const PART: &str = "--c\r\nContent-Type: application/http\r\n\r\nGET / HTTP/1.1\r\n\r\n\r\n";
    const END: &str = "--c--\r\n--b--\r\n";
    const OTHER_START: &str = "--b\ncontent-type:multipart/mixed;boundary=c\n\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    [
        ("parts", filled(BODY_BYTES, START, PART, END)),
        ("boundaries", filled(BODY_BYTES, START, "--c\r\n", END)),
        // A former bug: for every boundary, each of these was reread up to the end of the body.
        ("near-boundaries", filled(BODY_BYTES, "--b\r\n", "}--bx", "")),
        (
            "changesets before spaces",
            filled(BODY_BYTES, &OTHER_START.repeat(BODY_BYTES / 2 / OTHER_START.len()), " ", ""),
        ),
        ("a long header of a part", filled(BODY_BYTES, &format!("{START}--c\r\nx: "), "x", "")),
        ("headers of a part", filled(BODY_BYTES, &format!("{START}--c\r\n"), "x: y\r\n", "")),
    ]
    .map(|(name, body)| (name, send(attacker, ("POST", "/$batch"), &headers, &body)))
    .into()
}

pub(super) fn anonymous(attacker: &Attacker) -> Vec<NamedRequest> {
    const OTHER_KEY: &str = "b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXI=";
    let path = format!("/{}", "t".repeat(60_000));
    let wrong = Account::new(&attacker.account.name, OTHER_KEY).head("GET", &path, &[]);
    let none = format!("GET /hostile{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let asked = "x-a,".repeat(HEAD_BYTES / 4);
    let preflight = format!(
        "OPTIONS /hostile/tiny HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://a\r\nAccess-Control-Request-Method: GET\r\n\
         Access-Control-Request-Headers: {asked}\r\n\r\n"
    );
    [("no credential", none), ("a wrong signature", wrong), ("a preflight request", preflight)]
        .map(|(name, text)| (name, text.into_bytes()))
        .into()
}

pub(super) fn exchange_each(attacker: &Attacker, requests: Vec<NamedRequest>) {
    for (name, request) in requests {
        let (bytes, statuses) = exchange_concurrently(&attacker.address, &vec![request; EACH]);
        println!("{name}: {} KiB, {statuses:?}", bytes / 1024);
    }
}

/// Writes entities of nearly 1 MiB faster than they can be flushed.
pub(super) fn write_large_entities(attacker: &Attacker) {
    const ENTITIES: usize = 40;
    let body = format!("{{{}}}", longest_texts("x"));
    thread::scope(|scope| {
        for thread in 0..CONCURRENT_CONNECTIONS {
            let (body, mut client) = (&body, attacker.client());
            scope.spawn(move || {
                for number in 0..ENTITIES {
                    let path = format!("/tiny(PartitionKey='{thread}',RowKey='{number}')");
                    let answer = client.request("PUT", &path, &[], body.as_bytes());
                    assert!([204, 503].contains(&answer.status), "{answer:?}");
                }
            });
        }
    });
}

fn with_table(rows: usize) -> Scene {
    let scene = Scene::start(&[]);
    let rows: Vec<_> = (0..rows).map(|number| number.to_string()).collect();
    scene.attacker.fill("tiny", "p", &rows);
    scene
}

#[test]
fn deep_and_long_filters() {
    with_table(500).withstand(|attacker| exchange_each(attacker, filters(attacker)));
}

#[test]
fn long_headers_and_options() {
    with_table(500).withstand(|attacker| exchange_each(attacker, strange_heads(attacker)));
}

#[test]
fn json_that_is_hard_to_read() {
    with_table(0).withstand(|attacker| exchange_each(attacker, json_bodies(attacker)));
}

#[test]
fn xml_that_is_hard_to_read() {
    with_table(0).withstand(|attacker| exchange_each(attacker, xml_bodies(attacker)));
}

#[test]
fn batches_that_are_hard_to_read() {
    with_table(0).withstand(|attacker| exchange_each(attacker, batches(attacker)));
}

#[test]
fn anonymous_requests_with_long_paths() {
    with_table(0).withstand(|attacker| {
        for _ in 0..20 {
            exchange_each(attacker, anonymous(attacker));
        }
    });
}

#[test]
fn many_large_writes() {
    with_table(0).withstand(write_large_entities);
}

/// More scans than the maximum number of requests in flight, each of which runs as long as a query may.
#[test]
fn scans_that_find_nothing() {
    let scene = Scene::start(&["--max-requests", &REQUESTS_MAX.to_string()]);
    let rows: Vec<_> = (0..5000).map(|number| number.to_string()).collect();
    scene.attacker.fill("large", "p", &rows);
    let filter = vec!["A%20eq%201"; 2000].join("%20or%20");
    let query = get(&scene.attacker, &format!("/large?$filter={filter}"), &[]);
    scene.withstand(|attacker| {
        let address = attacker.address.clone();
        let first = send_on_each(&address, SCANS, &query);
        let next = Ongoing::start(move || _ = exchange_concurrently(&address, &vec![query.clone(); SCANS]));
        (first, next)
    });
}
