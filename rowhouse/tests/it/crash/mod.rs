//! Crash tests: every write that was acknowledged before a `kill -9` or a power loss is present afterwards, and none
//! is partial.
//!
//! Writers keep a model of the acknowledged writes. Each writer owns its keys, so at most one of its operations is
//! unacknowledged when the server dies. That operation may have happened completely, or not at all.
//!
//! Linux only: a library that is loaded into the server simulates its disk (`disk.c`).

#![cfg(target_os = "linux")]

mod detection;
mod faults;
mod history;
mod interval;
mod rounds;
pub(crate) mod simulated_disk;
mod soak;
mod takeovers;

use crate::PROGRAM;
use crate::change_replay::ChangeReplay;
use simulated_disk::{SimulatedDisk, copy_folder, lose_power};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use test_support::command::{endpoint, wait_for_exit};
use test_support::writers::{Catalog, EntityWriter, Transactions, Until, Writer};
use test_support::{Random, Server, setting};

const WRITERS: u64 = 8;
const SEED: &str = "ROWHOUSE_CRASH_SEED";
/// The properties that get indexes in the first rounds of each period.
const INDEXES: [&[&str]; 3] = [&["Number"], &[], &["Number", "A"]];
const INDEX_PERIOD: u64 = 7;
/// The number of rounds after which all data is checked, including whether the indexes and the entities agree.
const CHECK_PERIOD: u64 = 4;

struct Run {
    writers: Vec<EntityWriter>,
    transactions: Transactions,
    catalog: Catalog,
    changes: ChangeReplay,
    random: Random,
    acknowledged: u64,
}

impl Run {
    fn new() -> Self {
        let mut random = Random::from_environment(SEED);
        let writers = (0..WRITERS).map(|number| EntityWriter::new(number, random.number())).collect();
        let (transactions, catalog) = (Transactions::new(random.number()), Catalog::new(random.number()));
        Self { writers, transactions, catalog, changes: ChangeReplay::default(), random, acknowledged: 0 }
    }

    /// Compares the stored data with the writers' models, and lets the writers learn the outcome of unacknowledged
    /// operations.
    fn check(&mut self, server: &Server, round: u64) {
        let mut client = server.client();
        if round == 0 {
            assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
        }
        // In most rounds, there are indexes. Some crashes interrupt their construction or their removal.
        if let Some(indexes) = INDEXES.get(usize::try_from(round % INDEX_PERIOD).unwrap()) {
            let index = |name: &&str| ["<TableIndex><Property>", name, "</Property></TableIndex>"].concat();
            let indexes: String = indexes.iter().map(index).collect();
            let body = format!("<TableIndexes>{indexes}</TableIndexes>");
            assert_eq!(client.request("PUT", "/crash?comp=indexes", &[], body.as_bytes()).status, 204);
        }
        for writer in &mut self.writers {
            writer.check(&mut client, round);
        }
        self.transactions.check(&mut client, round);
        self.catalog.check(&mut client, round);
        self.changes.check(&mut client);
    }

    /// Runs all writers until a random number of operations, up to the bound, is acknowledged, then kills the server.
    /// Returns the time of the kill.
    fn run_and_crash(&mut self, server: Server, bound: u64) -> Instant {
        let (sender, acknowledgements) = channel();
        let until_crash = self.random.below(bound);
        let pause = Duration::from_micros(self.random.below(3000));
        let address = server.address.clone();
        let Self { writers, transactions, catalog, changes, .. } = self;
        let (acknowledged, killed) = thread::scope(|scope| {
            for writer in writers {
                let (address, sender) = (address.as_str(), sender.clone());
                scope.spawn(move || writer.write(address, &sender, Until::Crash));
            }
            let (address, acknowledged) = (address.as_str(), sender.clone());
            scope.spawn(move || transactions.write(address, &acknowledged, Until::Crash));
            scope.spawn(move || catalog.write(address, &sender, Until::Crash));
            scope.spawn(move || changes.follow(address, &AtomicBool::new(false)));
            let counted = acknowledgements.iter().take(usize::try_from(until_crash).unwrap()).count() as u64;
            // The pause makes the moment of the crash independent of the last acknowledgment.
            thread::sleep(pause);
            let (killed, log) = (Instant::now(), server.kill9());
            assert_eq!(counted, until_crash, "every writer gave up before the server was killed: {log:?}");
            (counted + acknowledgements.iter().count() as u64, killed)
        });
        self.acknowledged += acknowledged;
        killed
    }

    fn report(&self, rounds: u64) {
        let entities: usize = self.writers.iter().map(EntityWriter::entities).sum();
        let (acknowledged, changes) = (self.acknowledged, self.changes.changes());
        println!(
            "{acknowledged} acknowledged operations and {changes} changes in {rounds} rounds, {entities} entities at the end"
        );
    }
}

/// Returns the number of rounds of a test, which `ROWHOUSE_CRASH_ROUNDS` overrides.
fn rounds(usual: u64) -> u64 {
    setting("ROWHOUSE_CRASH_ROUNDS").unwrap_or(usual)
}

/// Checks a folder that no server has open.
fn check_folder(data: &Path) {
    let checked = PROGRAM.folder().run("check", &["--data", data.to_str().unwrap(), "--quiet"], &[]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn acknowledged_writes_survive_kills() {
    let rounds = rounds(40);
    let mut run = Run::new();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap(), "--extensions", "--keep-log", "1h"];
    for round in 0..rounds {
        let server = PROGRAM.start(&arguments);
        run.check(&server, round);
        run.run_and_crash(server, 400);
        if round % CHECK_PERIOD == 0 {
            check_folder(folder.path());
        }
    }
    let server = PROGRAM.start(&arguments);
    run.check(&server, rounds);
    run.report(rounds);
    server.stop_cleanly();
}

#[test]
fn acknowledged_writes_survive_losses_of_power() {
    let rounds = rounds(200);
    let mut run = Run::new();
    let disk = SimulatedDisk::recorded(run.random.number());
    let [before, left] = ["before", "left"].map(|name| disk.path(name));
    std::fs::create_dir(&before).unwrap();
    for round in 0..rounds {
        copy_folder(&before, &disk.data);
        let server = disk.start_with(&["--keep-log", "1h"]);
        run.check(&server, round);
        run.run_and_crash(server, 150);
        lose_power(&before, &disk.data, disk.log(), &left, &mut run.random);
        if round % CHECK_PERIOD == 0 {
            check_folder(&left);
        }
        std::fs::remove_dir_all(&before).unwrap();
        std::fs::remove_dir_all(&disk.data).unwrap();
        std::fs::remove_file(disk.log()).unwrap();
        std::fs::rename(&left, &before).unwrap();
    }
    let server = PROGRAM.start(&["--data", before.to_str().unwrap(), "--extensions", "--keep-log", "1h"]);
    run.check(&server, rounds);
    run.report(rounds);
    server.stop_cleanly();
}

#[test]
fn positions_and_dead_letters_of_follow_survive_losses_of_power() {
    let server = PROGRAM.start(&["--in-memory", "--keep-log", "1h"]);
    let mut client = server.client();
    for name in ["orders", "invoices", "payments"] {
        let body = format!("{{\"TableName\":\"{name}\"}}");
        assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 201);
    }
    let endpoint = endpoint(&server.address);
    let mut random = Random::from_environment(SEED);
    for round in 0..4 {
        let disk = SimulatedDisk::recorded(random.number());
        let [before, left] = ["before", "left"].map(|name| disk.path(name));
        std::fs::create_dir(&before).unwrap();
        let [state, dead] = ["state", "dead"].map(|name| disk.data.join(name).to_str().unwrap().to_owned());
        let delivery = ["--from", "start", "--until-end", "--exec", "exit 1", "--attempts", "1"];
        let files = ["--state", &state, "--dead-letters", &dead];
        let environment = [("ROWHOUSE_ENDPOINT", endpoint.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        let folder = PROGRAM.folder();
        let mut follow = folder.command("follow", &[&delivery[..], &files].concat(), &environment);
        disk.simulate_for(&mut follow);
        let ran = wait_for_exit(follow.spawn().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        lose_power(&before, &disk.data, disk.log(), &left, &mut random);
        for name in ["state", "dead"] {
            let [seen, kept] = [&disk.data, &left].map(|folder| std::fs::read_to_string(folder.join(name)).ok());
            assert!(seen.is_some(), "{name}: {ran:?}");
            assert_eq!(seen, kept, "{name} in round {round}");
        }
    }
}
