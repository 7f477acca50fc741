//! Tests of disks that break their promises: a write that is reported as successful is lost, even after a sync, or
//! overwrites another place.
//!
//! No server can repair this, but it must be detected: a read returns the right data or an error, and afterwards
//! `rowhouse check` reports damage or no acknowledged write is missing.
//!
//! There is one exception. Each group of the log proves that the groups before it were synced, but nothing follows the
//! last one. After a crash, a last group that the disk has lost looks like a write that was cut off, and so do all
//! groups from a certain one on if a misdirected write has overwritten them.

use super::SEED;
use super::history::{HistoryWriter, IDLE, work};
use super::simulated_disk::{Disk, Kind, Record, Records, SimulatedDisk};
use crate::PROGRAM;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};
use test_support::Random;

/// The length of the header of a group in the log, in bytes.
const LOG_GROUP_HEADER_BYTES: u64 = 64;

#[derive(Debug, Default)]
struct Counts {
    faults: usize,
    failed_reads: usize,
    damage_found: usize,
    harmless: usize,
    last_groups: usize,
}

/// A group that the server wrote to the current segment of the log.
#[derive(Debug)]
struct LogGroup {
    /// Its bytes in the segment; empty if the disk has lost it.
    bytes: Range<u64>,
    /// The position in the record after it was written.
    written: u64,
    has_header: bool,
    is_intact: bool,
}

/// Which groups of the current segment of the log the faults have left.
#[derive(Debug, Default)]
struct CurrentSegment<'a> {
    path: Option<&'a Path>,
    groups: Vec<LogGroup>,
}

impl<'a> CurrentSegment<'a> {
    fn apply(&mut self, record: &Record<'a>) {
        match record.kind {
            // The new segment names the end of the previous one, so that nothing can be missing there.
            Kind::Rename if is_segment(Path::new(OsStr::from_bytes(record.data))) => {
                *self = Self { path: Some(Path::new(OsStr::from_bytes(record.data))), groups: Vec::new() };
            }
            Kind::Fault if self.path == Some(record.path) => {
                self.groups.push(LogGroup { bytes: 0..0, written: record.end, has_header: false, is_intact: false });
            }
            Kind::Write if is_segment(record.path) && is_log_group(record) => {
                if self.path != Some(record.path) {
                    *self = Self { path: Some(record.path), groups: Vec::new() };
                }
                let bytes = record.offset..record.offset + record.data.len() as u64;
                self.groups.push(LogGroup { bytes, written: record.end, has_header: true, is_intact: true });
            }
            Kind::Write if self.path == Some(record.path) => {
                let overwritten = record.offset..record.offset + record.data.len() as u64;
                let overlaps = |bytes: Range<u64>| bytes.start < overwritten.end && overwritten.start < bytes.end;
                for group in &mut self.groups {
                    let start = group.bytes.start;
                    group.has_header &= !overlaps(start..start + LOG_GROUP_HEADER_BYTES);
                    group.is_intact &= !overlaps(group.bytes.clone());
                }
            }
            _ => {}
        }
    }

    /// Returns the position in the record at which the first group was written whose loss cannot be detected. A header
    /// proves that the groups before it were synced.
    fn undetectable_from(&self) -> u64 {
        let proven = self.groups.iter().rposition(|group| group.has_header);
        let first = proven.map_or(0, |last| if self.groups[last].is_intact { last + 1 } else { last });
        self.groups.get(first).map_or(u64::MAX, |group| group.written)
    }
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

/// Returns whether a write puts a group where it belongs. A group contains its offset.
fn is_log_group(record: &Record<'_>) -> bool {
    record.data.starts_with(b"RGrp") && record.data.get(8..16) == Some(&record.offset.to_be_bytes())
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
    let mut segment = CurrentSegment::default();
    for record in &records {
        segment.apply(record);
    }
    let lost = segment.undetectable_from();
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
