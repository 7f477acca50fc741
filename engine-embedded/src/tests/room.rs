//! What writers get while sorted files can be neither written nor merged.

use super::*;
use crate::disk::space::bounded;

fn write(engine: &Embedded, number: u8) {
    let mut operations = Operations::default();
    operations.put([0, 0, 0, 0, 0, 0, 0, 9, number], [number]);
    engine.shared.storage.write(vec![operations.into_transaction(Origin::Catalog)], None, true).unwrap();
}

#[test]
fn repeated_failures_of_a_flush_seal_no_further_memtable() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder);
    let (storage, files) = (&engine.shared.storage, folder.path().join("tree/tables"));
    std::fs::rename(&files, folder.path().join("moved")).unwrap();
    for number in 0..3 {
        write(&engine, number);
        storage.flush_everything().unwrap_err();
        assert_eq!(storage.tree.state().sealed_memtables, 1);
    }
    std::fs::rename(folder.path().join("moved"), &files).unwrap();
    storage.flush_everything().unwrap();
    assert_eq!((storage.tree.state().sealed_memtables, storage.tree.persisted()), (0, storage.tree.published()));
}

/// No merge is started that might fill the disk. The committer must not wait for one, because it would also hold up
/// the shutdown.
#[tokio::test]
async fn writes_are_refused_if_the_disk_has_no_room_for_a_merge_that_they_need() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { min_free_bytes: u64::MAX / 2, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    let storage = &engine.shared.storage;
    for number in 0.. {
        write(&engine, number);
        storage.flush_everything().unwrap();
        if !storage.tree.wait_for_room() {
            break;
        }
    }
    assert!(storage.tree.sorted_files().len() > 20);
    assert_eq!(engine.shared.resume().unwrap_err().to_string(), StorageError::NO_ROOM.to_string());
    engine.close().await.unwrap();
    drop(engine);
    // With room, the files are merged.
    let engine = open(&folder);
    engine.create_table(&table()).await.unwrap();
    assert!(engine.shared.storage.tree.sorted_files().len() < 20);
}

/// What is in memory when the disk is almost full is flushed later, and must leave room for deletions.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_does_not_use_up_the_space_that_is_left_for_deletions() {
    const DISK_BYTES: u64 = 100 << 20;
    const RESERVE_BYTES: u64 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    bounded::limit(folder.path(), DISK_BYTES);
    let options = EmbeddedOptions { min_free_bytes: RESERVE_BYTES, ..EmbeddedOptions::default() };
    let engine = Embedded::open(folder.path(), &options, TestClock::at(1000)).unwrap();
    engine.create_table(&table()).await.unwrap();
    let value = vec![7; 60_000];
    let mut stored = 0;
    let refused = loop {
        let mut properties = RecordBuilder::default();
        for name in ["A", "B", "C", "D", "E", "F"] {
            properties.push(name, EdmValue::Binary(&value));
        }
        match commit(&engine, Mutation::InsertOrReplace { key: key(stored), properties }).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the disk is never full");
    };
    assert!(matches!(refused, CommitError::Fault(Fault::Full)), "{refused:?}");
    engine.shared.storage.flush_everything().unwrap();
    // Background work may hold more for a moment: a segment that is being prepared, and files that are being merged.
    let sorted = engine.shared.storage.tree.sorted_files();
    let sorted = sorted.iter().map(|name| bounded::used_bytes(&folder.path().join("tree/tables").join(name)));
    let log = std::fs::read_dir(folder.path().join("log")).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    let used = sorted.sum::<u64>() + log.map(|path| bounded::used_bytes(&path)).sum::<u64>();
    assert!(used + RESERVE_BYTES <= DISK_BYTES, "{used} bytes are used");
    for number in 0..stored {
        commit(&engine, Mutation::Delete { key: key(number), condition: Condition::Any }).await.unwrap();
    }
    engine.close().await.unwrap();
}
