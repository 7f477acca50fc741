//! Writers and readers while the disk fails, and while the committer or the storage library panics.

use super::running::{Callers, Running, Settings, key, merge, table};
use crate::disk::checks::Disk;
use crate::disk::contents::properties;
use crate::disk::layout::{self, TableId};
use crate::hardware::{Crash, Mishap};
use crate::sync::atomic::Ordering;
use crate::sync::sleep;
use crate::writing::committer::CatalogChange;
use engine::{CatalogError, CommitError, Fault};
use model::Transaction;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const TRANSACTIONS: usize = 2;
const ROWS: [&str; 2] = ["a", "b"];

/// Every caller gets a response, and writes succeed again after the outage. With the durability `Sync`, every
/// acknowledged write is on disk before its response. With either durability, every acknowledged write is there after
/// the outage, no later write is based on an interrupted one, and no update is lost. Reads never fail, and a snapshot
/// never changes. The model of the disk checks that no file is written or synced after it failed, that nothing is in
/// sorted files before it is on disk in the log, and that recovery accepts what a crash leaves.
pub fn writes_resume_and_nothing_acknowledged_is_lost() {
    let mut random = thread_rng();
    let (is_sync, flushes) = (random.gen_bool(0.5), random.gen_bool(0.5));
    // A panic ends every thread but the committer, so only the committer may access the log.
    let may_panic = is_sync && !flushes;
    let mishap = if may_panic && random.gen_bool(0.5) { Mishap::Panic } else { Mishap::Failure };
    let mut mishaps = vec![(random.gen_range(0..8), mishap)];
    while random.gen_bool(0.4) {
        mishaps.push((random.gen_range(0..20), Mishap::Failure));
    }
    let disk = Disk::failing(mishaps, random.gen_range(0..3));
    // All threads of a schedule run on one thread of the system. While the committer unwinds, they all seem to panic,
    // and a flusher would poison the library's locks.
    let clock_panics_at = (!flushes && random.gen_bool(0.3)).then(|| random.gen_range(0..6));
    let running = Running::open(Settings { is_sync, clock_panics_at, flushes, ..Settings::new(&disk) }, &[table(0)]);
    let writers = [0, 1].map(|writer| {
        let (callers, disk) = (running.callers.clone(), Arc::clone(&disk));
        thread::spawn(move || {
            let names = (0..TRANSACTIONS).map(|number| format!("w{writer}x{number}"));
            names.filter(|name| write(&callers, &disk, is_sync, name)).collect::<Vec<_>>()
        })
    });
    let reader = thread::spawn({
        let callers = running.callers.clone();
        move || (0..2).for_each(|_| drop(read(&callers)))
    });
    let mut acknowledged: Vec<_> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    let mut attempt = 0;
    while !write(&running.callers, &disk, is_sync, &format!("last{attempt}")) {
        attempt += 1;
        assert!(attempt < 20, "the outage does not end");
        sleep(Duration::from_millis(250));
    }
    acknowledged.push(format!("last{attempt}"));
    assert!(!running.callers.shared.counts.is_in_outage.load(Ordering::Relaxed));
    reader.join().unwrap();
    let shown = read(&running.callers);
    let found = running.close(&disk);
    for row in ROWS {
        let names = properties(&found[&layout::key_of_entity(TableId::FIRST, &key(row))]);
        assert!(acknowledged.iter().all(|name| names.contains(name)), "{names:?} lacks some of {acknowledged:?}");
        assert_eq!(names, shown, "the disk and the tree differ");
    }
}

/// With the durability `Interval`, acknowledged writes that a failed sync may have lost are written again, before any
/// later write. No write contains properties of an interrupted one. The model of the disk checks this.
pub fn no_write_is_based_on_a_lost_one() {
    let disk = Disk::failing([(thread_rng().gen_range(0..4), Mishap::Failure)], 0);
    let running = Running::open(Settings { is_sync: false, ..Settings::new(&disk) }, &[table(0)]);
    let writers = [("a", "w0"), ("b", "w1"), ("a", "w2")].map(|(row, name)| {
        let callers = running.callers.clone();
        thread::spawn(move || match callers.commit(&table(0), Transaction::single(merge(row, name))) {
            Ok(_) => Some((row, name)),
            Err(CommitError::Fault(Fault::Interrupted | Fault::Suspended)) => None,
            Err(other) => panic!("{other:?}"),
        })
    });
    let acknowledged = writers.map(|writer| writer.join().unwrap());
    // A syncer may have failed after the last write.
    disk.hardware.disarm();
    running.callers.shared.resume().unwrap();
    let found = running.close(&disk);
    for (row, name) in acknowledged.into_iter().flatten() {
        assert!(properties(&found[&layout::key_of_entity(TableId::FIRST, &key(row))]).contains(name), "{name} is lost");
    }
}

/// The catalog shows what the log contains, whatever happens to the write that changes it: a table exists after an
/// outage if and only if the response said so, and an interrupted response leaves it as it was.
pub fn the_catalog_is_that_of_the_log() {
    let disk = Disk::failing([(thread_rng().gen_range(0..4), Mishap::Failure)], 0);
    let running = Running::open(Settings::new(&disk), &[table(0)]);
    let other = table(1);
    let callers = running.callers.clone();
    let creator = thread::spawn({
        let (callers, other) = (callers.clone(), other.clone());
        move || {
            let account = other.account.clone();
            match callers.change_catalog(&account, |answer| CatalogChange::CreateTable(other, answer)) {
                Ok(()) => true,
                Err(CatalogError::Fault(Fault::Interrupted | Fault::Suspended)) => false,
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    let writer = thread::spawn({
        let (callers, disk) = (callers.clone(), Arc::clone(&disk));
        move || write(&callers, &disk, true, "w0")
    });
    let is_created = creator.join().unwrap();
    writer.join().unwrap();
    let mut attempt = 0;
    while !write(&callers, &disk, true, &format!("last{attempt}")) {
        attempt += 1;
        assert!(attempt < 20, "the outage does not end");
        sleep(Duration::from_millis(250));
    }
    assert_eq!(callers.shared.catalog.read().get(&other).is_some(), is_created);
    let survivors = disk.survivors(Crash::Any);
    assert_eq!(survivors.contents.contains_key(&layout::catalog_key(&other)), is_created);
    drop(callers);
    running.close(&disk);
}

/// After a panic while a group that is on disk was being applied, the tree may lack a part of it. Until the database is
/// opened again, every write is refused, nothing of the group is visible, and reads continue.
pub fn a_panic_while_a_group_is_applied_stops_all_writes() {
    let disk = Disk::failing([], 0);
    let is_sync = thread_rng().gen_bool(0.5);
    let running = Running::open(Settings { is_sync, ..Settings::new(&disk) }, &[table(0)]);
    assert!(write(&running.callers, &disk, is_sync, "first"));
    disk.hardware.panic_at_insert(thread_rng().gen_range(0..3));
    let writers = ["w0", "w1"].map(|name| {
        let (callers, disk) = (running.callers.clone(), Arc::clone(&disk));
        thread::spawn(move || assert!(!write(&callers, &disk, is_sync, name), "a write was accepted"))
    });
    let first = BTreeSet::from(["first".to_owned()]);
    assert_eq!(read(&running.callers), first);
    for writer in writers {
        writer.join().unwrap();
    }
    sleep(Duration::from_secs(1));
    assert!(!write(&running.callers, &disk, is_sync, "later"), "a write was accepted");
    assert_eq!(read(&running.callers), first);
    running.close(&disk);
}

/// Returns whether the write was acknowledged.
fn write(callers: &Callers, disk: &Disk, is_sync: bool, name: &str) -> bool {
    let transaction = Transaction::new(ROWS.map(|row| merge(row, name)).into()).unwrap();
    match callers.commit(&table(0), transaction) {
        Ok(_) => {
            assert!(!is_sync || is_on_disk(disk, name), "an acknowledged write is not on disk");
            true
        }
        Err(CommitError::Fault(Fault::Interrupted | Fault::Suspended | Fault::Unknown(_))) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn is_on_disk(disk: &Disk, name: &str) -> bool {
    let survivors = disk.survivors(Crash::Any);
    let has_it = |row: &str| {
        let value = survivors.contents.get(&layout::key_of_entity(TableId::FIRST, &key(row)));
        value.is_some_and(|value| properties(value).contains(name))
    };
    ROWS.into_iter().all(has_it)
}

/// Returns the properties of the entities, which are the same because every transaction writes both.
fn read(callers: &Callers) -> BTreeSet<String> {
    let view = callers.shared.view();
    let [a, b] = ROWS.map(key);
    let shown = [&a, &b, &a, &b].map(|key| callers.shared.get(&view, &table(0), key).unwrap());
    let shown = shown.map(|record| record.map(|record| record.as_bytes().to_vec()));
    assert!(shown.iter().all(|record| *record == shown[0]), "the snapshot changed or shows a part of a transaction");
    shown[0].as_deref().map(properties).unwrap_or_default()
}
