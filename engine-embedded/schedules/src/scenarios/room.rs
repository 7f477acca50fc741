//! A writer that waits for room, and the thread that makes it.

use crate::disk::checks::Disk;
use crate::disk::folder::Folder;
use crate::disk::payload::{Operations, Origin};
use crate::disk::storage::{OpenSettings, Storage};
use crate::hardware::Mishap;
use crate::log::options::Durability;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::tree::FULL_MEMTABLE_ITEMS;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;

const WRITES: u8 = 16;
const ITEMS: u8 = 5;

/// A sealed memtable and another one, each with twice the items that fill one. Each can exceed its bound by all but one
/// of the items of a transaction, and the sealed one has a mark.
const UNFLUSHED_ITEMS_MAX: u64 = 4 * FULL_MEMTABLE_ITEMS + 2 * (ITEMS as u64 - 1) + 1;

/// A writer that waits is woken by a flush, by a failed flush, or by the end of all waits; the scheduler reports a
/// deadlock otherwise. It waits in vain only after a failed flush or when the tree is about to be closed. What is not
/// in files is bounded, however late the flusher is.
pub fn a_writer_that_waits_for_room_is_woken() {
    let failing = thread_rng().gen_bool(0.5).then(|| (thread_rng().gen_range(0..30), Mishap::Failure));
    let can_fail = failing.is_some();
    let is_closed_early = thread_rng().gen_bool(0.3);
    let disk = Disk::failing(failing, 0);
    let durability = if thread_rng().gen_bool(0.5) { Durability::Sync } else { Durability::Interval };
    let settings = OpenSettings { cache_bytes: 0, durability };
    let storage = Arc::new(Storage::create(&Folder::new(&disk), settings).unwrap());
    disk.hardware.arm();
    let is_over = Arc::new(AtomicBool::new(false));
    let flusher = thread::spawn({
        let (storage, is_over) = (Arc::clone(&storage), Arc::clone(&is_over));
        move || flush(&storage, &is_over)
    });
    let writer = thread::spawn({
        let storage = Arc::clone(&storage);
        move || write(&storage, can_fail, is_closed_early)
    });
    if is_closed_early {
        // Without a flusher, nothing but the end of all waits wakes the writer.
        is_over.store(true, Ordering::SeqCst);
        storage.tree.end_waits();
    }
    writer.join().unwrap();
    is_over.store(true, Ordering::SeqCst);
    storage.tree.end_waits();
    flusher.join().unwrap();
    disk.finish();
}

/// Flushes full memtables until the scenario ends. After a failure, leaves the next attempt to the writer, as if the
/// pause between attempts were long.
fn flush(storage: &Storage, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        // The end of a longer wait would also wake the writer.
        if storage.tree.wait_until_full(Duration::ZERO) && storage.flush_everything().is_err() {
            while storage.tree.sealed_memtables() > 0 && !is_over.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        thread::yield_now();
    }
}

fn write(storage: &Storage, can_fail: bool, can_be_closed: bool) {
    let resume = || {
        assert!(can_fail, "nothing has failed");
        while storage.resume().is_err() {
            thread::yield_now();
        }
    };
    for number in 0..WRITES {
        while !storage.tree.wait_for_room() {
            if can_be_closed {
                return;
            }
            resume();
        }
        let mut operations = Operations::default();
        for item in 0..ITEMS {
            operations.put([0, 0, 0, 0, 0, 0, 0, 0, number, item], [number]);
        }
        if storage.write(vec![operations.into_transaction(Origin::Catalog)], None, false).is_err() {
            resume();
        }
        assert!(storage.tree.unflushed_items() <= UNFLUSHED_ITEMS_MAX, "too much is kept in memory");
    }
}
