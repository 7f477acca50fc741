//! Quotas: which requests are refused, and which still succeed.

use crate::Server;
use rowhouse_server::{QuotaSection, parse_toml};
use test_support::{Client, Response, eventually};

/// A server with a quota, and a client.
struct Held {
    server: Server,
    client: Client,
}

/// Starts a server with a quota, which is written as in an account file.
fn held(quota: &str) -> Held {
    let quota: QuotaSection = parse_toml(quota, &[]).unwrap();
    let server = Server::with(|settings| settings.quota = quota.quota());
    let client = server.client();
    Held { server, client }
}

fn create_table(client: &mut Client, name: &str) -> Response {
    client.request("POST", "/Tables", &[], format!("{{\"TableName\":\"{name}\"}}").as_bytes())
}

fn insert(client: &mut Client, table: &str, row: &str, text: &str) -> Response {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"Text\":\"{text}\"}}");
    client.request("POST", &format!("/{table}"), &[("Prefer", "return-no-content")], body.as_bytes())
}

fn entity(table: &str, row: &str) -> String {
    format!("/{table}(PartitionKey='p',RowKey='{row}')")
}

fn delete(client: &mut Client, table: &str, row: &str) -> u16 {
    client.request("DELETE", &entity(table, row), &[("If-Match", "*")], b"").status
}

fn upsert(client: &mut Client, table: &str, row: &str) -> Response {
    client.request("PUT", &entity(table, row), &[], br#"{"Text":"new"}"#)
}

fn assert_over_quota(answer: &Response) {
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (403, Some("InsufficientAccountPermissions")));
    let message = &answer.json()["odata.error"]["message"]["value"];
    assert!(message.as_str().unwrap().starts_with("Write operations are not allowed."), "{message}");
}

#[test]
fn the_number_of_tables_is_exact() {
    let mut held = held("max-tables = 2");
    let client = &mut held.client;
    assert_eq!(create_table(client, "one").status, 201);
    assert_eq!(create_table(client, "two").status, 201);
    assert_over_quota(&create_table(client, "three"));
    assert_eq!(create_table(client, "ONE").status, 409, "it would not be an additional table");
    assert_eq!(insert(client, "one", "1", "").status, 204, "entities are not limited");
    assert_eq!(client.request("DELETE", "/Tables('one')", &[], b"").status, 204);
    assert_eq!(create_table(client, "three").status, 201);
    assert_over_quota(&create_table(client, "four"));
}

#[test]
fn inserts_stop_at_the_last_entity_and_deletions_make_room() {
    let mut held = held("max-entities = 5");
    held.server.wait_for_log("counted for the quota");
    let client = &mut held.client;
    for table in ["one", "two"] {
        assert_eq!(create_table(client, table).status, 201);
    }
    for row in ["1", "2", "3"] {
        assert_eq!(insert(client, "one", row, "").status, 204);
    }
    assert_eq!(insert(client, "two", "1", "").status, 204);
    // Refused writes do not count toward the quota, however many there are.
    for (table, refused) in [("one", 409), ("nowhere", 404)] {
        assert_eq!(insert(client, table, "1", "").status, refused);
    }
    assert_eq!(insert(client, "two", "2", "").status, 204);
    assert_over_quota(&insert(client, "one", "4", ""));
    assert_over_quota(&upsert(client, "one", "4"));
    let batch = "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n\
                 POST /one HTTP/1.1\nAccept: application/json\nContent-Type: application/json\n\n\
                 {\"PartitionKey\":\"p\",\"RowKey\":\"4\"}\n--c--\n--b--\n";
    let batch = client.request("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], batch.as_bytes());
    let text = String::from_utf8(batch.body).unwrap();
    assert_eq!(batch.status, 202);
    assert!(text.contains("HTTP/1.1 403 Forbidden") && text.contains("0:Write operations are not allowed."), "{text}");
    // Requests that need no space still succeed.
    assert_eq!(client.request("GET", "/one()", &[], b"").json()["value"].as_array().unwrap().len(), 3);
    assert_eq!(client.request("MERGE", &entity("one", "1"), &[("If-Match", "*")], br#"{"a":1}"#).status, 204);
    assert_eq!(delete(client, "two", "1"), 204);
    assert_eq!(insert(client, "one", "4", "").status, 204);
    let start = held.server.log().len();
    assert_over_quota(&insert(client, "one", "5", ""));
    // Because something was deleted, the refusal triggers a new count, which must not overlap with the next steps.
    held.server.wait_for_log_after(start, "counted for the quota");
    assert_eq!(client.request("DELETE", "/Tables('one')", &[], b"").status, 204);
    assert_eq!(insert(client, "two", "3", "").status, 204);
}

#[test]
fn upserts_are_refused_once_the_entities_they_made_are_counted() {
    let mut held = held("max-entities = 10");
    held.server.wait_for_log("counted for the quota");
    let client = &mut held.client;
    assert_eq!(create_table(client, "one").status, 201);
    // Rewriting the same entity repeatedly is no reason for a refusal.
    for _ in 0..30 {
        assert_eq!(upsert(client, "one", "same").status, 204);
    }
    let mut rows = 0..;
    let refused = eventually("a refusal", || {
        let answer = upsert(client, "one", &rows.next()?.to_string());
        (answer.status != 204).then_some(answer)
    });
    assert_over_quota(&refused);
    assert_eq!(client.request("GET", &entity("one", "same"), &[], b"").status, 200);
}
