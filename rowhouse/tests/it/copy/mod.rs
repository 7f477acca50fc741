//! Tests of `rowhouse copy` as users run it: between data folders and running servers, interrupted and disturbed.
//!
//! The tests judge a copy by reading both sides over HTTP, not by the output of the command.

mod followed;
mod interrupted;
mod ways;
mod wide;

use crate::PROGRAM;
use serde_json::json;
use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use test_support::command::{endpoint, interrupt_and_wait};
use test_support::content::{fill, fill_with_everything, put, snapshot};
use test_support::proxy::Proxy;

#[test]
fn busy_services_and_broken_connections_do_no_harm() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill_with_everything(&from);
    fill(&from, "scattered", 100, 2);
    fill(&from, "deep", 2, 2000);
    let (source, target) = (Proxy::start(&from.address, 4), Proxy::start(&to.address, 8));
    folder.copy_successfully(&["--from", &endpoint(&source.address), "--to", &endpoint(&target.address)]);
    assert_eq!(snapshot(&to), snapshot(&from));
    for counts in [&source.counts, &target.counts] {
        for counter in [&counts.busy, &counts.dropped_requests, &counts.dropped_answers] {
            assert!(counter.load(Ordering::Relaxed) > 0, "{counts:?}");
        }
    }
}

#[test]
fn a_service_that_was_never_reached_is_an_error_at_once_and_nothing_is_created() {
    let folder = PROGRAM.folder();
    std::fs::write(folder.path("cars.jsonl"), "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n").unwrap();
    // Nothing listens on this port.
    let service = endpoint("127.0.0.1:1");
    for (command, arguments, side, what) in [
        ("copy", ["--from", &service, "--to", "to"], "--from", "listing the tables"),
        ("export", ["--from", &service, "--to", "to"], "--from", "listing the tables"),
        ("import", ["--from", "cars.jsonl", "--to", &service], "--to", "looking for the table 'cars'"),
    ] {
        let ran = folder.run(command, &arguments, &[]);
        // A second attempt would be counted in the message.
        let told = format!(
            "{side} {service}: {what} got no response: connecting failed: Connection refused (os error 111) (is a server \
             running there? Start one with 'rowhouse serve', or choose a different server with {side})\n"
        );
        assert!(ran.code == Some(1) && ran.stderr.ends_with(&told), "{command}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{command}: {ran:?}");
        let names: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["cars.jsonl"], "{command}");
    }
}

#[test]
fn ctrl_c_ends_the_wait_for_a_service_that_does_not_respond() {
    let folder = PROGRAM.folder();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = folder.start(&["--from", &endpoint(&service.local_addr().unwrap().to_string()), "--to", "to"]);
    let mut connection = service.accept().unwrap().0;
    connection.read_exact(&mut [0]).unwrap();
    let ran = interrupt_and_wait(child);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "rowhouse: stopped\n"));
    assert!(!std::fs::exists(folder.path("to")).unwrap());
}

#[test]
fn a_target_with_entities_is_left_alone_without_an_option() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill(&from, "cars", 1, 10);
    fill(&from, "vans", 1, 10);
    fill(&to, "CARS", 1, 5);
    put(&mut to.client(), "cars", "p00000", "00003", &json!({ "Mine": true }));
    let before = snapshot(&to);
    let arguments = ["--from", &endpoint(&from.address), "--to", &endpoint(&to.address)];
    let told = folder.copy_error(&arguments);
    assert!(told.contains("'cars'") && told.contains("--overwrite") && told.contains("nothing was copied"), "{told}");
    assert_eq!(snapshot(&to), before);
    assert!(folder.states("copy").is_empty(), "there is nothing to resume");
    let ran = folder.copy_successfully(&[&arguments[..], &["--overwrite"]].concat());
    assert!(ran.stdout.contains("copied 2 tables, 20 entities"), "{ran:?}");
    // Entities that exist only in the target are kept and reported.
    put(&mut to.client(), "cars", "other", "1", &json!({}));
    let ran = folder.copy(&[&arguments[..], &["--overwrite"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("partition \"other\", row \"1\": the source has no such entity"), "{ran:?}");
    // An empty table with the same name is not an obstacle.
    let empty = PROGRAM.start(&["--in-memory"]);
    test_support::content::create_table(&mut empty.client(), "cars");
    folder.copy_successfully(&["--from", &endpoint(&from.address), "--to", &endpoint(&empty.address)]);
}

#[test]
fn mistakes_are_explained_and_change_nothing() {
    let folder = PROGRAM.folder();
    let server = PROGRAM.start(&["--data", &folder.path("busy")]);
    let service = endpoint(&server.address);
    for (arguments, told) in [
        (&["--from", "busy", "--to", "to"][..], "pass the URL of that server instead"),
        (&["--from", "nowhere", "--to", "to"], "there is no data folder at"),
        (&["--from", &service, "--to", "nowhere", "--verify-only"], "there is no data folder at"),
        (&["--from", &service, "--to", &service], "--from and --to are the same"),
        (&["--from", &service, "--to", "https://orchard.table.example.net"], "ROWHOUSE_TO_KEY"),
        (&["--from", &service, "--to", "to", "--account", "orchard"], "its accounts are devstoreaccount1"),
        (&["--from", &service, "--to", "to", "--account", "No!"], "not a valid account name"),
        (&["--from", &service, "--to", "to", "--tables", "a-b"], "not a valid table name"),
        (&["--from", &service, "--to", "to", "--from-key-file", "nowhere"], "--from-key-file"),
        (&["--from", "redis://h/1", "--to", "to"], "'redis://'"),
    ] {
        let said = folder.copy_error(arguments);
        assert!(said.contains(told), "{arguments:?}: {said}");
        assert!(folder.states("copy").is_empty(), "{arguments:?}");
    }
    let wrong = [("ROWHOUSE_FROM_KEY", "AAECAwQFBgcICQoLDA0ODw==")];
    let ran = folder.run("copy", &["--from", &service, "--to", "to"], &wrong);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("AuthenticationFailed") && !ran.stderr.contains("AAECAw"), "{ran:?}");
    assert!(!std::fs::exists(folder.path("to")).unwrap(), "a target is created once the source was read");
    // The folder was locked before it was examined, and is undamaged.
    assert!(server.stop().0.success());
    folder.copy_successfully(&["--from", "busy", "--to", "to"]);
}
