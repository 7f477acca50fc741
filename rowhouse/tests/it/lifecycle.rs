//! Tests of the server process: starting, refusing to start, stopping.

use crate::PROGRAM;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use test_support::{Client, head};

fn refusal(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = PROGRAM.serve(args).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "readiness must not be announced");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn refusal_of_folder(folder: &Path) -> String {
    refusal(&["--listen", "127.0.0.1:0", "--data", folder.to_str().unwrap()])
}

fn data_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = PROGRAM.start(&["--data", folder.path().to_str().unwrap()]);
    create_table(&mut server.client());
    assert!(server.stop().0.success());
    folder
}

fn create_table(client: &mut Client) {
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"tab"}"#).status, 201);
}

fn content(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = PROGRAM.start(&["--data", folder.path().to_str().unwrap()]);
    let said = refusal_of_folder(folder.path());
    assert!(said.contains("in use by another Rowhouse"), "{said}");
    create_table(&mut first.client());
    assert!(first.stop().0.success());
}

#[test]
fn folders_that_are_newer_damaged_or_foreign_are_refused_and_left_alone() {
    let newer = data_folder();
    let marker = newer.path().join("rowhouse.marker");
    let text = fs::read_to_string(&marker).unwrap();
    fs::write(&marker, text.replace("format 1\n", "format 99\n")).unwrap();
    let damaged = data_folder();
    fs::write(damaged.path().join("rowhouse.marker"), "").unwrap();
    let foreign = tempfile::tempdir().unwrap();
    fs::write(foreign.path().join("letter.txt"), "dear").unwrap();
    for (folder, expected) in [(&newer, "format 99"), (&damaged, "damaged"), (&foreign, "not a Rowhouse data folder")] {
        let before = content(folder.path());
        let said = refusal_of_folder(folder.path());
        assert!(said.contains(expected), "{said}");
        assert_eq!(content(folder.path()), before, "{expected}");
    }
    fs::write(&marker, text).unwrap();
    let server = PROGRAM.start(&["--data", newer.path().to_str().unwrap()]);
    assert_eq!(server.client().request("GET", "/Tables('tab')", &[], b"").status, 200);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let named = format!("{address} is already in use: stop the other process");
    for (arguments, option) in [
        (&["--listen", &address][..], "--listen 127.0.0.1:0"),
        (&["--listen", "127.0.0.1:0", "--admin", &address], "--admin 127.0.0.1:0"),
    ] {
        let said = refusal(&[&["--in-memory"], arguments].concat());
        assert!(said.contains(&named) && said.contains(option), "{said}");
    }
}

#[test]
fn a_request_under_way_is_finished_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    let server = PROGRAM.start(&arguments);
    create_table(&mut server.client());
    let (mut idle, mut client) = (server.client(), server.client());
    assert_eq!(idle.request("GET", "/Tables", &[], b"").status, 200);
    let body = br#"{"PartitionKey":"p","RowKey":"r","A":1}"#;
    let length = body.len().to_string();
    // The server sends `100 Continue` when it has started processing the request and waits for the body.
    let headers = [("Content-Length", length.as_str()), ("Expect", "100-continue")];
    client.send(head("POST", "/tab", &headers).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 100);
    server.signal("TERM");
    server.wait_for_log("stopping on SIGTERM");
    assert_eq!(idle.receive_all(), b"", "an idle connection is closed");
    client.send(body).unwrap();
    assert_eq!(client.receive().unwrap().status, 201);
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
    let restarted = PROGRAM.start(&arguments);
    let stored = restarted.client().request("GET", "/tab(PartitionKey='p',RowKey='r')", &[], b"");
    assert_eq!((stored.status, stored.json()["A"].as_i64()), (200, Some(1)));
}

#[test]
fn a_request_that_never_ends_does_not_prevent_the_stop() {
    let server = PROGRAM.start(&["--in-memory", "--shutdown-seconds", "1"]);
    let mut client = server.client();
    client.send(head("POST", "/tab", &[("Content-Length", "10"), ("Expect", "100-continue")]).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 100);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log:?}");
    assert_eq!(client.receive_all(), b"");
}

#[test]
fn ctrl_c_stops_in_order_too() {
    let server = PROGRAM.start(&["--in-memory"]);
    server.signal("INT");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
    assert!(log.iter().any(|line| line.contains("stopped")), "{log:?}");
}

#[test]
fn a_server_with_nothing_to_reload_survives_sighup() {
    let folder = tempfile::tempdir().unwrap();
    for place in [&["--in-memory"][..], &["--data", folder.path().to_str().unwrap()]] {
        let server = PROGRAM.start(place);
        server.signal("HUP");
        server.wait_for_log("no account file");
        create_table(&mut server.client());
        let (status, log) = server.stop();
        assert!(status.success(), "{place:?}: {log:?}");
    }
}

#[test]
fn the_end_of_standard_input_stops_a_server_that_was_asked_to() {
    let mut server = PROGRAM.start_with(&["--in-memory", "--stop-with-stdin"], |command| {
        command.stdin(Stdio::piped());
    });
    let mut input = server.take_stdin();
    input.write_all(b"what is written is not read as anything\n").unwrap();
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
    drop(input);
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
    assert!(log.iter().any(|line| line.contains("standard input was closed")), "{log:?}");
}

#[test]
fn the_end_of_standard_input_also_ends_a_server_that_still_waits_for_its_database() {
    // This listener accepts connections through the system's queue but never responds.
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://rowhouse@{}/tables?connect_timeout=600", database.local_addr().unwrap());
    let mut command = PROGRAM.serve(&["--listen", "127.0.0.1:0", "--store", &url, "--stop-with-stdin"]);
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    let log = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("standard input was closed before the server was ready"), "{log}");
}

#[test]
fn a_signal_stops_a_server_that_waits_for_the_end_of_standard_input() {
    let mut server = PROGRAM.start_with(&["--in-memory", "--stop-with-stdin"], |command| {
        command.stdin(Stdio::piped());
    });
    let _input = server.take_stdin();
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log:?}");
}

#[test]
fn without_the_option_the_end_of_standard_input_means_nothing() {
    // Standard input of this server is empty.
    let server = PROGRAM.start(&["--in-memory"]);
    assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 200);
    assert!(server.stop().1.iter().any(|line| line.contains("stopping on SIGTERM")));
}
