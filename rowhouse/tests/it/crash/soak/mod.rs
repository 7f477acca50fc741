//! A soak test: accounts with a mixed load, while the server is killed, its disk is full, keys are replaced, and
//! hostile clients attack. After every start, and at the end of the test, the stored data is compared with the clients'
//! models.
//!
//! `ROWHOUSE_SOAK_SECONDS` sets the duration; `just soak` runs the test for an hour on a release build.

mod accounts;
mod load;

use crate::PROGRAM;
use crate::crash::simulated_disk::{ENOSPC, SimulatedDisk};
use crate::hostile::Attacker;
use crate::hostile::scene::{BODY_MIB, CACHE_MIB, memory_bytes_max, peak_bytes};
use crate::hostile::{attack, prepare};
use accounts::Accounts;
use load::Load;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::{Random, Server, eventually, setting};

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
        let path = format!("/{}(PartitionKey='{}',RowKey='')", load::TABLE, load::PROBE);
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
            let log = server.stop_cleanly();
            log
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
