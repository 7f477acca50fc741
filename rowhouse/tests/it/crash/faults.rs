//! Tests of disks that fail for a while: no acknowledged write is lost, none is partial, and service resumes on its
//! own. While a disk reads slowly, only a few reads hold up the threads that serve requests.

use super::Run;
use super::simulated_disk::{EIO, ENOSPC, SimulatedDisk};
use crate::PROGRAM;
use crate::admin::page::{Page, page};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{fs, thread};
use test_support::writers::{Until, Writer};
use test_support::{Client, Random, Server, TIMEOUT, eventually, outcome, transact_at};

/// The size of a ballast entity, large enough that the writers fill a memtable every two seconds.
const BALLAST_BYTES: usize = 400_000;

fn any_kinds(random: &mut Random) -> String {
    loop {
        let kinds: String = "wstc".chars().filter(|_| random.below(2) == 0).collect();
        if !kinds.is_empty() {
            return kinds;
        }
    }
}

/// Writes entities that are so large that the engine soon has to flush a memtable.
fn write_ballast(address: &str, entities: usize, until: &AtomicBool) {
    let mut client = test_support::Client::connect(address).unwrap();
    let text = "x".repeat(30_000);
    let properties = (0..BALLAST_BYTES / (2 * text.len())).map(|number| format!(r#""P{number}":"{text}""#));
    let body = format!("{{{}}}", properties.collect::<Vec<_>>().join(","));
    for number in 0_usize.. {
        if until.load(Ordering::SeqCst) {
            return;
        }
        let path = format!("/crash(PartitionKey='ballast',RowKey='{}')", number % entities);
        let answer = client.request("PUT", &path, &[], body.as_bytes());
        assert!([204, 500, 503].contains(&answer.status), "{answer:?}");
    }
}

/// Reads until `until` is set, and counts the pages.
fn read_on(address: &str, until: &AtomicBool, answered: &AtomicU64) {
    let mut client = test_support::Client::connect(address).unwrap();
    while !until.load(Ordering::SeqCst) {
        let answer = client.request("GET", "/crash()?$filter=PartitionKey%20eq%20'writer0'", &[], b"");
        match answer.status {
            200 => _ = answered.fetch_add(1, Ordering::SeqCst),
            503 => thread::sleep(Duration::from_millis(2)),
            _ => panic!("{answer:?}"),
        }
    }
}

fn wait_for_service(server: &Server) {
    let began = Instant::now();
    let mut client = server.client();
    let path = "/crash(PartitionKey='resumption',RowKey='')";
    while client.request("PUT", path, &[], b"{}").status != 204 {
        assert!(began.elapsed() < TIMEOUT, "service did not resume: {:#?}", server.new_log());
        thread::sleep(Duration::from_millis(10));
    }
}

fn names_requests(log: &[String]) -> bool {
    log.iter().any(|line| line.contains("request_id"))
}

#[test]
fn acknowledged_writes_survive_a_disk_that_fails_for_a_while() {
    const ROUNDS: u64 = 40;
    let disk = SimulatedDisk::new();
    let mut run = Run::new();
    let mut server = disk.start_with(&["--keep-log", "1h"]);
    run.check(&server, 0);
    let (mut reads_during_faults, mut outages) = (0, 0);
    for round in 1..=ROUNDS {
        let (kinds, error) = (any_kinds(&mut run.random), if run.random.below(2) == 0 { ENOSPC } else { EIO });
        let [before, during] = [20, 400].map(|most| Duration::from_millis(run.random.below(most)));
        let is_over = AtomicBool::new(false);
        let answered = AtomicU64::new(0);
        let (sender, acknowledgements) = channel();
        let Run { writers, transactions, catalog, .. } = &mut run;
        thread::scope(|scope| {
            let (address, until) = (server.address.as_str(), Until::Flag(&is_over));
            for writer in writers {
                let sender = sender.clone();
                scope.spawn(move || writer.write(address, &sender, until));
            }
            let acknowledged = sender.clone();
            scope.spawn(move || transactions.write(address, &acknowledged, until));
            scope.spawn(move || catalog.write(address, &sender, until));
            scope.spawn(|| write_ballast(address, 20, &is_over));
            scope.spawn(|| read_on(address, &is_over, &answered));
            thread::sleep(before);
            disk.fail(&kinds, error, None);
            let read_before = answered.load(Ordering::SeqCst);
            thread::sleep(during);
            reads_during_faults += answered.load(Ordering::SeqCst) - read_before;
            disk.repair();
            wait_for_service(&server);
            is_over.store(true, Ordering::SeqCst);
        });
        run.acknowledged += acknowledgements.iter().count() as u64;
        let log = server.new_log();
        assert!(!names_requests(&log), "{log:#?}");
        outages += log.iter().filter(|line| line.contains("accepts no writes")).count();
        run.check(&server, round);
        // Entities found after the fault are on disk, too.
        match run.random.below(6) {
            0 => drop(server.kill9()),
            1 => {
                server.stop_cleanly();
            }
            _ => continue,
        }
        server = disk.start_with(&["--keep-log", "1h"]);
        run.check(&server, round);
    }
    println!("{outages} outages, {reads_during_faults} pages read during them");
    assert!(outages as u64 > ROUNDS / 4, "hardly any fault had an effect");
    assert!(reads_during_faults > ROUNDS, "reads must continue");
    run.report(ROUNDS);
}

/// After a failed write, the log continues in a new segment, which cuts off the part that reached the disk.
#[test]
fn a_write_that_fails_in_part_is_cut_back_and_no_acknowledged_one_is() {
    // Among them are the ends of the group header (64 bytes) and of the first record header (32 bytes), and a sector.
    const PARTS: [usize; 14] = [1, 2, 12, 63, 64, 65, 96, 97, 130, 512, 1000, 8192, 9000, 1_000_000];
    let disk = SimulatedDisk::new();
    let mut server = disk.start();
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    let path = |row: &str| format!("/crash(PartitionKey='p',RowKey='{row}')");
    let body = |bytes| format!(r#"{{"Text":"{}"}}"#, "x".repeat(bytes));
    let mut rounds = 0;
    for part in PARTS {
        for bytes in [10, 3000, 20_000] {
            rounds += 1;
            let (good, failed) = (path(&format!("{rounds:03}-good")), path(&format!("{rounds:03}-failed")));
            let mut client = server.client();
            assert_eq!(client.request("PUT", &good, &[], body(bytes).as_bytes()).status, 204);
            disk.order(&format!("p {EIO} -1 {part} 1"));
            let answer = client.request("PUT", &failed, &[], body(bytes).as_bytes());
            let code = answer.header("x-ms-error-code");
            assert_eq!((answer.status, code), (500, Some("OperationTimedOut")), "{part} of {bytes}: {answer:?}");
            match rounds % 4 {
                0 => {
                    drop((client, server.kill9()));
                    disk.repair();
                    server = disk.start();
                }
                1 => {
                    disk.repair();
                    drop((client, server.stop()));
                    server = disk.start();
                }
                _ => disk.repair(),
            }
            wait_for_service(&server);
            let mut client = server.client();
            let found = client.request("GET", &good, &[], b"");
            assert_eq!(found.status, 200, "{part} of {bytes}: an acknowledged write is lost: {found:?}");
            let found = client.request("GET", &failed, &[], b"");
            let is_whole = found.status == 200 && found.json()["Text"].as_str().unwrap().len() == bytes;
            assert!(is_whole || found.status == 404, "{part} of {bytes}: {found:?}");
        }
    }
    drop(server.kill9());
    let server = disk.start();
    let all = server.client().request("GET", "/crash()?$select=RowKey", &[], b"").json();
    let good = |entity: &&serde_json::Value| entity["RowKey"].as_str().unwrap().ends_with("good");
    assert_eq!(all["value"].as_array().unwrap().iter().filter(good).count(), rounds);
}

#[test]
fn a_full_disk_takes_deletions_and_recovers_by_itself() {
    let disk = SimulatedDisk::new();
    let server = disk.start();
    let mut client = server.client();
    for table in [&br#"{"TableName":"full"}"#[..], br#"{"TableName":"other"}"#] {
        assert_eq!(client.request("POST", "/Tables", &[], table).status, 201);
    }
    let path = |row: u32| format!("/full(PartitionKey='p',RowKey='{row}')");
    for row in 0..3 {
        assert_eq!(client.request("PUT", &path(row), &[], b"{}").status, 204);
    }
    disk.fail("-", 0, Some(200 * 1024 * 1024));
    let began = Instant::now();
    let refused = loop {
        // Even if responses take long, a request that is sent after one second is refused.
        let asked = began.elapsed();
        let answer = client.request("PUT", &path(0), &[], b"{}");
        if answer.status != 204 {
            break answer;
        }
        assert!(asked < Duration::from_secs(1), "the lack of space was not noticed");
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!(refused.header("x-ms-error-code"), Some("ServerBusy"));
    for _ in 0..20 {
        assert_eq!(client.request("PUT", &path(7), &[], b"{}").status, 503);
        assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"new"}"#).status, 503);
        assert_eq!(client.request("GET", &path(1), &[], b"").status, 200);
    }
    assert_eq!(client.request("DELETE", &path(2), &[("If-Match", "*")], b"").status, 204);
    assert_eq!(client.request("DELETE", "/Tables('other')", &[], b"").status, 204);
    disk.repair();
    thread::sleep(Duration::from_millis(150));
    assert_eq!(client.request("PUT", &path(8), &[], b"{}").status, 204);
    let log = server.stop_cleanly();
    let times = |text: &str| log.iter().filter(|line| line.contains(text)).count();
    assert_eq!((times("almost full"), times("free space again")), (1, 1), "{log:#?}");
    assert!(!names_requests(&log), "{log:#?}");
}

#[test]
fn a_read_error_is_answered_and_reads_resume() {
    let disk = SimulatedDisk::new();
    let server = disk.start();
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    let path = "/crash(PartitionKey='ballast',RowKey='3')";
    // Enough data that some of it is in sorted files.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| write_ballast(&server.address, usize::MAX, &is_over));
        wait_for_sorted_file(&disk.data);
        is_over.store(true, Ordering::SeqCst);
    });
    // Recent writes may be cached; after a restart, nothing is cached.
    drop((client, server.kill9()));
    let server = disk.start();
    let mut client = server.client();
    let good = client.request("GET", "/crash()?$select=RowKey", &[], b"");
    assert_eq!(good.status, 200);
    drop((client, server.stop()));
    let server = disk.start();
    let mut client = server.client();
    disk.fail("r", EIO, None);
    let answer = client.request("GET", "/crash()?$select=RowKey", &[], b"");
    assert_eq!(answer.status, 500, "{answer:?}");
    let one = client.request("GET", path, &[], b"");
    assert_eq!(one.status, 500, "{one:?}");
    // The log names the key.
    server.wait_for_log("ballast\\x003");
    disk.repair();
    assert_eq!(client.request("GET", "/crash()?$select=RowKey", &[], b"").json()["value"], good.json()["value"]);
    assert_eq!(client.request("GET", path, &[], b"").status, 200);
    server.stop_cleanly();
}

fn wait_for_sorted_file(data: &Path) {
    let tables = data.join("tree/tables");
    // The first file is complete when the second is started.
    eventually("a sorted file", || (fs::read_dir(&tables).unwrap().count() > 1).then_some(()));
}

#[test]
fn a_sync_that_stalls_delays_no_read_and_loses_nothing() {
    let disk = SimulatedDisk::new();
    let server = disk.start();
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    let path = |row: &str| format!("/crash(PartitionKey='p',RowKey='{row}')");
    let address = server.address.clone();
    let client = || test_support::Client::connect(&address).unwrap();
    let write = |path: &str| client().request("PUT", path, &[], br#"{"Text":"whole"}"#);
    assert_eq!(write(&path("good")).status, 204);
    disk.order("d 0 -1 0 1");
    thread::scope(|scope| {
        let patient = scope.spawn(|| write(&path("patient")).status);
        let answer = write(&(path("impatient") + "?timeout=1"));
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (500, Some("OperationTimedOut")), "{answer:?}");
        let part = format!("PUT {} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{{}}", path("of-a-batch"));
        let answer = transact_at("/$batch?timeout=1", &mut client(), &[part]).unwrap();
        assert_eq!((answer.status, outcome(&answer)), (202, (500, "OperationTimedOut")), "{answer:?}");
        for _ in 0..20 {
            for path in [path("good"), "/crash()".to_owned()] {
                assert_eq!(client().request("GET", &path, &[], b"").status, 200);
            }
        }
        assert!(!patient.is_finished(), "a write was acknowledged before it was synced");
        disk.repair();
        assert_eq!(patient.join().unwrap(), 204);
    });
    assert_eq!(write(&path("later")).status, 204);
    disk.order("d 0 -1 0 1");
    thread::scope(|scope| {
        scope.spawn(|| client().try_request("PUT", &path("killed"), &[], b"{}"));
        assert_eq!(write(&(path("impatient") + "?timeout=1")).status, 500);
        server.signal("KILL");
    });
    disk.repair();
    drop(server.wait());
    let server = disk.start();
    for row in ["good", "patient", "later"] {
        assert_eq!(server.client().request("GET", &path(row), &[], b"").json()["Text"], "whole", "{row}");
    }
    let found = server.client().request("GET", &path("impatient"), &[], b"");
    assert!(found.status == 404 || found.json()["Text"] == "whole", "{found:?}");
}

/// The library regards a change of the sorted files as failed although `current` already names the new manifest, and
/// the next attempt overwrites that manifest.
#[test]
fn a_change_of_the_sorted_files_is_interrupted_after_one_that_failed_in_its_last_step() {
    let disk = SimulatedDisk::new();
    let server = disk.start();
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    let path = "/crash(PartitionKey='p',RowKey='acknowledged')";
    assert_eq!(client.request("PUT", path, &[], b"{}").status, 204);
    drop(client);
    let current = || {
        let current = fs::read(disk.data.join("tree/current")).unwrap();
        u64::from_le_bytes(*current.first_chunk().unwrap())
    };
    let before = current();
    let failed_sync = format!("s {EIO} -1 0 1 /tree/current");
    disk.order(&failed_sync);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| write_ballast(&server.address, 20, &is_over));
        let named = eventually("a manifest whose last sync failed", || Some(current()).filter(|now| *now != before));
        disk.order(&format!("{failed_sync}\nw {ENOSPC} -1 0 1 /tree/v{named}"));
        server.wait_for_log("No space left on device");
        is_over.store(true, Ordering::SeqCst);
    });
    drop(server.kill9());
    disk.repair();
    let checked = PROGRAM.folder().run("check", &["--data", disk.data.to_str().unwrap(), "--quiet"], &[]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let server = disk.start();
    server.wait_for_log("a crash interrupted a change of the sorted files");
    assert_eq!(server.client().request("GET", path, &[], b"").status, 200);
    wait_for_service(&server);
}

const READERS: u64 = 8;
/// Each entity takes a block, and together they fill more than one memtable.
const ENTITIES: u64 = 600;
const ENTITY_BYTES: usize = 31_000;
/// The entities that are certainly in a sorted file.
const ENTITIES_ON_DISK: u64 = 400;
/// The number of reads in place after which a slow disk is certainly noticed, apart from one read for each thread. On a
/// busy machine, it takes more than six, because debts are paid off between the reads.
const READS_UNTIL_MOVED_MAX: u64 = 20;

fn numbered(number: u64) -> String {
    format!("/crash(PartitionKey='p',RowKey='{number:03}')")
}

/// Returns a request that reads an entity: by its address, by a filter on both keys, or as the first from its key on.
fn read_of(number: u64) -> String {
    let filter =
        |operator| format!("/crash()?$filter=PartitionKey%20eq%20'p'%20and%20RowKey%20{operator}%20'{number:03}'");
    match number % 3 {
        0 => numbered(number),
        1 => filter("eq"),
        _ => format!("{}&$top=1", filter("ge")),
    }
}

/// Returns a server whose entities are on disk and not in the cache, except for one that is only in the memtable.
fn start_with_entities_on_disk(disk: &SimulatedDisk) -> Server {
    let server = disk.start_with(&["--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    let body = format!(r#"{{"Text":"{}"}}"#, "x".repeat(ENTITY_BYTES));
    for number in 0..ENTITIES {
        assert_eq!(client.request("PUT", &numbered(number), &[], body.as_bytes()).status, 204);
    }
    eventually("a sorted file", || (page(&server).count("rowhouse_tree_sorted_files") > 0).then_some(()));
    drop(client);
    server.stop_cleanly();
    let server = disk.start_with(&["--admin", "127.0.0.1:0", "--cache-mib", "1"]);
    assert_eq!(server.client().request("PUT", &numbered(ENTITIES), &[], b"{}").status, 204);
    server
}

fn count_reads(page: &Page, thread: &str) -> u64 {
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
    let server = start_with_entities_on_disk(&disk);
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
                    assert_eq!(client.request("GET", &read_of(number), &[], b"").status, 200);
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let moved = eventually("moved reads", || Some(page(&server)).filter(are_moved));
        let in_place = count_reads(&moved, "request") - count_reads(&before, "request");
        let slow = moved.count("rowhouse_entity_reads_slow_total");
        let threads = thread::available_parallelism().unwrap().get() as u64;
        println!("{in_place} reads in place, {slow} slow reads");
        assert!(in_place <= READS_UNTIL_MOVED_MAX + threads, "{in_place} reads in place");
        // Now the disk answers nothing at all, and all readers wait.
        disk.order("b 0 -1 0 1");
        let stalled = answered.load(Ordering::SeqCst);
        let mut client = server.client();
        for _ in 0..20 {
            for path in [numbered(ENTITIES), "/Tables".to_owned(), "/?restype=service&comp=properties".to_owned()] {
                assert_eq!(client.request("GET", &path, &[], b"").status, 200, "{path}");
            }
            assert_eq!(client.request("PUT", &numbered(ENTITIES), &[], b"{}").status, 204);
        }
        assert!(answered.load(Ordering::SeqCst) <= stalled + READERS, "only reads in progress are answered");
    });
    assert!(count_reads(&page(&server), "blocking") >= READERS);
    // Nothing is loaded any more, so reads return to the threads of their requests.
    let mut client = server.client();
    eventually("reads in place", || {
        assert_eq!(client.request("GET", &numbered(ENTITIES), &[], b"").status, 200);
        (!are_moved(&page(&server))).then_some(())
    });
    server.stop_cleanly();
}
