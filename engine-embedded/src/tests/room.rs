//! What writers get while sorted files can be neither written nor merged.

use super::*;

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
