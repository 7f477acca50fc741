//! Entities and transactions beyond the limits of Table storage, in the other dialect (11 §6, §9).

use crate::Server;
use model::Dialect;
use serde_json::{Value, json};
use test_support::{Client, Response, statuses, transact};

const MIB: usize = 1024 * 1024;

fn cosmos() -> (Server, Client) {
    let server = Server::with(|settings| settings.dialect = Dialect::Cosmos);
    server.create(&["cars"]);
    let client = server.client();
    (server, client)
}

fn entity(row: &str, properties: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut entity = json!({ "PartitionKey": "p", "RowKey": row });
    entity.as_object_mut().unwrap().extend(properties);
    entity
}

fn numbers(count: usize) -> impl Iterator<Item = (String, Value)> {
    (0..count).map(|number| (format!("P{number}"), number.into()))
}

fn insert(client: &mut Client, entity: &Value) -> Response {
    client.request("POST", "/cars", &[], entity.to_string().as_bytes())
}

/// Returns the status, the code and the reason of a refusal.
fn refusal(response: &Response) -> (u16, String, String) {
    let text = String::from_utf8_lossy(&response.body);
    let code = text.split("\"code\":\"").nth(1).map_or("", |rest| rest.split('"').next().unwrap());
    let reason = response.header("x-ms-rowhouse-reason").unwrap_or_default();
    (response.status, code.to_owned(), reason.to_owned())
}

fn refused(status: u16, code: &str, reason: &str) -> impl Fn(&Response) {
    let (code, reason) = (code.to_owned(), reason.to_owned());
    move |response| {
        let (actual, actual_code, actual_reason) = refusal(response);
        assert_eq!((actual, &actual_code), (status, &code), "{actual_reason}");
        assert!(actual_reason.starts_with(&reason), "{actual_reason}");
    }
}

#[test]
fn entities_have_the_limits_of_the_dialect() {
    let (server, mut client) = cosmos();
    let name = |length: usize| entity("n", [("n".repeat(length), Value::from(1))]);
    // The request is larger than the entity by the punctuation of JSON.
    let text = |length: usize| entity("t", [("v".to_owned(), Value::from("x".repeat(length)))]);
    for accepted in [entity("r", numbers(255)), name(1024), text(2 * MIB - 1024)] {
        assert_eq!(insert(&mut client, &accepted).status, 201);
        let row = accepted["RowKey"].as_str().unwrap();
        let found = client.request("GET", &format!("/cars(PartitionKey='p',RowKey='{row}')"), &[], b"").json();
        for (name, value) in accepted.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name}");
        }
    }
    for (entity, refused) in [
        (
            entity("s", numbers(256)),
            refused(400, "TooManyProperties", "properties-too-many: The request has 256 properties; the limit is 255."),
        ),
        (
            name(1025),
            refused(400, "PropertyNameTooLong", "property-name: The name that begins with 'nnnnnnnnnnnnnnnnnnnn'"),
        ),
        (text(2 * MIB), refused(400, "EntityTooLarge", "entity-too-large: The entity has 2097")),
    ] {
        refused(&insert(&mut client, &entity));
    }
    // A merge counts what the stored entity keeps.
    let merge = |client: &mut Client, row: &str, body: &Value| {
        let path = format!("/cars(PartitionKey='p',RowKey='{row}')");
        client.request("MERGE", &path, &[("If-Match", "*")], body.to_string().as_bytes())
    };
    assert_eq!(merge(&mut client, "r", &json!({ "P7": "seven" })).status, 204);
    refused(400, "TooManyProperties", "properties-too-many: ")(&merge(&mut client, "r", &json!({ "new": 1 })));
    refused(400, "EntityTooLarge", "entity-too-large: ")(&merge(&mut client, "t", &json!({ "w": "x".repeat(1024) })));
    server.assert_unharmed();
}

#[test]
fn a_page_of_one_entity_is_longer_than_others_and_continues() {
    let (server, mut client) = cosmos();
    // Each character needs six bytes in JSON, so the entities are written with two requests each.
    let text = "\u{1}".repeat(600_000);
    for row in ["a", "b"] {
        assert_eq!(insert(&mut client, &entity(row, [("one".to_owned(), text.as_str().into())])).status, 201);
        let path = format!("/cars(PartitionKey='p',RowKey='{row}')");
        let body = json!({ "two": text, "three": 3 }).to_string();
        assert_eq!(client.request("MERGE", &path, &[("If-Match", "*")], body.as_bytes()).status, 204);
    }
    let mut pages = Vec::new();
    let mut from = String::new();
    for _ in ["a", "b"] {
        let page = client.request("GET", &format!("/cars()?$top=1{from}"), &[], b"");
        assert_eq!(page.status, 200);
        assert!((13 * MIB / 2..7 * MIB).contains(&page.body.len()), "{}", page.body.len());
        from = page.continuation();
        pages.push(page.results());
    }
    assert_eq!(from, "");
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!((&pages[0][0]["RowKey"], &pages[1][0]["RowKey"]), (&"b".into(), &"a".into()));
    assert_eq!(pages[1][0]["two"], text);
    server.assert_unharmed();
}

#[test]
fn a_transaction_has_the_limits_of_the_dialect() {
    let (server, mut client) = cosmos();
    let inserts = |count: usize, bytes: usize| -> Vec<String> {
        let operation = |row: usize| {
            let body = entity(&format!("{count}-{row}"), [("v".to_owned(), Value::from("x".repeat(bytes)))]);
            format!("POST /cars HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\r\n{body}")
        };
        (0..count).map(operation).collect()
    };
    for count in [101, 128] {
        assert_eq!(statuses(&transact(&mut client, &inserts(count, 0)).unwrap()), vec![204; count]);
    }
    let too_many = transact(&mut client, &inserts(129, 0)).unwrap();
    assert_eq!(statuses(&too_many), [400]);
    let text = String::from_utf8_lossy(&too_many.body);
    assert!(text.contains("127:The batch request operation exceeds the maximum 128 changes per change set."), "{text}");
    assert_eq!(statuses(&transact(&mut client, &inserts(2, MIB - 1024)).unwrap()), [204, 204]);
    refused(413, "RequestBodyTooLarge", "body-too-large: The batch has 209")(
        &transact(&mut client, &inserts(3, 2 * MIB / 3)).unwrap(),
    );
    server.assert_unharmed();
}

#[test]
fn an_extension_accepts_large_entities_in_the_dialect_of_storage() {
    let server = Server::with(|settings| (settings.extensions, settings.large_entities) = (true, true));
    server.create(&["cars"]);
    let mut client = server.client();
    let large = entity("r", numbers(254).chain([("v".to_owned(), Value::from("x".repeat(3 * MIB / 2)))]));
    assert_eq!(insert(&mut client, &large).status, 201);
    let found = client.request("GET", "/cars(PartitionKey='p',RowKey='r')", &[], b"").json();
    assert_eq!(found["v"], large["v"]);
    refused(400, "EntityTooLarge", "entity-too-large: ")(&client.request(
        "MERGE",
        "/cars(PartitionKey='p',RowKey='r')",
        &[("If-Match", "*")],
        json!({ "P0": "x".repeat(MIB) }).to_string().as_bytes(),
    ));
    // A transaction keeps its limits.
    let delete = |row: usize| format!("DELETE /cars(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nIf-Match: *\r\n\r\n");
    let too_many = transact(&mut client, &(0..101).map(delete).collect::<Vec<_>>()).unwrap();
    assert!(String::from_utf8_lossy(&too_many.body).contains("the maximum 100 changes per change set"));
    server.assert_unharmed();
}
