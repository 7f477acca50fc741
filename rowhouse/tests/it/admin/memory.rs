//! Tests that the parts of the process memory follow their causes, and add up to what the system reports.
//!
//! Linux only: the system's report is in `/proc`.

#![cfg(target_os = "linux")]

use super::page::{Page, page};
use super::send_unfinished_body;
use crate::PROGRAM;
use test_support::content::fill;
use test_support::{Client, Server, eventually};

const MIB: u64 = 1024 * 1024;

fn part(page: &Page, part: &str) -> u64 {
    page.count(&format!(r#"rowhouse_memory_bytes{{part="{part}"}}"#))
}

fn status(server: &Server, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Reads the page and the system's values repeatedly until they agree within a tenth, because memory may change between
/// the two readings.
fn page_that_adds_up(server: &Server) -> Page {
    eventually("parts that add up to the resident memory", || {
        let (before, page, after) = (status(server, "VmRSS"), page(server), status(server, "VmRSS"));
        let (least, most) = (before.min(after), before.max(after));
        let sum = page.sum("rowhouse_memory_bytes");
        (least / 10 * 9..=most / 10 * 11).contains(&sum).then_some(page)
    })
}

#[test]
fn parts_follow_their_causes_and_add_up_to_the_memory_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let server = PROGRAM.start(&["--data", folder.path().to_str().unwrap(), "--admin", "127.0.0.1:0"]);
    let fresh = page_that_adds_up(&server);
    assert_eq!(["cache", "memtables", "commit_queue", "bodies"].map(|name| part(&fresh, name) / MIB), [0; 4]);
    assert!(part(&fresh, "program") > MIB);
    assert!(fresh.count("rowhouse_memory_peak_bytes") >= fresh.sum("rowhouse_memory_bytes") / 10 * 9);

    fill(&server, "Harvest", 20, 1000);
    let filled = page_that_adds_up(&server);
    let stored = filled.count("rowhouse_commit_stored_bytes_total");
    assert!((2 * MIB..10 * MIB).contains(&stored), "{stored}");
    assert!(filled.count("process_disk_written_bytes_total") <= written_bytes(&server));
    let memtables = part(&filled, "memtables");
    let merged = filled.count("rowhouse_tree_sorted_files") > 0;
    assert!(memtables > stored || merged, "{memtables} of {stored}");

    // When the server is idle, it merges its memtables; reads then fill the cache.
    let merged = eventually("the merge", || {
        let page = page_that_adds_up(&server);
        (page.count("rowhouse_tree_compactions_total") > 0 && part(&page, "memtables") < MIB).then_some(page)
    });
    assert!(merged.0["rowhouse_tree_compaction_seconds_total"] > 0.0);
    let mut client = server.client();
    for partition in 0..20 {
        let path = format!("/Harvest()?$filter=PartitionKey%20eq%20%27p{partition:05}%27");
        assert_eq!(client.request("GET", &path, &[], b"").status, 200);
    }
    let read = page_that_adds_up(&server);
    let cache = part(&read, "cache");
    assert!(cache > part(&merged, "cache") + stored / 2, "{cache} of {stored}");
    assert!(part(&read, "pinned") > 0);
}

#[test]
fn connections_and_bodies_have_their_parts() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0"]);
    let before = page_that_adds_up(&server);
    let clients: Vec<Client> = (0..200).map(|_| server.client()).collect();
    let opened = eventually("the connections", || {
        let page = page_that_adds_up(&server);
        (page.count("rowhouse_connections_open") == 200).then_some(page)
    });
    let grown = part(&opened, "connections") - part(&before, "connections");
    assert!((MIB..20 * MIB).contains(&grown), "{grown}");
    drop(clients);

    let held = send_unfinished_body(&server);
    eventually("the body", || (part(&page_that_adds_up(&server), "bodies") >= 4 * MIB).then_some(()));
    drop(held);
    eventually("the end of the body", || (part(&page_that_adds_up(&server), "bodies") == 0).then_some(()));
}

fn written_bytes(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/io", server.id())).unwrap();
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap().parse().unwrap()
}
