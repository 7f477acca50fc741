//! Tests that folders of format 1 are migrated without changing any entity, Timestamp, policy or property.
//!
//! `format1/` contains two small data folders that the last version with format 1 left, and their contents as that
//! version returned them over HTTP, one item a line:
//!
//! - `closed` was closed cleanly. It has sorted files and a journal that was not flushed, with overwritten and deleted
//!   entities.
//! - `killed` is the same folder after a kill: later writes replace data in the sorted files, and the entities of a
//!   deleted table are still being removed.
//!
//! They cannot be created again.

use engine::{Engine, TableKey};
use engine_contract::support::{all, commit_one, upsert};
use model::clock::SystemClock;
use model::{AccountName, EdmValue, TableName};
use rowhouse_engine_embedded::{Embedded, EmbeddedOptions, check_folder};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const ACCOUNT: &str = "devstoreaccount1";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/format1").join(name)
}

fn unpack(name: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let archive = fixture(&format!("{name}.tar.gz"));
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(place.path()).status().unwrap();
    assert!(unpacked.success());
    place
}

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, &EmbeddedOptions::default(), SystemClock).unwrap()
}

fn account() -> AccountName {
    AccountName::new(ACCOUNT).unwrap()
}

fn table(name: &str) -> TableKey {
    TableKey { account: account(), name: TableName::new(name).unwrap() }
}

fn text(text: &str) -> String {
    let first = text.chars().next().unwrap_or_default();
    if text.len() > 200 && text.chars().all(|character| character == first) {
        return format!("{} repeated {} times", first.escape_default(), text.len());
    }
    format!("\"{}\"", text.escape_default())
}

fn value(value: &EdmValue<'_>) -> String {
    match value {
        EdmValue::String(string) => text(string),
        EdmValue::Binary(bytes) => bytes.iter().fold("binary ".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        EdmValue::Boolean(value) => format!("bool {value}"),
        EdmValue::DateTime(time) => format!("time {}", time.ticks()),
        EdmValue::Double(value) if value.is_nan() => "double NaN".to_owned(),
        EdmValue::Double(value) => format!("double {:016x}", value.to_bits()),
        EdmValue::Guid(guid) => format!("guid {guid}"),
        EdmValue::Int32(value) => format!("int32 {value}"),
        EdmValue::Int64(value) => format!("int64 {value}"),
    }
}

/// Describes everything in the engine in the form of the recorded lists.
async fn describe(engine: &Embedded) -> String {
    let mut out = String::new();
    let mut names = engine.list_tables(&account(), "", usize::MAX).await.unwrap();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    for name in names {
        writeln!(out, "table {}", name.as_str()).unwrap();
        let table = table(name.as_str());
        for policy in engine.policies(&table).await.unwrap().as_slice() {
            let time = |time: Option<model::DateTime>| time.map_or("-".to_owned(), |time| time.ticks().to_string());
            let permissions = policy.permissions.map_or("-".to_owned(), |permissions| permissions.to_string());
            let (id, start, expiry) = (text(policy.id()), time(policy.start), time(policy.expiry));
            writeln!(out, "policy {id} {start} {expiry} {permissions}").unwrap();
        }
        for entity in all(engine, &table).await {
            let record = entity.record.view().unwrap();
            let (partition, row) = (text(entity.key.partition.as_str()), text(entity.key.row.as_str()));
            write!(out, "entity {partition} {row} {}", record.timestamp().ticks()).unwrap();
            for property in record.properties() {
                let property = property.unwrap();
                let name = property.name().unwrap().escape_default();
                write!(out, "\t{name} {}", value(&property.value().unwrap())).unwrap();
            }
            out.push('\n');
        }
    }
    let properties = engine.service_properties(&account()).unwrap();
    let logging = properties.logging;
    let days = logging.retention.unwrap().get();
    let (read, write, delete) = (logging.read, logging.write, logging.delete);
    writeln!(out, "logging read={read} write={write} delete={delete} days={days}").unwrap();
    let cors = format!("{:?}", properties.cors);
    assert!(cors.contains("https://orchard.example") && cors.matches("https://").count() == 1, "{cors}");
    writeln!(out, "cors https://orchard.example").unwrap();
    out
}

/// Lines that differ are shown alone, because the lists are long. The order of properties has no meaning.
fn assert_same(found: &str, expected: &str, what: &str) {
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<BTreeSet<_>>();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(fields(found), fields(expected), "{what}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_the_former_program_are_migrated_with_everything_as_it_was() {
    for name in ["closed", "killed"] {
        let place = unpack(name);
        let folder = place.path().join("data");
        let scratch = tempfile::tempdir().unwrap();
        let before = check_folder(&folder, scratch.path(), &|_| true).unwrap();
        assert_eq!(before.problems, [], "{name}");
        assert_eq!(before.purged_entities > 0, name == "killed", "{name}: {before:?}");
        assert!(before.files > 0 && before.notes.iter().any(|note| note.contains("format 1")), "{name}: {before:?}");

        let expected = fs::read_to_string(fixture(&format!("{name}.txt"))).unwrap();
        let engine = open(&folder);
        assert_same(&describe(&engine).await, &expected, name);
        // A table with the name of a deleted one is empty.
        engine.create_table(&table("Gone")).await.unwrap();
        assert!(all(&engine, &table("Gone")).await.is_empty(), "{name}");
        commit_one(&engine, &table("Gone"), upsert("p", "r", 1)).await.unwrap();
        engine.delete_table(&table("Gone")).await.unwrap();
        engine.close().await.unwrap();
        drop(engine);
        assert!(!folder.join("database").exists() && !folder.join("rowhouse.closed").exists(), "{name}");

        let engine = open(&folder);
        assert_same(&describe(&engine).await, &expected, &format!("{name}, after a restart"));
        // The purge continues after the migration, until nothing is left.
        let began = Instant::now();
        while engine.figures().purge_backlog != Some(0) {
            assert!(began.elapsed() < Duration::from_mins(1), "{name}: the purge does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        engine.close().await.unwrap();
        drop(engine);
        let scratch = tempfile::tempdir().unwrap();
        let after = check_folder(&folder, scratch.path(), &|_| true).unwrap();
        assert_eq!((after.problems.len(), after.purged_entities), (0, 0), "{name}: {after:?}");
        assert_eq!(after.tables, before.tables, "{name}");
    }
}

/// Migrates a folder given by `ROWHOUSE_MIGRATE`, and prints what is in it. Used manually with large folders.
#[test]
fn a_given_folder_is_migrated() {
    let Some(folder) = std::env::var_os("ROWHOUSE_MIGRATE") else { return };
    let began = Instant::now();
    drop(open(Path::new(&folder)));
    println!("opened and closed after {:?}", began.elapsed());
    let scratch = tempfile::tempdir().unwrap();
    let report = check_folder(Path::new(&folder), scratch.path(), &|_| true).unwrap();
    println!("{report:#?}");
    assert_eq!(report.problems, []);
}
