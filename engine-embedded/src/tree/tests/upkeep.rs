use super::*;
use crate::tree::library::AbstractTree;
use crate::tree::shape::Merged;
use crate::tree::{Merge, Shape, TreeError, TreeState};
use byteview::ByteView;
use std::time::Duration;

/// A snapshot needs one list of files. Without the removal of the lists between, it would retain a memtable for each
/// flush.
#[test]
fn an_open_snapshot_retains_only_what_it_needs() {
    const FLUSHES: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "key", "old");
    let old = tree.snapshot();
    let value = "x".repeat(100_000);
    for sequence in 2..=FLUSHES {
        put(&tree, sequence, "key", &value);
        assert!(tree.rotate() && tree.flush().unwrap());
        let merged = tree.merge(Merge::Uppermost).unwrap();
        assert!(merged.may_have_kept_versions);
        let state: TreeState = tree.state();
        assert!(state.retained_lists <= 3 && state.retained_memtable_bytes < 500_000, "{state:?}");
        assert_eq!(text(old.get(b"key").unwrap()).unwrap(), "old");
    }
    let copy = old.clone();
    drop(old);
    let mut range = copy.range::<Vec<u8>>(..);
    drop(copy);
    assert!(!tree.release().unwrap(), "the iterator keeps the snapshot open");
    assert_eq!(text(Some(range.next().unwrap().unwrap().1)).unwrap(), "old");
    drop(range);
    // Nothing has been published since, but everything can be released.
    assert!(tree.release().unwrap());
    let merged = tree.merge(Merge::RewriteLowest).unwrap();
    assert_eq!(merged, Merged { has_changed: true, may_have_kept_versions: false });
    let state = tree.state();
    assert_eq!((state.retained_lists, state.retained_memtable_bytes, state.open_snapshots, state.files), (0, 0, 0, 1));
    assert_eq!(std::fs::read_dir(folder.path().join("tables")).unwrap().count(), 1);
    let shape = tree.shape();
    assert_eq!(shape.bytes(), tree.disk_bytes());
    let Shape { memtable_entries, levels } = shape;
    // The item and the mark.
    assert_eq!((memtable_entries, levels[6].entries), (0, 2));
    let manifests = std::fs::read_dir(folder.path()).unwrap();
    let names = manifests.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with('v')).count(), 1, "the file of the current list is left");
    drop(tree);
    let tree = Tree::open(folder.path(), SETTINGS).unwrap();
    assert_eq!(text(tree.snapshot().get(b"key").unwrap()).unwrap(), value);
}

#[test]
fn tombstones_are_counted_until_they_are_merged_away() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "a", "value");
    put(&tree, 2, "b", "value");
    assert!(tree.rotate() && tree.flush().unwrap());
    let delete = |sequence, key: &str| {
        let sequence = Sequence::new(sequence);
        tree.apply(sequence, [(Key::from(key), None)]);
        tree.publish(sequence);
    };
    delete(3, "a");
    assert_eq!(tree.tombstones(), 1);
    assert!(tree.rotate());
    delete(4, "b");
    tree.count_tombstones();
    assert_eq!(tree.tombstones(), 2);
    assert!(tree.flush().unwrap());
    assert_eq!(tree.tombstones(), 2, "not counted again yet");
    tree.count_tombstones();
    assert_eq!(tree.tombstones(), 2, "one in a file, one in memory");
    tree.merge(Merge::Uppermost).unwrap();
    tree.count_tombstones();
    assert_eq!(tree.tombstones(), 1);
    assert!(tree.rotate() && tree.flush().unwrap());
    drop(tree);
    let tree = Tree::open(folder.path(), SETTINGS).unwrap();
    tree.count_tombstones();
    assert_eq!(tree.tombstones(), 1, "found in a file");
    tree.merge(Merge::Uppermost).unwrap();
    tree.count_tombstones();
    assert_eq!(tree.tombstones(), 0);
}

#[test]
fn a_full_memtable_is_announced_and_large_transactions_wait_for_its_flush() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    let value = "x".repeat(1024 * 1024);
    let mut sequence = 0;
    let mut fill = || {
        while !tree.wait_until_full(Duration::ZERO) {
            sequence += 1;
            put(&tree, sequence, &sequence.to_string(), &value);
            assert!(sequence < 100);
        }
        sequence
    };
    let filled = fill();
    assert_eq!(filled, 16);
    assert!(tree.wait_for_room(), "nothing is being flushed");
    assert!(tree.rotate() && !tree.rotate());
    assert_eq!(tree.state().sealed_memtables, 1);
    assert_eq!(fill(), 32);
    assert!(tree.wait_for_room() && tree.must_hold_large());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| tree.wait_for_large_room());
        assert!(tree.flush().unwrap());
        assert!(writer.join().unwrap());
    });
    assert_eq!(tree.persisted(), Sequence::new(filled));
    assert!(tree.rotate());
    fill();
    assert!(tree.must_hold_large());
    tree.end_waits();
    assert!(!tree.must_hold_large() && tree.wait_until_full(Duration::MAX));
    assert!(tree.state().memtable_bytes > 2 * 16 * 1024 * 1024);
}

/// The flusher may run between the transactions of a group.
#[test]
fn a_memtable_is_not_flushed_before_everything_in_it_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "key", "1");
    let snapshot = tree.snapshot();
    apply(&tree, Sequence::new(2), &vec![(b"key".to_vec(), Some(b"2".to_vec()))]);
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| tree.rotate() && tree.flush().unwrap());
        while tree.0.library_sealed_memtables() == 0 {
            std::thread::yield_now();
        }
        apply(&tree, Sequence::new(3), &vec![(b"other".to_vec(), Some(b"3".to_vec()))]);
        assert_eq!(text(tree.snapshot().get(b"key").unwrap()).unwrap(), "1");
        assert_eq!(text(tree.latest(b"key").unwrap()).unwrap(), "2");
        assert_eq!(tree.persisted(), Sequence::ZERO);
        tree.publish(Sequence::new(3));
        assert!(flusher.join().unwrap());
    });
    assert_eq!(tree.persisted(), Sequence::new(3));
    assert_eq!(text(snapshot.get(b"key").unwrap()).unwrap(), "1");
    assert_eq!(contents(&tree.snapshot()).len(), 2);
}

/// A transaction is never published if its application panicked.
#[test]
fn nothing_waits_for_a_publication_when_the_tree_is_about_to_be_closed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "key", "1");
    apply(&tree, Sequence::new(2), &vec![(b"key".to_vec(), Some(b"2".to_vec()))]);
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| tree.rotate());
        while tree.0.library_sealed_memtables() == 0 {
            std::thread::yield_now();
        }
        tree.end_waits();
        assert!(!flusher.join().unwrap());
    });
    assert!(!tree.flush().unwrap() && tree.sorted_files().is_empty());
}

#[test]
fn a_failed_flush_or_merge_is_returned_and_leaves_everything_readable() {
    let folder = tempfile::tempdir().unwrap();
    let (files, moved) = (folder.path().join("tables"), folder.path().join("moved"));
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "a", "1");
    assert!(tree.rotate() && tree.flush().unwrap());
    put(&tree, 2, "a", "2");
    assert!(tree.rotate());
    std::fs::rename(&files, &moved).unwrap();
    for _ in 0..2 {
        let error = tree.flush().unwrap_err();
        assert!(matches!(error, TreeError::Library(_)) && !error.to_string().is_empty());
        assert_eq!(text(tree.snapshot().get(b"a").unwrap()).unwrap(), "2");
        assert_eq!((tree.persisted(), tree.state().sealed_memtables), (Sequence::new(1), 1));
    }
    assert!(tree.merge(Merge::Uppermost).is_err() || tree.merge(Merge::RewriteLowest).is_err());
    put(&tree, 3, "b", "3");
    assert!(tree.rotate());
    std::fs::rename(&moved, &files).unwrap();
    assert!(tree.flush().unwrap(), "both memtables are flushed");
    assert_eq!((tree.persisted(), tree.state().sealed_memtables), (Sequence::new(3), 0));
    tree.merge(Merge::Uppermost).unwrap();
    drop(tree);
    let tree = Tree::open(folder.path(), SETTINGS).unwrap();
    assert_eq!(contents(&tree.snapshot()).len(), 2);
}

/// Iterators are moved to threads that may wait for the disk.
#[test]
fn snapshots_and_ranges_can_be_moved_between_threads() {
    fn can_be_moved<T: Send + 'static>() {}
    fn can_be_shared<T: Send + Sync + Clone + 'static>() {}
    can_be_moved::<Range>();
    can_be_shared::<Snapshot>();
    can_be_shared::<Tree>();
}

/// A flush and merges may run between the application of a transaction and its publication.
#[test]
fn lists_may_be_installed_before_a_publication() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    put(&tree, 1, "a", "1");
    assert!(tree.rotate());
    apply(&tree, Sequence::new(2), &vec![(b"a".to_vec(), Some(b"2".to_vec()))]);
    assert!(tree.flush().unwrap());
    tree.merge(Merge::Uppermost).unwrap();
    let old = tree.snapshot();
    tree.merge(Merge::RewriteLowest).unwrap();
    assert_eq!(text(old.get(b"a").unwrap()).unwrap(), "1");
    tree.publish(Sequence::new(2));
    assert_eq!(text(tree.snapshot().get(b"a").unwrap()).unwrap(), "2");
    tree.rotate();
    tree.flush().unwrap();
    for merge in [Merge::Uppermost, Merge::RewriteLowest] {
        tree.merge(merge).unwrap();
        assert_eq!(text(old.get(b"a").unwrap()).unwrap(), "1");
        assert_eq!(text(tree.snapshot().get(b"a").unwrap()).unwrap(), "2");
    }
}

/// The engine builds values like this, and sets the Timestamp before it applies them.
#[test]
fn values_can_be_changed_until_they_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    let mut value = ByteView::from(&b"a value that does not fit into the handle"[..]);
    value.get_mut().unwrap()[0] = b'A';
    tree.apply(Sequence::new(1), [(Key::from("key"), Some(Value::from(value)))]);
    tree.publish(Sequence::new(1));
    assert!(text(tree.snapshot().get(b"key").unwrap()).unwrap().starts_with("A value"));
    assert!(tree.sorted_files().is_empty() && tree.blocks_loaded() == 0 && tree.disk_bytes() == 0);
    assert_eq!(tree.state().cache_capacity_bytes, SETTINGS.cache_bytes);
}

/// The library holds the lock of its lists during the syncs of a new one. No read waits for it.
#[test]
fn reads_do_not_wait_while_the_library_installs_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::create(folder.path(), SETTINGS).unwrap();
    for (sequence, key) in (1..).zip(["a", "b", "c"]) {
        put(&tree, sequence, key, key);
        assert!(tree.rotate() && tree.flush().unwrap());
    }
    put(&tree, 4, "d", "4");
    assert!(tree.rotate());
    put(&tree, 5, "a", "5");
    let (done, is_done) = std::sync::mpsc::channel();
    let installing = tree.0.library.get_version_history_lock();
    let reader = std::thread::spawn({
        let tree = tree.clone();
        move || {
            let snapshot = tree.snapshot();
            let values = ["a", "b", "c", "d", "e"].map(|key| text(snapshot.get(key.as_bytes()).unwrap()));
            let latest = text(tree.latest(b"a").unwrap());
            put(&tree, 6, "e", "6");
            let state = (tree.shape().levels[0].files, tree.state().sealed_memtables, tree.sorted_files().len());
            done.send((values, latest, contents(&snapshot).len(), tree.disk_bytes() > 0, state)).unwrap();
        }
    });
    let (values, latest, entries, has_files, state) = is_done.recv_timeout(test_support::TIMEOUT).unwrap();
    drop(installing);
    reader.join().unwrap();
    assert_eq!(values, [Some("5"), Some("b"), Some("c"), Some("4"), None].map(|value| value.map(str::to_owned)));
    assert_eq!((latest.as_deref(), entries, has_files, state), (Some("5"), 4, true, (3, 1, 3)));
}
