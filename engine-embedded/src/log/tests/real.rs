//! The log on a real disk, with real threads.

use crate::log::group::{EncodedTransaction, Group};
use crate::log::options::{Durability, Options};
use crate::log::real_disk::RealDisk;
use crate::log::recovery::inspect;
use crate::log::recovery::{self, Known, Recovered};
use crate::log::upkeep::Preparation;
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn small(durability: Durability) -> Options {
    Options {
        segment_bytes: 256 * 1024,
        prepare_after_bytes: 16 * 1024,
        prepare_chunk_bytes: 64 * 1024,
        ..Options::new(durability)
    }
}

fn open(folder: &Path, options: Options, persisted: Sequence) -> (Writer<RealDisk>, Recovered, Vec<u64>) {
    let known = Known { persisted, may_be_missing: true };
    let mut stamps = Vec::new();
    let (writer, recovered) = recovery::open(RealDisk::new(folder), options, known, &mut |record| {
        assert_eq!(record.payload, payload(record.header.stamp));
        stamps.push(record.header.stamp);
        Ok(())
    })
    .unwrap();
    (writer, recovered, stamps)
}

fn payload(stamp: u64) -> Vec<u8> {
    stamp.to_be_bytes().repeat(usize::try_from(stamp % 40).unwrap())
}

fn append(writer: &mut Writer<RealDisk>, stamps: std::ops::Range<u64>) {
    let mut group = Group::new(writer.next_sequence());
    for stamp in stamps {
        group.push(&EncodedTransaction::new(payload(stamp)).unwrap(), stamp, 0);
    }
    writer.append(&mut group).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_log_is_written_closed_and_opened() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(Durability::Sync);
    let (mut writer, recovered, stamps) = open(folder.path(), options, Sequence::ZERO);
    assert!(recovered.is_clean && stamps.is_empty());
    writer.close().unwrap();
    assert_eq!(names(folder.path()), ["0000000000000001.log"], "a log without groups stays as it is");
    let (mut writer, ..) = open(folder.path(), options, Sequence::ZERO);
    append(&mut writer, 0..100);
    assert_eq!(writer.sync().unwrap(), Sequence::new(100));
    drop(writer);
    let (mut writer, recovered, stamps) = open(folder.path(), options, Sequence::new(10));
    assert_eq!((recovered.is_clean, recovered.rewritten, stamps), (false, 100, (10..100).collect()));
    append(&mut writer, 100..200);
    writer.close().unwrap();
    let inspected = inspect(&RealDisk::new(folder.path()), options.read_bytes, Some(Sequence::ZERO), &mut |_| Ok(()))
        .unwrap()
        .unwrap();
    assert_eq!((inspected.transactions, inspected.is_clean, inspected.cut), (200, true, None));
    let (mut writer, recovered, stamps) = open(folder.path(), options, Sequence::ZERO);
    assert_eq!((recovered.is_clean, stamps), (true, (0..200).collect()));
    assert!(writer.retire(Sequence::new(200)).unwrap());
    let bytes: u64 =
        names(folder.path()).iter().map(|name| fs::metadata(folder.path().join(name)).unwrap().len()).sum();
    assert_eq!(bytes, 4096, "a retired log keeps only a header");
}

#[test]
fn files_are_prepared_and_reused() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(Durability::Sync);
    let (mut writer, ..) = open(folder.path(), options, Sequence::ZERO);
    let upkeep = writer.upkeep();
    assert_eq!(upkeep.prepare_next(&mut |_| true).unwrap(), Preparation::NotNeeded, "little was written");
    append(&mut writer, 0..1000);
    writer.sync().unwrap();
    assert_eq!(upkeep.prepare_next(&mut |_| false).unwrap(), Preparation::Stopped);
    assert_eq!(upkeep.prepare_next(&mut |_| true).unwrap(), Preparation::Prepared);
    assert_eq!(upkeep.prepare_next(&mut |_| true).unwrap(), Preparation::NotNeeded, "a file waits");
    assert_eq!(names(folder.path()), ["0000000000000000.free", "0000000000000001.log"]);
    let mut stamp = 1000;
    let mut append_some = |writer: &mut Writer<RealDisk>| {
        append(writer, stamp..stamp + 300);
        stamp += 300;
        writer.sync().unwrap()
    };
    append_some(&mut writer);
    assert_eq!(names(folder.path()), ["0000000000000001.log", "0000000000000002.log"], "a prepared file is faster");
    while writer.place().0 < 4 {
        upkeep.prepare_next(&mut |_| true).unwrap();
        append_some(&mut writer);
    }
    upkeep.release(writer.next_sequence().previous()).unwrap();
    // The first file grew, and was never of full size.
    let reusable = ["0000000000000002.free", "0000000000000003.free", "0000000000000004.log"];
    assert_eq!(names(folder.path()), reusable);
    while writer.place().0 < 7 {
        append_some(&mut writer);
    }
    assert_eq!(names(folder.path()).len(), 4);
    upkeep.release(writer.next_sequence().previous()).unwrap();
    let left = ["0000000000000004.free", "0000000000000005.free", "0000000000000007.log"];
    assert_eq!(names(folder.path()), left, "at most two files wait");
}

#[test]
fn a_preparation_ends_when_the_log_is_retired() {
    let folder = tempfile::tempdir().unwrap();
    let (mut writer, ..) = open(folder.path(), small(Durability::Sync), Sequence::ZERO);
    let upkeep = writer.upkeep();
    for retires_after in 1..=4 {
        append(&mut writer, 0..1000);
        let last = writer.sync().unwrap();
        let mut writes = 0;
        let mut retire = |_| {
            writes += 1;
            if writes == retires_after {
                assert!(writer.retire(last).unwrap());
            }
            true
        };
        assert_eq!(upkeep.prepare_next(&mut retire).unwrap(), Preparation::Stopped);
        let names = names(folder.path());
        assert!(matches!(&names[..], [name] if name.contains(".log")), "only a segment is left: {names:?}");
    }
}

/// The committer of a log with intervals, and one thread for each of the other tasks.
#[test]
fn threads_share_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { prepare_bytes_per_second: u64::MAX, ..small(Durability::Interval) };
    let (mut writer, ..) = open(folder.path(), options, Sequence::ZERO);
    let (ends, persisted) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (ends, persisted) = (&ends, &persisted);
        let upkeep = writer.upkeep();
        scope.spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                let synced = upkeep.sync().unwrap();
                persisted.store(synced.get().saturating_sub(500), Ordering::SeqCst);
            }
        });
        let upkeep = writer.upkeep();
        scope.spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                upkeep.prepare_next(&mut |_| true).unwrap();
                upkeep.release(Sequence::new(persisted.load(Ordering::SeqCst))).unwrap();
            }
        });
        for group in 0..2000 {
            append(&mut writer, group * 10..(group + 1) * 10);
        }
        ends.store(true, Ordering::SeqCst);
    });
    drop(writer);
    let persisted = persisted.load(Ordering::SeqCst);
    let (_, recovered, stamps) = open(folder.path(), options, Sequence::new(persisted));
    assert_eq!((recovered.last, stamps), (Sequence::new(20_000), (persisted..20_000).collect()));
}
