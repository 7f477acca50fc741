//! A test of `deploy/failover/failover.sh`: two servers, of which a row in PostgreSQL decides which one is the primary.

use crate::PROGRAM;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use test_support::cluster::Cluster;
use test_support::{Client, EndOnDrop, ReservedPort, eventually_within};

/// The lease, in seconds.
const LEASE: u64 = 6;
/// The time in which a takeover must be complete, on a busy machine.
const TAKEOVER_MAX: Duration = Duration::from_secs(LEASE + 30);
/// The time after which a standby that may take over has usually done so.
const TAKEOVER_USUAL: Duration = Duration::from_secs(LEASE + 5);
/// The pause after each insert.
const PAUSE: Duration = Duration::from_millis(10);
/// The time for everything else, such as a lease and a base copy.
const WAIT_MAX: Duration = Duration::from_secs(90);

struct Place {
    folder: TempDir,
    database: String,
    path: String,
}

/// A machine with a server and the script that runs it.
struct Machine<'p> {
    place: &'p Place,
    name: &'static str,
    address: String,
    peer: String,
    admin: String,
    script: Option<Child>,
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("the log of machine {}:\n{}", self.name, self.log());
        }
    }
}

impl Machine<'_> {
    fn start(&mut self, arguments: &[&str]) {
        let folder = self.place.folder.path();
        let log = File::options().create(true).append(true).open(folder.join(format!("{}.log", self.name))).unwrap();
        let mut script = Command::new("bash");
        script.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/failover/failover.sh")).args(arguments);
        script.env_clear().env("PATH", &self.place.path).env("FAILOVER_DATABASE", &self.place.database);
        script.env("FAILOVER_SELF", format!("http://{}", self.address));
        script.env("FAILOVER_PEER", format!("http://{}", self.peer));
        script.env("FAILOVER_TOKEN_FILE", folder.join("token")).env("FAILOVER_LEASE", LEASE.to_string());
        script.env("ROWHOUSE_DATA", folder.join(self.name)).env("ROWHOUSE_KEEP_LOG", "1h");
        script.env("ROWHOUSE_LISTEN", &self.address).env("ROWHOUSE_ADMIN", &self.admin);
        script.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        // The script and its server can be killed together.
        self.script = Some(script.process_group(0).spawn().unwrap());
    }

    /// Sends a signal to the script and its server.
    fn signal(&self, name: &str) {
        let group = format!("-{}", self.script.as_ref().unwrap().id());
        assert!(Command::new("kill").args(["-s", name, "--", &group]).status().unwrap().success());
    }

    /// The machine loses its power.
    fn kill(&mut self) {
        if self.script.is_some() {
            self.signal("KILL");
            self.script.take().unwrap().wait().unwrap();
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.folder.path().join(format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Waits until the log contains a text `count` times.
    fn wait_for_log(&self, text: &str, count: usize) {
        wait(WAIT_MAX, text, || self.log().matches(text).count() >= count);
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        let mut client = Client::connect(&self.address).ok()?;
        client.try_request(method, path, &[], body.as_bytes()).ok().map(|answer| answer.status)
    }

    /// Inserts an entity. Returns false if the outcome is unknown, or if it was refused.
    fn insert(&self, row: u32) -> bool {
        self.request("POST", "/rows", &format!(r#"{{"PartitionKey":"p","RowKey":"{row:06}"}}"#)) == Some(201)
    }

    fn assert_has(&self, acknowledged: &BTreeSet<u32>) {
        let mut rows = BTreeSet::new();
        // The server may be restarted at any time, to wait for its standby.
        wait(WAIT_MAX, "the rows", || {
            let Ok(mut client) = Client::connect(&self.address) else { return false };
            let Ok(answer) = client.try_request("GET", "/rows()?$select=RowKey", &[], b"") else { return false };
            if answer.status == 503 {
                return false;
            }
            let entities = answer.json();
            let entities = entities["value"].as_array().unwrap();
            assert!(entities.len() < 1000, "the rows are read in one page");
            rows = entities.iter().map(|entity| entity["RowKey"].as_str().unwrap().parse().unwrap()).collect();
            true
        });
        let missing: Vec<_> = acknowledged.difference(&rows).collect();
        assert!(missing.is_empty(), "acknowledged writes are missing: {missing:?}");
    }

    fn folders_aside(&self) -> usize {
        let names = fs::read_dir(self.place.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with(&format!("{}.former-", self.name))).count()
    }
}

fn wait(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    eventually_within(time, what, || holds().then_some(()));
}

/// Inserts entities for a while, and remembers those that were acknowledged.
fn write(machine: &Machine<'_>, next: &mut u32, acknowledged: &mut BTreeSet<u32>) {
    let began = Instant::now();
    let before = acknowledged.len();
    while began.elapsed() < Duration::from_secs(1) || acknowledged.len() < before + 10 {
        if machine.insert(*next) {
            acknowledged.insert(*next);
        }
        *next += 1;
        thread::sleep(PAUSE);
        assert!(began.elapsed() < WAIT_MAX, "nothing is acknowledged");
    }
}

/// The same, but the machine is killed in the middle of it.
fn write_and_kill(machine: &mut Machine<'_>, next: &mut u32, acknowledged: &mut BTreeSet<u32>) {
    let (is_killed, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _end = EndOnDrop(&is_killed);
        let machine = &*machine;
        scope.spawn(|| {
            while !is_killed.load(Ordering::SeqCst) {
                if machine.insert(*next) {
                    acknowledged.insert(*next);
                    count.fetch_add(1, Ordering::SeqCst);
                }
                *next += 1;
                thread::sleep(PAUSE);
            }
        });
        thread::sleep(Duration::from_secs(1));
        eventually_within(WAIT_MAX, "acknowledged writes", || (count.load(Ordering::SeqCst) >= 10).then_some(()));
        machine.signal("KILL");
    });
    machine.kill();
}

#[test]
fn the_standby_takes_over_and_the_former_primary_comes_back() {
    let Some(cluster) = Cluster::start() else { return };
    let program = Path::new(PROGRAM.path()).parent().unwrap().to_str().unwrap();
    let path = format!("{program}:{}:{}", cluster.programs(), std::env::var("PATH").unwrap());
    let place = Place { folder: tempfile::tempdir().unwrap(), database: cluster.database(), path };
    fs::write(place.folder.path().join("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
    // The servers are started again at the same addresses.
    let ports = [(); 4].map(|()| ReservedPort::new());
    let [address, peer, admin, admin_of_peer] = ports.each_ref().map(ReservedPort::address);
    let machine = |name, address: &str, peer: &str, admin: &str| Machine {
        place: &place,
        name,
        address: address.to_owned(),
        peer: peer.to_owned(),
        admin: admin.to_owned(),
        script: None,
    };
    let mut one = machine("one", &address, &peer, &admin);
    let mut other = machine("other", &peer, &address, &admin_of_peer);
    let (mut next, mut acknowledged) = (0, BTreeSet::new());
    one.start(&["--begin"]);
    wait(WAIT_MAX, "a table", || one.request("POST", "/Tables", r#"{"TableName":"rows"}"#) == Some(201));
    other.start(&[]);
    one.wait_for_log("may take over", 1);

    // The primary is lost.
    write_and_kill(&mut one, &mut next, &mut acknowledged);
    let lost = Instant::now();
    wait(TAKEOVER_MAX, "the takeover", || other.insert(next));
    println!("the standby took over {:?} after the loss", lost.elapsed());
    acknowledged.insert(next);
    next += 1;
    write(&other, &mut next, &mut acknowledged);
    other.assert_has(&acknowledged);

    // It comes back as the standby, and takes over itself.
    one.start(&[]);
    other.wait_for_log("may take over", 1);
    assert_eq!(one.folders_aside(), 1);
    write_and_kill(&mut other, &mut next, &mut acknowledged);
    wait(TAKEOVER_MAX, "the takeover", || one.insert(next));
    acknowledged.insert(next);
    next += 1;
    one.assert_has(&acknowledged);
    other.start(&[]);
    one.wait_for_log("may take over", 2);
    assert_eq!((one.folders_aside(), other.folders_aside()), (1, 1));

    // Without its standby, the primary continues. If it is lost then, the standby must not take over.
    other.kill();
    one.wait_for_log("the standby is away", 1);
    write(&one, &mut next, &mut acknowledged);
    one.kill();
    other.start(&[]);
    other.wait_for_log("cannot follow", 1);
    thread::sleep(TAKEOVER_USUAL);
    assert_eq!(other.log().matches("took the lease").count(), 1, "only the first takeover");
    one.start(&[]);
    one.wait_for_log("may take over", 3);
    write(&one, &mut next, &mut acknowledged);

    // A primary that was only paused notices that it was replaced.
    one.signal("STOP");
    wait(TAKEOVER_MAX, "the takeover", || other.insert(next));
    acknowledged.insert(next);
    next += 1;
    one.signal("CONT");
    one.wait_for_log("moving the folder", 2);
    other.wait_for_log("may take over", 2);

    // Without the database, no server can renew the lease.
    let frozen = cluster.freeze();
    wait(WAIT_MAX, "the end of the lease", || other.request("GET", "/Tables", "").is_none());
    drop(frozen);
    let has_primary = || other.insert(next) || one.insert(next);
    wait(WAIT_MAX, "a primary", has_primary);
    let primary = if one.log().matches("took the lease").count() > 1 { &one } else { &other };
    primary.assert_has(&acknowledged);
}
