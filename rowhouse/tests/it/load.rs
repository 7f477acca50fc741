//! Load on several servers that share a database: writers that remember every acknowledged write and its ETag, and
//! readers of a whole table whose entities never change.

use crate::PROGRAM;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::writers::{EntityWriter, Tally, fault};
use test_support::{Client, EndOnDrop, Random, Server, eventually, statuses, transact};

/// The number of writers. Each writer writes one partition. There are enough partitions for every worker to have some.
const WRITERS: u64 = 12;
/// The maximum duration of a request, with a margin for a busy machine.
const RESPONSE_MS_MAX: u64 = 40_000;
const STILL_PARTITIONS: usize = 60;
const STILL_ROWS: usize = 5;

type ETags = BTreeMap<(String, String), String>;

#[derive(Debug)]
pub(crate) struct Load {
    servers: Vec<Server>,
    writers: Vec<EntityWriter>,
    still: ETags,
}

impl Load {
    pub(crate) fn new(store: &str, servers: usize, random: &mut Random) -> Self {
        Self::on((0..servers).map(|_| start(store)).collect(), random)
    }

    pub(crate) fn on(servers: Vec<Server>, random: &mut Random) -> Self {
        let mut client = servers[0].client();
        for table in ["crash", "still"] {
            let body = json!({ "TableName": table }).to_string();
            assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 201);
        }
        for partition in 0..STILL_PARTITIONS {
            let operations = (0..STILL_ROWS).map(|row| {
                let entity = json!({ "PartitionKey": format!("{partition:03}"), "RowKey": row.to_string() });
                let head = "POST /still HTTP/1.1\r\nPrefer: return-no-content\r\nContent-Type: application/json";
                format!("{head}\r\n\r\n{entity}")
            });
            let answer = transact(&mut client, &operations.collect::<Vec<_>>()).unwrap();
            assert_eq!(statuses(&answer), [204; STILL_ROWS]);
        }
        let still = scan(&mut client).expect("no fault has been injected yet");
        assert_eq!(still.len(), STILL_PARTITIONS * STILL_ROWS);
        let writers = (0..WRITERS).map(|number| EntityWriter::new(number, random.number())).collect();
        Self { servers, writers, still }
    }

    /// Runs the clients while `harm` causes faults, and then compares everything. No response may take longer than the
    /// request timeout.
    pub(crate) fn work_during(&mut self, harm: impl FnOnce(&Watch<'_>)) {
        let writers = self.writers.iter().map(|_| Tally::default()).collect::<Vec<_>>();
        let scans = self.servers.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let addresses = self.servers.iter().map(|server| server.address.clone()).collect::<Vec<_>>();
        let tables = TableChanges::default();
        let (watch, is_over) = (Watch { writers: &writers, scans: &scans, tables: &tables }, AtomicBool::new(false));
        thread::scope(|scope| {
            for (index, (writer, tally)) in self.writers.iter_mut().zip(&writers).enumerate() {
                let (address, is_over) = (&self.servers[index % self.servers.len()].address, &is_over);
                scope.spawn(move || writer.write_through_faults(address, is_over, tally));
            }
            for (server, scans) in self.servers.iter().zip(&scans) {
                let (address, still, is_over) = (&server.address, &self.still, &is_over);
                scope.spawn(move || scan_through_faults(address, still, is_over, scans));
            }
            let (servers, tables, is_over) = (&addresses, &tables, &is_over);
            scope.spawn(move || change_tables_through_faults(servers, is_over, tables));
            // The clients stop even if this fails.
            let _end = EndOnDrop(is_over);
            watch.wait_for_all_writers();
            harm(&watch);
        });
        watch.print();
        let longest = watch.longest_ms();
        assert!(longest < RESPONSE_MS_MAX, "a response took {longest} ms, longer than the request timeout");
        self.check();
    }

    /// Checks that every server shows what any server stored.
    fn check(&mut self) {
        for server in &self.servers {
            let mut client = server.client();
            for writer in &mut self.writers {
                writer.check(&mut client, 0);
            }
            assert_eq!(scan(&mut client).as_ref(), Some(&self.still));
        }
    }

    pub(crate) fn add_server(&mut self, store: &str) {
        self.servers.push(start(store));
    }

    /// No server may have logged a defect.
    pub(crate) fn stop(self) {
        for server in self.servers {
            server.stop_cleanly();
        }
    }
}

pub(crate) fn start(store: &str) -> Server {
    PROGRAM.start(&["--store", store, "--distribute", "--store-connections", "8"])
}

#[derive(Debug)]
pub(crate) struct Watch<'a> {
    writers: &'a [Tally],
    scans: &'a [AtomicU64],
    tables: &'a TableChanges,
}

#[derive(Debug, Default)]
struct TableChanges {
    done: AtomicU64,
    late: AtomicU64,
}

impl Watch<'_> {
    fn acknowledged(&self) -> Vec<u64> {
        self.writers.iter().map(|tally| tally.acknowledged.load(Ordering::SeqCst)).collect()
    }

    /// Waits until every writer has completed a few more writes, and every server has completed another scan.
    pub(crate) fn wait_for_all_writers(&self) {
        let began = Instant::now();
        let (writes, scans) = (self.acknowledged(), self.scans());
        eventually("service for every writer", || {
            self.acknowledged().iter().zip(&writes).all(|(now, then)| *now >= then + 5).then_some(())
        });
        // A scan in progress may have started earlier.
        eventually("a complete scan", || {
            self.scans().iter().zip(&scans).all(|(now, then)| *now >= then + 2).then_some(())
        });
        println!("all clients were served after {:?}", began.elapsed());
    }

    /// Waits until some writers have completed many writes, as the writers of the remaining workers do, while the
    /// others complete none.
    pub(crate) fn wait_for_some_writers(&self) {
        let before = self.acknowledged();
        let served = || self.acknowledged().into_iter().zip(&before).map(|(now, then)| now - then).collect::<Vec<_>>();
        eventually("service for some writers", || served().iter().any(|&writes| writes >= 50).then_some(()));
        // A response to one of its writes may have been in flight.
        assert!(
            served().iter().any(|&writes| writes <= 1),
            "all writers were served, so all workers are still running: {:?}",
            served()
        );
    }

    fn scans(&self) -> Vec<u64> {
        self.scans.iter().map(|scans| scans.load(Ordering::SeqCst)).collect()
    }

    pub(crate) fn late_changes(&self) -> u64 {
        self.tables.late.load(Ordering::SeqCst)
    }

    pub(crate) fn faults(&self) -> u64 {
        self.writers.iter().map(Tally::faults).sum()
    }

    fn longest_ms(&self) -> u64 {
        self.writers.iter().map(|tally| tally.longest_ms.load(Ordering::SeqCst)).max().unwrap()
    }

    fn print(&self) {
        let sum = |count: fn(&Tally) -> &AtomicU64| {
            self.writers.iter().map(|tally| count(tally).load(Ordering::SeqCst)).sum::<u64>()
        };
        println!(
            "{} acknowledged, {} busy, {} unknown, {:?} scans, {:?}, the longest response took {} ms",
            sum(|tally| &tally.acknowledged),
            sum(|tally| &tally.busy),
            sum(|tally| &tally.unknown),
            self.scans(),
            self.tables,
            self.longest_ms()
        );
    }
}

/// Reads the whole table repeatedly. Only complete scans count, and each must return the same entities.
fn scan_through_faults(address: &str, still: &ETags, is_over: &AtomicBool, scans: &AtomicU64) {
    let mut client = Client::connect(address).unwrap();
    while !is_over.load(Ordering::SeqCst) {
        match scan(&mut client) {
            Some(found) => {
                assert_eq!(found, *still, "a scan missed or duplicated entities");
                scans.fetch_add(1, Ordering::SeqCst);
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Creates and deletes tables repeatedly. Every server sees an acknowledged change, immediately unless a node died.
fn change_tables_through_faults(addresses: &[String], is_over: &AtomicBool, changes: &TableChanges) {
    let mut clients = addresses.iter().map(|address| Client::connect(address).unwrap()).collect::<Vec<_>>();
    for number in 0_u64.. {
        let (table, creator) = (format!("passing{number}"), usize::try_from(number).unwrap() % clients.len());
        let body = json!({ "TableName": table }).to_string();
        // After a fault, it may already exist, or already be deleted.
        let steps: [(&str, String, &str, [u16; 2], u16); 2] = [
            ("POST", "/Tables".to_owned(), &body, [201, 409], 204),
            ("DELETE", format!("/Tables('{table}')"), "", [204, 404], 404),
        ];
        for (method, path, body, done, then) in steps {
            let Some(status) = without_fault(&mut clients[creator], method, &path, body, is_over) else { return };
            assert!(done.contains(&status), "{method} {path}: {status}");
            let entity = format!("/{table}(PartitionKey='{number}',RowKey='r')");
            for client in &mut clients {
                let Some(status) = without_fault(client, "PUT", &entity, "{}", is_over) else { return };
                if status != then {
                    // The contacted node died between the two phases of the commit, and completes the second phase
                    // later.
                    changes.late.fetch_add(1, Ordering::SeqCst);
                    eventually("the end of the commit", || {
                        let status = without_fault(client, "PUT", &entity, "{}", is_over);
                        status.is_none_or(|status| status == then).then_some(())
                    });
                }
            }
        }
        changes.done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Retries a request until its response is not a fault, and returns the status. Returns `None` if the test ends before
/// that.
fn without_fault(client: &mut Client, method: &str, path: &str, body: &str, is_over: &AtomicBool) -> Option<u16> {
    while !is_over.load(Ordering::SeqCst) {
        let answer = client.request(method, path, &[], body.as_bytes());
        if fault(&answer).is_none() {
            return Some(answer.status);
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Reads the whole table page by page, in key order. Returns `None` after a fault.
fn scan(client: &mut Client) -> Option<ETags> {
    let mut found = ETags::new();
    match client.query("/still()?$top=70", &[]) {
        Ok(entities) => {
            for entity in entities {
                let text = |name: &str| entity[name].as_str().unwrap().to_owned();
                let key = (text("PartitionKey"), text("RowKey"));
                assert!(found.last_key_value().is_none_or(|(last, _)| *last < key), "{key:?} is out of order");
                found.insert(key, text("odata.etag"));
            }
            Some(found)
        }
        Err(answer) => {
            assert!(fault(&answer).is_some(), "{answer:?}");
            None
        }
    }
}
