//! Tests of how quotas are set, and how they change while the server runs.

use crate::PROGRAM;
use std::fs;
use std::path::PathBuf;
use test_support::{ACCOUNT, Client, KEY, Response, Server};

struct Held {
    _folder: tempfile::TempDir,
    file: PathBuf,
    server: Server,
    client: Client,
}

fn held(quota: &str) -> Held {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.toml");
    fs::write(&file, accounts(quota)).unwrap();
    let server = PROGRAM.start(&["--in-memory", "--accounts", file.to_str().unwrap()]);
    let client = server.client();
    Held { _folder: folder, file, server, client }
}

fn accounts(quota: &str) -> String {
    format!("[[account]]\nname = \"{ACCOUNT}\"\nkey1 = \"{KEY}\"\n[account.quota]\n{quota}\n")
}

impl Held {
    fn change(&self, quota: &str) {
        fs::write(&self.file, accounts(quota)).unwrap();
        self.server.signal("HUP");
        self.server.wait_for_log("accounts: reloaded");
    }
}

fn create_table(client: &mut Client, name: &str) -> Response {
    client.request("POST", "/Tables", &[], format!("{{\"TableName\":\"{name}\"}}").as_bytes())
}

fn assert_over_quota(answer: &Response) {
    assert_eq!((answer.status, answer.header("x-ms-error-code")), (403, Some("InsufficientAccountPermissions")));
    let message = &answer.json()["odata.error"]["message"]["value"];
    assert!(message.as_str().unwrap().starts_with("Write operations are not allowed."), "{message}");
}

#[test]
fn quotas_change_while_the_server_runs() {
    let mut held = held("max-tables = 2");
    let client = &mut held.client;
    assert_eq!(create_table(client, "one").status, 201);
    assert_eq!(create_table(client, "two").status, 201);
    assert_over_quota(&create_table(client, "three"));
    held.change("max-tables = 3");
    assert_eq!(create_table(&mut held.client, "three").status, 201);
    held.change("max-tables = 0");
    assert_over_quota(&create_table(&mut held.client, "four"));
}

#[test]
fn an_option_sets_a_quota_for_every_account() {
    let server = PROGRAM.start(&["--in-memory", "--max-tables", "1"]);
    let mut client = server.client();
    assert_eq!(create_table(&mut client, "one").status, 201);
    assert_over_quota(&create_table(&mut client, "two"));
}
