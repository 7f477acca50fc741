//! A server with two accounts: one is used for attacks, the other has ordinary clients. The memory of the server is
//! measured, the server is killed, and the stored data is compared with the acknowledged writes.

use super::Attacker;
use super::ordinary::Ordinary;
use crate::PROGRAM;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread;
use test_support::{ACCOUNT, Account, KEY, Server};

const HOSTILE_KEY: &str = "aG9zdGlsZSBob3N0aWxlIGhvc3RpbGU=";
pub(crate) const CACHE_MIB: u64 = 16;
pub(crate) const BODY_MIB: u64 = 64;
pub(super) const MIB: u64 = 1024 * 1024;
/// The number of requests that each ordinary client must complete before an attack, and during it.
const REQUESTS: usize = 20;
/// The maximum size of the log output that one attack may cause, in bytes.
const LOG_BYTES_MAX: usize = 1_000_000;

pub(super) struct Scene {
    folder: tempfile::TempDir,
    server: Server,
    pub(super) attacker: Attacker,
}

impl Scene {
    pub(super) fn admin(&self) -> String {
        self.server.admin.clone()
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    pub(super) fn start(options: &[&str]) -> Self {
        Self::start_with_bodies(BODY_MIB, options)
    }

    pub(super) fn start_with_bodies(body_mib: u64, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let account = Account::new("hostile", HOSTILE_KEY);
        let account_of = |name: &str, key: &str| format!("[[account]]\nname = \"{name}\"\nkey1 = \"{key}\"\n");
        let accounts = path(&folder, "accounts.toml");
        fs::write(&accounts, account_of(ACCOUNT, KEY) + &account_of("hostile", HOSTILE_KEY)).unwrap();
        let server = serve(&folder, body_mib, options);
        let attacker = Attacker { address: server.address.clone(), account, accounts };
        Self { folder, server, attacker }
    }

    /// Attacks while ordinary clients work, and kills the server while both are still active. The return value of the
    /// attack, such as open connections, is kept until then.
    pub(super) fn withstand<T>(self, attack: impl FnOnce(&Attacker) -> T) {
        let mut ordinary = Ordinary::new(&self.server);
        let (address, is_killed) = (self.server.address.clone(), AtomicBool::new(false));
        let mut problems = Vec::new();
        let (folder, log) = thread::scope(|scope| {
            let working = ordinary.work(scope, &address, &is_killed);
            problems.extend(working.progress(REQUESTS));
            forget_peak(&self.server);
            let before = peak_bytes(self.server.id());
            let held = attack(&self.attacker);
            problems.extend(working.progress(REQUESTS));
            let peak = peak_bytes(self.server.id());
            let max = memory_bytes_max(BODY_MIB);
            let mib = [before, peak, max].map(|bytes| bytes / MIB);
            println!(
                "{}: {mib:?} MiB resident before, peak, and allowed",
                thread::current().name().unwrap_or_default()
            );
            if peak > max {
                problems.push(format!("{} MiB were resident, which is more than {} MiB", peak / MIB, max / MIB));
            }
            let Self { folder, server, .. } = self;
            let mut log = server.new_log();
            problems.extend(working.end(|| log.extend(server.kill9())));
            drop(held);
            (folder, log)
        });
        let logged: usize = log.iter().map(String::len).sum();
        if logged > LOG_BYTES_MAX {
            problems.push(format!("{logged} bytes were logged"));
        }
        let server = serve(&folder, BODY_MIB, &[]);
        ordinary.check(&server);
        let (status, rest) = server.stop();
        assert!(status.success(), "{rest:?}");
        let is_bad =
            |line: &&String| line.contains("panicked") || line.contains("ERROR") && !line.contains("ServerBusy");
        problems.extend(log.iter().chain(&rest).filter(is_bad).take(3).cloned());
        let checked = PROGRAM.folder().run("check", &["--data", &path(&folder, "data"), "--quiet"], &[]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

fn serve(folder: &tempfile::TempDir, body_mib: u64, options: &[&str]) -> Server {
    let [data, accounts] = ["data", "accounts.toml"].map(|name| path(folder, name));
    let [cache, body] = [CACHE_MIB, body_mib].map(|mib| mib.to_string());
    let usual = ["--data", &data, "--accounts", &accounts, "--cache-mib", &cache, "--body-mib", &body];
    PROGRAM.start(&[&usual, options].concat())
}

/// Returns the maximum resident memory: the two settings, and 150 MB for everything else.
pub(crate) const fn memory_bytes_max(body_mib: u64) -> u64 {
    (CACHE_MIB + body_mib) * MIB + 150_000_000
}

pub(crate) fn peak_bytes(process: u32) -> u64 {
    status_bytes(process, "VmHWM:")
}

fn status_bytes(process: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

pub(crate) fn resident_bytes(process: u32) -> u64 {
    status_bytes(process, "VmRSS:")
}

fn forget_peak(server: &Server) {
    fs::write(format!("/proc/{}/clear_refs", server.id()), "5").unwrap();
}
