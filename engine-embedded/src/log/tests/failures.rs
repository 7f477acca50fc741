//! Single failures of the disk, where the simulation would need luck to find a mistake, and the reasons for which a log
//! is refused.

use super::disk::{Contents, Crash, SimulatedDisk};
use super::workload::options;
use crate::log::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::log::group::{EncodedTransaction, Group};
use crate::log::options::Durability;
use crate::log::recovery::{self, Known};
use crate::log::segments::Name;
use crate::log::upkeep::Preparation;
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use test_support::Random;

fn open(disk: &SimulatedDisk, durability: Durability) -> (Writer<SimulatedDisk>, u64) {
    let known = Known { persisted: Sequence::ZERO, may_be_missing: true };
    let (writer, recovered) = recovery::open(disk.clone(), options(durability), known, &mut |_| Ok(())).unwrap();
    (writer, recovered.last.get())
}

fn append(writer: &mut Writer<SimulatedDisk>) {
    let mut group = Group::new(writer.next_sequence());
    group.push(&EncodedTransaction::new(vec![1; 500]).unwrap(), 0, 0);
    writer.append(&mut group).unwrap();
}

#[test]
fn what_the_sync_of_a_shutdown_fails_to_write_is_written_again() {
    let disk = SimulatedDisk::new(Contents::new(1), None);
    let mut writer = open(&disk, Durability::Interval).0;
    append(&mut writer);
    disk.contents().fails_in = Some(0);
    writer.close().unwrap();
    assert_eq!(disk.contents().fails_in, None, "nothing was synced");
    let mut left = disk.contents().clone();
    left.crash(Crash::PowerLoss, &mut Random::new(1));
    assert_eq!(open(&SimulatedDisk::new(left, None), Durability::Interval).1, 1);
}

#[test]
fn a_spare_file_that_cannot_be_used_is_deleted() {
    let disk = SimulatedDisk::new(Contents::new(1), None);
    let mut writer = open(&disk, Durability::Sync).0;
    let is_spare = |name: &&str| matches!(Name::parse(name), Some(Name::Free(_)));
    let spares = || disk.contents().names().filter(is_spare).count();
    // The operations are to open the file, to write to it, to sync it and to rename it.
    for operation in 0..4 {
        // The current segment must have reached a certain size.
        append(&mut writer);
        append(&mut writer);
        writer.sync().unwrap();
        let prepared = writer.upkeep().prepare_next(&mut |_| true).unwrap();
        assert_eq!((prepared, spares()), (Preparation::Prepared, 1));
        writer.fail();
        disk.contents().fails_in = Some(operation);
        writer.recover_after_failure().unwrap_err();
        assert_eq!(spares(), 0, "{operation}");
        writer.recover_after_failure().unwrap();
    }
}

fn recover(contents: &Contents, persisted: u64) -> Result<u64, String> {
    let disk = SimulatedDisk::new(contents.clone(), None);
    let known = Known { persisted: Sequence::new(persisted), may_be_missing: false };
    let opened = recovery::open(disk.clone(), options(Durability::Sync), known, &mut |_| Ok(()));
    let result = opened.map(|(_, recovered)| recovered.last.get()).map_err(|error| error.to_string());
    assert!(result.is_ok() || disk.contents().reads_like(contents), "{result:?}, but the folder changed");
    result
}

/// Returns a log that was shut down cleanly, with the transactions 1 to 12 in the segments 1 to 4, and an empty segment
/// 5.
fn closed() -> Contents {
    let disk = SimulatedDisk::new(Contents::new(1), None);
    let known = Known { persisted: Sequence::ZERO, may_be_missing: true };
    let mut writer = recovery::open(disk.clone(), options(Durability::Sync), known, &mut |_| Ok(())).unwrap().0;
    for _ in 0..12 {
        let mut group = Group::new(writer.next_sequence());
        group.push(&EncodedTransaction::new(vec![1; 500]).unwrap(), 0, 0);
        writer.append(&mut group).unwrap();
        writer.sync().unwrap();
    }
    writer.close().unwrap();
    let contents = disk.contents().clone();
    assert_eq!(contents.names().count(), 5);
    contents
}

fn name(id: u64) -> String {
    Name::Live(id).to_string()
}

#[test]
fn a_log_opens_if_it_continues_what_is_persisted() {
    for persisted in 0..=12 {
        assert_eq!(recover(&closed(), persisted), Ok(12), "{persisted}");
    }
    let message = "the log segment 0000000000000005.log is damaged: it ends with transaction 12, but transactions \
                   through 13 were synced";
    assert_eq!(recover(&closed(), 13), Err(message.to_owned()));
    let mut without_first = closed();
    without_first.lose(&name(1));
    assert_eq!(recover(&without_first, 3), Ok(12));
    let message = "the log segment 0000000000000002.log is damaged: it begins with transaction 4, but only transactions \
                   through 2 are stored elsewhere";
    assert_eq!(recover(&without_first, 2), Err(message.to_owned()));
    assert_eq!(recover(&Contents::new(1), 12), Err("the log is damaged: there is no segment".to_owned()));
}

fn exchange(log: &mut Contents, one: u64, other: u64) {
    log.rename(&name(one), "away");
    log.rename(&name(other), &name(one));
    log.rename("away", &name(other));
}

/// Changes the first transaction in the header of a segment.
fn begin_with(log: &mut Contents, id: u64, first: u64) {
    log.damage(&name(id), |bytes| {
        let header = SegmentHeader::decode(bytes).unwrap();
        let forged = SegmentHeader { first: Sequence::new(first), ..header };
        bytes[..SEGMENT_HEADER_BYTES].copy_from_slice(&forged.encode());
    });
}

#[test]
fn any_loss_before_the_end_of_a_closed_log_is_refused() {
    type Change = fn(&mut Contents);
    let changes: [(Change, &str); 10] = [
        (|log| log.lose(&name(3)), "0000000000000003.log is damaged: it is missing"),
        (
            |log| log.damage(&name(2), |bytes| bytes[20] ^= 1),
            "0000000000000002.log is damaged: the checksum of its header",
        ),
        (|log| log.damage(&name(2), |bytes| bytes.truncate(90)), "it is shorter than the header of a segment"),
        (
            |log| log.damage(&name(4), |bytes| bytes.truncate(5000)),
            "delete the later segments and truncate this one to 4736 bytes",
        ),
        (|log| log.damage(&name(5), |bytes| bytes.fill(0)), "it does not begin with the header of a log segment"),
        (|log| log.rename(&name(5), &name(6)), "0000000000000005.log is damaged: it is missing"),
        (|log| exchange(log, 2, 3), "0000000000000002.log is damaged"),
        (|log| begin_with(log, 3, 4), "are not those that the next segment continues"),
        (|log| begin_with(log, 3, 9), "are not those that the next segment continues"),
        (|log| begin_with(log, 3, 1), "0000000000000003.log is damaged: it begins with transaction 1"),
    ];
    for (change, expected) in changes {
        let mut contents = closed();
        change(&mut contents);
        let error = recover(&contents, 0).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// What the message about a damaged segment recommends.
#[test]
fn a_damaged_segment_is_accepted_once_it_is_truncated() {
    let mut contents = closed();
    contents.damage(&name(2), |bytes| bytes[5000] ^= 1);
    let error = recover(&contents, 0).unwrap_err();
    assert!(error.contains("the first missing transaction is 5; to accept"), "{error}");
    assert!(error.contains("delete the later segments and truncate this one to 4736 bytes"), "{error}");
    (3..=5).for_each(|id| contents.lose(&name(id)));
    contents.damage(&name(2), |bytes| bytes.truncate(4736));
    assert_eq!(recover(&contents, 0), Ok(4));
    assert!(recover(&contents, 5).unwrap_err().contains("transactions through 5 were synced"));
}

#[test]
fn a_payload_that_the_caller_cannot_read_is_damage() {
    let disk = SimulatedDisk::new(closed(), None);
    let known = Known { persisted: Sequence::new(11), may_be_missing: false };
    let opened = recovery::open(disk, options(Durability::Sync), known, &mut |_| Err("unknown operation".to_owned()));
    let error = opened.unwrap_err();
    assert_eq!(error.to_string(), "the log segment 0000000000000004.log is damaged: unknown operation");
}
