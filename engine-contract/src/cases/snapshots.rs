use super::indexes::{ordered, set_indexes, wait_until_ready};
use super::settings::retain;
use crate::support::*;
use engine::{CheckReport, Engine, Fault, Restore, Snapshot, SnapshotError, Snapshots, check_snapshot};
use model::{Mutation, Retention, StoredAccessPolicies, StoredAccessPolicy, TableSettings};
use std::any::Any;
use std::io;
use std::sync::Arc;

/// Opens an engine that supports snapshots, either empty or filled from a snapshot.
pub trait OpensForSnapshots: Sync {
    fn open(&self, clock: ManualClock) -> OpenEngine;
    fn filled(&self, snapshot: &dyn Snapshot, clock: ManualClock) -> OpenEngine;
}

pub struct OpenEngine {
    pub engine: Arc<dyn Engine>,
    pub snapshots: Arc<dyn Snapshots>,
    /// The resources that must exist as long as the engine.
    pub place: Box<dyn Any + Send>,
}

/// Restores a snapshot.
pub fn fill_with(mut restore: impl Restore, snapshot: &dyn Snapshot) {
    let contents = snapshot.contents();
    for (account, properties) in &contents.properties {
        restore.properties(account, properties).unwrap();
    }
    for (index, table) in contents.tables.iter().enumerate() {
        restore.table(table).unwrap();
        let mut put = |key: &[u8], record: &[u8]| restore.entity(key, record).map_err(io::Error::other);
        snapshot.entities(index, &mut put).unwrap();
    }
    restore.finish(contents.last_stamp).unwrap();
}

fn policies() -> StoredAccessPolicies {
    StoredAccessPolicies::new(vec![StoredAccessPolicy::new("reader").unwrap()]).unwrap()
}

pub async fn a_snapshot_is_of_one_instant_and_fills_an_engine(opener: &dyn OpensForSnapshots) {
    let OpenEngine { engine, snapshots, place: _place } = opener.open(ManualClock::at(START_TICKS));
    let (cars, gone, empty) = (table("Cars"), table("Gone"), table("Empty"));
    for table in [&gone, &cars, &empty] {
        engine.create_table(table).await.unwrap();
    }
    commit_one(&*engine, &gone, insert("p", "r", 1)).await.unwrap();
    let rows: Vec<String> = (0..500).map(|row| format!("{row:04}")).collect();
    fill(&*engine, &cars, "p", &rows).await;
    let large = Mutation::Insert { key: key("w", "r"), properties: widest() };
    commit_one(&*engine, &cars, large).await.unwrap();
    engine.set_policies(&cars, policies()).await.unwrap();
    let retention = Retention::by_property("Ends", 7);
    engine.update_settings(&cars, retain(retention)).await.unwrap();
    set_indexes(&*engine, &cars, &["value"]).await;
    let settings = engine.settings(&cars).await.unwrap();
    engine.update_service_properties(&cars.account, cors_update("https://a.example")).await.unwrap();
    let properties = engine.service_properties(&cars.account).unwrap();
    engine.delete_table(&gone).await.unwrap();
    let before = all(&*engine, &cars).await;
    let snapshot = snapshots.take().unwrap();
    // Later changes are not in the snapshot.
    commit_one(&*engine, &cars, upsert("p", "0000", 2)).await.unwrap();
    commit_one(&*engine, &cars, delete("p", "0001")).await.unwrap();
    engine.create_table(&table("Later")).await.unwrap();
    engine.delete_table(&empty).await.unwrap();
    engine.set_policies(&cars, StoredAccessPolicies::default()).await.unwrap();
    engine.update_settings(&cars, retain(Retention::by_age(60))).await.unwrap();
    engine.update_service_properties(&cars.account, cors_update("https://b.example")).await.unwrap();

    let mut report = CheckReport::default();
    assert!(check_snapshot(&*snapshot, &mut report, &|_| true));
    assert_eq!(report.problems, []);
    let counted: Vec<_> = report.tables.iter().map(|table| (table.table.name.as_str(), table.entities)).collect();
    assert_eq!(counted, [("Cars", 501), ("Empty", 0)]);
    assert!(!check_snapshot(&*snapshot, &mut report, &|_| false), "it stops when told to");

    // The clock of the new engine is behind.
    let OpenEngine { engine: filled, snapshots: again, place: _filled_place } =
        opener.filled(&*snapshot, ManualClock::at(1000));
    assert_eq!(all(&*filled, &cars).await, before);
    assert_eq!(filled.policies(&cars).await.unwrap(), policies());
    assert_eq!(filled.settings(&cars).await.unwrap(), settings);
    assert_eq!(filled.settings(&empty).await.unwrap(), TableSettings::default());
    assert_eq!(filled.service_properties(&cars.account).unwrap(), properties);
    wait_until_ready(&*filled, &cars).await;
    assert_eq!(ordered(&*filled, &cars, false).await, names(&before), "the index is built again");
    let tables: Vec<String> =
        filled.list_tables(&cars.account, "", 10).await.unwrap().iter().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(tables, ["Cars", "Empty"]);
    let written = commit_one(&*filled, &cars, upsert("p", "0002", 3)).await.unwrap();
    assert!(stamp(written) > snapshot.contents().last_stamp, "no Timestamp is issued twice");
    assert!(before.iter().all(|entity| entity.record.view().unwrap().timestamp() <= snapshot.contents().last_stamp));
    let again = again.take().unwrap();
    assert_eq!(again.contents().properties, snapshot.contents().properties);
    assert_eq!(again.contents().tables, snapshot.contents().tables);
}

pub async fn a_snapshot_of_nothing_fills_an_empty_engine(opener: &dyn OpensForSnapshots) {
    let OpenEngine { engine: _engine, snapshots, place: _place } = opener.open(ManualClock::at(START_TICKS));
    let snapshot = snapshots.take().unwrap();
    assert_eq!((snapshot.contents().tables.len(), snapshot.contents().properties.len()), (0, 0));
    assert!(snapshot.entities(0, &mut |_, _| panic!("there is no table")).is_ok());
    let OpenEngine { engine: filled, place: _filled_place, .. } =
        opener.filled(&*snapshot, ManualClock::at(START_TICKS));
    assert!(filled.accounts().await.unwrap().is_empty());
    filled.create_table(&table("Cars")).await.unwrap();
    commit_one(&*filled, &table("Cars"), insert("p", "r", 1)).await.unwrap();
}

pub async fn a_sink_ends_the_reading_of_a_snapshot(opener: &dyn OpensForSnapshots) {
    let OpenEngine { engine, snapshots, place: _place } = opener.open(ManualClock::at(START_TICKS));
    let table = table("Cars");
    engine.create_table(&table).await.unwrap();
    fill(&*engine, &table, "p", &["1".to_owned(), "2".to_owned()]).await;
    let snapshot = snapshots.take().unwrap();
    let mut keys = Vec::new();
    let end = snapshot.entities(0, &mut |key, _| {
        keys.push(key.to_vec());
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(matches!(end, Err(SnapshotError::Sink(error)) if error.kind() == io::ErrorKind::StorageFull));
    assert_eq!(keys, [b"p\x001".to_vec()]);
}

pub async fn a_snapshot_is_read_while_its_engine_is_open(opener: &dyn OpensForSnapshots) {
    let OpenEngine { engine, snapshots, place: _place } = opener.open(ManualClock::at(START_TICKS));
    let table = table("Cars");
    engine.create_table(&table).await.unwrap();
    let rows: Vec<String> = (0..300).map(|row| format!("{row:04}")).collect();
    fill(&*engine, &table, "p", &rows).await;
    let snapshot = snapshots.take().unwrap();
    snapshot.check().unwrap();
    engine.close().await.unwrap();
    assert!(matches!(snapshot.check(), Err(Fault::Closed)));
    assert!(matches!(snapshot.entities(0, &mut |_, _| Ok(())), Err(SnapshotError::Fault(Fault::Closed))));
    assert!(matches!(snapshots.take(), Err(Fault::Closed)));
}
