//! The procedures of docs/scaling.md for PostgreSQL: point-in-time restore and the promotion of a replica.
//!
//! The tests run the commands and settings of the page. Only the names of hosts, users, folders and times differ.

use crate::PROGRAM;
use crate::history::clock::Clocks;
use crate::printed_commands::{self, Machine, adapt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use test_support::content::{create_table, exact_snapshot, fill_with_everything, put};
use test_support::writers::fault;
use test_support::{Client, EndOnDrop, ReservedPort, Response, Server, TIMEOUT, eventually};

/// Settings of servers that `pg_ctl` starts, which the script of the tests passes on the command line otherwise.
const LOCAL: &str = "\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n";
const SECTION_OF_RESTORES: &str = "Point-in-time restore";
const SECTION_OF_REPLICAS: &str = "PostgreSQL with a replica";

/// Returns the blocks in a language of a section of the page.
fn blocks<const N: usize>(heading: &str, language: &str) -> [String; N] {
    printed_commands::blocks("scaling.md", heading, language)
}

fn machine_of(cluster: &Cluster) -> Machine {
    Machine::new(cluster.folder(), cluster.programs())
}

/// Returns the port in the URL of a database.
fn port(database: &str) -> &str {
    database.rsplit_once('/').unwrap().0.rsplit_once(':').unwrap().1
}

fn write(client: &mut Client, partition: &str, row: &str) -> Response {
    let entity = json!({ "PartitionKey": partition, "RowKey": row }).to_string();
    client.request("POST", "/tab", &[], entity.as_bytes())
}

fn etag(response: &Response) -> String {
    assert_eq!(response.status, 201, "{response:?}");
    response.header("etag").unwrap().to_owned()
}

fn read_changes(client: &mut Client, position: &str) -> Response {
    client.request("GET", &format!("/$ChangesTab()?$filter=RowKey%20gt%20'{position}'"), &[], b"")
}

fn text(row: &Value, property: &str) -> String {
    row[property].as_str().unwrap_or_default().to_owned()
}

/// Waits until an entity of the partition `p` is in the feed, and returns its position.
fn position_of(server: &Server, row: &str) -> String {
    let mut client = server.client();
    eventually("the change in the feed", || {
        let answer = read_changes(&mut client, "");
        assert_eq!(answer.status, 200, "{answer:?}");
        let rows = answer.json()["value"].as_array().unwrap().clone();
        let found = rows.iter().find(|change| text(change, "Entity_RowKey") == row)?;
        Some(text(found, "RowKey"))
    })
}

#[test]
fn a_database_is_restored_to_a_point_in_time() {
    let [archiving] = blocks(SECTION_OF_RESTORES, "ini");
    let [backup, restore] = blocks(SECTION_OF_RESTORES, "sh");
    let [forward] = blocks("After a restore", "sql");
    let settings = adapt(&archiving, &[("/archive/", "../archive/")]);
    let Some(cluster) = Cluster::start_once(&(settings + LOCAL)) else { return };
    let (machine, database) = (machine_of(&cluster), cluster.database());
    let port = port(&database);
    machine.run(port, "mkdir archive backup");
    let start = || PROGRAM.start(&["--store", &database, "--keep-log", "1h"]);

    let server = start();
    fill_with_everything(&server);
    let mut client = server.client();
    create_table(&mut client, "Tab");
    create_table(&mut client, "Gone");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (mut client, is_over) = (server.client(), &is_over);
        let _end = EndOnDrop(is_over);
        scope.spawn(move || {
            for number in 0.. {
                put(&mut client, "Harvest", "during the backup", &number.to_string(), &json!({ "Number": number }));
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let folder = machine.at("backup/");
        machine.run(port, &adapt(&backup, &[("db.example", "127.0.0.1"), ("/backup/", &folder)]));
    });
    let first = etag(&write(&mut client, "p", "kept"));
    let kept = exact_snapshot(&server);
    let time = cluster.sql(&database, "SELECT clock_timestamp()").trim().to_owned();

    // A server whose clock is ahead makes the writes that will be lost.
    let clocks = Clocks::new();
    let clock = clocks.clock("ahead");
    clock.set(1800);
    let ahead = clocks.start(&clock, &["--store", &database, "--keep-log", "1h"]);
    let mut late = ahead.client();
    late.set_clock_offset(1800);
    let lost = etag(&write(&mut late, "p", "lost"));
    assert!(first < lost);
    assert_eq!(late.request("DELETE", "/Tables('Gone')", &[], b"").status, 204);
    assert_eq!(late.request("DELETE", "/tab(PartitionKey='p',RowKey='kept')", &[("If-Match", "*")], b"").status, 204);
    let before = position_of(&server, "kept");
    let last = position_of(&server, "lost");
    let archived = cluster.sql(&database, "SELECT pg_walfile_name(pg_current_wal_lsn()) FROM pg_switch_wal()");
    let archived = format!("SELECT last_archived_wal >= '{}' FROM pg_stat_archiver", archived.trim());
    eventually("the archived log", || (cluster.sql(&database, &archived).trim() == "t").then_some(()));

    cluster.kill();
    machine.run(port, "rm -r data");
    for server in [server, ahead] {
        server.stop_cleanly();
    }
    let (folders, restored) = (["backup/monday", "archive/"].map(|path| machine.at(path)), machine.at("restored"));
    let name = format!("-U rowhouse {}", database.rsplit_once('/').unwrap().1);
    let words = [
        ("-h db.example", "-h 127.0.0.1"),
        ("-U rowhouse tables", &name),
        ("/backup/monday", folders[0].as_str()),
        ("/archive/", &folders[1]),
        ("/var/lib/postgresql/15/restored", &restored),
        ("2026-11-28 06:31:56+00", &time),
    ];
    machine.run(port, &adapt(&restore, &words));
    cluster.sql(&database, &forward);

    let server = start();
    assert!(exact_snapshot(&server) == kept, "everything until the time, and nothing else");
    let new = etag(&write(&mut server.client(), "p", "new"));
    assert!(new > lost, "{new} is not later than {lost}");
    let next = position_of(&server, "new");
    assert!(next > last, "{next} is not after {last}");
    for position in [before, last] {
        let answer = read_changes(&mut server.client(), &position);
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (410, Some("PositionExpired")), "{answer:?}");
    }
}

/// Inserts entities until told to stop. Returns the ETags of those that were acknowledged.
fn insert(address: &str, partition: &str, is_over: &AtomicBool, count: &AtomicU64) -> BTreeMap<u64, String> {
    let mut client = Client::connect(address).unwrap();
    let mut acknowledged = BTreeMap::new();
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        let answer = write(&mut client, partition, &number.to_string());
        if fault(&answer).is_none() {
            acknowledged.insert(number, etag(&answer));
            count.fetch_add(1, Ordering::SeqCst);
        }
        thread::sleep(Duration::from_millis(5));
    }
    acknowledged
}

/// Changes that were read without an error in between: partition, row and ETag.
type Part = Vec<(String, u64, String)>;

/// The partition of the last entity, at which readers stop.
const END: &str = "end";

/// Reads the feed to its end, which must come soon after the flag is set. After `PositionExpired`, begins another part
/// with the oldest change.
fn follow(address: &str, is_over: &AtomicBool) -> Vec<Part> {
    let mut client = Client::connect(address).unwrap();
    let (mut parts, mut position, mut over_at) = (vec![Part::new()], String::new(), None);
    loop {
        if is_over.load(Ordering::SeqCst) {
            assert!(over_at.get_or_insert_with(Instant::now).elapsed() < TIMEOUT, "the feed has no end");
        }
        let answer = read_changes(&mut client, &position);
        if answer.status == 410 {
            parts.push(Part::new());
            position.clear();
            continue;
        }
        if fault(&answer).is_some() {
            continue;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        for row in body["value"].as_array().unwrap() {
            let shown = text(row, "RowKey");
            assert!(shown > position, "{shown} is not after {position}");
            position = shown;
            let partition = text(row, "Entity_PartitionKey");
            if partition == END {
                return parts;
            }
            if row["Operation"] == "Put" {
                let etag = format!("W/\"datetime'{}'\"", text(row, "Entity_Timestamp").replace(':', "%3A"));
                let number = text(row, "Entity_RowKey").parse().unwrap();
                parts.last_mut().unwrap().push((partition, number, etag));
            }
        }
        if let Some(read_up_to) = answer.header("x-ms-rowhouse-position") {
            read_up_to.clone_into(&mut position);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that each part of the feed has every acknowledged insert between its first and its last one.
fn check_parts(parts: &[Part], partition: &str, acknowledged: &BTreeMap<u64, String>) {
    let mut end = 0;
    for (index, part) in parts.iter().enumerate() {
        let shown: Vec<u64> = part.iter().filter(|change| change.0 == partition).map(|change| change.1).collect();
        assert!(shown.is_sorted_by(|one, next| one < next), "{partition}: {shown:?}");
        let Some((first, last)) = shown.first().zip(shown.last()) else { continue };
        assert!(end <= *first, "{partition}: a change was repeated after a gap");
        let first = if index == 0 { 0 } else { *first };
        for (number, _) in acknowledged.range(first..=*last) {
            assert!(shown.binary_search(number).is_ok(), "{partition}: {number} is missing without an error");
        }
        end = last + 1;
    }
    assert_eq!(acknowledged.range(end..).next(), None, "{partition}: the last changes are missing");
}

#[test]
fn servers_and_readers_of_the_feed_continue_on_a_promoted_replica() {
    let [set_up, promote] = blocks(SECTION_OF_REPLICAS, "sh");
    let Some(cluster) = Cluster::start_once(LOCAL) else { return };
    let (machine, database) = (machine_of(&cluster), cluster.database());
    let (primary, reserved) = (port(&database), ReservedPort::new());
    let replica = reserved.number().to_string();
    let (hosts, name) = database.rsplit_once('/').unwrap();
    let url = format!("{hosts},127.0.0.1:{replica}/{name}?target_session_attrs=read-write");
    let servers = [(); 2].map(|()| PROGRAM.start(&["--store", &url, "--keep-log", "1h"]));
    create_table(&mut servers[0].client(), "Tab");
    let (is_over, is_read, folder) = (AtomicBool::new(false), AtomicBool::new(false), machine.at("replica"));
    let counts = [(); 2].map(|()| AtomicU64::new(0));
    let wait_for_progress = || {
        for count in &counts {
            let before = count.load(Ordering::SeqCst);
            eventually("progress", || (count.load(Ordering::SeqCst) > before + 50).then_some(()));
        }
    };
    let (acknowledged, parts) = thread::scope(|scope| {
        let (is_over, is_read) = (&is_over, &is_read);
        let (end_of_writes, end_of_reads) = (EndOnDrop(is_over), EndOnDrop(is_read));
        let writers = servers.iter().zip(&counts).enumerate().map(|(number, (server, count))| {
            let address = &server.address;
            scope.spawn(move || insert(address, &number.to_string(), is_over, count))
        });
        let writers: Vec<_> = writers.collect();
        let readers = servers.each_ref().map(|server| {
            let address = &server.address;
            scope.spawn(move || follow(address, is_read))
        });
        let words = [
            ("-h pg1", format!("-h 127.0.0.1 -p {primary}")),
            ("-U postgres", "-U rowhouse -d postgres".to_owned()),
            ("/var/lib/postgresql/15/replica", folder.clone()),
        ];
        machine.run(&replica, &adapt(&set_up, &words.each_ref().map(|(word, other)| (*word, other.as_str()))));
        let state = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'pg2'";
        eventually("a synchronous replica", || (cluster.sql(&database, state).trim() == "sync").then_some(()));
        wait_for_progress();
        cluster.kill();
        thread::sleep(Duration::from_secs(1));
        machine.run(&replica, &adapt(&promote, &[("/var/lib/postgresql/15/replica", &folder)]));
        wait_for_progress();
        drop(end_of_writes);
        let acknowledged: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert_eq!(write(&mut servers[1].client(), END, "0").status, 201);
        drop(end_of_reads);
        (acknowledged, readers.map(|reader| reader.join().unwrap()))
    });

    let stored = exact_snapshot(&servers[1]).to_json();
    let stored = stored["tables"]["Tab"]["entities"].as_array().unwrap().iter().map(|entity| {
        let number: u64 = text(entity, "RowKey").parse().unwrap();
        ((text(entity, "PartitionKey"), number), text(entity, "odata.etag"))
    });
    let stored: BTreeMap<_, _> = stored.collect();
    for (partition, acknowledged) in acknowledged.iter().enumerate() {
        let partition = partition.to_string();
        for (number, etag) in acknowledged {
            assert_eq!(stored.get(&(partition.clone(), *number)), Some(etag), "an acknowledged write is lost");
        }
        for parts in &parts {
            check_parts(parts, &partition, acknowledged);
        }
    }
    for parts in &parts {
        assert_eq!(parts.len(), 2, "the promoted replica begins a new log");
        for (partition, number, etag) in parts.iter().flatten() {
            assert_eq!(stored.get(&(partition.clone(), *number)), Some(etag), "the feed shows what is stored");
        }
    }
    println!("{counts:?} acknowledged, {:?} shown", parts.map(|parts| parts.iter().map(Vec::len).collect::<Vec<_>>()));
    for server in servers {
        server.stop_cleanly();
    }
}
