//! Snapshots while batches are written and the storage library makes numbers visible at any time.

use crate::disk::folder::Disk;
use crate::disk::storage::Storage;
use crate::disk::visibility::Visibility;
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Keys of the engine itself, whose values the model of the disk does not check.
const KEYS: [&[u8]; 2] = [b"\0\0\0\0\0\0\0\0first", b"\0\0\0\0\0\0\0\0second"];
const BATCHES: u8 = 2;

/// A snapshot shows either all of a batch or none of it, and the same at any later time. It shows everything that was
/// written before it was taken. Every waiting reader is woken.
pub fn snapshots_show_whole_batches() {
    let disk = Arc::new(Disk::default());
    let storage = Arc::new(Storage::open(&disk));
    let writer = thread::spawn({
        let storage = Arc::clone(&storage);
        move || {
            for value in 1..=BATCHES {
                let mut batch = storage.db.batch();
                for key in KEYS {
                    batch.insert(&storage.data, key, [value]);
                }
                storage.write(batch).unwrap();
                assert!(*shown(&storage).iter().min().unwrap() >= value, "a writer sees its own batch");
            }
        }
    });
    let flusher = thread::spawn({
        let storage = Arc::clone(&storage);
        move || (0..2).for_each(|_| storage.db.flush())
    });
    let reader = || {
        let storage = Arc::clone(&storage);
        thread::spawn(move || {
            let first = shown(&storage);
            let second = shown(&storage);
            assert!(first[0] <= second[0], "{first:?} was visible before {second:?}");
        })
    };
    for thread in [writer, flusher, reader(), reader()] {
        thread.join().unwrap();
    }
    assert_eq!(shown(&storage), [BATCHES; 4]);
}

/// Takes a snapshot and reads all keys twice.
fn shown(storage: &Storage) -> [u8; 4] {
    let snapshot = storage.snapshot();
    let read = |key| snapshot.get(&storage.data, key).unwrap().map_or(0, |value| value[0]);
    let [first, second] = KEYS;
    let shown = [first, second, first, second].map(read);
    assert!(shown.iter().all(|value| *value == shown[0]), "the snapshot shows a part of a batch: {shown:?}");
    shown
}

/// A batch ends even if writing it panics: then, its readers are woken, and snapshots are not refused.
pub fn a_batch_ends_by_a_panic() {
    let visibility = Arc::new(Visibility::new());
    let writer = thread::spawn({
        let visibility = Arc::clone(&visibility);
        move || {
            let write = || visibility.write(|| 1, || resume_unwind(Box::new("the write panics")));
            assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
        }
    });
    let waiting = [(); 2].map(|()| {
        let visibility = Arc::clone(&visibility);
        thread::spawn(move || visibility.wait())
    });
    for thread in waiting.into_iter().chain([writer]) {
        thread.join().unwrap();
    }
    assert!(visibility.snapshot(|| (), || u64::MAX - 1).is_some());
}
