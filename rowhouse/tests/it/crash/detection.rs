//! Tests of disks that break their promises: a write that is reported as successful is lost, even after a sync, or
//! overwrites another place.
//!
//! No server can repair this, but it must be detected: a read returns the right data or an error, and afterwards
//! `rowhouse check` reports damage or no acknowledged write is missing.
//!
//! There is one exception. Nothing follows the last group in the log, so after a crash, a last group that the disk has
//! lost looks like a write that was cut off.

use super::SEED;
use super::history::{HistoryWriter, IDLE, work};
use super::power_loss::{Disk, Kind, Record, Records};
use super::simulated_disk::SimulatedDisk;
use crate::PROGRAM;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;
use test_support::Random;

#[derive(Debug, Default)]
struct Counts {
    faults: usize,
    failed_reads: usize,
    damage_found: usize,
    harmless: usize,
    last_groups: usize,
}

/// Returns the position of the first fault that affected the last groups of the log, and no earlier ones.
fn first_fault_in_last_groups(records: &[Record<'_>]) -> u64 {
    let is_segment = |path: &Path| path.extension().is_some_and(|end| end == "log");
    let mut first = u64::MAX;
    let mut in_group = Vec::new();
    for record in records {
        let is_in_log = is_segment(record.path);
        match record.kind {
            Kind::Write | Kind::Fault if is_in_log => in_group.push(record),
            Kind::Sync if is_in_log && !in_group.is_empty() => {
                let fault = in_group.iter().find(|record| record.kind == Kind::Fault).map(|record| record.end);
                first = fault.map_or(u64::MAX, |at| first.min(at));
                in_group.clear();
            }
            // A new segment names the end of the previous one, so that nothing can be missing there.
            Kind::Rename if is_segment(Path::new(OsStr::from_bytes(record.data))) => {
                first = u64::MAX;
                in_group.clear();
            }
            _ => {}
        }
    }
    let fault = in_group.iter().find(|record| record.kind == Kind::Fault).map(|record| record.end);
    first.min(fault.unwrap_or(u64::MAX))
}

fn round(kind: &str, random: &mut Random, counts: &mut Counts) {
    let disk = SimulatedDisk::recorded(random.number());
    let before = disk.path("before");
    fs::create_dir(&before).unwrap();
    let sizes = [(1500, 200), (1500, 200), (300, 9000), (24, 200_000)].into_iter().zip(0..);
    let mut writers: Vec<_> =
        sizes.map(|((rows, bytes), number)| HistoryWriter::new(number, rows, bytes, random.number())).collect();
    let server = disk.start();
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"crash"}"#).status, 201);
    work(&server.address, disk.log(), &mut writers, Duration::from_millis(100 + random.below(1500)));
    disk.order(&format!("{kind} 0 -1 0 {}", 1 + random.below(100)));
    // In some rounds, only the files that flushes and merges write are damaged.
    if random.below(2) == 0 {
        work(&server.address, disk.log(), &mut writers, Duration::from_millis(random.below(500)));
    }
    thread::sleep(IDLE);
    disk.repair();
    work(&server.address, disk.log(), &mut writers, Duration::from_millis(random.below(300)));
    let mut client = server.client();
    for writer in &writers {
        if let Err(answer) = writer.check(&mut client, u64::MAX) {
            assert_eq!(answer.status, 500, "{answer:?}");
            counts.failed_reads += 1;
        }
    }
    drop(client);
    let ending = random.below(3);
    match ending {
        0 => _ = server.stop(),
        _ => _ = server.kill9(),
    }
    let log = fs::read(disk.log()).unwrap();
    let records: Vec<_> = Records::new(&log).collect();
    let faults = records.iter().filter(|record| record.kind == Kind::Fault).count();
    counts.faults += faults;
    if ending == 2 {
        let mut lost = Disk::new(&before, &disk.data);
        for record in &records {
            lost.apply(record);
        }
        lost.settle(random);
        fs::remove_dir_all(&disk.data).unwrap();
        lost.write(&disk.data);
    }
    let data = disk.data.to_str().unwrap();
    let checked = PROGRAM.folder().run("check", &["--data", data, "--quiet"], &[]);
    if checked.code != Some(0) {
        assert!(faults > 0, "{checked:?}");
        counts.damage_found += 1;
        return;
    }
    // The check is at least as strict as a start.
    let server = PROGRAM.start(&["--data", data]);
    let lost = first_fault_in_last_groups(&records);
    counts.last_groups += usize::from(lost != u64::MAX);
    counts.harmless += usize::from(lost == u64::MAX);
    for writer in &writers {
        writer.check_except(&mut server.client(), u64::MAX, lost).unwrap();
    }
}

#[test]
fn lost_and_misdirected_writes_are_detected() {
    let mut random = Random::from_environment(SEED);
    let mut counts = Counts::default();
    let rounds = usize::try_from(super::rounds(8)).unwrap();
    let has_effect = |counts: &Counts| 4 * counts.damage_found >= rounds;
    // About three rounds in eight damage something.
    for number in 0..8 * rounds {
        if number >= rounds && has_effect(&counts) {
            break;
        }
        round(if number % 2 == 0 { "l" } else { "m" }, &mut random, &mut counts);
    }
    println!("{counts:#?}");
    assert!(has_effect(&counts), "hardly any fault had an effect");
}
