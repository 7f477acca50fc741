//! Tests of the built program on systems without Unix signals; elsewhere, `tests/it` tests the same and much more.

#![cfg(not(unix))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use test_support::Program;

const PROGRAM: Program = Program::at(env!("CARGO_BIN_EXE_rowhouse"));

#[test]
fn the_program_reports_its_version() {
    let output = PROGRAM.command(&["--version"]).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("rowhouse "));
}

#[test]
fn an_acknowledged_entity_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    let server = PROGRAM.start(&arguments);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"cars"}"#).status, 201);
    let entity = br#"{"PartitionKey":"kestrel","RowKey":"0007","Doors":4}"#;
    assert_eq!(client.request("POST", "/cars", &[], entity).status, 201);
    assert_eq!(client.request("POST", "/cars", &[], entity).status, 409);
    server.kill9();
    let found =
        PROGRAM.start(&arguments).client().request("GET", "/cars(PartitionKey='kestrel',RowKey='0007')", &[], b"");
    assert_eq!((found.status, &found.json()["Doors"]), (200, &serde_json::json!(4)));
}

#[test]
fn a_folder_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    let _server = PROGRAM.start(&arguments);
    let second = PROGRAM.serve(&[&["--listen", "127.0.0.1:0"], &arguments[..]].concat()).output().unwrap();
    assert!(!second.status.success() && !second.stderr.is_empty());
}
