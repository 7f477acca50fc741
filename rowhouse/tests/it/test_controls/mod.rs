//! Tests of the test controls (`--test-controls`): over HTTP on the admin listener, with real clients of the service.

mod accounts;
mod clock;
mod protection;
mod seed;
mod snapshots;

use crate::PROGRAM;
use crate::admin::page::ask;
use serde_json::{Value, json};
use test_support::content::create_table;
use test_support::{Account, Client, Response, Server};

const JSON: &str = "Content-Type: application/json\r\n";

fn server() -> Server {
    PROGRAM.start(&["--in-memory", "--test-controls"])
}

/// `body` is sent as JSON, unless it is null.
fn control(server: &Server, method: &str, path: &str, body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(&server.admin, method, &format!("/test/{path}"), JSON, &body)
}

/// Sends a control request, which must succeed, and returns the response; null if it is empty.
fn done(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let response = control(server, method, path, body);
    assert!((200..300).contains(&response.status), "{method} {path} {body}: {response:?}");
    if response.status == 204 { Value::Null } else { response.json() }
}

fn refused(server: &Server, method: &str, path: &str, body: &Value) -> u16 {
    let response = control(server, method, path, body);
    let reason = response.json();
    assert!(reason["error"].as_str().is_some_and(|reason| reason.len() > 10), "{method} {path} {body}: {response:?}");
    response.status
}

fn reset(server: &Server) {
    assert_eq!(done(server, "POST", "reset", &json!({})), Value::Null);
}

fn new_account(server: &Server, body: &Value) -> (String, Client) {
    let made = done(server, "POST", "accounts", body);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    assert_eq!(text("endpoint"), format!("http://{}/{}", server.address, text("name")));
    let connection_string = format!(
        "DefaultEndpointsProtocol=http;AccountName={};AccountKey={};TableEndpoint={};",
        text("name"),
        text("key"),
        text("endpoint")
    );
    assert_eq!(text("connectionString"), connection_string);
    let client = server.client_of(&Account::new(&text("name"), &text("key")));
    (text("name"), client)
}

fn insert(client: &mut Client, table: &str, row: &str) -> Value {
    let body = json!({ "PartitionKey": "p", "RowKey": row }).to_string();
    let inserted = client.request("POST", &format!("/{table}"), &[], body.as_bytes());
    assert_eq!(inserted.status, 201, "{inserted:?}");
    inserted.json()
}

fn tables(client: &mut Client) -> Vec<String> {
    let listed = client.request("GET", "/Tables", &[], b"").json();
    let names = listed["value"].as_array().unwrap().iter();
    names.map(|table| table["TableName"].as_str().unwrap().to_owned()).collect()
}

fn rows(client: &mut Client, table: &str) -> Vec<String> {
    let page = client.request("GET", &format!("/{table}()"), &[], b"");
    assert_eq!(page.status, 200, "{page:?}");
    let page = page.json();
    page["value"].as_array().unwrap().iter().map(|entity| entity["RowKey"].as_str().unwrap().to_owned()).collect()
}
