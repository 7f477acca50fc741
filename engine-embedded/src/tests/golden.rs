//! Verifies the bytes on disk, as described in `docs/embedded-engine.md`. A change here is a change to the data folder
//! format, and later versions must still read the old format.

use super::*;
use crate::disk::folder;
use model::{CorsRule, CorsRules, DateTime, EdmValue, IndexedProperty, KeyText, Permissions, RecordBuilder};
use model::{Retention, StoredAccessPolicy};
use std::fs;

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> DateTime {
        DateTime::from_ticks(0x0102_0304_0506_0708).unwrap()
    }
}

fn table(name: &str) -> TableKey {
    TableKey { account: AccountName::new("acc1").unwrap(), name: TableName::new(name).unwrap() }
}

fn policies() -> StoredAccessPolicies {
    let mut policy = StoredAccessPolicy::new("reader").unwrap();
    policy.start = DateTime::from_ticks(1);
    policy.permissions = Permissions::parse_table("r");
    StoredAccessPolicies::new(vec![policy]).unwrap()
}

fn cors() -> ServicePropertiesUpdate {
    let rule = CorsRule::new("*", "GET", "a", "b", 60).unwrap();
    ServicePropertiesUpdate { cors: Some(CorsRules::new(vec![rule]).unwrap()), ..ServicePropertiesUpdate::default() }
}

async fn insert(engine: &Embedded, table: &TableKey, partition: &str, row: &str) {
    let mut properties = RecordBuilder::default();
    properties.push("Name", EdmValue::String("é"));
    let key = EntityKey { partition: KeyText::new(partition).unwrap(), row: KeyText::new(row).unwrap() };
    engine.commit(table, Transaction::single(Mutation::Insert { key, properties })).await.unwrap();
}

/// The engine contains one entry of each kind.
const ENTRIES: [(&[u8], &[u8]); 12] = [
    // A table with an index: version, ID, creation time, name; policies; the number of indexes; ID and state of the
    // index; length of the settings; kind and length of the setting; length and name of the property.
    (
        b"\0\0\0\0\0\0\0\0cacc1\0indexed",
        b"\x01\0\0\0\0\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08\x07Indexed\0\
          \x01\0\0\0\0\0\0\0\x06\0\0\x09\x02\0\x06\0\x04Name",
    ),
    // A table without anything: version, ID, creation time, name; the numbers of policies and indexes, and the length
    // of the settings.
    (b"\0\0\0\0\0\0\0\0cacc1\0plain", b"\x01\0\0\0\0\0\0\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\x05Plain\0\0\0\0"),
    // A table with policies: version, ID, creation time, name; the number of policies; ID, start, expiry and
    // permissions of each policy; the number of indexes, and the length of the settings.
    (
        b"\0\0\0\0\0\0\0\0cacc1\0withpolicies",
        b"\x01\0\0\0\0\0\0\0\x03\x01\x02\x03\x04\x05\x06\x07\x08\x0cWithPolicies\
          \x01\x06reader\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff\x01r\0\0\0",
    ),
    // A table with settings: version, ID, creation time, name; policies; indexes; length of the settings; kind, length,
    // seconds and property of the retention.
    (
        b"\0\0\0\0\0\0\0\0cacc1\0withsettings",
        b"\x01\0\0\0\0\0\0\0\x04\x01\x02\x03\x04\x05\x06\x07\x08\x0cWithSettings\0\0\0\x0b\x01\0\x08\0\0\0\x07Ends",
    ),
    // The last Timestamp issued.
    (b"\0\0\0\0\0\0\0\0mlast-stamp", b"\x01\x02\x03\x04\x05\x06\x07\x0a"),
    // The ID of the next table.
    (b"\0\0\0\0\0\0\0\0mnext-table-id", b"\0\0\0\0\0\0\0\x07"),
    // A deleted table.
    (b"\0\0\0\0\0\0\0\0p\0\0\0\0\0\0\0\x02", b"\x01"),
    // Service properties: version, logging, hour metrics, minute metrics, CORS rules.
    (b"\0\0\0\0\0\0\0\0sacc1", b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x01*\0\x03GET\0\x01a\0\x01b\0\0\0\x3c"),
    // Entities: table ID, partition key, 00, row key; the record.
    (b"\0\0\0\0\0\0\0\x01p\0r", b"\x01\x01\x02\x03\x04\x05\x06\x07\x08\x01\x04Name\x01\x02\xc3\xa9"),
    (
        b"\0\0\0\0\0\0\0\x01\xc3\xa9\xee\x9f\x98\x80\xf3\x80\x80\0",
        b"\x01\x01\x02\x03\x04\x05\x06\x07\x09\x01\x04Name\x01\x02\xc3\xa9",
    ),
    (b"\0\0\0\0\0\0\0\x05p\0r", b"\x01\x01\x02\x03\x04\x05\x06\x07\x0a\x01\x04Name\x01\x02\xc3\xa9"),
    // An entry of an index: index ID, type, value, 00 00, partition key, 00, row key.
    (b"\0\0\0\0\0\0\0\x06\x08\xc3\xa9\0\0p\0r", b""),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_key_and_value_is_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), FixedClock).unwrap();
    let _held = (engine.shared.purges_held.lock().await, engine.shared.builds_held.lock().await);
    for name in ["Plain", "Gone", "WithPolicies", "WithSettings", "Indexed"] {
        engine.create_table(&table(name)).await.unwrap();
    }
    engine.set_policies(&table("WithPolicies"), policies()).await.unwrap();
    let retention = Some(Retention::by_property("Ends", 7));
    let update = TableSettingsUpdate { retention, ..TableSettingsUpdate::default() };
    engine.update_settings(&table("WithSettings"), update).await.unwrap();
    let indexes = IndexedProperty::new("Name").map(|property| vec![property]);
    let update = TableSettingsUpdate { indexes, ..TableSettingsUpdate::default() };
    engine.update_settings(&table("Indexed"), update).await.unwrap();
    engine.update_service_properties(&table("Plain").account, cors()).await.unwrap();
    engine.delete_table(&table("Gone")).await.unwrap();
    insert(&engine, &table("Plain"), "p", "r").await;
    // In UTF-16 order, a character beyond the BMP sorts before the last characters of the BMP.
    insert(&engine, &table("Plain"), "é\u{1F600}\u{E000}", "").await;
    insert(&engine, &table("Indexed"), "p", "r").await;
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let entries = engine.shared.storage.tree.snapshot().range::<&[u8]>(..).map(|entry| {
        let (key, value) = entry.unwrap();
        (text(&key), text(&value))
    });
    assert_eq!(entries.collect::<Vec<_>>(), ENTRIES.map(|(key, value)| (text(key), text(value))));
}

#[test]
fn the_files_around_the_database_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(folder.path(), &EmbeddedOptions::default(), FixedClock).unwrap();
    let marker = "rowhouse data folder\nformat 1\nWritten by Rowhouse. Do not edit or delete this file.\n";
    assert_eq!(fs::read_to_string(folder.path().join("rowhouse.marker")).unwrap(), marker);
    assert!(fs::read(folder.path().join("rowhouse.lock")).unwrap().is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(engine.close()).unwrap();
    drop(engine);
    let mut names = folder::names(folder.path()).unwrap();
    names.sort();
    assert_eq!(names, ["log", "rowhouse.lock", "rowhouse.marker", "tree"]);
    let log = folder::names(&folder.path().join("log")).unwrap();
    assert_eq!(log, ["0000000000000001.log"], "nothing was written, so a clean shutdown needs no new segment");
}
