//! Tests of base copies of standbys: several at once, and with lost responses, restarts and kills.

use crate::PROGRAM;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use tempfile::TempDir;
use test_support::content::{create_table, exact_snapshot, put};
use test_support::proxy::Proxy;
use test_support::{Client, ReservedPort, Server, TIMEOUT, eventually};

/// Part of each request for a chunk of a base copy.
const CHUNK: &str = r#""ask":"chunk""#;

struct Place {
    folder: TempDir,
    /// The primary is started again at the same address.
    port: ReservedPort,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), port: ReservedPort::new() };
        std::fs::write(place.at("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
        place
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn primary(&self) -> Server {
        let (data, token, listen) = (self.at("primary"), self.at("token"), self.port.address());
        PROGRAM.start(&["--listen", &listen, "--data", &data, "--keep-log", "1h", "--standby-token-file", &token])
    }

    /// Starts a standby, and waits until it has its base copy.
    fn standby(&self, of: &str, name: &str) -> Server {
        let (data, token, of) = (self.at(name), self.at("token"), format!("http://{of}"));
        PROGRAM.start_standby(&["--of", &of, "--token-file", &token, "--data", &data])
    }

    /// Starts a standby without waiting.
    fn copying_standby(&self, of: &str, name: &str) -> Copying {
        let (data, token, of) = (self.at(name), self.at("token"), format!("http://{of}"));
        let arguments = ["standby", "--of", &of, "--token-file", &token, "--data", &data, "--listen", "127.0.0.1:0"];
        let mut child = PROGRAM.command(&arguments).spawn().unwrap();
        let (sender, log) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Copying { child, log }
    }
}

/// A standby that receives its base copy.
struct Copying {
    child: Child,
    log: Receiver<String>,
}

impl Copying {
    fn wait_for_log(&self, text: &str) -> String {
        loop {
            let line = self.log.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("the log does not contain: {text}"));
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let _has_ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Stores a number of entities of half a megabyte.
fn fill(client: &mut Client, rows: usize) {
    create_table(client, "large");
    let text = "x".repeat(30_000);
    let properties: serde_json::Map<String, _> =
        (0..8).map(|number| (format!("Text{number}"), text.clone().into())).collect();
    for row in 0..rows {
        put(client, "large", "p", &format!("{row:03}"), &properties.clone().into());
    }
}

fn wait_until_same(primary: &Server, standby: &Server) {
    eventually("the same data", || (exact_snapshot(primary) == exact_snapshot(standby)).then_some(()));
}

/// Returns the value of a field in a line of the log.
fn number(line: &str, field: &str) -> usize {
    let rest = line.split_once(&format!("{field}=")).unwrap_or_else(|| panic!("{line}")).1;
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn standbys_that_start_together_all_finish_while_clients_write() {
    let place = Place::new();
    let primary = place.primary();
    fill(&mut primary.client(), 20);
    let (proxy, is_done) = (Proxy::holding(&primary.address, CHUNK, 2), AtomicBool::new(false));
    let (address, mut client) = (primary.address.clone(), primary.client());
    let standbys = thread::scope(|scope| {
        let (address, is_done, place) = (&address, &is_done, &place);
        let writer = scope.spawn(move || {
            for row in 0.. {
                put(&mut client, "large", "q", &(row % 1000).to_string(), &serde_json::json!({ "Number": row }));
                if is_done.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        // A standby is killed in the middle of its copy, and starts again together with the others.
        let killed = place.copying_standby(&proxy.address, "third");
        proxy.wait_until_held();
        drop(killed);
        let started = ["first", "second", "third"].map(|name| scope.spawn(move || place.standby(address, name)));
        let standbys = started.map(|standby| standby.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
        writer.join().unwrap();
        standbys
    });
    for standby in &standbys {
        wait_until_same(&primary, standby);
    }
    // Their copies are not kept any longer: a standby that starts again follows.
    let [first, ..] = standbys;
    assert!(first.stop().0.success());
    wait_until_same(&primary, &place.standby(&primary.address, "first"));
}

#[test]
fn lost_requests_and_responses_do_not_end_a_base_copy() {
    let place = Place::new();
    let primary = place.primary();
    fill(&mut primary.client(), 16);
    let proxy = Proxy::start(&primary.address, 2);
    let standby = place.standby(&proxy.address, "standby");
    let log = standby.new_log();
    let told = format!("cannot continue the base copy from http://{}", proxy.address);
    assert!(log.iter().any(|line| line.contains(&told)), "{log:#?}");
    assert!(proxy.counts.dropped_answers.load(Ordering::SeqCst) > 0);
    wait_until_same(&primary, &standby);
}

#[test]
fn a_standby_that_is_killed_continues_its_base_copy() {
    let place = Place::new();
    let primary = place.primary();
    let rows = 120;
    fill(&mut primary.client(), rows);
    // More than a memtable of 16 MiB is received before the kill.
    let proxy = Proxy::holding(&primary.address, CHUNK, 24);
    let killed = place.copying_standby(&proxy.address, "standby");
    proxy.wait_until_held();
    drop(killed);
    let standby = place.standby(&primary.address, "standby");
    standby.wait_for_log("continuing the base copy");
    let received = number(&standby.wait_for_log("the base copy is complete"), "bytes");
    let all = rows * 8 * 30_000;
    assert!(received < all - 15_000_000, "{received} of {all} bytes were sent to the second process");
    wait_until_same(&primary, &standby);
}

#[test]
fn a_base_copy_begins_again_when_the_primary_was_restarted() {
    let place = Place::new();
    let primary = place.primary();
    fill(&mut primary.client(), 16);
    let address = primary.address.clone();
    let proxy = Proxy::holding(&address, CHUNK, 2);
    let copying = place.copying_standby(&proxy.address, "standby");
    proxy.wait_until_held();
    drop(primary.kill9());
    proxy.release();
    copying.wait_for_log("cannot continue the base copy");
    let primary = place.primary();
    create_table(&mut primary.client(), "later");
    copying.wait_for_log("the standby begins again");
    copying.wait_for_log("the base copy is complete");
    copying.wait_for_log("following");
    drop(copying);
    let standby = place.standby(&address, "standby");
    wait_until_same(&primary, &standby);
}
