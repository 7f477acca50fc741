//! The metrics tables of a server that keeps metrics: clients read them and delete entities, and nothing else (10 §8).

use crate::Layer::{FrontEnd, Query, Storage};
use crate::{Case, Server, check, delete, get, merge, post, put};

const HOUR: &str = "$MetricsHourPrimaryTransactionsTable";
const MINUTE: &str = "$MetricsMinutePrimaryTransactionsTable";
const SECONDARY: &str = "$MetricsHourSecondaryTransactionsTable";
const KEY: &str = "(PartitionKey='20310314T0800',RowKey='user;All')";

fn server() -> Server {
    Server::with(|settings| settings.has_analytics = true)
}

#[test]
fn they_are_hidden_and_only_the_server_writes_them() {
    let body = r#"{"PartitionKey":"20310314T0800","RowKey":"user;All"}"#;
    let denied = |case: Case| case.fails(403, "AuthorizationFailure", Storage);
    let url = |table: &str| format!("BASE/Tables('{}')", table.replace('$', "%24"));
    let full = format!(
        r#"{{"odata.metadata":"BASE/$metadata#Tables/@Element","odata.type":"devstoreaccount1.Tables","odata.id":"{}","odata.editLink":"Tables('{}')","TableName":"{HOUR}"}}"#,
        url(HOUR),
        HOUR.replace('$', "%24")
    );
    let entity = format!("/{HOUR}{KEY}");
    check(
        &server(),
        [
            get("/Tables").level("nometadata").ok(200).json(r#"{"value":[]}"#),
            get(&format!("/Tables('{HOUR}')")).level("fullmetadata").ok(200).json(&full),
            get(&format!("/{HOUR}()")).level("nometadata").ok(200).json(r#"{"value":[]}"#),
            get(&format!("/{SECONDARY}()")).level("nometadata").ok(200).json(r#"{"value":[]}"#),
            denied(post(&format!("/{HOUR}"), body)),
            denied(put(&entity, "{}")),
            denied(merge(&entity, "{}")),
            denied(put(&entity, "{}").with("If-Match", "*")),
            denied(delete(&format!("/Tables('{HOUR}')"))),
            post("/Tables", &format!("{{\"TableName\":\"{HOUR}\"}}")).fails(400, "InvalidResourceName", Storage),
            get(&format!("/{HOUR}?comp=acl")).fails(404, "TableNotFound", FrontEnd),
            get("/$MetricsCapacityBlob()").fails(404, "TableNotFound", Query),
            get("/$MetricsHourPrimaryTransactionsBlob()").fails(404, "TableNotFound", Query),
        ],
    );
    // Without metrics, and for an endpoint that is not served, the tables do not exist.
    check(&Server::start(), [get(&format!("/{HOUR}()")).fails(404, "TableNotFound", Query)]);
    let alone = Server::with(|settings| {
        (settings.has_analytics, settings.secondary) = (true, rowhouse_server::Secondary::Off);
    });
    check(&alone, [get(&format!("/{SECONDARY}()")).fails(404, "TableNotFound", Query)]);
}

#[test]
fn in_a_metrics_table_without_entities_the_entity_is_not_found() {
    let server = server();
    let mut client = server.client();
    let key = "(PartitionKey='20310314T0800',RowKey='user;All')";
    for (method, headers) in [("GET", &[][..]), ("DELETE", &[("If-Match", "*")])] {
        let answer = client.request(method, &format!("/{MINUTE}{key}"), headers, b"");
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (404, Some("ResourceNotFound")), "{method}");
    }
    let batch = format!(
        "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n\
         DELETE /{MINUTE}{key} HTTP/1.1\nIf-Match: *\nAccept: application/json\n\n--c--\n--b--\n"
    );
    let batch = client.request("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], batch.as_bytes());
    let text = String::from_utf8(batch.body).unwrap();
    assert!(text.contains("HTTP/1.1 404 Not Found") && text.contains("ResourceNotFound"), "{text}");
}

#[test]
fn a_transaction_that_writes_metrics_is_refused_at_that_mutation() {
    let server = server();
    let mut client = server.client();
    let start = "--c\nContent-Type: application/http\n\n";
    let delete = format!("{start}DELETE /{MINUTE}(PartitionKey='p',RowKey='1') HTTP/1.1\nIf-Match: *\n\n\n");
    let json = "Content-Type: application/json\nAccept: application/json";
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}";
    let insert = format!("{start}POST /{MINUTE} HTTP/1.1\n{json}\n\n{entity}\n");
    let kind = [("Content-Type", "multipart/mixed; boundary=b")];
    for (operations, index) in [([&delete, &insert], 1), ([&insert, &delete], 0)] {
        let operations = operations.map(String::as_str).concat();
        let batch = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{operations}--c--\n--b--\n");
        let text = String::from_utf8(client.request("POST", "/$batch", &kind, batch.as_bytes()).body).unwrap();
        assert!(text.contains("AuthorizationFailure") && text.contains(&format!("\"{index}:")), "{text}");
    }
}
