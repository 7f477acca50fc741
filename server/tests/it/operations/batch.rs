//! Entity group transactions, and queries in a batch (05): exact frames, and requests that no client library sends.

use crate::server::Server;
use test_support::{Client, Response};

const BATCH: (&str, &str) = ("Content-Type", "multipart/mixed; boundary=b");

fn server_with_table(table: &str) -> (Server, Client) {
    let server = Server::with_tables(&[table]);
    let client = server.client();
    (server, client)
}

fn changeset(operations: &[&str]) -> String {
    let parts = operations.iter().map(|operation| format!("--c\nContent-Type: application/http\n\n{operation}\n"));
    let parts = parts.collect::<String>();
    format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}--c--\n")
}

fn single(operation: &str) -> String {
    format!("--b\nContent-Type: application/http\n\n{operation}\n")
}

const JSON: &str = "Accept: application/json\nContent-Type: application/json\nPrefer: return-no-content";

fn insert(table: &str, partition: &str, row: &str) -> String {
    format!("POST /{table} HTTP/1.1\n{JSON}\n\n{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}")
}

fn post(client: &mut Client, parts: &[String]) -> Response {
    client.request("POST", "/$batch", &[BATCH], (parts.concat() + "--b--\n").as_bytes())
}

/// The variable parts are replaced: IDs of boundaries and of the request, times, ETags.
fn frame(answer: &Response) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    let boundary = answer.header("content-type").unwrap().strip_prefix("multipart/mixed; boundary=").unwrap();
    let mut text = String::from_utf8(answer.body.clone()).unwrap().replace(boundary, "BATCH");
    // Only the messages in XML bodies contain line breaks.
    let lines = text.replace("\nRequestId:", "").replace("\nTime:", "").replace("\r\n", "");
    assert!(!lines.contains(['\r', '\n']), "every line ends with CRLF: {text:?}");
    text = text.replace(answer.header("x-ms-request-id").unwrap(), "ID").replace("\r\n", "\n");
    if let Some((_, rest)) = text.split_once("boundary=changesetresponse_") {
        let changeset = format!("changesetresponse_{}", rest.lines().next().unwrap());
        text = text.replace(&changeset, "CHANGESET");
    }
    for (start, end) in [("Time:", "\""), ("Time:", "<"), ("W/", "\n")] {
        let mut pieces = text.split(start);
        let first = pieces.next().unwrap().to_owned();
        text = pieces.fold(first, |kept, piece| kept + start + piece.find(end).map_or(piece, |at| &piece[at..]));
    }
    text
}

const OF_PART: &str = "Content-Type: application/http\nContent-Transfer-Encoding: binary\n\n";
const JSON_ERROR: &str =
    "DataServiceVersion: 3.0;\nContent-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\n\n";

fn refused() -> String {
    format!(
        "--BATCH\n{OF_PART}HTTP/1.1 400 Bad Request\nX-Content-Type-Options: nosniff\n{JSON_ERROR}{{\"odata.error\":{{\"code\":\"InvalidInput\",\"message\":{{\"lang\":\"en-US\",\"value\":\"0:One of the request inputs is not valid.\\nRequestId:ID\\nTime:\"}}}}}}\n"
    )
}

#[test]
fn an_unreadable_batch() {
    let (_server, mut client) = server_with_table("unused");
    let part = format!(
        "{OF_PART}HTTP/1.1 400 Bad Request\nDataServiceVersion: 1.0;\nContent-Type: application/xml;charset=utf-8\n\n<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><code>InvalidInput</code><message xml:lang=\"en-US\">An error occurred while processing this request.\nRequestId:ID\nTime:</message></error>\n"
    );
    for body in ["", "hello", "--b--", "--b\n\n\nGET /t"] {
        let answer = client.request("POST", "/$batch", &[BATCH], body.as_bytes());
        assert_eq!(frame(&answer), format!("--BATCH\n{part}--BATCH--\n"), "{body}");
    }
    let body = "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\nDELETE /t HTTP/1.1";
    let answer = client.request("POST", "/$batch", &[BATCH], body.as_bytes());
    let changeset = "--BATCH\nContent-Type: multipart/mixed; boundary=CHANGESET\n\n--CHANGESET";
    assert_eq!(frame(&answer), format!("{changeset}\n{part}--CHANGESET--\n--BATCH--\n"), "{body}");
}

#[test]
fn a_media_type_other_than_that_of_a_batch() {
    let (_server, mut client) = server_with_table("unused");
    for content_type in ["application/json", "multipart/mixed", "multipart/mixed; boundary="] {
        let answer = client.request("POST", "/$batch", &[("Content-Type", content_type)], b"--b--");
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (400, Some("InvalidInput")), "{content_type}");
    }
    assert_eq!(client.request("GET", "/$batch", &[], b"").status, 405);
}

#[test]
fn only_the_first_of_two_changesets_is_executed() {
    let (_server, mut client) = server_with_table("twosets");
    let parts = [changeset(&[&insert("twosets", "p", "1")]), changeset(&[&insert("twosets", "p", "2")])];
    let answer = post(&mut client, &parts);
    let location = format!("http://127.0.0.1/{}/twosets(PartitionKey='p',RowKey='1')", test_support::ACCOUNT);
    let expected = format!(
        "--BATCH\nContent-Type: multipart/mixed; boundary=CHANGESET\n\n--CHANGESET\n{OF_PART}HTTP/1.1 204 No Content\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\nPreference-Applied: return-no-content\nDataServiceVersion: 3.0;\nLocation: {location}\nDataServiceId: {location}\nETag: W/\n\n\n--CHANGESET--\n{}--BATCH--\n",
        refused()
    );
    assert_eq!(frame(&answer), expected);
    assert_eq!(rows(&mut client, "twosets"), ["1"]);
}

#[test]
fn a_query_stands_alone() {
    let (_server, mut client) = server_with_table("mixed");
    let query = single("GET /mixed() HTTP/1.1\nAccept: application/json");
    let write = changeset(&[&insert("mixed", "p", "1")]);
    for parts in [[query.clone(), write.clone()], [write, query.clone()], [query.clone(), query]] {
        assert_eq!(frame(&post(&mut client, &parts)), format!("{}--BATCH--\n", refused()));
    }
    // A write outside a changeset is refused in the same way.
    assert_eq!(frame(&post(&mut client, &[single(&insert("mixed", "p", "1"))])), format!("{}--BATCH--\n", refused()));
    assert!(rows(&mut client, "mixed").is_empty());
}

#[test]
fn continuation_headers_are_in_the_part() {
    let (_server, mut client) = server_with_table("pages");
    let rows = ["1", "2", "3"].map(|row| insert("pages", "p", row));
    post(&mut client, &[changeset(&rows.each_ref().map(String::as_str))]);
    let query = single("GET /pages()?$top=2&$select=RowKey HTTP/1.1\nAccept: application/json;odata=nometadata");
    let expected = format!(
        "--BATCH\n{OF_PART}HTTP/1.1 200 OK\nDataServiceVersion: 3.0;\nContent-Type: application/json;odata=nometadata;streaming=true;charset=utf-8\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\nx-ms-continuation-NextPartitionKey: 1!4!cA--\nx-ms-continuation-NextRowKey: 1!4!Mw--\n\n{{\"value\":[{{\"RowKey\":\"1\"}},{{\"RowKey\":\"2\"}}]}}\n--BATCH--\n"
    );
    assert_eq!(frame(&post(&mut client, &[query])), expected);
    let next = single(
        "GET /pages()?$select=RowKey&NextPartitionKey=1!4!cA--&NextRowKey=1!4!Mw-- HTTP/1.1\nAccept: application/json;odata=nometadata",
    );
    assert!(frame(&post(&mut client, &[next])).contains("no-cache\n\n{\"value\":[{\"RowKey\":\"3\"}]}\n--BATCH--\n"));
}

/// An extension (`docs/extensions.md`).
#[test]
fn a_query_with_a_string_function() {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["named"]);
    let mut client = server.client();
    let rows = ["1", "2", "3"].map(|row| insert("named", "p", row));
    post(&mut client, &[changeset(&rows.each_ref().map(String::as_str))]);
    let query = single(
        "GET /named()?$select=RowKey&$filter=startswith(RowKey,'2') HTTP/1.1\nAccept: application/json;odata=nometadata",
    );
    assert!(frame(&post(&mut client, &[query])).contains("no-cache\n\n{\"value\":[{\"RowKey\":\"2\"}]}\n--BATCH--\n"));
}

#[test]
fn failed_queries_carry_the_index_0() {
    let (_server, mut client) = server_with_table("failing");
    let failure = |client: &mut Client, target: &str| {
        let text = frame(&post(
            client,
            &[single(&format!("GET /{target} HTTP/1.1\nContent-ID: 4\nAccept: application/json"))],
        ));
        let value = text.split("\"value\":\"").nth(1).unwrap().split("\\n").next().unwrap().to_owned();
        assert!(text.contains("Content-ID: 4\nX-Content-Type-Options: nosniff\n"));
        (text.split("HTTP/1.1 ").nth(1).unwrap()[..3].to_owned(), value, text.contains("Cache-Control"))
    };
    for (target, status, message, has_no_cache) in [
        ("failing(PartitionKey='p',RowKey='r')", "404", "0:The specified resource does not exist.", true),
        ("missing(PartitionKey='p',RowKey='r')", "404", "0:The table specified does not exist.", false),
        ("missing()", "404", "0:The table specified does not exist.", false),
        ("failing(PartitionKey='p'", "400", "0:Bad Request - Error in query syntax.", false),
        (
            "failing('p')",
            "400",
            "0:The number of keys specified in the URI does not match number of key properties for the resource 'devstoreaccount1.failing'.",
            false,
        ),
        ("Tables", "400", "0:One of the request inputs is not valid.", false),
    ] {
        assert_eq!(failure(&mut client, target), (status.to_owned(), message.to_owned(), has_no_cache), "{target}");
    }
}

#[test]
fn the_secondary_endpoint_takes_queries_only() {
    let (_server, mut client) = server_with_table("second");
    let write = changeset(&[&insert("second", "p", "1")]) + "--b--";
    let answer = client.request("POST", "-secondary/$batch", &[BATCH], write.as_bytes());
    let code = answer.header("x-ms-error-code");
    assert_eq!((answer.status, code), (403, Some("InsufficientAccountPermissions")));
    let query = single("GET /second() HTTP/1.1\nAccept: application/json;odata=nometadata") + "--b--";
    let answer = client.request("POST", "-secondary/$batch", &[BATCH], query.as_bytes());
    assert!(frame(&answer).contains("{\"value\":[]}"));
}

#[test]
fn a_part_without_a_format_takes_that_of_the_batch() {
    let (_server, mut client) = server_with_table("formats");
    for (row, outer, inner, expected) in [
        ("1", "application/json;odata=fullmetadata", "", "fullmetadata"),
        ("2", "*/*", "", "minimalmetadata"),
        ("3", "application/atom+xml,application/xml", "", "minimalmetadata"),
        ("4", "text/plain", "", "minimalmetadata"),
        ("5", "application/json;odata=fullmetadata", "Accept: application/json;odata=nometadata\n", "nometadata"),
        ("6", "multipart/mixed", "Accept: */*\n", "minimalmetadata"),
    ] {
        let operation = format!(
            "POST /formats HTTP/1.1\n{inner}Content-Type: application/json\n\n{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}"
        );
        let body = changeset(&[&operation]) + "--b--";
        let answer = client.request("POST", "/$batch", &[BATCH, ("Accept", outer)], body.as_bytes());
        let wanted =
            format!("HTTP/1.1 201 Created\nDataServiceVersion: 3.0;\nContent-Type: application/json;odata={expected};");
        assert!(frame(&answer).contains(&wanted), "{outer} {inner}: {}", frame(&answer));
    }
    // A part that explicitly requests Atom is refused.
    let operation = insert("formats", "p", "7").replace("Accept: application/json", "Accept: application/atom+xml");
    let text = frame(&post(&mut client, &[changeset(&[&operation])]));
    assert!(text.contains("HTTP/1.1 415 Unsupported Media Type\nX-Content-Type-Options: nosniff\nDataServiceVersion: 1.0;\nContent-Type: application/xml;charset=utf-8\n"), "{text}");
    assert_eq!(rows(&mut client, "formats"), ["1", "2", "3", "4", "5", "6"]);
}

/// 05 §4.2
#[test]
fn versions_in_the_first_form() {
    let (_server, mut client) = server_with_table("early");
    let entity = |row: &str| {
        format!(
            "<entry xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><m:properties><d:PartitionKey>p</d:PartitionKey><d:RowKey>{row}</d:RowKey></m:properties></content></entry>"
        )
    };
    let operation = |start: &str, row: &str| {
        format!(
            "{start} HTTP/1.1\nContent-Type: application/atom+xml;type=entry\nIf-Match: *\nContent-ID: {row}\n\n{}",
            entity(row)
        )
    };
    let insert = |row: &str| operation("POST /early", row).replace("If-Match: *\n", "");
    let mut send = |operations: &[String]| {
        let headers = [
            BATCH,
            ("Accept", "application/atom+xml,application/xml"),
            ("x-ms-version", "2011-08-18"),
            ("DataServiceVersion", "1.0;NetFx"),
            ("MaxDataServiceVersion", "2.0;NetFx"),
        ];
        let operations: Vec<_> = operations.iter().map(String::as_str).collect();
        let answer = client.request("POST", "/$batch", &headers, (changeset(&operations) + "--b--").as_bytes());
        assert_eq!(answer.header("x-content-type-options"), None);
        String::from_utf8(answer.body).unwrap()
    };
    let created = send(&[insert("1"), insert("2")]);
    let location = "http://127.0.0.1/devstoreaccount1/early(PartitionKey='p',RowKey='2')";
    let head = format!(
        "\r\n\r\nHTTP/1.1 201 Created\r\nContent-ID: 2\r\nCache-Control: no-cache\r\nDataServiceVersion: 1.0;\r\nContent-Type: application/atom+xml;charset=utf-8\r\nLocation: {location}\r\nETag: W/"
    );
    assert!(created.contains(&head), "{created}");
    let body = "'\"\r\n\r\n<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<entry xml:base=";
    assert!(created.contains(body) && created.contains("\r\n</entry>\r\n--changesetresponse_"), "{created}");
    let updated = send(&[operation("MERGE /early(PartitionKey='p',RowKey='1')", "1")]);
    let head =
        "HTTP/1.1 204 No Content\r\nContent-ID: 1\r\nCache-Control: no-cache\r\nDataServiceVersion: 1.0;\r\nETag: W/";
    assert!(updated.contains(head), "{updated}");
    let failed = send(&[insert("3"), operation("PUT /early(PartitionKey='p',RowKey='4')", "4")]);
    let part = "HTTP/1.1 404 Not Found\r\nContent-ID: 4\r\nCache-Control: no-cache\r\nDataServiceVersion: 1.0;\r\nContent-Type: application/xml\r\n\r\n<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\r\n  <code>ResourceNotFound</code>\r\n  <message xml:lang=\"en-US\">1:The specified resource does not exist.\n";
    assert!(failed.contains(part) && failed.contains("</message>\r\n</error>\r\n--changesetresponse_"), "{failed}");
}

#[test]
fn the_first_failing_operation_is_named() {
    let (_server, mut client) = server_with_table("order");
    let good = |row| insert("order", "p", row);
    let malformed = || format!("POST /order HTTP/1.1\n{JSON}\n\n{{");
    let other_table = || insert("other", "p", "9");
    let query = || "GET /order(PartitionKey='p',RowKey='1') HTTP/1.1\nAccept: application/json".to_owned();
    let create = || format!("POST /Tables HTTP/1.1\n{JSON}\n\n{{\"TableName\":\"x\"}}");
    for (operations, code, index) in [
        (vec![good("1"), good("1"), malformed()], "InvalidDuplicateRow", 1),
        (vec![good("1"), malformed(), good("1")], "InvalidInput", 1),
        (vec![good("1"), insert("order", "q", "2"), good("1")], "CommandsInBatchActOnDifferentPartitions", 1),
        (vec![good("1"), good("1"), insert("order", "q", "2")], "InvalidDuplicateRow", 1),
        (vec![good("1"), good("2"), other_table()], "CommandsInBatchActOnDifferentPartitions", 2),
        (vec![good("1"), query()], "InvalidInput", 1),
        (vec![create(), good("1")], "InvalidInput", 0),
        (vec![insert("nowhere", "p", "1"), insert("nowhere", "p", "2")], "TableNotFound", 0),
        (vec![insert("nowhere", "p", "1"), insert("nowhere", "q", "2")], "CommandsInBatchActOnDifferentPartitions", 1),
        (
            vec!["POST /order HTTP/1.1\nAccept: application/json\nContent-Type: text/plain\n\n{}".to_owned()],
            "MediaTypeNotSupported",
            0,
        ),
        (
            vec![
                good("1"),
                format!("MERGE /order(PartitionKey='p',RowKey='1') HTTP/1.1\nAccept: application/json\n\n{{}}"),
                good("1"),
            ],
            "Content-Type header value missing.",
            1,
        ),
    ] {
        let operations: Vec<_> = operations.iter().map(String::as_str).collect();
        let text = frame(&post(&mut client, &[changeset(&operations)]));
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        let is_named = ['"', '>'].iter().any(|before| text.contains(&format!("{before}{index}:")));
        assert!(text.contains(code) && is_named, "{code} {index} in {text}");
    }
    assert!(rows(&mut client, "order").is_empty());
}

#[test]
fn the_code_for_a_duplicate_depends_on_the_version() {
    let (_server, mut client) = server_with_table("twice");
    let duplicates = changeset(&[&insert("twice", "p", "1"), &insert("twice", "p", "1")]) + "--b--";
    for (version, code, message) in [
        ("2014-02-14", "InvalidInput", "1:One of the request inputs is not valid."),
        ("2015-12-11", "InvalidInput", "1:One of the request inputs is not valid."),
        ("2016-05-31", "InvalidDuplicateRow", "1:The batch request contains multiple changes with same row key."),
        ("2019-02-02", "InvalidDuplicateRow", "1:The batch request contains multiple changes with same row key."),
    ] {
        let answer = client.request("POST", "/$batch", &[BATCH, ("x-ms-version", version)], duplicates.as_bytes());
        let text = frame(&answer);
        assert!(text.contains(&format!("\"code\":\"{code}\"")) && text.contains(message), "{version}: {text}");
        assert!(text.contains("\nCache-Control: no-cache\n"), "{version}: {text}");
    }
    assert!(rows(&mut client, "twice").is_empty());
}

fn rows(client: &mut Client, table: &str) -> Vec<String> {
    let page = client.request("GET", &format!("/{table}()"), &[], b"").json();
    page["value"].as_array().unwrap().iter().map(|entity| entity["RowKey"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_key_that_is_too_long_is_not_found() {
    let (_server, mut client) = server_with_table("cars");
    let json = [("Accept", "application/json"), ("Content-Type", "application/json"), ("If-Match", "*")];
    for length in [1, 513] {
        let entity = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(length));
        for method in ["GET", "DELETE", "PUT", "MERGE"] {
            let headers = if method == "GET" { &json[..1] } else { &json[..] };
            let body = if matches!(method, "PUT" | "MERGE") { &b"{}"[..] } else { b"" };
            let answer = client.request(method, &entity, headers, body);
            let told = (answer.header("x-ms-error-code"), answer.header("cache-control"));
            assert_eq!(told, (Some("ResourceNotFound"), Some("no-cache")), "{method} {length}");
        }
        let query = single(&format!("GET {entity} HTTP/1.1\nAccept: application/json\n"));
        let text = String::from_utf8(post(&mut client, &[query]).body).unwrap();
        assert!(text.contains("ResourceNotFound") && text.contains("Cache-Control: no-cache"), "{length}: {text}");
    }
}

/// Adds a Content-ID to an operation.
fn with_id(operation: &str, id: &str) -> String {
    operation.replacen(" HTTP/1.1\n", &format!(" HTTP/1.1\nContent-ID: {id}\n"), 1)
}

fn change(method: &str, row: &str, condition: &str) -> String {
    let body = if method == "DELETE" { "" } else { "{}" };
    let target = format!("/cars(PartitionKey='p',RowKey='{row}')");
    format!(
        "{method} {target} HTTP/1.1\nAccept: application/json\nContent-Type: application/json\n{condition}\n\n{body}"
    )
}

#[test]
fn the_responses_to_a_changeset() {
    // 05 §4
    let (_server, mut client) = server_with_table("cars");
    post(&mut client, &[changeset(&[&insert("cars", "p", "2"), &insert("cars", "p", "3")])]);
    let echo = insert("cars", "p", "4").replace("Prefer: return-no-content\n", "");
    let operations = [
        with_id(&insert("cars", "p", "1"), "1"),
        with_id(&change("MERGE", "2", "If-Match: *"), "2"),
        change("DELETE", "3", "If-Match: *"),
        with_id(&echo.replace("Accept: application/json", "Accept: application/json;odata=nometadata"), "x"),
        change("PUT", "5", "Prefer: return-no-content"),
    ];
    let operations = operations.each_ref().map(String::as_str);
    let location = |row| format!("http://127.0.0.1/{}/cars(PartitionKey='p',RowKey='{row}')", test_support::ACCOUNT);
    let both = "X-Content-Type-Options: nosniff\nCache-Control: no-cache\n";
    let empty = |headers: &str| format!("\n--CHANGESET\n{OF_PART}HTTP/1.1 204 No Content\n{headers}");
    let etag = "ETag: W/\n\n";
    let one = location(1);
    let frames = [
        empty(&format!(
            "Content-ID: 1\n{both}Preference-Applied: return-no-content\nDataServiceVersion: 3.0;\nLocation: {one}\nDataServiceId: {one}\n{etag}"
        )),
        empty(&format!("Content-ID: 2\n{both}DataServiceVersion: 1.0;\n{etag}")),
        empty(&format!("{both}DataServiceVersion: 1.0;\n\n")),
        format!(
            "\n--CHANGESET\n{OF_PART}HTTP/1.1 201 Created\nDataServiceVersion: 3.0;\nContent-Type: application/json;odata=nometadata;streaming=true;charset=utf-8\nContent-ID: x\n{both}Location: {}\n{etag}{{\"PartitionKey\":\"p\",\"RowKey\":\"4\",\"Timestamp\":\"STAMP\"}}",
            location(4)
        ),
        empty(&format!("{both}Preference-Applied: return-no-content\nDataServiceVersion: 3.0;\n{etag}")),
    ];
    let expected = format!(
        "--BATCH\nContent-Type: multipart/mixed; boundary=CHANGESET\n{}\n--CHANGESET--\n--BATCH--\n",
        frames.concat()
    );
    let actual = frame(&post(&mut client, &[changeset(&operations)]));
    let (before, stamp) = actual.split_once("\"Timestamp\":\"").unwrap();
    let (_, after) = stamp.split_once('"').unwrap();
    assert_eq!(format!("{before}\"Timestamp\":\"STAMP\"{after}"), expected);
    assert_eq!(rows(&mut client, "cars"), ["1", "2", "4", "5"]);
}

/// Returns the status, the Content-ID and the message of the part that reports a failure.
fn failed(client: &mut Client, operations: &[String]) -> (u16, String, String) {
    let operations: Vec<_> = operations.iter().map(String::as_str).collect();
    let text = frame(&post(client, &[changeset(&operations)]));
    assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
    let after = |start: &str, end: &str| {
        text.split_once(start).and_then(|(_, rest)| Some(rest.split_once(end)?.0.to_owned())).unwrap_or_default()
    };
    (after("HTTP/1.1 ", " ").parse().unwrap(), after("Content-ID: ", "\n"), after("\"value\":\"", "\\n"))
}

#[test]
fn the_index_of_a_failed_operation() {
    // 05 §5.1: always if there are several operations; for one operation, only if it was not executed.
    let (_server, mut client) = server_with_table("cars");
    post(&mut client, &[changeset(&[&insert("cars", "p", "1")])]);
    let stale = "If-Match: W/\"datetime'2031-03-14T08%3A15%3A30Z'\"";
    let long = insert("cars", "p", &"k".repeat(513));
    let first = || insert("cars", "p", "0");
    for (operation, status, prefix, message) in [
        (insert("cars", "p", "1"), 409, "", "The specified entity already exists."),
        (change("PUT", "none", "If-Match: *"), 404, "", "The specified resource does not exist."),
        (change("MERGE", "1", stale), 412, "", "The update condition specified in the request was not satisfied."),
        (long, 400, "", "The property value exceeds the maximum allowed size (64KB)."),
        (insert("none", "p", "1"), 404, "0:", "The table specified does not exist."),
        (insert("cars", "p", "a/b"), 400, "0:", "The 'RowKey' parameter of value 'a/b' is out of range."),
        (
            insert("cars", "p", "1").replace("\"RowKey\":\"1\"", "\"A\":1"),
            400,
            "0:",
            "The values are not specified for all properties in the entity.",
        ),
        (change("DELETE", "a%2Fb", "If-Match: *"), 400, "0:", "Bad Request - Error in query syntax."),
        (
            change("DELETE", "a'b", "If-Match: *"),
            400,
            "0:",
            "There is an unterminated string literal at position 29 in 'PartitionKey='p',RowKey='a'b''.",
        ),
        (
            change("DELETE", "1", "If-Match: *").replace(",RowKey='1'", ""),
            400,
            "0:",
            "The number of keys specified in the URI does not match number of key properties for the resource 'devstoreaccount1.cars'.",
        ),
    ] {
        let alone = failed(&mut client, std::slice::from_ref(&operation));
        assert!(alone.0 == status && alone.2.starts_with(&format!("{prefix}{message}")), "{alone:?} {message}");
        if !operation.contains("/none") {
            let second = failed(&mut client, &[first(), operation]);
            assert!(second.0 == status && second.2.starts_with(&format!("1:{message}")), "{second:?} {message}");
        }
    }
    assert_eq!(rows(&mut client, "cars"), ["1"], "nothing of a failed changeset is stored");
}

#[test]
fn the_content_id_of_a_failed_operation() {
    // 05 §5: of the failed operation, or of the last one if the storage refuses.
    let (_server, mut client) = server_with_table("cars");
    let good = |row: &str| with_id(&insert("cars", "p", row), &format!("id{row}"));
    let missing = with_id(&change("MERGE", "none", "If-Match: *"), "missing");
    assert_eq!(failed(&mut client, &[good("1"), missing, good("2")]).1, "id2");
    let duplicate = with_id(&insert("cars", "p", "1"), "duplicate");
    assert_eq!(failed(&mut client, &[good("1"), duplicate, good("2")]).1, "duplicate");
}

#[test]
fn a_changeset_has_at_most_a_hundred_operations() {
    // 05 §5.2
    let (_server, mut client) = server_with_table("cars");
    let operations: Vec<_> = (0..101).map(|row| insert("cars", "p", &format!("{row:03}"))).collect();
    let message = "99:The batch request operation exceeds the maximum 100 changes per change set.".to_owned();
    assert_eq!(failed(&mut client, &operations), (400, String::new(), message));
    assert!(rows(&mut client, "cars").is_empty());
    let operations: Vec<_> = operations.iter().take(100).map(String::as_str).collect();
    let answer = frame(&post(&mut client, &[changeset(&operations)]));
    assert_eq!(answer.matches("HTTP/1.1 204").count(), 100);
    // Line ends are LF or CRLF, and an empty changeset succeeds.
    let crlf = (changeset(&[&insert("cars", "q", "1")]) + "--b--\n").replace('\n', "\r\n");
    let answer = client.request("POST", "/$batch", &[BATCH], crlf.as_bytes());
    assert!(frame(&answer).contains("HTTP/1.1 204 No Content"));
    let empty = "--BATCH\nContent-Type: multipart/mixed; boundary=CHANGESET\n\n--CHANGESET--\n--BATCH--\n";
    assert_eq!(frame(&post(&mut client, &[changeset(&[])])), empty);
}
