//! A test of the durability `interval`: a power loss loses only writes that were not synced.
//!
//! Timestamps increase in commit order, so what remains must be everything up to a certain Timestamp. The record of
//! file operations gives the lower bound for that Timestamp: everything that was in a segment of the log when the
//! segment was synced must remain.

use super::SEED;
use super::simulated_disk::{EIO, SimulatedDisk, lose_power};
use crate::PROGRAM;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use test_support::{Client, Random, Server};

const WRITERS: u64 = 6;
const ROUNDS: u64 = 15;

type Acknowledged = (String, String);

fn needle(round: u64, writer: u64, number: u64) -> String {
    format!("needle-{round:04}-{writer:02}-{number:06};")
}

fn insert(address: &str, round: u64, writer: u64, acknowledged: &Sender<Acknowledged>) {
    let Ok(mut client) = Client::connect(address) else { return };
    for number in 0.. {
        let needle = needle(round, writer, number);
        let body = format!(r#"{{"PartitionKey":"p{writer}","RowKey":"{number:06}","Needle":"{needle}"}}"#);
        let headers = [("Prefer", "return-no-content")];
        let Ok(answer) = client.try_request("POST", "/crash", &headers, body.as_bytes()) else { return };
        assert_eq!(answer.status, 204, "{answer:?}");
        // The receiver is dropped once the server has been killed.
        let _ = acknowledged.send((needle, answer.header("etag").unwrap().to_owned()));
    }
}

fn stored(server: &Server) -> BTreeMap<String, String> {
    let entities = server.client().query("/crash()?", &[]).unwrap();
    entities
        .iter()
        .map(|entity| ["Needle", "odata.etag"].map(|name| entity[name].as_str().unwrap().to_owned()).into())
        .collect()
}

/// Returns the Timestamp in an ETag in a form that sorts by time: an ETag omits trailing zeros.
fn instant(etag: &str) -> (String, String) {
    let text = etag.split('\'').nth(1).unwrap().trim_end_matches('Z');
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    (seconds.to_owned(), format!("{fraction:0<7}"))
}

fn write_and_crash(server: Server, round: u64, random: &mut Random) -> BTreeMap<String, String> {
    let (sender, acknowledgements) = channel();
    let until_crash = 20 + random.below(600);
    let pause = Duration::from_micros(random.below(30_000));
    let address = server.address.clone();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (address, sender) = (address.as_str(), sender.clone());
            scope.spawn(move || insert(address, round, writer, &sender));
        }
        drop(sender);
        let mut acknowledged: BTreeMap<_, _> =
            acknowledgements.iter().take(usize::try_from(until_crash).unwrap()).collect();
        thread::sleep(pause);
        server.kill9();
        acknowledged.extend(acknowledgements.iter());
        acknowledged
    })
}

#[test]
fn the_interval_loses_only_writes_that_were_not_synced() {
    let mut random = Random::from_environment(SEED);
    let (mut kept, mut lost, mut synced_count) = (0, 0, 0);
    for round in 0..ROUNDS {
        let disk = SimulatedDisk::recorded(random.number());
        let [before, left] = ["before", "left"].map(|name| disk.path(name));
        std::fs::create_dir(&before).unwrap();
        let server = disk.start_with(&["--durability", "interval"]);
        assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
        let acknowledged = write_and_crash(server, round, &mut random);
        let synced =
            String::from_utf8_lossy(&lose_power(&before, &disk.data, disk.log(), &left, &mut random)).into_owned();

        let server = PROGRAM.start(&["--durability", "interval", "--data", left.to_str().unwrap()]);
        let stored = stored(&server);
        let last = stored.values().map(|etag| instant(etag)).max();
        for (needle, etag) in &acknowledged {
            let is_stored = stored.get(needle);
            assert!(is_stored.is_none_or(|stored| stored == etag), "{needle} in round {round}");
            if is_stored.is_some() {
                kept += 1;
                continue;
            }
            assert!(
                last.as_ref().is_none_or(|last| instant(etag) > *last),
                "{needle} is lost but later writes are not, in round {round}"
            );
            assert!(!synced.contains(needle.as_str()), "{needle} was synced but is lost, in round {round}");
            lost += 1;
        }
        synced_count += acknowledged.keys().filter(|needle| synced.contains(needle.as_str())).count();
        let unknown = stored.keys().filter(|needle| !acknowledged.contains_key(*needle)).count() as u64;
        assert!(unknown <= WRITERS, "{unknown} entities that no writer wrote, in round {round}");
    }
    println!("{kept} acknowledged inserts kept, {synced_count} of them certainly synced, {lost} lost");
    assert!(synced_count > 0 && lost > 0, "the test proves nothing");
}

/// No request follows the failure.
#[test]
fn what_could_not_be_synced_is_written_again_without_a_request() {
    let mut random = Random::from_environment(SEED);
    let disk = SimulatedDisk::recorded(random.number());
    let [before, left] = ["before", "left"].map(|name| disk.path(name));
    std::fs::create_dir(&before).unwrap();
    let server = disk.start_with(&["--durability", "interval"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    disk.fail("s", EIO, None);
    assert_eq!(client.request("POST", "/crash", &[], br#"{"PartitionKey":"p","RowKey":"r"}"#).status, 201);
    server.wait_for_log("the log could not be synced");
    disk.repair();
    server.wait_for_log("the data folder accepts writes again");
    server.kill9();
    lose_power(&before, &disk.data, disk.log(), &left, &mut random);
    let server = PROGRAM.start(&["--durability", "interval", "--data", left.to_str().unwrap()]);
    assert_eq!(server.client().request("GET", "/crash(PartitionKey='p',RowKey='r')", &[], b"").status, 200);
}
