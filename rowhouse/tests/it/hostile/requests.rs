//! Requests that are hard to read or long to carry out.

use super::scene::Scene;
use super::traffic::{AT_ONE_TIME, Ongoing, exchange_at_one_time};
use std::fmt::Write;

/// What one account may have in work at one time in the test of long scans.
const REQUESTS_MAX: usize = 32;

fn get(scene: &Scene, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    scene.hostile.head("GET", path, headers).into_bytes()
}

fn send(scene: &Scene, (method, path): (&str, &str), headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let head = scene.hostile.head(method, path, &[headers, &[("Content-Length", &length)]].concat());
    [head.as_bytes(), body].concat()
}

/// Sends each request on several connections at one time; returns the statuses.
fn exchange_each(scene: &Scene, requests: Vec<(&str, Vec<u8>)>) {
    for (name, request) in requests {
        let (bytes, statuses) = exchange_at_one_time(&scene.server.address, &vec![request; AT_ONE_TIME]);
        println!("{name}: {} KiB, {statuses:?}", bytes / 1024);
        assert!(!statuses.iter().any(|status| status.ends_with("500")), "{name}: {statuses:?}");
    }
}

/// Each of the longest filters that a target has room for.
fn filters() -> Vec<(&'static str, String)> {
    let many = |part: &str, between: &str| vec![part; 30_000 / (part.len() + between.len())].join(between);
    vec![
        ("deep parentheses", format!("{}A%20eq%201{}", "(".repeat(15_000), ")".repeat(15_000))),
        ("deep negations", format!("{}A", "not(".repeat(7500))),
        ("the deepest allowed", format!("{}A%20eq%201{}", "(".repeat(255), ")".repeat(255))),
        ("many alternatives", many("A%20eq%201", "%20or%20")),
        ("many ranges", many("RowKey%20eq%20'1'", "%20or%20")),
        ("many conditions", many("A%20ne%201", "%20and%20")),
        ("a long text", format!("A%20eq%20'{}'", "x".repeat(30_000))),
        ("quotes", format!("A%20eq%20'{}'", "''".repeat(15_000))),
        ("many brackets", format!("{}true{}", "(true%20and%20".repeat(200), ")".repeat(200))),
    ]
}

#[test]
fn deep_and_long_filters() {
    let scene = Scene::start(&[]);
    let rows: Vec<_> = (0..500).map(|number| number.to_string()).collect();
    scene.fill("tiny", "p", &rows);
    scene.withstand(|scene| {
        let query = |(name, filter): (_, String)| (name, get(scene, &format!("/tiny?$filter={filter}"), &[]));
        exchange_each(scene, filters().into_iter().map(query).collect());
    });
}

#[test]
fn strange_heads() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let long = |text: &str| text.repeat(100_000 / text.len());
    let languages = long("application/json;q=0.5,");
    scene.withstand(|scene| {
        let with = |path: &str, name: &str, value: &str| get(scene, path, &[(name, value)]);
        exchange_each(
            scene,
            vec![
                ("many media ranges", with("/tiny", "Accept", &languages)),
                ("one long media range", with("/tiny", "Accept", &long("application/json;"))),
                ("a long request id", with("/tiny", "x-ms-client-request-id", &long("x"))),
                ("a long origin", with("/tiny", "Origin", &long("http://x"))),
                ("long conditions", with("/tiny(PartitionKey='',RowKey='')", "If-Match", &long("W/\"x\","))),
                ("a long version", with("/tiny", "x-ms-version", &long("2019-02-02,"))),
                ("a long credential", with("/tiny", "Authorization", &long("Bearer x."))),
                ("many options", get(scene, &format!("/tiny?{}", "a&".repeat(30_000)), &[])),
                ("one option many times", get(scene, &format!("/tiny?{}", "$top=1&".repeat(9000)), &[])),
                ("a long selection", get(scene, &format!("/tiny?$select={}", ",".repeat(60_000)), &[])),
                ("a long token", get(scene, &format!("/tiny?NextPartitionKey={}", "1!8!".repeat(15_000)), &[])),
                (
                    "a long key",
                    get(scene, &format!("/tiny(PartitionKey='{}',RowKey='')", "%27%27".repeat(10_000)), &[]),
                ),
            ],
        );
    });
}

/// A body of nearly 4 MiB: this beginning, as often this part as there is room, and this end.
fn body_of(start: &str, part: &str, end: &str) -> Vec<u8> {
    const BYTES: usize = 4_000_000;
    let mut body = start.as_bytes().to_vec();
    body.extend_from_slice(part.repeat((BYTES - start.len() - end.len()) / part.len()).as_bytes());
    body.extend_from_slice(end.as_bytes());
    body
}

/// The properties that an entity of the largest size has, each character of which is written as an escape.
fn escapes() -> Vec<u8> {
    let text = "\\u00e9".repeat(32 * 1024);
    let mut body = String::from("{\"PartitionKey\":\"p\",\"RowKey\":\"r\"");
    for number in 0..15 {
        write!(body, ",\"P{number}\":\"{text}\"").unwrap();
    }
    (body + "}").into_bytes()
}

#[test]
fn bodies_that_are_hard_to_read() {
    let scene = Scene::start(&[]);
    scene.create_table("tiny");
    let key = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":";
    let parts = "--c\r\nContent-Type: application/http\r\n\r\nGET / HTTP/1.1\r\n\r\n\r\n";
    let batch = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    let entry = "<entry xmlns=\"http://www.w3.org/2005/Atom\">";
    scene.withstand(|scene| {
        let post = |body: &[u8]| send(scene, ("POST", "/tiny"), &[], body);
        let atom = [("Content-Type", "application/atom+xml"), ("x-ms-version", "2013-08-15")];
        let atom = |body: &[u8]| send(scene, ("POST", "/tiny"), &atom, body);
        let parts_of =
            |body: &[u8]| send(scene, ("POST", "/$batch"), &[("Content-Type", "multipart/mixed; boundary=b")], body);
        let xml = |path, body: &[u8]| send(scene, ("PUT", path), &[], body);
        exchange_each(
            scene,
            vec![
                ("deep JSON", post(&body_of(key, "[", ""))),
                ("deep objects", post(&body_of(key, "{\"A\":", ""))),
                ("many members", post(&body_of("{", "\"A\":1,", "\"B\":1}"))),
                ("many annotations", post(&body_of("{", "\"A@odata.type\":\"Edm.Int64\",", "\"A\":\"1\"}"))),
                ("a long number", post(&body_of(key, "1", "}"))),
                ("escapes", post(&escapes())),
                ("half a character", post(&body_of(key, "\\u00", ""))),
                ("deep Atom", atom(&body_of(entry, "<a>", ""))),
                ("attributes", atom(&body_of("<entry ", "a='' ", "/>"))),
                ("namespaces", atom(&body_of("<entry ", "xmlns:a='b' ", "/>"))),
                ("entities of XML", atom(&body_of("<!DOCTYPE a [<!ENTITY a \"b\">]><entry>", "&a;", "</entry>"))),
                ("comments", atom(&body_of(entry, "<!-- -->", "</entry>"))),
                ("many parts", parts_of(&body_of(batch, parts, "--c--\r\n--b--\r\n"))),
                ("many boundaries", parts_of(&body_of(batch, "--c\r\n", "--c--\r\n--b--\r\n"))),
                ("a long part", parts_of(&body_of(&format!("{batch}--c\r\nx: "), "x", ""))),
                ("many headers of a part", parts_of(&body_of(&format!("{batch}--c\r\n"), "x: y\r\n", ""))),
                (
                    "policies",
                    xml("/tiny?comp=acl", &body_of("<SignedIdentifiers>", "<SignedIdentifier>", "")[..1_000_000]),
                ),
                ("properties", xml("/?restype=service&comp=properties", &body_of("<a>", "<a>", "")[..1_000_000])),
            ],
        );
    });
}

#[test]
fn anonymous_requests_with_long_paths() {
    let scene = Scene::start(&[]);
    let path = format!("/hostile/{}", "t".repeat(60_000));
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let forged = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: SharedKey hostile:AAAA\r\n\r\n");
    scene.withstand(|scene| {
        for request in [request, forged] {
            for _ in 0..5 {
                exchange_at_one_time(&scene.server.address, &vec![request.clone().into_bytes(); AT_ONE_TIME]);
            }
        }
    });
}

/// As many scans as may be in work, each of which takes as long as a query may.
#[test]
fn scans_that_find_nothing() {
    let scene = Scene::start(&["--max-requests", &REQUESTS_MAX.to_string()]);
    let rows: Vec<_> = (0..5000).map(|number| number.to_string()).collect();
    scene.fill("large", "p", &rows);
    let filter = vec!["A%20eq%201"; 2000].join("%20or%20");
    let query = get(&scene, &format!("/large?$filter={filter}"), &[]);
    scene.withstand(|scene| {
        let address = scene.server.address.clone();
        Ongoing::start(move || _ = exchange_at_one_time(&address, &vec![query.clone(); 2 * REQUESTS_MAX]))
    });
}
