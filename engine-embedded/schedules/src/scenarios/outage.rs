//! Writers and readers while the disk fails, and while the committer or the storage library panics.

use super::running::{Callers, Running, Settings, key, merge, table};
use crate::disk::folder::{Disk, Mishap, properties};
use crate::disk::layout::{self, TableId};
use crate::sync::atomic::Ordering;
use crate::sync::sleep;
use engine::{CommitError, Fault};
use model::Transaction;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;

const TRANSACTIONS: usize = 2;
const ROWS: [&str; 2] = ["a", "b"];

/// Every caller gets a response, and writes succeed again after the outage. With the durability `Sync`, every
/// acknowledged write is on disk. With either durability, no later write is based on a lost write, and no update is
/// lost. While the disk refuses the probe, reads continue. A snapshot stays readable while the database is reopened.
/// The model of the disk checks that nothing is written after a failed write, and that the database is closed before it
/// is reopened.
pub fn writes_resume_and_nothing_acknowledged_is_lost() {
    let mut random = thread_rng();
    let mishap = if random.gen_bool(0.7) { Mishap::Failure } else { Mishap::Panic };
    let mut mishaps = vec![(random.gen_range(0..4), mishap)];
    if random.gen_bool(0.3) {
        mishaps.push((random.gen_range(0..6), Mishap::Failure));
    }
    let disk = Disk::failing(mishaps, random.gen_range(0..3));
    let is_sync = random.gen_bool(0.5);
    let clock_panics_at = random.gen_bool(0.3).then(|| random.gen_range(0..6));
    let running = Running::open(Settings { is_sync, clock_panics_at, ..Settings::new(&disk) }, &[table(0)]);
    let writers = [0, 1].map(|writer| {
        let (callers, disk) = (running.callers.clone(), Arc::clone(&disk));
        thread::spawn(move || {
            for number in 0..TRANSACTIONS {
                write(&callers, &disk, is_sync, &format!("w{writer}x{number}"));
            }
        })
    });
    let reader = thread::spawn({
        let (callers, disk) = (running.callers.clone(), Arc::clone(&disk));
        move || (0..2).for_each(|_| read(&callers, &disk))
    });
    for writer in writers {
        writer.join().unwrap();
    }
    let mut attempt = 0;
    while !write(&running.callers, &disk, is_sync, &format!("last{attempt}")) {
        attempt += 1;
        assert!(attempt < 20, "the outage does not end");
        sleep(Duration::from_millis(250));
    }
    assert!(!running.callers.shared.counts.is_in_outage.load(Ordering::Relaxed));
    reader.join().unwrap();
    running.close(&disk);
}

/// With the durability `Interval`, an outage may lose acknowledged writes. No later write contains properties that were
/// read from a lost write. The model of the disk checks this.
pub fn no_write_is_based_on_a_lost_one() {
    let disk = Disk::failing([(1, Mishap::Failure)], 0);
    let running = Running::open(Settings { is_sync: false, ..Settings::new(&disk) }, &[table(0)]);
    // If the write of the other entity fails, only the reopening tells that the first entity has changed.
    let writers = [("a", "w0"), ("b", "w1"), ("a", "w2")].map(|(row, name)| {
        let callers = running.callers.clone();
        thread::spawn(move || match callers.commit(&table(0), Transaction::single(merge(row, name))) {
            Ok(_) | Err(CommitError::Fault(Fault::Interrupted)) => {}
            Err(other) => panic!("{other:?}"),
        })
    });
    for writer in writers {
        writer.join().unwrap();
    }
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
        Err(CommitError::Fault(Fault::Interrupted | Fault::Suspended | Fault::Storage(_))) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn is_on_disk(disk: &Disk, name: &str) -> bool {
    let synced = disk.synced();
    let has_it = |row: &str| {
        let value = synced.get(&layout::key_of_entity(TableId::FIRST, &key(row)));
        value.is_some_and(|value| properties(value).contains(name))
    };
    ROWS.into_iter().all(has_it)
}

fn read(callers: &Callers, disk: &Disk) {
    let view = match callers.shared.view() {
        Ok(view) => view,
        Err(Fault::Suspended) => {
            assert!(disk.accepted_probes() > 0, "the database was closed although the disk does not work");
            return;
        }
        Err(other) => panic!("{other:?}"),
    };
    let [a, b] = ROWS.map(key);
    let shown = [&a, &b, &a, &b].map(|key| callers.shared.get(&view, &table(0), key).unwrap());
    let shown = shown.map(|record| record.map(|record| record.as_bytes().to_vec()));
    assert!(shown.iter().all(|record| *record == shown[0]), "the snapshot changed or shows a part of a transaction");
}
