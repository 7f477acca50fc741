//! Tests of the in-process server.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod clock;
mod costs;
#[cfg(target_os = "linux")]
mod dependencies;
mod faults;
mod life;
mod options;
mod program;
mod rehearsal;
mod snapshots;

use rowhouse_testing::TestServer;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use test_support::{Account, Client, Response};

struct DatedClient<'s> {
    server: &'s TestServer,
    client: Client,
}

impl<'s> DatedClient<'s> {
    fn new(server: &'s TestServer) -> Self {
        Self { server, client: Client::connect(&server.address().to_string()).unwrap() }
    }

    fn request(&mut self, method: &str, path: &str, body: &Value) -> Response {
        let now = self.server.clock().now();
        self.request_at(now, method, path, body)
    }

    fn request_at(&mut self, date: SystemTime, method: &str, path: &str, body: &Value) -> Response {
        let date = httpdate::fmt_http_date(date);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(method, path, &[("x-ms-date", &date)], &body)
    }

    fn create_table(&mut self, name: &str) {
        assert_eq!(self.request("POST", "/Tables", &json!({ "TableName": name })).status, 201);
    }

    fn insert(&mut self, table: &str, entity: &Value) -> Value {
        let inserted = self.request("POST", &format!("/{table}"), entity);
        assert_eq!(inserted.status, 201, "{inserted:?}");
        inserted.json()
    }
}

/// Sends a request without an `Authorization` header; it may be signed in its URL.
fn anonymous(server: &TestServer, path_and_query: &str) -> u16 {
    let mut client = Client::connect_as(&server.address().to_string(), &Account::development()).unwrap();
    let head = format!(
        "GET /devstoreaccount1{path_and_query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"
    );
    client.send(head.as_bytes()).unwrap();
    client.receive_head().unwrap().status
}

fn july(hours: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_940_630_400 + hours * 3600)
}
