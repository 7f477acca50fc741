//! Tests of how a rehearsal is requested, and what the server reports about it.

use super::*;
use std::process::Command;

#[test]
fn the_log_names_the_conditions_and_a_seed_that_repeats_them() {
    let (server, mut client) = rehearsing("busy=50%,empty-pages");
    let line = server.wait_for_log("rehearsing");
    assert!(line.contains("WARN") && line.contains("empty-pages=50%,busy=50%, seed="), "{line}");
    let seed = line.split("seed=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let statuses = |client: &mut Client| -> Vec<u16> {
        (0..40).map(|_| client.request("GET", "/Tables", &[], b"").status).collect()
    };
    let first = statuses(&mut client);
    assert!(first.contains(&200) && first.contains(&503), "{first:?}");
    // Additional conditions do not change the decisions for this condition.
    let (_server, mut client) = rehearsing(&format!("seed={seed},busy=50%,lost-answers"));
    assert_eq!(statuses(&mut client), first);
    let (_server, mut client) = rehearsing(&format!("seed={seed}1,busy=50%"));
    assert_ne!(statuses(&mut client), first);
}

#[test]
fn environment_and_file_ask_for_it_as_the_option_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rowhouse.toml");
    std::fs::write(&file, "rehearse = \"busy=100%\"\n").unwrap();
    let by_file = ["--in-memory", "--config", file.to_str().unwrap()];
    let by_environment = |command: &mut Command| {
        command.env("ROWHOUSE_REHEARSE", "busy=100%");
    };
    for server in [PROGRAM.start(&by_file), PROGRAM.start_with(&["--in-memory"], by_environment)] {
        assert_eq!(server.client().request("GET", "/Tables", &[], b"").status, 503);
    }
    let off = PROGRAM.start(&[&by_file[..], &["--rehearse", "off"]].concat());
    assert_eq!(off.client().request("GET", "/Tables", &[], b"").status, 200);
    let (_, log) = off.stop();
    assert!(!log.iter().any(|line| line.contains("rehearsing")), "{log:?}");
}

#[test]
fn a_list_that_is_not_one_ends_the_start_with_what_to_give() {
    for (list, part) in [
        ("rain", "there is no condition \"rain\": give all, off, or some of partition-pages, empty-pages,"),
        ("", "there is no condition"),
        ("busy=5", "\"5\" is not a valid value for busy: give a share from 0% to 100%"),
        ("deletion=2h", "give a time up to an hour"),
        ("seed=often", "give a whole number"),
        ("busy,busy", "busy is given twice"),
    ] {
        let ran = PROGRAM.serve(&["--in-memory", "--listen", "127.0.0.1:0", "--rehearse", list]).output().unwrap();
        let errors = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success() && errors.contains("--rehearse") && errors.contains(part), "{list}: {errors}");
    }
}
