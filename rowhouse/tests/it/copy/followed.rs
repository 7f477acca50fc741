//! Tests of copies from a server that clients write to during the copy.

use crate::PROGRAM;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use test_support::command::{CommandResult, Folder, endpoint};
use test_support::content::{create_table, fill, fill_with_everything, put, set_properties, snapshot};
use test_support::writers::{EntityWriter, Tally};
use test_support::{EndOnDrop, Random, Server, eventually};

const SEED: &str = "ROWHOUSE_COPY_SEED";

fn source() -> Server {
    PROGRAM.start(&["--in-memory", "--keep-log", "1h", "--extensions"])
}

fn follow(folder: &Folder, from: &str, more: &[&str]) -> CommandResult {
    folder.copy(&[&["--follow", "--from", &endpoint(from)], more].concat())
}

#[test]
fn a_copy_has_what_was_written_while_it_ran() {
    let folder = PROGRAM.folder();
    let (from, to) = (source(), PROGRAM.start(&["--in-memory", "--extensions"]));
    fill_with_everything(&from);
    fill(&from, "deep", 2, 2000);
    create_table(&mut from.client(), "crash");
    let target = endpoint(&to.address);
    let run = |more: &[&str]| follow(&folder, &from.address, &[&["--to", &target], more].concat());

    let mut random = Random::from_environment(SEED);
    let mut writers: Vec<_> = (0..3).map(|number| EntityWriter::new(number, random.number())).collect();
    let (tally, is_over) = (Tally::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for writer in &mut writers {
            let (address, is_over, tally) = (&from.address, &is_over, &tally);
            scope.spawn(move || writer.write_through_faults(address, is_over, tally));
        }
        let _end = EndOnDrop(&is_over);
        for round in 0..3 {
            let before = tally.acknowledged.load(Ordering::SeqCst);
            eventually("writes", || (tally.acknowledged.load(Ordering::SeqCst) > before + 200).then_some(()));
            // A table that is created during the copy is copied by the next run.
            create_table(&mut from.client(), &format!("Created{round}"));
            put(&mut from.client(), &format!("Created{round}"), "p", "r", &serde_json::json!({ "Round": round }));
            let ran = run(&["--no-verify"]);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert_eq!(ran.stderr.contains("continuing an earlier copy"), round > 0, "{ran:?}");
        }
    });
    // What the feed does not contain is copied again.
    set_properties(&mut from.client(), "https://meadow.example");
    let deleted =
        from.client().request("DELETE", "/deep(PartitionKey='p00001',RowKey='00007')", &[("If-Match", "*")], b"");
    assert_eq!(deleted.status, 204, "{deleted:?}");
    let ran = run(&[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("both sides are equal"), "{ran:?}");
    assert_eq!(snapshot(&to), snapshot(&from));
    for writer in &mut writers {
        writer.check(&mut from.client(), 0);
    }
    assert!(folder.state("copy").is_some(), "the next run continues");
}

#[test]
fn a_killed_run_is_continued_with_its_changes() {
    let folder = PROGRAM.folder();
    let (from, to) = (source(), PROGRAM.start(&["--in-memory"]));
    fill(&from, "deep", 2, 2000);
    let held = test_support::proxy::Proxy::holding(&to.address, "/$batch", 10);
    let arguments =
        ["--follow", "--from", &endpoint(&from.address), "--to", &endpoint(&held.address), "--parallel", "1"];
    let mut child = folder.start(&arguments);
    held.wait_until_held();
    child.kill().unwrap();
    test_support::command::wait_for_exit(child);
    held.release();
    // Both are on the first page, which was already copied.
    let deleted =
        from.client().request("DELETE", "/deep(PartitionKey='p00000',RowKey='00003')", &[("If-Match", "*")], b"");
    assert_eq!(deleted.status, 204, "{deleted:?}");
    put(&mut from.client(), "deep", "p00000", "00004", &serde_json::json!({ "Changed": true }));
    let ran = folder.copy(&arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(snapshot(&to), snapshot(&from));
}

#[test]
fn what_a_copy_cannot_follow_is_reported() {
    let folder = PROGRAM.folder();
    let (from, to) = (source(), PROGRAM.start(&["--in-memory"]));
    let target = endpoint(&to.address);
    let error = |address: &str, expected: &str| {
        let ran = follow(&folder, address, &["--to", &target]);
        assert!(ran.code == Some(1) && ran.stderr.contains(expected), "{ran:?}");
    };
    let without_log = PROGRAM.start(&["--in-memory"]);
    create_table(&mut without_log.client(), "Tab");
    error(&without_log.address, "--keep-log");
    let data = folder.path("data");
    let server = PROGRAM.start(&["--data", &data]);
    create_table(&mut server.client(), "Tab");
    assert!(server.stop().0.success());
    let ran = folder.copy(&["--follow", "--from", &data, "--to", &target]);
    assert!(ran.code == Some(1) && ran.stderr.contains("needs a running server"), "{ran:?}");

    let mut client = from.client();
    create_table(&mut client, "Tab");
    let ran = follow(&folder, &from.address, &["--to", &target]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(client.request("DELETE", "/Tables('Tab')", &[], b"").status, 204);
    create_table(&mut client, "Tab");
    put(&mut client, "Tab", "p", "r", &serde_json::json!({}));
    error(&from.address, "the source deleted the table");
    assert_eq!(to.client().request("DELETE", "/Tables('Tab')", &[], b"").status, 204);
    let ran = follow(&folder, &from.address, &["--to", &target]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(snapshot(&to), snapshot(&from));
}
