//! The worst known requests, while ordinary clients of another account work. However the requests arrive, the server
//! uses no more memory than the sum of `--cache-mib`, `--body-mib` and 150 MB, every request of the ordinary clients
//! succeeds, little is logged, and acknowledged writes survive a kill.
//!
//! Each test performs one kind of attack, and prints the server's peak resident memory. Linux only: memory is read from
//! `/proc`.

#![cfg(target_os = "linux")]

mod connections;
mod ordinary;
mod requests;
mod responses;
pub(crate) mod scene;
mod traffic;

use crate::PROGRAM;
use scene::{CACHE_MIB, MIB, Scene, memory_bytes_max, peak_bytes, resident_bytes};
use std::time::{Duration, Instant};
use std::{fs, thread};
use test_support::{Account, Client, Random, TIMEOUT, statuses, transact};

pub(crate) fn prepare(attacker: &Attacker) {
    responses::fill_with_tiny_entities(attacker);
    responses::fill_with_long_keys(attacker);
}

/// Performs a random attack, even on a server whose disk fails or that has stopped. Resources of the attack, such as
/// connections, are held until `wait` returns.
pub(crate) fn attack(attacker: &Attacker, random: &mut Random, wait: impl FnOnce()) {
    let kind = random.below(15);
    println!("attack {kind}");
    match kind {
        0 => responses::read_with_a_long_host(attacker),
        1 => responses::read_long_keys(attacker),
        2 => responses::read_absent_properties(attacker),
        3 => responses::echo_a_long_host(attacker),
        4 => hold(&responses::leave_pages_unread(attacker), wait),
        5 => hold(&responses::leave_growing_batches_unread(attacker), wait),
        6 => hold(&responses::read_byte_by_byte(attacker), wait),
        7 => hold(&connections::announce_bodies(attacker), wait),
        8 => hold(&connections::send_tiny_chunks(attacker), wait),
        9 => hold(&connections::send_almost_complete_bodies(attacker), wait),
        10 => hold(&connections::send_endless_heads(attacker), wait),
        11 => hold(&connections::open_connections(attacker), wait),
        12 => hold(&connections::pipeline(attacker), wait),
        13 => hold(&connections::send_refused_bodies(attacker), wait),
        _ => {
            let kinds = [requests::filters, requests::strange_heads, requests::anonymous];
            let mut requests = kinds[random.index(kinds.len())](attacker);
            let chosen = requests.swap_remove(random.index(requests.len()));
            requests::exchange_each(attacker, vec![chosen]);
        }
    }
}

fn hold<T>(_: &T, wait: impl FnOnce()) {
    wait();
}

#[test]
fn ordinary_clients_alone() {
    Scene::start(&[]).withstand(|_| ());
}

/// The maximum resident memory when there are no more requests: the cache, and 100 MB for everything else.
const IDLE_BYTES_MAX: u64 = CACHE_MIB * MIB + 100_000_000;
/// `--body-mib` for tests that measure only memory. It is so small that ordinary clients may get 503, and that memory
/// leaked by attacks exceeds the bound before their bodies do.
const BODY_MIB: u64 = 16;
/// How long each attack holds its resources.
const HELD: Duration = Duration::from_millis(500);
const ROUNDS: usize = 2;

fn attack_in_sequence(attacker: &Attacker) {
    for _ in 0..ROUNDS {
        responses::read_with_a_long_host(attacker);
        responses::read_long_keys(attacker);
        hold_for_a_while(connections::send_almost_complete_bodies(attacker));
        responses::read_absent_properties(attacker);
        hold_for_a_while(responses::leave_pages_unread(attacker));
        hold_for_a_while(connections::send_endless_heads(attacker));
        hold_for_a_while(responses::leave_growing_batches_unread(attacker));
        responses::echo_a_long_host(attacker);
        hold_for_a_while(connections::send_refused_bodies(attacker));
        hold_for_a_while(responses::read_byte_by_byte(attacker));
    }
}

fn hold_for_a_while<T>(held: T) {
    thread::sleep(HELD);
    drop(held);
}

#[test]
fn attacks_that_follow_each_other() {
    let scene = Scene::start(&[]);
    prepare(&scene.attacker);
    scene.withstand(attack_in_sequence);
}

#[test]
fn memory_is_given_back_between_attacks_and_after_them() {
    let scene = Scene::start_with_bodies(BODY_MIB, &[]);
    prepare(&scene.attacker);
    attack_in_sequence(&scene.attacker);
    let (peak, max) = (peak_bytes(scene.id()) / MIB, memory_bytes_max(BODY_MIB) / MIB);
    println!("{peak} MiB peak resident memory, {max} allowed");
    assert!(peak <= max, "{peak} MiB were resident, which is more than {max} MiB");
    let ended = Instant::now();
    let resident = || resident_bytes(scene.id());
    println!("resident: {} MiB when the attacks stopped", resident() / MIB);
    while resident() > IDLE_BYTES_MAX {
        assert!(ended.elapsed() < TIMEOUT, "{} MiB are still resident without requests", resident() / MIB);
        thread::sleep(Duration::from_millis(100));
    }
    println!("resident: {} MiB after {} ms", resident() / MIB, ended.elapsed().as_millis());
}

#[test]
fn settings_of_the_allocator_are_added_unless_they_are_there() {
    let server = PROGRAM.start_with(&["--in-memory"], |command| _ = command.env("MIMALLOC_PURGE_DELAY", "50"));
    let environment = fs::read_to_string(format!("/proc/{}/environ", server.id())).unwrap();
    let settings: Vec<_> = environment.split('\0').filter(|variable| variable.starts_with("MIMALLOC_")).collect();
    assert_eq!(settings, ["MIMALLOC_ALLOW_THP=0", "MIMALLOC_PURGE_DELAY=50"]);
}

pub(crate) struct Attacker {
    pub(crate) address: String,
    pub(crate) account: Account,
    pub(crate) accounts: String,
}

impl Attacker {
    pub(crate) fn client(&self) -> Client {
        Client::connect_as(&self.address, &self.account).unwrap()
    }

    pub(crate) fn create_table(&self, table: &str) {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        assert_eq!(self.client().request("POST", "/Tables", &[], body.as_bytes()).status, 201);
    }

    pub(crate) fn fill(&self, table: &str, partition: &str, rows: &[String]) {
        self.create_table(table);
        let mut client = self.client();
        for rows in rows.chunks(100) {
            let insert = |row: &String| {
                let entity = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
                let head = format!("POST /{table} HTTP/1.1\r\nPrefer: return-no-content");
                format!("{head}\r\nContent-Type: application/json\r\n\r\n{entity}")
            };
            let answer = transact(&mut client, &rows.iter().map(insert).collect::<Vec<_>>()).unwrap();
            assert_eq!(statuses(&answer), vec![204; rows.len()]);
        }
    }

    /// Returns the path and query of a request to a table with a signature that only allows adding entities.
    pub(crate) fn signed_target(&self, table: &str) -> String {
        let endpoint = format!("http://{}/{}", self.address, self.account.name);
        let signature = ["table", table, "--permissions", "a", "--expiry", "1h", "--account", &self.account.name];
        let place = ["--accounts", &self.accounts, "--endpoint", &endpoint];
        let made = PROGRAM.folder().run("sas", &[&signature[..], &place].concat(), &[]);
        let url = made.stdout.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        url.strip_prefix(&format!("http://{}", self.address)).unwrap().to_owned()
    }
}

/// Returns the properties of an entity of nearly 1 MiB, as JSON. Each property is the longest possible string of the
/// given character.
pub(super) fn longest_texts(character: &str) -> String {
    let text = character.repeat(32 * 1024);
    let properties: Vec<_> = (0..15).map(|number| format!("\"P{number}\":\"{text}\"")).collect();
    properties.join(",")
}
