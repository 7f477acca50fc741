//! Tests of disks that read slowly: only a few reads hold up the threads that serve requests.

use super::simulated_disk::SimulatedDisk;
use crate::admin::page::{Page, page};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use test_support::{Client, Server, eventually};

const READERS: u64 = 8;
/// Each entity takes a block, and together they fill more than one memtable.
const ENTITIES: u64 = 600;
const ENTITY_BYTES: usize = 31_000;
/// The entities that are certainly in a sorted file.
const ENTITIES_ON_DISK: u64 = 400;
/// The number of reads in place after which a slow disk is certainly noticed, apart from one read for each thread. On a
/// busy machine, it takes more than six, because debts are paid off between the reads.
const READS_UNTIL_MOVED_MAX: u64 = 20;

fn path(number: u64) -> String {
    format!("/crash(PartitionKey='p',RowKey='{number:03}')")
}

/// Returns a server whose entities are on disk and not in the cache, except for one that is only in the memtable.
fn start(disk: &SimulatedDisk) -> Server {
    let server = disk.start_with(&["--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    let body = format!(r#"{{"Text":"{}"}}"#, "x".repeat(ENTITY_BYTES));
    for number in 0..ENTITIES {
        assert_eq!(client.request("PUT", &path(number), &[], body.as_bytes()).status, 204);
    }
    eventually("a sorted file", || (page(&server).count("rowhouse_tree_sorted_files") > 0).then_some(()));
    drop(client);
    server.stop_cleanly();
    let server = disk.start_with(&["--admin", "127.0.0.1:0", "--cache-mib", "1"]);
    assert_eq!(server.client().request("PUT", &path(ENTITIES), &[], b"{}").status, 204);
    server
}

fn reads(page: &Page, thread: &str) -> u64 {
    page.count(&format!(r#"rowhouse_entity_reads_total{{thread="{thread}"}}"#))
}

fn are_moved(page: &Page) -> bool {
    page.count("rowhouse_entity_reads_moved") == 1
}

/// Lets the readers end, even if the test fails.
struct Ending<'a> {
    is_over: &'a AtomicBool,
    disk: &'a SimulatedDisk,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.disk.repair();
    }
}

#[test]
fn a_disk_that_reads_slowly_holds_up_no_other_request() {
    let disk = SimulatedDisk::new();
    let server = start(&disk);
    let before = page(&server);
    assert!(!are_moved(&before), "no read has been slow");
    disk.order("b 0 -1 5 1");
    let (is_over, next, answered) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let _ending = Ending { is_over: &is_over, disk: &disk };
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut client = Client::connect(&server.address).unwrap();
                while !is_over.load(Ordering::SeqCst) {
                    let number = next.fetch_add(1, Ordering::SeqCst) % ENTITIES_ON_DISK;
                    assert_eq!(client.request("GET", &path(number), &[], b"").status, 200);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let moved = eventually("moved reads", || Some(page(&server)).filter(are_moved));
        let in_place = reads(&moved, "request") - reads(&before, "request");
        let slow = moved.count("rowhouse_entity_reads_slow_total");
        let threads = thread::available_parallelism().unwrap().get() as u64;
        println!("{in_place} reads in place, {slow} slow reads");
        assert!(in_place <= READS_UNTIL_MOVED_MAX + threads, "{in_place} reads in place");
        // Now the disk answers nothing at all, and all readers wait.
        disk.order("b 0 -1 0 1");
        let stalled = answered.load(Ordering::SeqCst);
        let mut client = server.client();
        for _ in 0..20 {
            for path in [path(ENTITIES), "/Tables".to_owned(), "/?restype=service&comp=properties".to_owned()] {
                assert_eq!(client.request("GET", &path, &[], b"").status, 200, "{path}");
            }
            assert_eq!(client.request("PUT", &path(ENTITIES), &[], b"{}").status, 204);
        }
        assert!(answered.load(Ordering::SeqCst) <= stalled + READERS, "only reads in progress are answered");
    });
    assert!(reads(&page(&server), "blocking") >= READERS);
    // Nothing is loaded any more, so reads return to the threads of their requests.
    let mut client = server.client();
    eventually("reads in place", || {
        assert_eq!(client.request("GET", &path(ENTITIES), &[], b"").status, 200);
        (!are_moved(&page(&server))).then_some(())
    });
    server.stop_cleanly();
}
