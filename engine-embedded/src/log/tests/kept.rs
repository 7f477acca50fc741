//! Segments that are kept for readers, and readers beside a writer, on a real disk with real threads.

use crate::log::group::{EncodedTransaction, Group};
use crate::log::options::{Durability, Options};
use crate::log::reader::{LogReader, ReadLogError};
use crate::log::real_disk::RealDisk;
use crate::log::recovery::{self, Known};
use crate::log::upkeep::Upkeep;
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;
use test_support::Random;

struct Kept {
    folder: TempDir,
    writer: Writer<RealDisk>,
}

fn options() -> Options {
    Options {
        segment_bytes: 128 * 1024,
        prepare_after_bytes: 16 * 1024,
        prepare_chunk_bytes: 64 * 1024,
        ..Options::new(Durability::Sync)
    }
}

fn open(folder: TempDir, persisted: u64) -> Kept {
    let (log, archive) = (folder.path().join("log"), folder.path().join("archive"));
    for part in [&log, &archive] {
        fs::create_dir_all(part).unwrap();
    }
    let known = Known { persisted: Sequence::new(persisted), may_be_missing: true };
    let (writer, _) = recovery::open(RealDisk::new(&log), options(), known, &mut |_| Ok(())).unwrap();
    writer.upkeep().keep_in(RealDisk::new(&archive)).unwrap();
    Kept { folder, writer }
}

/// Half of the payloads are random, so that blocks differ in how well they can be compressed.
fn payload(sequence: u64, random: &mut Random) -> Vec<u8> {
    let mut payload = sequence.to_be_bytes().to_vec();
    let is_random = sequence % 50 < 25;
    for index in 0..random.below(400) {
        payload.extend((if is_random { random.number() } else { index / 50 }).to_be_bytes());
    }
    payload
}

fn append(writer: &mut Writer<RealDisk>, count: u64, random: &mut Random) {
    let mut group = Group::new(writer.next_sequence());
    for _ in 0..count {
        let sequence = group.next_sequence().get();
        group.push(&EncodedTransaction::new(payload(sequence, random)).unwrap(), sequence * 10, 1);
    }
    writer.append(&mut group).unwrap();
    writer.sync().unwrap();
}

/// Reads transactions, checks their contents, and returns the number after the last one.
fn read(reader: &LogReader<RealDisk>, from: u64, through: u64, count: u64) -> Result<u64, ReadLogError> {
    let mut expected = from;
    let next = reader.read(Sequence::new(from), Sequence::new(through), &mut |record| {
        assert_eq!(record.header.sequence.get(), expected, "transactions are read without gaps");
        assert_eq!(record.payload[..8], expected.to_be_bytes());
        assert_eq!(record.header.stamp, expected * 10);
        expected += 1;
        if expected - from == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    assert_eq!(next.get(), expected);
    Ok(expected)
}

fn archived_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder.join("archive")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn released_segments_can_be_read_until_they_are_dropped() {
    let mut random = Random::new(1);
    let mut kept = open(TempDir::new().unwrap(), 0);
    for _ in 0..200 {
        append(&mut kept.writer, 5, &mut random);
    }
    let upkeep = kept.writer.upkeep();
    upkeep.keep(Sequence::new(900), &mut |_| true).unwrap();
    let archive = upkeep.archive().unwrap();
    let segments = archive.segments();
    assert!(segments.len() > 5, "{segments:?}");
    assert_eq!((segments[0].first, segments[0].oldest), (Sequence::new(1), Some(10)));
    for pair in segments.windows(2) {
        assert_eq!((pair[0].end, pair[0].id + 1), (pair[1].first, pair[1].id));
        assert_eq!(pair[0].newest, Some(pair[0].end.previous().get() * 10));
    }
    assert!(archive.bytes() <= archived_bytes(kept.folder.path()));
    let reader = LogReader::new(&upkeep);
    for from in [1, 2, 499, 500, 888, 1000] {
        assert_eq!(read(&reader, from, 1000, u64::MAX).unwrap(), 1001, "{from}");
    }
    assert_eq!(read(&reader, 3, 1000, 4).unwrap(), 7);
    assert_eq!(read(&reader, 7, 1000, 4).unwrap(), 11);

    // Everything is found again after a start, with and without the release.
    drop((reader, kept.writer));
    let Kept { folder, writer } = open(kept.folder, 900);
    let (upkeep, reader) = (writer.upkeep(), LogReader::new(&writer.upkeep()));
    assert_eq!(upkeep.archive().unwrap().segments(), segments);
    assert_eq!(read(&reader, 1, 1000, u64::MAX).unwrap(), 1001);

    let dropped = upkeep.archive().unwrap().drop_oldest().unwrap().unwrap();
    assert_eq!(dropped, segments[0]);
    assert!(matches!(read(&reader, 1, 1000, u64::MAX), Err(ReadLogError::Dropped(first)) if first == dropped.end));
    assert_eq!(read(&reader, dropped.end.get(), 1000, u64::MAX).unwrap(), 1001);
    assert!(archived_bytes(folder.path()) > 0);
}

#[test]
fn an_archive_begins_when_it_is_created() {
    let mut random = Random::new(2);
    let mut kept = open(TempDir::new().unwrap(), 0);
    append(&mut kept.writer, 10, &mut random);
    fs::remove_dir_all(kept.folder.path().join("archive")).unwrap();
    drop(kept.writer);
    let mut kept = open(kept.folder, 0);
    assert_eq!(LogReader::new(&kept.writer.upkeep()).first(), Sequence::new(11));
    append(&mut kept.writer, 10, &mut random);
    let reader = LogReader::new(&kept.writer.upkeep());
    assert!(matches!(read(&reader, 10, 20, 1), Err(ReadLogError::Dropped(first)) if first.get() == 11));
    assert_eq!(read(&reader, 11, 20, u64::MAX).unwrap(), 21);
}

#[test]
fn damaged_and_missing_archived_segments_end_the_kept_log() {
    for what in ["missing", "cut", "footer"] {
        let mut random = Random::new(3);
        let mut kept = open(TempDir::new().unwrap(), 0);
        for _ in 0..200 {
            append(&mut kept.writer, 5, &mut random);
        }
        kept.writer.upkeep().keep(Sequence::new(1000), &mut |_| true).unwrap();
        let segments = kept.writer.upkeep().archive().unwrap().segments();
        drop(kept.writer);
        let path = kept.folder.path().join("archive").join(format!("{:016}.lz4", segments[2].id));
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() - 30;
        match what {
            "missing" => fs::remove_file(&path).unwrap(),
            "cut" => fs::write(&path, &bytes[..at]).unwrap(),
            _ => {
                bytes[at] ^= 1;
                fs::write(&path, &bytes).unwrap();
            }
        }
        let Kept { folder: _folder, writer } = open(kept.folder, 1000);
        let reader = LogReader::new(&writer.upkeep());
        assert_eq!(reader.first(), segments[3].first, "{what}");
        assert_eq!(read(&reader, segments[3].first.get(), 1000, u64::MAX).unwrap(), 1001);
    }
}

#[test]
fn a_damaged_block_is_never_read_as_data() {
    let mut random = Random::new(4);
    let mut kept = open(TempDir::new().unwrap(), 0);
    for _ in 0..200 {
        append(&mut kept.writer, 5, &mut random);
    }
    kept.writer.upkeep().keep(Sequence::new(1000), &mut |_| true).unwrap();
    let [first, segment, third, ..] = kept.writer.upkeep().archive().unwrap().segments()[..] else { panic!("few") };
    let path = kept.folder.path().join("archive").join(format!("{:016}.lz4", segment.id));
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    for _ in 0..40 {
        let upkeep = kept.writer.upkeep();
        let mut damaged = whole.clone();
        let at = usize::try_from(random.below(whole.len() as u64 - 200)).unwrap();
        damaged[at] ^= 1 << random.below(8);
        fs::write(&path, &damaged).unwrap();
        let reader = LogReader::new(&upkeep);
        match read(&reader, segment.first.get(), segment.end.previous().get(), u64::MAX) {
            // The padding of the segment header and of groups is not covered.
            Ok(end) => assert_eq!(end, segment.end.get()),
            // Readers can continue behind the damage, and learn that they have missed something.
            Err(ReadLogError::Dropped(next)) => {
                assert_eq!((next, reader.first()), (segment.end, segment.end));
                assert_eq!(read(&reader, next.get(), 1000, u64::MAX).unwrap(), 1001);
                assert_eq!(upkeep.archive().unwrap().segments()[0], third);
                found += 1;
            }
            Err(error) => panic!("{error}"),
        }
        fs::write(&path, &whole).unwrap();
        drop((upkeep, reader, kept.writer));
        kept = open(kept.folder, 1000);
        assert_eq!(kept.writer.upkeep().archive().unwrap().segments()[..2], [first, segment]);
    }
    assert!(found > 20, "{found}");
    // A failure that may pass gives nothing up.
    let (upkeep, reader) = (kept.writer.upkeep(), LogReader::new(&kept.writer.upkeep()));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(read(&reader, segment.first.get(), 1000, 1), Err(ReadLogError::Log(_))));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(read(&reader, segment.first.get(), 1000, 1), Err(ReadLogError::Dropped(_))));
    let archived = |id: u64| kept.folder.path().join("archive").join(format!("{id:016}.lz4")).exists();
    assert!(archived(first.id) && archived(segment.id));
    upkeep.archive().unwrap().remove_unreadable().unwrap();
    assert!(!archived(first.id) && !archived(segment.id) && archived(third.id));
}

#[test]
fn readers_pass_a_gap_but_cannot_begin_inside_it() {
    let mut random = Random::new(5);
    let mut kept = open(TempDir::new().unwrap(), 0);
    append(&mut kept.writer, 20, &mut random);
    kept.writer.skip_to(Sequence::new(1000)).unwrap();
    kept.writer.skip_to(Sequence::new(900)).unwrap();
    assert_eq!(kept.writer.next_sequence(), Sequence::new(1000));
    let check = |writer: &Writer<RealDisk>, through: u64| {
        let reader = LogReader::new(&writer.upkeep());
        let mut found = Vec::new();
        let end = reader.read(Sequence::new(1), Sequence::new(through), &mut |record| {
            found.push(record.header.sequence.get());
            ControlFlow::Continue(())
        });
        assert_eq!(end.unwrap(), Sequence::new(through + 1));
        assert_eq!(found, (1..21).chain(1000..=through).collect::<Vec<_>>());
        assert_eq!(read(&reader, 1000, through, u64::MAX).unwrap(), through + 1);
        let mut next = Sequence::ZERO;
        let after = reader.read(Sequence::new(21), Sequence::new(through), &mut |record| {
            next = record.header.sequence;
            ControlFlow::Break(())
        });
        if through >= 1000 {
            assert_eq!((after.unwrap().get(), next.get()), (1001, 1000));
        }
        for lost in [22, 500, 999] {
            let dropped = read(&reader, lost, through, 1);
            assert!(matches!(dropped, Err(ReadLogError::Dropped(first)) if first.get() == 1000), "{lost}: {dropped:?}");
        }
    };
    check(&kept.writer, 999);
    // Nothing was written after the gap, so the segment before it stays, even if all of it is persisted.
    kept.writer.upkeep().keep(Sequence::new(20), &mut |_| true).unwrap();
    assert!(!kept.writer.retire(Sequence::new(20)).unwrap());
    assert_eq!(kept.writer.upkeep().archive().unwrap().segments(), []);
    for persisted in [0, 20] {
        drop(kept.writer);
        kept = open(kept.folder, persisted);
        assert_eq!(kept.writer.next_sequence(), Sequence::new(1000));
        check(&kept.writer, 999);
    }
    append(&mut kept.writer, 30, &mut random);
    check(&kept.writer, 1029);
    for _ in 0..20 {
        append(&mut kept.writer, 30, &mut random);
    }
    for persisted in [0, 20, 999, 1010] {
        kept.writer.upkeep().keep(Sequence::new(persisted), &mut |_| true).unwrap();
        check(&kept.writer, 1629);
        drop(kept.writer);
        kept = open(kept.folder, persisted);
        check(&kept.writer, 1629);
    }
    kept.writer.upkeep().keep(Sequence::new(1629), &mut |_| true).unwrap();
    assert!(kept.writer.upkeep().archive().unwrap().segments().len() > 2);
    check(&kept.writer, 1629);
}

/// Reads from random positions until the writer has finished. A position that was dropped is not read. Counts the
/// transactions.
fn read_beside(upkeep: &Upkeep<RealDisk>, seed: u64, has_ended: &AtomicBool, transactions: &AtomicU64) {
    let mut random = Random::new(seed);
    let reader = LogReader::new(upkeep);
    let mut position = 1;
    loop {
        let is_last = has_ended.load(Ordering::Acquire);
        let through = upkeep.synced_through().get();
        if random.below(4) == 0 {
            position = 1 + random.below(through.max(1));
        }
        if position <= through {
            match read(&reader, position, through, 1 + random.below(500)) {
                Ok(next) => {
                    transactions.fetch_add(next - position, Ordering::Relaxed);
                    position = next;
                }
                Err(ReadLogError::Dropped(first)) => {
                    assert!(first.get() > position);
                    position = first.get();
                }
                Err(error) => panic!("position {position}: {error}"),
            }
        }
        if is_last && position > through {
            return;
        }
    }
}

#[test]
fn readers_beside_the_writer_see_every_transaction_in_order() {
    let mut kept = open(TempDir::new().unwrap(), 0);
    let (has_ended, persisted) = (AtomicBool::new(false), AtomicU64::new(0));
    let upkeep = kept.writer.upkeep();
    let counts = [const { AtomicU64::new(0) }; 3];
    let have_read = || counts.iter().all(|count| count.load(Ordering::Relaxed) > 1000);
    std::thread::scope(|scope| {
        for (seed, count) in (0..).zip(&counts) {
            let (upkeep, has_ended) = (upkeep.clone(), &has_ended);
            scope.spawn(move || read_beside(&upkeep, seed, has_ended, count));
        }
        scope.spawn(|| {
            let mut random = Random::new(99);
            while !has_ended.load(Ordering::Acquire) {
                upkeep.prepare_next(&mut |_| true).unwrap();
                upkeep.keep(Sequence::new(persisted.load(Ordering::Acquire)), &mut |_| true).unwrap();
                if upkeep.archive().unwrap().segments().len() > 6 && random.below(3) == 0 {
                    upkeep.archive().unwrap().drop_oldest().unwrap();
                }
            }
        });
        let mut random = Random::new(100);
        // A reader may hardly run on a busy machine, and most of what it has missed is dropped.
        for step in 0..15_000 {
            if step >= 1500 && have_read() {
                break;
            }
            append(&mut kept.writer, 1 + random.below(4), &mut random);
            if step % 100 == 50 {
                kept.writer.fail();
                kept.writer.recover_after_failure().unwrap();
            }
            if step % 7 == 0 {
                let synced = upkeep.synced_through().get();
                persisted.store(synced - random.below(50).min(synced), Ordering::Release);
            }
        }
        has_ended.store(true, Ordering::Release);
    });
    assert!(have_read(), "{counts:?}");
}
