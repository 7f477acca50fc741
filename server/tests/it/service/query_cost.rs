//! Tests of `x-ms-rowhouse-explain`: a client can request the cost of a query and the reasons for this cost.

use crate::Server;
use serde_json::{Value, json};
use test_support::{ACCOUNT, Client, KEY, Response, head};
use wire::sas::Fields;
use wire::signing::AccountKey;

const HEADER: &str = "x-ms-rowhouse-explain";
const ASKED: (&str, &str) = ("x-ms-rowhouse-explain", "1");

fn server() -> Server {
    let server = Server::with_tables(&["tab"]);
    let mut client = server.client();
    for partition in ["a", "b", "c"] {
        for row in 1..=4 {
            insert(&mut client, partition, &format!("r{row}"));
        }
    }
    server
}

fn insert(client: &mut Client, partition: &str, row: &str) {
    let entity = json!({ "PartitionKey": partition, "RowKey": row, "Weight": 3 });
    assert_eq!(client.request("POST", "/tab", &[], entity.to_string().as_bytes()).status, 201);
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded + &char::from(byte).to_string(),
        _ => encoded + &format!("%{byte:02X}"),
    })
}

fn query(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    let head = head("GET", path, headers);
    let mut client = server.client();
    client.send(head.as_bytes()).unwrap();
    client.receive().unwrap()
}

/// Returns the cost of a query, without its duration.
fn cost(response: &Response) -> Value {
    let text = response.header(HEADER).unwrap();
    assert!(text.is_ascii() && text.len() < 8 * 1024);
    let mut cost: Value = serde_json::from_str(text).unwrap();
    let microseconds = cost.as_object_mut().unwrap().remove("microseconds").unwrap();
    assert!(microseconds.as_u64().unwrap() < 60_000_000, "{microseconds}");
    assert_eq!(cost["returned"].as_u64().unwrap(), response.json()["value"].as_array().unwrap().len() as u64);
    cost
}

fn cost_of(server: &Server, filter: &str) -> Value {
    cost(&query(server, &format!("/tab?$filter={}", encoded(filter)), &[ASKED]))
}

#[test]
fn each_kind_of_query() {
    let server = server();
    let partition = json!([{"from": ["b"], "to": ["b\u{1}"]}]);
    for (filter, plan, ranges, examined, returned, advice) in [
        (
            "PartitionKey eq 'b' and RowKey eq 'r2'",
            "point",
            json!([{"from": ["b", "r2"], "to": ["b", "r2\0"]}]),
            1,
            1,
            "",
        ),
        ("RowKey eq 'r1'", "table scan", json!([{"from": null, "to": null}]), 12, 3, "does not restrict PartitionKey"),
        ("PartitionKey eq 'b'", "row range", partition.clone(), 4, 4, ""),
        ("PartitionKey eq 'b' and Weight eq 2", "row range", partition, 4, 0, "does not restrict RowKey"),
    ] {
        let count = ranges.as_array().unwrap().len();
        let expected =
            json!({"plan": plan, "ranges": ranges, "rangeCount": count, "examined": examined, "returned": returned});
        let mut cost = cost_of(&server, filter);
        let given = cost.as_object_mut().unwrap().remove("advice").unwrap_or_default();
        assert_eq!(cost, expected, "{filter}");
        assert_eq!(given.is_null(), advice.is_empty(), "{filter}: {given}");
        assert!(given.as_str().unwrap_or_default().contains(advice), "{filter}: {given}");
    }
    let whole = cost(&query(&server, "/tab", &[ASKED]));
    assert_eq!((&whole["plan"], &whole["examined"]), (&json!("table scan"), &json!(12)));
    let partition = cost(&query(&server, "/tab(PartitionKey='b')?$filter=RowKey%20gt%20'r3'", &[ASKED]));
    assert_eq!(partition["examined"], json!(4), "{partition}");
    assert_eq!(
        (&partition["plan"], &partition["ranges"]),
        (&json!("row range"), &json!([{"from": ["b"], "to": ["b\u{1}"]}]))
    );
}

/// Every alternative is a separate lookup, and its condition is decided there.
#[test]
fn many_named_entities_cost_as_many_lookups() {
    let server = server();
    let mut client = server.client();
    for number in 0..300 {
        insert(&mut client, "many", &format!("{number:03}"));
    }
    let named =
        |number: usize| format!("PartitionKey eq 'many' and RowKey eq '{number:03}' and Weight eq {}", 3 + number % 2);
    let filter =
        (0..600).step_by(2).map(named).chain(["PartitionKey eq 'a'".to_owned()]).collect::<Vec<_>>().join(" or ");
    let cost = cost_of(&server, &filter);
    let figures = ["plan", "rangeCount", "examined", "returned", "advice"].map(|figure| cost[figure].clone());
    assert_eq!(figures, [json!("ranges"), json!(301), json!(154), json!(154), Value::Null]);
    let answer = query(&server, &format!("/tab?$filter={}", encoded(&filter)), &[]).json();
    let rows: Vec<_> =
        answer["value"].as_array().unwrap().iter().map(|entity| entity["RowKey"].as_str().unwrap()).collect();
    let expected: Vec<_> =
        (1..=4).map(|row| format!("r{row}")).chain((0..300).step_by(2).map(|row| format!("{row:03}"))).collect();
    assert_eq!(rows, expected);
}

#[test]
fn pages_cost_what_they_read() {
    let server = server();
    let first = query(&server, "/tab?$top=5", &[ASKED]);
    assert_eq!(cost(&first)["returned"], json!(5));
    let token = |name: &str| encoded(first.header(name).unwrap());
    let (partition, row) = (token("x-ms-continuation-nextpartitionkey"), token("x-ms-continuation-nextrowkey"));
    let next = query(&server, &format!("/tab?NextPartitionKey={partition}&NextRowKey={row}"), &[ASKED]);
    assert_eq!((&cost(&next)["examined"], &cost(&next)["returned"]), (&json!(7), &json!(7)));
    // Every format has the header, and a projection changes nothing.
    for accept in ["application/json;odata=fullmetadata", "application/json;odata=nometadata"] {
        assert_eq!(cost(&query(&server, "/tab?$select=Weight", &[ASKED, ("Accept", accept)]))["returned"], json!(12));
    }
}

#[test]
fn only_a_client_that_asks_gets_it_and_only_for_entities() {
    let server = server();
    assert_eq!(query(&server, "/tab", &[]).header(HEADER), None);
    for value in ["0", "", "true", "11", "1, 1"] {
        assert_eq!(query(&server, "/tab", &[(HEADER, value)]).header(HEADER), None, "{value}");
    }
    for path in ["/Tables", "/Tables('tab')", "/tab(PartitionKey='a',RowKey='r1')"] {
        let response = query(&server, path, &[ASKED]);
        assert_eq!((response.status, response.header(HEADER)), (200, None), "{path}");
    }
}

#[test]
fn a_query_that_failed_says_nothing() {
    let server = server();
    let filter = encoded(&format!("PartitionKey eq '{}", "x".repeat(20_000)));
    for (path, status) in [
        ("/none", 404),
        ("/tab?$filter=PartitionKey%20eq", 400),
        ("/tab?$top=x", 400),
        ("/tab?$orderby=RowKey", 501),
        (&*format!("/tab?$filter={filter}"), 400),
    ] {
        let response = query(&server, path, &[ASKED]);
        assert_eq!((response.status, response.header(HEADER)), (status, None), "{path}");
    }
    let unsigned = query(&server, "/tab", &[ASKED, ("Authorization", "SharedKey devstoreaccount1:AAAA")]);
    assert_eq!((unsigned.status, unsigned.header(HEADER)), (403, None));
}

fn query_of_range(server: &Server, filter: &str) -> Response {
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "tab".into(),
        permissions: "r".into(),
        expiry: "2999-01-01".into(),
        start_partition: "b".into(),
        start_row: "r2".into(),
        end_partition: "b".into(),
        end_row: "r3".into(),
        ..Fields::default()
    };
    let token = fields.sign(ACCOUNT, &AccountKey::parse(KEY).unwrap()).unwrap();
    let mut client = server.client();
    let filter = if filter.is_empty() { String::new() } else { format!("$filter={}&", encoded(filter)) };
    client
        .send(
            format!(
                "GET /{ACCOUNT}/tab?{filter}{token} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n{HEADER}: 1\r\n\r\n"
            )
            .as_bytes(),
        )
        .unwrap();
    client.receive().unwrap()
}

#[test]
fn a_signature_for_a_key_range_shows_no_key_outside_it() {
    let server = server();
    let own = json!([{"from": ["b", "r2"], "to": ["b", "r3\0"]}]);
    for (filter, plan, ranges, examined) in [
        ("", "row range", own.clone(), 2),
        ("Weight eq 3", "row range", own, 2),
        ("RowKey eq 'r1' and PartitionKey eq 'b'", "nothing", json!([]), 0),
    ] {
        let cost = cost(&query_of_range(&server, filter));
        assert_eq!((&cost["plan"], &cost["ranges"]), (&json!(plan), &ranges), "{filter}");
        assert_eq!(cost["examined"], json!(examined), "{filter}");
    }
}

#[test]
fn hostile_keys_and_filters_give_a_bounded_header() {
    let server = server();
    let mut client = server.client();
    let key = "é😀'\"\u{2028}<img onerror=alert(1)>\u{FFFD}";
    insert(&mut client, key, key);
    let quoted = key.replace('\'', "''");
    let cost = cost_of(&server, &format!("PartitionKey eq '{quoted}' and RowKey eq '{quoted}'"));
    assert_eq!(cost["ranges"], json!([{"from": [key, key], "to": [key, format!("{key}\0")]}]));
    assert_eq!(cost["returned"], json!(1));
    // Characters that no key can have.
    let cost = cost_of(&server, "PartitionKey ge 'a\r\nx-injected: yes\u{7F}'");
    assert_eq!(cost["ranges"][0]["from"], json!(["a\r\nx-injected: yes\u{7F}"]));
    // A request of the maximum length.
    let response = query(
        &server,
        &format!("/tab?$filter={}", encoded(&format!("PartitionKey ge '{}'", "x".repeat(25_000)))),
        &[ASKED],
    );
    assert_eq!(cost_shown(&response), Some(format!("{}…", "x".repeat(64))));
}

fn cost_shown(response: &Response) -> Option<String> {
    cost(response)["ranges"][0]["from"][0].as_str().map(str::to_owned)
}

#[test]
fn a_query_in_a_batch_says_nothing_of_its_cost() {
    let server = server();
    let operation = format!(
        "GET http://127.0.0.1/{ACCOUNT}/tab(PartitionKey='a',RowKey='r1') HTTP/1.1\r\nAccept: application/json\r\n{HEADER}: 1\r\n\r\n"
    );
    let body = format!("--b\r\nContent-Type: application/http\r\n\r\n{operation}\r\n--b--\r\n");
    let headers = [("Content-Type", "multipart/mixed; boundary=b"), ASKED];
    let response = server.client().request("POST", "/$batch", &headers, body.as_bytes());
    assert_eq!((response.status, response.header(HEADER)), (202, None));
    assert!(!String::from_utf8(response.body).unwrap().contains(HEADER));
}
