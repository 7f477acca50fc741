//! A soak test: accounts with a mixed load, while the server is killed, its disk is full, keys are replaced, and
//! hostile clients attack. After every start, and at the end of the test, the stored data is compared with the clients'
//! models.
//!
//! `ROWHOUSE_SOAK_SECONDS` sets the duration; `just soak` runs the test for an hour on a release build.

use crate::PROGRAM;
use crate::crash::simulated_disk::{ENOSPC, SimulatedDisk};
use crate::hostile::scene::{BODY_MIB, CACHE_MIB, memory_bytes_max, peak_bytes};
use crate::hostile::{Attacker, attack, prepare};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};
use test_support::writers::{Catalog, EntityWriter, Transactions, Until, Writer};
use test_support::{Account, Client, Random, Server, eventually, setting};

const SEED: &str = "ROWHOUSE_SOAK_SEED";
const SECONDS: &str = "ROWHOUSE_SOAK_SECONDS";
const SECONDS_DEFAULT: u64 = 30;
/// The maximum number of events during one server process.
const EVENTS_MAX: u64 = 6;
/// The maximum time between two events, and the maximum duration of an event, in milliseconds.
const PAUSE_MILLISECONDS_MAX: u64 = 800;
/// The free space at which the server accepts only deletions, in bytes.
const LITTLE_SPACE_BYTES: u64 = 200 * 1024 * 1024;

struct Soak {
    disk: SimulatedDisk,
    accounts: Accounts,
    random: Random,
    figures: EventCounts,
}

#[derive(Debug, Default)]
struct EventCounts {
    kills: u64,
    stops: u64,
    full_disks: u64,
    new_keys: u64,
    attacks: AtomicU64,
    acknowledged: AtomicU64,
    peak_mib: u64,
}

/// Stops the clients even if a check fails, so that the failure is reported.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The maximum resident memory.
const PEAK_BYTES_MAX: u64 = memory_bytes_max(BODY_MIB);

impl Soak {
    fn start(&self) -> Server {
        let [cache, body] = [CACHE_MIB, BODY_MIB].map(|mib| mib.to_string());
        let memory = ["--cache-mib", &cache, "--body-mib", &body];
        let rest = ["--max-connections", "400", "--shutdown-seconds", "2", "--accounts", &self.accounts.file()];
        self.disk.start_with(&[memory.as_slice(), &rest].concat())
    }

    fn attacker(&self, server: &Server) -> Attacker {
        let (address, account) = (server.address.clone(), self.accounts.hostile.clone());
        Attacker { address, account, accounts: self.accounts.file() }
    }

    /// Lets all clients work while events happen to one server process, and then stops the process.
    fn round(&mut self, loads: &mut [Load], server: Server) {
        let is_over = AtomicBool::new(false);
        let attacker = self.attacker(&server);
        let mut choices = Random::new(self.random.number());
        let (attacks, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let _end = End(&is_over);
            for load in loads {
                load.work(scope, &attacker.address, &is_over, &acknowledged);
            }
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let held = Duration::from_millis(choices.below(PAUSE_MILLISECONDS_MAX));
                    attack(&attacker, &mut choices, || thread::sleep(held));
                    attacks.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..=self.random.below(EVENTS_MAX) {
                self.pause();
                self.event(&server);
            }
            self.pause();
            let peak = peak_bytes(server.id());
            assert!(peak <= PEAK_BYTES_MAX, "{peak} bytes were resident, which is more than {PEAK_BYTES_MAX}");
            self.figures.peak_mib = self.figures.peak_mib.max(peak / (1024 * 1024));
            self.end(server);
        });
        *self.figures.attacks.get_mut() += attacks.into_inner();
        *self.figures.acknowledged.get_mut() += acknowledged.into_inner();
    }

    fn pause(&mut self) {
        thread::sleep(Duration::from_millis(self.random.below(PAUSE_MILLISECONDS_MAX)));
    }

    fn event(&mut self, server: &Server) {
        match self.random.below(3) {
            0 => {
                let (kinds, free) =
                    if self.random.below(2) == 0 { ("wtc", None) } else { ("-", Some(LITTLE_SPACE_BYTES)) };
                self.disk.fail(kinds, ENOSPC, free);
                self.pause();
                self.disk.repair();
                self.wait_for_service(server);
                self.figures.full_disks += 1;
            }
            1 => {
                self.accounts.replace_key(&mut self.random, &server.address);
                self.figures.new_keys += 1;
            }
            _ => {}
        }
    }

    fn wait_for_service(&self, server: &Server) {
        let mut client = server.client_of(self.accounts.any());
        let path = format!("/{TABLE}(PartitionKey='{PROBE}',RowKey='')");
        eventually("a write after the disk was full", || {
            (client.request("PUT", &path, &[], b"{}").status == 204).then_some(())
        });
    }

    /// Stops the process in one of two ways while all clients work.
    fn end(&mut self, server: Server) {
        let log = if self.random.below(3) > 0 {
            self.figures.kills += 1;
            server.kill9()
        } else {
            self.figures.stops += 1;
            server.stop_cleanly()
        };
        assert!(!log.iter().any(|line| line.contains("panicked")), "{log:#?}");
    }
}

#[test]
fn nothing_is_lost_whatever_happens() {
    let seconds = setting(SECONDS).unwrap_or(SECONDS_DEFAULT);
    let began = Instant::now();
    let mut random = Random::from_environment(SEED);
    let accounts = Accounts::new(&mut random);
    let mut loads: Vec<_> = accounts.load_accounts().map(|account| Load::new(account, &mut random)).collect();
    let mut soak = Soak { disk: SimulatedDisk::new(), accounts, random, figures: EventCounts::default() };
    let mut server = soak.start();
    for load in &loads {
        load.create_table(&server);
    }
    prepare(&soak.attacker(&server));
    let mut round = 0;
    while began.elapsed() < Duration::from_secs(seconds) {
        soak.round(&mut loads, server);
        round += 1;
        server = soak.start();
        for load in &mut loads {
            load.check(&server, round);
        }
    }
    for load in &loads {
        load.compare_everything(&server);
    }
    server.stop_cleanly();
    let data = soak.disk.data.to_str().unwrap().to_owned();
    let checked = PROGRAM.folder().run("check", &["--data", &data, "--quiet"], &[]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    println!("{round} rounds: {:?}", soak.figures);
    assert!(*soak.figures.acknowledged.get_mut() > round, "hardly any write was acknowledged");
}

const LOADS: usize = 2;

struct Accounts {
    folder: tempfile::TempDir,
    loads: Vec<WithTwoKeys>,
    /// The attackers' account, whose key never changes.
    hostile: Account,
}

struct WithTwoKeys {
    account: Account,
    keys: [String; 2],
    in_use: usize,
}

fn any_key(random: &mut Random) -> String {
    let bytes: Vec<u8> = (0..8).flat_map(|_| random.number().to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

impl Accounts {
    fn new(random: &mut Random) -> Self {
        let hostile = Account::new("hostile", &any_key(random));
        let mut load = |number| {
            let keys = [any_key(random), any_key(random)];
            WithTwoKeys { account: Account::new(&format!("load{number}"), &keys[0]), keys, in_use: 0 }
        };
        let loads = (0..LOADS).map(&mut load).collect();
        let accounts = Self { folder: tempfile::tempdir().unwrap(), loads, hostile };
        accounts.write();
        accounts
    }

    fn file(&self) -> String {
        self.folder.path().join("accounts.toml").to_str().unwrap().to_owned()
    }

    fn load_accounts(&self) -> impl Iterator<Item = Account> {
        self.loads.iter().map(|load| load.account.clone())
    }

    fn any(&self) -> &Account {
        &self.loads[0].account
    }

    fn write(&self) {
        let mut text = String::new();
        for WithTwoKeys { account, keys: [key1, key2], .. } in &self.loads {
            writeln!(text, "[[account]]\nname = \"{}\"\nkey1 = \"{key1}\"\nkey2 = \"{key2}\"", account.name).unwrap();
        }
        writeln!(text, "[[account]]\nname = \"{}\"\nkey1 = \"{}\"", self.hostile.name, self.hostile.key()).unwrap();
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// Replaces both keys of an account without a refused request: first the unused key, to which the clients then
    /// switch, and then the other key.
    fn replace_key(&mut self, random: &mut Random, address: &str) {
        let number = random.index(self.loads.len());
        let unused = 1 - self.loads[number].in_use;
        let new = any_key(random);
        self.loads[number].keys[unused].clone_from(&new);
        self.write();
        self.loads[number].wait_until(&new, 200, address);
        let old = self.loads[number].account.key();
        self.loads[number].account.change_key(new);
        self.loads[number].in_use = unused;
        self.loads[number].keys[1 - unused] = any_key(random);
        self.write();
        self.loads[number].wait_until(&old, 403, address);
    }
}

impl WithTwoKeys {
    fn wait_until(&self, key: &str, status: u16, address: &str) {
        let account = Account::new(&self.account.name, key);
        // A new connection each time: during an attack, a connection without a successful request may be closed to
        // make room.
        eventually("a changed key", || {
            let mut client = Client::connect_as(address, &account).ok()?;
            let response = client.try_request("GET", "/Tables", &[], b"").ok()?;
            (response.status == status).then_some(())
        });
    }
}

const WRITERS: u64 = 3;
const TABLE: &str = "crash";
/// The partition of the entity that is written to check whether the server accepts writes.
const PROBE: &str = "probe";

struct Load {
    account: Account,
    writers: Vec<EntityWriter>,
    transactions: Transactions,
    catalog: Catalog,
}

impl Load {
    fn new(account: Account, random: &mut Random) -> Self {
        let writers = (0..WRITERS).map(|number| EntityWriter::new(number, random.number())).collect();
        let (transactions, catalog) = (Transactions::new(random.number()), Catalog::new(random.number()));
        Self { account, writers, transactions, catalog }
    }

    fn create_table(&self, server: &Server) {
        let body = format!("{{\"TableName\":\"{TABLE}\"}}");
        let answer = server.client_of(&self.account).request("POST", "/Tables", &[], body.as_bytes());
        assert_eq!(answer.status, 201);
    }

    fn work<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        address: &'scope str,
        is_over: &'scope AtomicBool,
        acknowledged: &'scope AtomicU64,
    ) {
        let (sender, receiver) = channel();
        let Self { account, writers, transactions, catalog } = self;
        let (account, until) = (&*account, Until::Flag(is_over));
        for writer in writers {
            let sender = sender.clone();
            scope.spawn(move || writer.write_as(account, address, &sender, until));
        }
        let of_transactions = sender.clone();
        scope.spawn(move || transactions.write_as(account, address, &of_transactions, until));
        scope.spawn(move || catalog.write_as(account, address, &sender, until));
        scope.spawn(move || acknowledged.fetch_add(receiver.iter().count() as u64, Ordering::Relaxed));
        scope.spawn(move || read_pages(account, address, is_over));
    }

    /// Compares the stored data with the clients' models, and lets the clients learn the outcome of unacknowledged
    /// writes.
    fn check(&mut self, server: &Server, round: u64) {
        let mut client = server.client_of(&self.account);
        for writer in &mut self.writers {
            writer.check(&mut client, round);
        }
        self.transactions.check(&mut client, round);
        self.catalog.check(&mut client, round);
    }

    /// Checks that all stored entities were written by a client. The clients' entities have already been compared.
    fn compare_everything(&self, server: &Server) {
        let mut client = server.client_of(&self.account);
        let tables = client.request("GET", "/Tables", &[], b"").json();
        for table in tables["value"].as_array().unwrap() {
            let table = table["TableName"].as_str().unwrap();
            let expected = if table == TABLE { self.entities() } else { 0 };
            let filter = format!("$filter=PartitionKey%20ne%20'{PROBE}'&$select=RowKey");
            let found = client.query(&format!("/{table}()?{filter}"), &[]).unwrap();
            assert_eq!(found.len(), expected, "{table} of {}", self.account.name);
        }
    }

    fn entities(&self) -> usize {
        self.writers.iter().map(EntityWriter::entities).sum::<usize>() + self.transactions.entities()
    }
}

/// Reads pages until the test is over or the server has stopped. Each page must show the partition of a writer of
/// transactions in a consistent state.
fn read_pages(account: &Account, address: &str, is_over: &AtomicBool) {
    let Ok(mut client) = Client::connect_as(address, account) else { return };
    while !is_over.load(Ordering::SeqCst) {
        let path = format!("/{TABLE}()?$filter=PartitionKey%20eq%20'transactions'&$select=Number");
        let Ok(page) = client.try_request("GET", &path, &[], b"") else { return };
        if page.status == 503 {
            continue;
        }
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        let entities = page["value"].as_array().unwrap();
        assert!(entities.iter().all(|entity| entity["Number"] == entities[0]["Number"]), "{page}");
    }
}
