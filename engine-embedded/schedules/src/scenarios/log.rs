//! The writer of the log, and the threads that sync, release and flush at the same time.

use crate::disk::checks::Disk;
use crate::disk::folder::Folder;
use crate::disk::payload::{Operations, Origin};
use crate::disk::storage::{OpenSettings, Storage};
use crate::hardware::{Crash, Mishap};
use crate::log::group::Group;
use crate::log::options::{Durability, Options};
use crate::log::real_disk::RealDisk;
use crate::log::recovery::{Known, open};
use crate::sequence::Sequence;
use crate::sync::atomic::{AtomicU64, Ordering};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;

const GROUPS: u8 = 4;

fn operations(number: u8) -> Operations {
    let mut operations = Operations::default();
    operations.put([0, 0, 0, 0, 0, 0, 0, 0, number], [number]);
    operations
}

/// With the durability `Interval`, a thread syncs while the writer appends and begins segments. What a sync has covered
/// survives every crash from then on. After a failure and a recovery, every group that was appended successfully is
/// there, and no other.
pub fn what_was_synced_survives() {
    let mishaps: Vec<_> =
        (0..thread_rng().gen_range(0..3)).map(|_| (thread_rng().gen_range(0..16), Mishap::Failure)).collect();
    let disk = Disk::failing(mishaps, 0);
    let folder = Folder::new(&disk);
    // A segment has room for two groups.
    let segment_bytes = 4096 + 2 * 192;
    let options = Options { segment_bytes, unsynced_bytes_max: 600, ..Options::new(Durability::Interval) };
    let known = Known { persisted: Sequence::ZERO, may_be_missing: true };
    let (mut writer, _) = open(RealDisk::new(&folder.log()), options, known, &mut |_| Ok(())).unwrap();
    disk.hardware.arm();
    let synced = Arc::new(AtomicU64::new(0));
    let syncer = thread::spawn({
        let (upkeep, disk, synced) = (writer.upkeep(), Arc::clone(&disk), Arc::clone(&synced));
        move || {
            for _ in 0..3 {
                if let Ok(last) = upkeep.sync() {
                    synced.fetch_max(last.get(), Ordering::SeqCst);
                    assert!(disk.survivors(Crash::Any).last >= last, "a synced transaction is lost");
                }
                thread::yield_now();
            }
        }
    });
    let mut group = Group::new(writer.next_sequence());
    let mut appended = 0;
    for number in 0..GROUPS {
        let transaction = operations(number).into_transaction(Origin::Catalog);
        group.push(&transaction.encoded, 0, transaction.origin.code());
        if writer.append(&mut group).is_ok() {
            appended += 1;
            continue;
        }
        while writer.recover_after_failure().is_err() {
            thread::yield_now();
        }
        assert_eq!(writer.next_sequence(), Sequence::new(appended + 1), "the recovery lost or invented a group");
        let found = disk.survivors(Crash::Any).last;
        assert_eq!(found, Sequence::new(appended), "what the recovery kept is not on disk");
        group.restart(writer.next_sequence());
    }
    let before = synced.load(Ordering::SeqCst);
    assert!(disk.survivors(Crash::Any).last.get() >= before, "a synced transaction is lost");
    syncer.join().unwrap();
    disk.hardware.disarm();
    writer.close().unwrap();
    let survivors = disk.survivors(Crash::Any);
    assert!(survivors.is_clean && survivors.last == Sequence::new(appended), "{:?} of {appended}", survivors.last);
    disk.finish();
}

/// Two threads seal and flush memtables, as the flusher and the compactor do, while writes are acknowledged before they
/// are synced. Nothing gets into sorted files before it is on disk in the log: the model of the disk checks this
/// whenever a list of files is installed.
pub fn sorted_files_are_never_ahead_of_the_log() {
    let disk = Arc::new(Disk::default());
    let settings = OpenSettings { cache_bytes: 0, durability: Durability::Interval };
    let storage = Arc::new(Storage::create(&Folder::new(&disk), settings).unwrap());
    let writer = thread::spawn({
        let storage = Arc::clone(&storage);
        move || {
            for number in 0..GROUPS {
                storage.write(vec![operations(number).into_transaction(Origin::Catalog)], None, false).unwrap();
            }
        }
    });
    let flushers = [0, 1].map(|_| {
        let storage = Arc::clone(&storage);
        thread::spawn(move || {
            storage.tree.rotate();
            storage.flush().unwrap();
        })
    });
    let compactor = thread::spawn({
        let storage = Arc::clone(&storage);
        move || {
            storage.retire_log().unwrap();
        }
    });
    for thread in flushers.into_iter().chain([writer, compactor]) {
        thread.join().unwrap();
    }
    storage.close().unwrap();
    disk.finish();
    let survivors = disk.survivors(Crash::Worst);
    assert_eq!((survivors.last.get(), survivors.contents.len()), (GROUPS.into(), GROUPS.into()));
}
