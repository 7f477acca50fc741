//! Snapshots of the embedded engine, and folders that are filled from them.

use engine::{Engine, Restore, Snapshot, SnapshotError};
use engine_contract::support::*;
use model::{DateTime, StoredAccessPolicies, StoredAccessPolicy};
use rowhouse_engine_embedded::{Embedded, EmbeddedOptions, OpenError, RestoredFolder};
use std::path::Path;

fn open(folder: &Path, ticks: i64) -> Result<Embedded, OpenError> {
    Embedded::open(folder, &EmbeddedOptions::default(), ManualClock::at(ticks))
}

fn policies() -> StoredAccessPolicies {
    StoredAccessPolicies::new(vec![StoredAccessPolicy::new("reader").unwrap()]).unwrap()
}

fn restore(snapshot: &dyn Snapshot, folder: &Path) {
    let mut restored = RestoredFolder::begin(folder).unwrap();
    let contents = snapshot.contents();
    for (account, properties) in &contents.properties {
        restored.properties(account, properties).unwrap();
    }
    for (index, table) in contents.tables.iter().enumerate() {
        restored.table(table).unwrap();
        let mut put = |key: &[u8], record: &[u8]| restored.entity(key, record).map_err(std::io::Error::other);
        snapshot.entities(index, &mut put).unwrap();
    }
    restored.finish(contents.last_stamp).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_of_one_instant_and_stamps_go_on_growing_where_it_is_restored() {
    let place = tempfile::tempdir().unwrap();
    let engine = open(&place.path().join("old"), START_TICKS).unwrap();
    for name in ["Gone", "Cars", "Empty"] {
        engine.create_table(&table(name)).await.unwrap();
    }
    commit_one(&engine, &table("Gone"), insert("p", "r", 1)).await.unwrap();
    let rows: Vec<String> = (0..500).map(|row| format!("{row:04}")).collect();
    fill(&engine, &table("Cars"), "p", &rows).await;
    engine.set_policies(&table("Cars"), policies()).await.unwrap();
    engine.update_service_properties(&table("Cars").account, cors_update("https://a.example")).await.unwrap();
    engine.delete_table(&table("Gone")).await.unwrap();
    let before = all(&engine, &table("Cars")).await;
    let snapshot = engine.snapshots().take().unwrap();
    // Later changes are not in the snapshot.
    commit_one(&engine, &table("Cars"), upsert("p", "0000", 2)).await.unwrap();
    commit_one(&engine, &table("Cars"), delete("p", "0001")).await.unwrap();
    engine.create_table(&table("Later")).await.unwrap();
    engine.delete_table(&table("Empty")).await.unwrap();
    engine.set_policies(&table("Cars"), StoredAccessPolicies::default()).await.unwrap();
    let new = place.path().join("new");
    restore(&*snapshot, &new);
    let last_stamp = snapshot.contents().last_stamp;
    drop(snapshot);

    // The clock of the new server is behind.
    let restored = open(&new, 1000).unwrap();
    assert_eq!(all(&restored, &table("Cars")).await, before);
    assert_eq!(restored.policies(&table("Cars")).await.unwrap(), policies());
    let properties = restored.service_properties(&table("Cars").account).unwrap();
    assert_eq!(properties, {
        engine.update_service_properties(&table("Cars").account, cors_update("https://a.example")).await.unwrap();
        engine.service_properties(&table("Cars").account).unwrap()
    });
    let account = table("Cars").account;
    let names: Vec<String> =
        restored.list_tables(&account, "", 10).await.unwrap().iter().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(names, ["Cars", "Empty"]);
    let written = commit_one(&restored, &table("Cars"), upsert("p", "0002", 3)).await.unwrap();
    assert!(stamp(written) > last_stamp && last_stamp >= DateTime::from_ticks(START_TICKS).unwrap());
    // New tables get IDs that no other table has.
    restored.create_table(&table("Another")).await.unwrap();
    assert_eq!(all(&restored, &table("Another")).await, []);
    drop(restored);
    assert_eq!(all(&open(&new, 1000).unwrap(), &table("Cars")).await.len(), 500);
    assert!(matches!(RestoredFolder::begin(&new), Err(OpenError::InUse { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_not_finished_is_refused_and_done_again() {
    let place = tempfile::tempdir().unwrap();
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    let engine = open(&old, START_TICKS).unwrap();
    engine.create_table(&table("Cars")).await.unwrap();
    fill(&engine, &table("Cars"), "p", &["1".to_owned(), "2".to_owned()]).await;
    let snapshot = engine.snapshots().take().unwrap();
    let mut restored = RestoredFolder::begin(&new).unwrap();
    restored.table(&snapshot.contents().tables[0]).unwrap();
    assert!(matches!(RestoredFolder::begin(&new), Err(OpenError::Locked { .. })));
    drop(restored);
    assert!(matches!(open(&new, 1), Err(OpenError::Restoring { .. })));
    restore(&*snapshot, &new);
    assert_eq!(all(&open(&new, 1).unwrap(), &table("Cars")).await, all(&engine, &table("Cars")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_does_not_outlive_its_engine() {
    let place = tempfile::tempdir().unwrap();
    let engine = open(place.path(), START_TICKS).unwrap();
    engine.create_table(&table("Cars")).await.unwrap();
    let rows: Vec<String> = (0..300).map(|row| format!("{row:04}")).collect();
    fill(&engine, &table("Cars"), "p", &rows).await;
    let (snapshots, snapshot) = (engine.snapshots(), engine.snapshots().take().unwrap());
    engine.close().await.unwrap();
    assert!(matches!(snapshot.entities(0, &mut |_, _| Ok(())), Err(SnapshotError::Fault(engine::Fault::Closed))));
    assert!(snapshots.take().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_stays_locked_while_a_snapshot_reads_its_files() {
    let place = tempfile::tempdir().unwrap();
    let engine = open(place.path(), START_TICKS).unwrap();
    let snapshot = engine.snapshots().take().unwrap();
    engine.close().await.unwrap();
    drop(engine);
    assert!(matches!(open(place.path(), START_TICKS), Err(OpenError::Locked { .. })));
    drop(snapshot);
    open(place.path(), START_TICKS).unwrap();
}
