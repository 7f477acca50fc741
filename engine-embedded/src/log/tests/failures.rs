//! Single failures of the disk, where the simulation would need luck to find a mistake.

use super::disk::{Contents, Crash, SimulatedDisk};
use super::workload::options;
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
