//! The change feed, which a server that keeps its log offers (`docs/change-feed.md`).

use crate::Layer::{FrontEnd, Query, Storage};
use crate::{Case, Server, check, delete, get, merge, post, put, signature, timestamp};
use engine::KeepChanges;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;
use test_support::{Client, Random, Response, transact};

const MINUTE: &str = "20310314T0815";
const ALL: KeepChanges = KeepChanges { age: Duration::from_hours(1), bytes: u64::MAX };

fn server() -> Server {
    Server::with_changes(ALL, |settings| settings.extensions = true)
}

fn position(transaction: u64, index: u32) -> String {
    format!("{transaction:020}-{index:03}")
}

fn insert(server: &Server, table: &str, partition: &str, row: &str) {
    let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
    check(server, [post(&format!("/{table}"), &body).answers(201, None)]);
}

/// Returns the rows of a page in short: operation, table and keys, each row after the number of its transaction.
fn rows_in(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let row = |row: &Value| {
        assert_eq!(row["PartitionKey"], MINUTE);
        let index = u32::try_from(row["Index"].as_u64().unwrap()).unwrap();
        let transaction = row["Transaction"].as_str().unwrap().parse().unwrap();
        assert_eq!(row["RowKey"], position(transaction, index));
        let mut text = format!("{transaction}.{index} {}", row["Operation"].as_str().unwrap());
        for name in ["Table", "Entity_PartitionKey", "Entity_RowKey"] {
            if let Some(value) = row[name].as_str() {
                let _ = write!(text, " {value}");
            }
        }
        text
    };
    response.json()["value"].as_array().unwrap().iter().map(row).collect()
}

/// Returns the query of the next page, if there is one.
fn next(path: &str, response: &Response) -> Option<String> {
    let partition = response.header("x-ms-continuation-nextpartitionkey")?;
    let row = response.header("x-ms-continuation-nextrowkey").unwrap();
    let separator = if path.contains('?') { '&' } else { '?' };
    Some(format!("{path}{separator}NextPartitionKey={partition}&NextRowKey={row}"))
}

/// Reads all pages of a query.
fn rows(client: &mut Client, path: &str, change: impl Fn(Case) -> Case) -> Vec<String> {
    let (mut rows, mut url) = (Vec::new(), Some(path.to_owned()));
    while let Some(current) = url {
        let response = change(get(&current)).send(client);
        rows.extend(rows_in(&response));
        url = next(path, &response);
    }
    rows
}

fn listed(server: &Server, path: &str) -> Vec<String> {
    rows(&mut server.client(), path, |case| case)
}

/// Creates two tables and changes entities in every way.
fn changed() -> Server {
    let server = server();
    server.create(&["Cars", "boats"]);
    let body = r#"{"PartitionKey":"p","RowKey":"r","Name":"x","Count@odata.type":"Edm.Int64","Count":"7"}"#;
    check(
        &server,
        [
            post("/cars", body).answers(201, None),
            merge("/cars(PartitionKey='p',RowKey='r')", r#"{"Doors":4}"#).answers(204, None),
            post("/boats", r#"{"PartitionKey":"q","RowKey":"s"}"#).answers(201, None),
            delete("/cars(PartitionKey='p',RowKey='r')").with("If-Match", "*").answers(204, None),
            // These do not appear in the feed.
            put("/cars?comp=acl", "<SignedIdentifiers></SignedIdentifiers>").answers(204, None),
            delete("/cars(PartitionKey='p',RowKey='r')").with("If-Match", "*").answers(404, "ResourceNotFound"),
            delete("/Tables('cars')").answers(204, None),
        ],
    );
    server
}

const CHANGED: [&str; 7] = [
    "1.0 CreateTable Cars",
    "2.0 CreateTable boats",
    "3.0 Put Cars p r",
    "4.0 Put Cars p r",
    "5.0 Put boats q s",
    "6.0 Delete Cars p r",
    "8.0 DeleteTable Cars",
];

#[test]
fn a_row_is_an_entity_with_the_entity_after_the_change() {
    let server = changed();
    let own =
        format!(r#""PartitionKey":"{MINUTE}","RowKey":"00000000000000000004-000","Timestamp":"{}""#, timestamp(1));
    let entity = format!(
        r#""Operation":"Put","Table":"Cars","Transaction@odata.type":"Edm.Int64","Transaction":"4","Index":0,"Entity_PartitionKey":"p","Entity_RowKey":"r","Entity_Timestamp@odata.type":"Edm.DateTime","Entity_Timestamp":"{}","Entity_Count@odata.type":"Edm.Int64","Entity_Count":"7","Entity_Doors":4,"Entity_Name":"x""#,
        timestamp(1)
    );
    let etag = crate::etag(1);
    let escaped = etag.replace('"', "\\\"");
    let query = "/$ChangesCars()?$filter=RowKey%20eq%20'00000000000000000004-000'";
    let point = format!("/$changesCARS(PartitionKey='{MINUTE}',RowKey='00000000000000000004-000')");
    check(
        &server,
        [
            get(query).ok(200).json(&format!(
                r#"{{"odata.metadata":"BASE/$metadata#$ChangesCars","value":[{{"odata.etag":"{escaped}",{own},{entity}}}]}}"#
            )),
            get(&point).ok(200).header("etag", etag).json(&format!(
                r#"{{"odata.metadata":"BASE/$metadata#$changesCARS/@Element","odata.etag":"{escaped}",{own},{entity}}}"#
            )),
            get(&format!("{point}?$select=Entity_Doors,Entity_Missing")).level("nometadata").ok(200)
                .header("etag", crate::etag(1))
                .json(r#"{"Entity_Doors":4,"Entity_Missing":null}"#),
            get(&format!("/$Changes(PartitionKey='{MINUTE}',RowKey='00000000000000000004-001')"))
                .fails(404, "ResourceNotFound", Storage),
            get("/$Changes(PartitionKey='20310314T0814',RowKey='00000000000000000004-000')")
                .fails(404, "ResourceNotFound", Storage),
            get("/$Changes(PartitionKey='x',RowKey='y')").fails(404, "ResourceNotFound", Storage),
            get("/$ChangesCars()?$filter=Entity_Doors%20eq%204&$select=RowKey,Operation").level("nometadata").ok(200)
                .header("x-ms-rowhouse-position", position(8, 999))
                .json(r#"{"value":[{"RowKey":"00000000000000000004-000","Operation":"Put"}]}"#),
            get("/$Changes/$count").ok(200).header("x-ms-rowhouse-position", position(8, 999)).text("text/plain;charset=utf-8", "7"),
        ],
    );
    assert_eq!(listed(&server, "/$Changes()"), CHANGED);
    let of = |table: &str| CHANGED.into_iter().filter(|row| row.contains(table)).collect::<Vec<_>>();
    assert_eq!(listed(&server, "/$ChangesCars()"), of("Cars"));
    assert_eq!(listed(&server, "/$CHANGESboats"), of("boats"));
}

#[test]
fn a_filter_selects_rows_and_where_they_begin() {
    let server = changed();
    for (filter, expected) in [
        ("RowKey gt '00000000000000000005-000'", &CHANGED[5..]),
        ("RowKey le '00000000000000000003-000'", &CHANGED[..3]),
        ("PartitionKey gt '20310314T0815'", &[]),
        ("PartitionKey eq '20310314T0815' and RowKey gt '00000000000000000006-000'", &CHANGED[6..]),
        ("Operation eq 'DeleteTable'", &CHANGED[6..]),
        ("Entity_Count eq 7L and Entity_Doors eq 4", &CHANGED[3..4]),
        ("RowKey eq '1' and RowKey eq '2'", &[]),
    ] {
        let path = format!("/$Changes()?$filter={}", filter.replace(' ', "%20"));
        assert_eq!(listed(&server, &path), expected, "{filter}");
        assert_eq!(listed(&server, &format!("{path}&$top=1")), expected, "{filter}");
    }
}

#[test]
fn every_page_size_gives_every_change_once_and_in_order() {
    let server = server();
    let mut random = Random::from_environment("every_page_size_gives_every_change_once_and_in_order");
    server.create(&["cars", "boats"]);
    let mut client = server.client();
    let mut expected = vec!["1.0 CreateTable cars".to_owned(), "2.0 CreateTable boats".to_owned()];
    for transaction in 3..40 {
        let (table, count) = (if random.below(2) == 0 { "cars" } else { "boats" }, 1 + random.below(5));
        let operations: Vec<String> = (0..count)
            .map(|index| {
                let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{transaction}-{index}\"}}");
                format!("POST http://127.0.0.1/devstoreaccount1/{table} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}")
            })
            .collect();
        assert_eq!(transact(&mut client, &operations).unwrap().status, 202);
        expected.extend((0..count).map(|index| format!("{transaction}.{index} Put {table} p {transaction}-{index}")));
    }
    for top in [1, 2, 3, 7, 1000] {
        assert_eq!(listed(&server, &format!("/$Changes()?$top={top}")), expected, "{top}");
        for table in ["cars", "boats"] {
            let of_table: Vec<_> = expected.iter().filter(|row| row.contains(table)).cloned().collect();
            assert_eq!(listed(&server, &format!("/$Changes{table}()?$top={top}")), of_table, "{top}");
        }
    }
    // A client that continues after the last row that it has read.
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let response = get(&format!("/$Changes()?$top=3&$filter=RowKey%20gt%20'{after}'")).send(&mut client);
        let rows = rows_in(&response);
        let Some(last) = response.json()["value"].as_array().unwrap().last().cloned() else { break };
        after = last["RowKey"].as_str().unwrap().to_owned();
        found.extend(rows);
    }
    assert_eq!(found, expected);
}

#[test]
fn a_position_that_was_dropped_is_an_error() {
    let server = Server::with_changes(KeepChanges { age: Duration::from_secs(90), ..ALL }, |_| {});
    server.create(&["cars", "boats"]);
    server.clock.advance(Duration::from_mins(1));
    insert(&server, "cars", "p", "a");
    let expired = |path: &str| get(path).answers(410, "PositionExpired");
    let of_minute = |path: &str, expected: &[&str]| {
        let response = get(path).send(&mut server.client());
        let rows: Vec<Value> = response.json()["value"].as_array().unwrap().clone();
        let keys: Vec<_> = rows.iter().map(|row| row["RowKey"].as_str().unwrap().to_owned()).collect();
        assert_eq!(keys, expected, "{path}");
    };
    let at = |transaction| position(transaction, 0);
    of_minute("/$Changes()?$filter=RowKey%20gt%20'00000000000000000001-000'", &[&at(2), &at(3)]);
    of_minute("/$Changes()?$filter=PartitionKey%20ge%20'20310314T0815'", &[&at(1), &at(2), &at(3)]);
    let first = get("/$Changes()?$top=1").send(&mut server.client());
    let continued = next("/$Changes()?$top=1", &first).unwrap();
    server.clock.advance(Duration::from_mins(1));
    insert(&server, "cars", "p", "b");
    check(
        &server,
        [
            expired("/$Changes()?$filter=RowKey%20gt%20'00000000000000000001-000'")
                .says(format!("The change feed no longer contains this position. The oldest position is {}.", at(3))),
            expired("/$ChangesCars()?$filter=RowKey%20ge%20'00000000000000000002-000'")
                .header("x-ms-rowhouse-position", position(2, 999)),
            expired("/$Changes()?$filter=PartitionKey%20ge%20'20310314T0815'"),
            expired("/$Changes()?$filter=PartitionKey%20ge%20'20310314T0816'"),
            expired("/$Changes()?$filter=PartitionKey%20ge%20'20310314'"),
            expired("/$Changes()?$filter=PartitionKey%20ge%20'20310314T08'%20and%20PartitionKey%20lt%20'20310314T09'"),
            expired(&continued),
            expired("/$Changes(PartitionKey='20310314T0815',RowKey='00000000000000000001-000')"),
            expired("/$Changes()?$filter=RowKey%20gt%20'00000000000000000009-000'")
                .says(format!("The change feed does not contain this position yet. The next position is {}.", at(5)))
                .header("x-ms-rowhouse-position", position(4, 999)),
            get("/$Changes()?NextPartitionKey=1!0!&NextRowKey=1!4!cGs-").answers(400, "InvalidInput"),
        ],
    );
    of_minute("/$Changes()", &[&at(3), &at(4)]);
    of_minute("/$Changes()?$filter=RowKey%20gt%20''", &[&at(3), &at(4)]);
    of_minute("/$Changes()?$filter=RowKey%20gt%20'00000000000000000002-999'", &[&at(3), &at(4)]);
    of_minute("/$Changes()?$filter=PartitionKey%20gt%20'20310314T0816'", &[&at(4)]);
    let both = "PartitionKey%20ge%20'20310314T0817'%20and%20RowKey%20gt%20'00000000000000000001-000'";
    of_minute(&format!("/$Changes()?$filter={both}"), &[&at(4)]);
    // A reader that has read everything continues after any time.
    server.clock.advance(Duration::from_mins(10));
    of_minute("/$Changes()?$filter=RowKey%20gt%20'00000000000000000004-000'", &[]);
}

#[test]
fn the_error_names_the_ends_of_the_log() {
    // The last transaction is always kept.
    let server = Server::with_changes(KeepChanges { bytes: 0, ..ALL }, |_| {});
    server.create(&["cars", "boats", "trains"]);
    let expired = |from: &str, end: u64| {
        get(&format!("/$Changes()?$filter=RowKey%20ge%20'{from}'"))
            .fails(410, "PositionExpired", Query)
            .header("x-ms-rowhouse-position", position(end, 999))
    };
    let (old, new) = (
        "The change feed no longer contains this position. The oldest position is 00000000000000000003-000.",
        "The change feed does not contain this position yet. The next position is 00000000000000000004-000.",
    );
    check(
        &server,
        [
            expired("00000000000000000002-000", 2).says(old),
            expired("00000000000000000002-000", 2)
                .with("Accept", "application/atom+xml")
                .version("2014-02-14")
                .in_xml()
                .says(old),
            expired("00000000000000000005-000", 3).says(new),
        ],
    );
    assert_eq!(listed(&server, "/$Changes()"), ["3.0 CreateTable trains"]);
}

#[test]
fn a_table_that_does_not_exist_has_no_changes_unless_the_log_contains_its_deletion() {
    let server = changed();
    let absent = |path: &str| get(path).fails(404, "TableNotFound", Query);
    let missing = |path: &str| absent(path).header("x-ms-rowhouse-position", position(8, 999));
    check(
        &server,
        [
            missing("/$ChangesTrains()"),
            missing("/$ChangesTrains/$count"),
            absent(&format!("/$ChangesTrains(PartitionKey='{MINUTE}',RowKey='00000000000000000001-000')")),
            missing("/$ChangesCars()?$filter=RowKey%20gt%20'00000000000000000008-000'"),
            get("/$ChangesCars()?$filter=RowKey%20gt%20'00000000000000000006-000'").answers(200, None),
            get("/$Changesboats()?$filter=RowKey%20gt%20'00000000000000000008-000'").answers(200, None),
        ],
    );
}

#[test]
fn the_feed_is_read_only() {
    let server = changed();
    let body = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let denied = |case: Case| case.fails(403, "AuthorizationFailure", Storage);
    for table in ["$Changes", "$changestrains"] {
        let entity = format!("/{table}(PartitionKey='p',RowKey='r')");
        check(
            &server,
            [
                denied(post(&format!("/{table}"), body)),
                denied(put(&entity, "{}")),
                denied(merge(&entity, "{}")),
                denied(put(&entity, "{}").with("If-Match", "*")),
                denied(delete(&entity).with("If-Match", "*")),
                denied(delete(&format!("/{table}()?$filter=true"))),
                get(&format!("/{table}?comp=acl")).fails(403, "AuthorizationFailure", FrontEnd),
                delete(&format!("/Tables('{table}')")).fails(404, "ResourceNotFound", Storage),
                get(&format!("/Tables('{table}')")).fails(404, "ResourceNotFound", Storage),
                post("/Tables", &format!("{{\"TableName\":\"{table}\"}}")).fails(400, "InvalidResourceName", Storage),
            ],
        );
    }
    // The metrics tables are written by the service.
    assert_eq!(listed(&server, "/$Changes()"), CHANGED);
}

#[test]
fn without_a_change_log_the_names_are_those_of_no_table() {
    for extensions in [false, true] {
        let server = Server::with(|settings| settings.extensions = extensions);
        for path in ["/$Changes()", "/$ChangesCars()", "/$Changes(PartitionKey='p',RowKey='r')"] {
            check(&server, [get(path).fails(400, "InvalidResourceName", Query)]);
        }
    }
}

#[test]
fn a_signature_sees_the_changes_of_its_keys() {
    let server = server();
    server.create(&["cars", "boats"]);
    for partition in ["a", "b", "c"] {
        insert(&server, "cars", partition, "r");
    }
    let mut client = server.client();
    let mut list = |path: &str, signature: &str| rows(&mut client, path, |case| case.signed(signature));
    let whole = signature("r", |_| {});
    let expected = ["1.0 CreateTable cars", "3.0 Put cars a r", "4.0 Put cars b r", "5.0 Put cars c r"];
    assert_eq!(list("/$ChangesCars()", &whole), expected);
    let part = signature("r", |fields| {
        (fields.start_partition, fields.end_partition) = ("b".into(), "b".into());
    });
    assert_eq!(list("/$ChangesCars()", &part), expected[2..3]);
    assert_eq!(list("/$ChangesCars()?$top=1", &part), expected[2..3]);
    let denied = |case: Case, signature: &str| case.signed(signature).fails(403, "AuthorizationFailure", Storage);
    let of_feed = signature("r", |fields| fields.table = "$Changes".into());
    let of_changes = signature("r", |fields| fields.table = "$ChangesCars".into());
    let key = |transaction| format!("/$ChangesCars(PartitionKey='{MINUTE}',RowKey='{}')", position(transaction, 0));
    check(
        &server,
        [
            denied(get("/$Changes()"), &whole),
            denied(get("/$ChangesBoats()"), &whole),
            denied(get("/$Changes()"), &of_feed),
            denied(get("/$ChangesCars()"), &of_changes),
            get("/$ChangesCars()").signed(&signature("au", |_| {})).fails(
                403,
                "AuthorizationPermissionMismatch",
                Storage,
            ),
            get(&key(4)).signed(&part).answers(200, None),
            get(&key(3)).signed(&part).fails(404, "ResourceNotFound", Storage),
            get(&key(1)).signed(&part).fails(404, "ResourceNotFound", Storage),
        ],
    );
}

#[test]
fn a_signature_for_a_table_does_not_show_entities_of_an_earlier_table() {
    let server = server();
    server.create(&["cars"]);
    insert(&server, "cars", "p", "former");
    check(&server, [delete("/Tables('cars')").answers(204, None)]);
    let mut client = server.client();
    let whole = signature("r", |_| {});
    let mut list = || rows(&mut client, "/$ChangesCars()", |case| case.signed(&whole));
    let mut expected = vec!["1.0 CreateTable cars", "3.0 DeleteTable cars"];
    assert_eq!(list(), expected);
    server.create(&["cars"]);
    insert(&server, "cars", "p", "new");
    expected.extend(["4.0 CreateTable cars", "5.0 Put cars p new"]);
    assert_eq!(list(), expected);
    let key = |transaction| format!("/$ChangesCars(PartitionKey='{MINUTE}',RowKey='{}')", position(transaction, 0));
    check(
        &server,
        [
            get(&key(2)).signed(&whole).fails(404, "ResourceNotFound", Storage),
            get(&key(5)).signed(&whole).answers(200, None),
            get(&key(2)).answers(200, None),
        ],
    );
    assert_eq!(listed(&server, "/$ChangesCars()")[1], "2.0 Put cars p former");
}

#[test]
fn the_feed_is_also_written_as_atom() {
    let server = changed();
    let response = get("/$ChangesCars()?$top=1").atom().send(&mut server.client());
    let body = String::from_utf8(response.body.clone()).unwrap();
    assert!(body.contains("<d:Operation>CreateTable</d:Operation>"), "{body}");
}

#[test]
fn a_batch_reads_a_row() {
    let server = changed();
    let target =
        format!("http://127.0.0.1/devstoreaccount1/$Changes(PartitionKey='{MINUTE}',RowKey='{}')", position(5, 0));
    let body = format!(
        "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nGET {target} HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n\r\n\r\n--b--\r\n"
    );
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let response = server.client().request("POST", "/$batch", &headers, body.as_bytes());
    let text = String::from_utf8(response.body).unwrap();
    assert!(response.status == 202 && text.contains(r#""Operation":"Put","Table":"boats""#), "{text}");
}
