//! Snapshots while transactions are applied, memtables are exchanged, and lists of files are installed and released.

use crate::disk::checks::Disk;
use crate::disk::folder::Folder;
use crate::disk::storage::{OpenSettings, Storage};
use crate::log::options::Durability;
use crate::sequence::Sequence;
use crate::tree::{Key, Snapshot, Tree, Value};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;

/// Every transaction writes its number to all keys, except that it deletes [`GONE`] if the number is even.
const KEYS: [&[u8]; 2] = [b"\0\0\0\0\0\0\0\0first", b"\0\0\0\0\0\0\0\0second"];
const GONE: &[u8] = b"\0\0\0\0\0\0\0\0gone";
const TRANSACTIONS: u64 = 4;

fn open() -> Arc<Storage> {
    let folder = Folder::new(&Disk::default());
    let settings = OpenSettings { cache_bytes: 0, durability: Durability::Sync };
    Arc::new(Storage::create(&folder, settings).unwrap())
}

fn apply(tree: &Tree, number: u64) {
    let value = |number: u64| Some(Value::from(number.to_be_bytes()));
    let mut items: Vec<_> = KEYS.iter().map(|key| (Key::from(*key), value(number))).collect();
    items.push((Key::from(GONE), if number.is_multiple_of(2) { None } else { value(number) }));
    tree.apply(Sequence::new(number), items);
}

/// A snapshot shows all of a transaction or none of it, and the same at any later time. It shows everything that was
/// published before it was taken. The writer sees its own transactions.
pub fn snapshots_show_whole_transactions() {
    let storage = open();
    // Two transactions at a time, as in a group.
    let writer = with(&storage, |tree| {
        let mut published = 0;
        while published < TRANSACTIONS {
            let last = (published + thread_rng().gen_range(1..=2)).min(TRANSACTIONS);
            for number in published + 1..=last {
                apply(tree, number);
                let latest = tree.latest(KEYS[0]).unwrap().unwrap();
                assert_eq!(number_of(&latest), number, "the writer does not see its own transaction");
            }
            tree.publish(Sequence::new(last));
            published = last;
            assert!(shown(&tree.snapshot()) >= last, "a published transaction is not shown");
        }
    });
    let flusher = with(&storage, |tree| {
        for _ in 0..2 {
            tree.rotate();
            tree.flush().unwrap();
        }
    });
    let merger = with(&storage, |tree| {
        for _ in 0..2 {
            tree.merge_everything().unwrap();
        }
    });
    let reader = || {
        with(&storage, |tree| {
            let first = tree.snapshot();
            let shown_first = shown(&first);
            let copy = first.clone();
            let second = shown(&tree.snapshot());
            assert!(shown_first <= second, "{shown_first} was visible before {second}");
            assert_eq!(shown(&first), shown_first, "the snapshot has changed");
            drop(first);
            thread::yield_now();
            assert_eq!(shown(&copy), shown_first, "the copy of the snapshot has changed");
        })
    };
    for thread in [writer, flusher, merger, reader(), reader()] {
        thread.join().unwrap();
    }
    assert_eq!(shown(&storage.tree.snapshot()), TRANSACTIONS);
}

/// Lists of files and registrations are released, in whatever order snapshots are closed, and no read finds its list
/// released.
pub fn nothing_is_retained_without_snapshots() {
    let storage = open();
    let flusher = with(&storage, |tree| {
        for number in 1..=3 {
            apply(tree, number);
            tree.publish(Sequence::new(number));
            tree.rotate();
            tree.flush().unwrap();
        }
    });
    let releaser = with(&storage, |tree| {
        for _ in 0..2 {
            tree.release().unwrap();
        }
    });
    let reader = || {
        with(&storage, |tree| {
            for _ in 0..2 {
                let snapshot = tree.snapshot();
                let before = shown(&snapshot);
                assert_eq!(shown(&snapshot), before, "the snapshot has changed");
            }
        })
    };
    for thread in [flusher, releaser, reader(), reader()] {
        thread.join().unwrap();
    }
    let tree = &storage.tree;
    assert_eq!(tree.open_snapshots(), 0);
    assert!(tree.release().unwrap());
    assert_eq!((tree.retained_lists(), tree.persisted().get()), (0, 3));
}

fn with(storage: &Arc<Storage>, run: impl FnOnce(&Tree) + Send + 'static) -> thread::JoinHandle<()> {
    let storage = Arc::clone(storage);
    thread::spawn(move || run(&storage.tree))
}

/// Returns the number of the transaction that a snapshot shows, or 0.
fn shown(snapshot: &Snapshot) -> u64 {
    let get = |key| snapshot.get(key).unwrap().map_or(0, |value| number_of(&value));
    let number = get(KEYS[0]);
    assert_eq!(get(KEYS[1]), number, "the snapshot shows a part of a transaction");
    assert_eq!(get(GONE), if number.is_multiple_of(2) { 0 } else { number }, "a deletion is not that of {number}");
    let range: Vec<_> = snapshot.range::<&[u8]>(..).map(|entry| number_of(&entry.unwrap().1)).collect();
    let expected = if number == 0 { 0 } else { 2 + usize::from(!number.is_multiple_of(2)) };
    assert!(range.len() == expected && range.iter().all(|shown| *shown == number), "{range:?} instead of {number}");
    number
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}
