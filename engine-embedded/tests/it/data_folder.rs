//! Tests that the embedded engine rejects folders that it must not open: it reports the reason and changes nothing.

use engine::Engine;
use engine_contract::support::*;
use model::{EdmValue, Mutation, RecordBuilder, Transaction};
use rowhouse_engine_embedded::{Durability, Embedded, EmbeddedOptions, OpenError};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MARKER: &str = "rowhouse.format";
const NEW_MARKER: &str = "rowhouse.format.new";
const CLOSED: &str = "rowhouse.closed";
const CHILD_FOLDER: &str = "ROWHOUSE_TEST_CHILD_FOLDER";

fn open(folder: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(folder, &EmbeddedOptions::default(), ManualClock::at(START_TICKS))
}

fn open_with_interval(folder: &Path) -> Result<Embedded, OpenError> {
    let durability = Durability::Interval(Duration::from_secs(1));
    Embedded::open(folder, &EmbeddedOptions { durability, ..EmbeddedOptions::default() }, ManualClock::at(START_TICKS))
}

fn refusal(opened: Result<Embedded, OpenError>) -> OpenError {
    match opened {
        Ok(_) => panic!("the folder was opened"),
        Err(error) => error,
    }
}

/// Folders have no hash.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, None);
        } else {
            let hash = xxhash_rust::xxh3::xxh3_64(&fs::read(&path).unwrap());
            found.insert(path, Some(hash));
        }
    }
    found
}

/// Each entity is written by a separate commit.
async fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).unwrap();
    engine.create_table(&table("Entities")).await.unwrap();
    for text in ["first", "second", "third"] {
        let mut properties = RecordBuilder::default();
        properties.push("text", EdmValue::String(&format!("the {text} needle")));
        let mutation = Mutation::Insert { key: key("p", text), properties };
        commit_one(&engine, &table("Entities"), mutation).await.unwrap();
    }
    engine.close().await.unwrap();
    folder
}

/// Returns the folder of [`filled`] as a power failure leaves it: without a record that everything was synced.
async fn interrupted() -> tempfile::TempDir {
    let folder = filled().await;
    fs::remove_file(folder.path().join(CLOSED)).unwrap();
    folder
}

async fn found(engine: &Embedded) -> Vec<String> {
    names(&all(engine, &table("Entities")).await)
}

fn journal(folder: &Path) -> PathBuf {
    folder.join("database/0.jnl")
}

fn place_in_journal(folder: &Path, text: &str) -> usize {
    let needle = format!("the {text} needle").into_bytes();
    let bytes = fs::read(journal(folder)).unwrap();
    bytes.windows(needle.len()).position(|window| window == needle).unwrap()
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Asserts that opening fails with a message that names the folder, and leaves every byte unchanged.
fn assert_refused(folder: &Path, why: &str) -> OpenError {
    let before = content(folder);
    let error = refusal(open(folder));
    let text = error.to_string();
    assert_eq!(content(folder), before, "{why}: the folder was changed by: {text}");
    assert!(text.contains(folder.to_str().unwrap()), "{why}: {text}");
    // A second attempt must find the same state.
    assert_eq!(refusal(open(folder)).to_string(), text, "{why}");
    error
}

#[tokio::test]
async fn a_missing_folder_is_created_with_its_parents() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let engine = open(&folder).unwrap();
    engine.create_table(&table("Entities")).await.unwrap();
    let marker = fs::read_to_string(folder.join(MARKER)).unwrap();
    assert!(marker.starts_with("rowhouse data folder\nformat 1\n"), "{marker}");
}

#[tokio::test]
async fn an_engine_locks_its_folder() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    let error = refusal(open(folder.path()));
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert_eq!(found(&engine).await.len(), 3, "the first engine is not affected");
    drop(engine);
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 3);
}

#[tokio::test]
async fn another_process_is_told_that_the_folder_is_in_use() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "data_folder::child_process", "--nocapture"]).env(CHILD_FOLDER, folder.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let said = child();
    assert!(said.contains("in use by another Rowhouse"), "{said}");
    drop(engine);
    let said = child();
    assert!(said.contains("opened"), "{said}");
}

/// The other process of the preceding test. When run separately, it does nothing.
#[test]
fn child_process() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    match open(Path::new(&folder)) {
        Ok(_) => println!("opened"),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    for name in ["notes.txt", "database", ".hidden", "0.jnl"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), "mine").unwrap();
        let error = assert_refused(folder.path(), name);
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    }
}

#[test]
fn a_file_is_refused_as_a_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    assert!(matches!(refusal(open(&file)), OpenError::Io { .. }));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn the_root_of_a_file_system_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lost+found")).unwrap();
    drop(open(folder.path()).unwrap());
    drop(open(folder.path()).unwrap());
}

#[tokio::test]
async fn a_newer_format_is_not_touched() {
    let folder = filled().await;
    fs::write(folder.path().join(MARKER), "rowhouse data folder\nformat 2\nwhatever comes then\n").unwrap();
    fs::remove_file(folder.path().join("rowhouse.lock")).unwrap();
    let error = assert_refused(folder.path(), "format 2");
    assert!(matches!(error, OpenError::Newer { found: 2, .. }), "{error}");
}

#[tokio::test]
async fn a_damaged_marker_is_not_touched() {
    let folder = filled().await;
    let good = fs::read_to_string(folder.path().join(MARKER)).unwrap();
    let large = good.repeat(1000);
    let cases: [&[u8]; 8] = [
        b"",
        b"rowhouse data folder",
        b"rowhouse data folder\nformat \n",
        b"rowhouse data folder\nformat 0\n",
        b"rowhouse data folder\nformat 1",
        b"another program\nformat 1\n",
        b"\xFF\xFE\0\0",
        large.as_bytes(),
    ];
    for case in cases {
        fs::write(folder.path().join(MARKER), case).unwrap();
        let error = assert_refused(folder.path(), &case.escape_ascii().to_string());
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
    fs::write(folder.path().join(MARKER), good).unwrap();
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 3);
}

#[tokio::test]
async fn a_first_start_that_was_interrupted_is_begun_again() {
    let folder = interrupted().await;
    // This is the state after a crash between creating the database and renaming the marker.
    fs::rename(folder.path().join(MARKER), folder.path().join(NEW_MARKER)).unwrap();
    fs::remove_dir_all(folder.path().join("database/keyspaces/1")).unwrap();
    let engine = open(folder.path()).unwrap();
    engine.create_table(&table("Entities")).await.unwrap();
    assert!(found(&engine).await.is_empty());
}

#[tokio::test]
async fn a_missing_file_of_the_database_is_not_created_again() {
    let files = [
        "database",
        "database/version",
        "database/0.jnl",
        "database/keyspaces",
        "database/keyspaces/0",
        "database/keyspaces/0/current",
        "database/keyspaces/1/current",
        "database/keyspaces/1/v0",
        "database/keyspaces/1",
    ];
    for file in files {
        let folder = filled().await;
        let path = folder.path().join(file);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap();
        let error = assert_refused(folder.path(), file);
        assert!(matches!(error, OpenError::Damaged { .. }), "{file}: {error}");
    }
}

#[tokio::test]
async fn a_missing_or_damaged_sorted_file_is_an_error() {
    for damage in ["missing", "cut", "zeros", "empty"] {
        let folder = filled().await;
        let tables = folder.path().join("database/keyspaces/0/tables");
        let table = fs::read_dir(tables).unwrap().next().unwrap().unwrap().path();
        match damage {
            "missing" => fs::remove_file(&table).unwrap(),
            "cut" => change(&table, |bytes| bytes.truncate(bytes.len() / 2)),
            "zeros" => change(&table, |bytes| bytes.fill(0)),
            _ => change(&table, Vec::clear),
        }
        assert_refused(folder.path(), damage);
    }
}

#[tokio::test]
async fn a_damaged_manifest_is_an_error() {
    for damage in ["cut", "zeros", "empty"] {
        let folder = filled().await;
        let keyspace = folder.path().join("database/keyspaces/1");
        let manifest = fs::read_dir(&keyspace).unwrap().map(|entry| entry.unwrap().path());
        let manifest = manifest.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('v')).last();
        change(&manifest.unwrap(), |bytes| match damage {
            "cut" => bytes.truncate(bytes.len() / 2),
            "zeros" => bytes.fill(0),
            _ => bytes.clear(),
        });
        assert_refused(folder.path(), damage);
    }
}

#[tokio::test]
async fn damage_in_the_middle_of_a_journal_does_not_discard_what_follows() {
    // The library would mistake any of these changes for the end of the journal and truncate the file there.
    let folder = interrupted().await;
    let (first, second) = (place_in_journal(folder.path(), "first"), place_in_journal(folder.path(), "second"));
    let good = fs::read(journal(folder.path())).unwrap();
    let cases: [(&str, std::ops::Range<usize>); 4] = [
        ("a byte of a value", second..second + 1),
        ("a block", first..first + 16),
        ("everything between two batches", first + 30..second),
        ("the beginning", 0..first),
    ];
    for (what, range) in cases {
        let mut bytes = good.clone();
        bytes[range].iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(journal(folder.path()), &bytes).unwrap();
        let error = assert_refused(folder.path(), what);
        assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
    }
    fs::write(journal(folder.path()), &good).unwrap();
    assert_eq!(found(&open(folder.path()).unwrap()).await, ["p/first", "p/second", "p/third"]);
}

#[tokio::test]
async fn the_last_write_may_have_been_cut_off() {
    for (what, fill) in [("cut", None), ("zeros", Some(0)), ("other bytes", Some(0xAA))] {
        let folder = interrupted().await;
        let third = place_in_journal(folder.path(), "third");
        change(&journal(folder.path()), |bytes| match fill {
            None => bytes.truncate(third + 3),
            // Parts of the write are missing, but other parts, including its end, are present.
            Some(byte) => bytes[third..third + 5].fill(byte),
        });
        let engine = open(folder.path()).unwrap();
        assert_eq!(found(&engine).await, ["p/first", "p/second"], "{what}");
        // Later writes follow the truncated position, and are found again.
        commit_one(&engine, &table("Entities"), upsert("p", "zzz", 1)).await.unwrap();
        drop(engine);
        assert_eq!(found(&open(folder.path()).unwrap()).await, ["p/first", "p/second", "p/zzz"], "{what}");
    }
}

/// The batch has one item: the removal of a key from a keyspace.
fn batch(number: u64) -> Vec<u8> {
    let key = b"forged";
    let item = [&[2, 1, 0][..], &1_u64.to_le_bytes(), &[6, 0], &[0; 8], key].concat();
    let checksum = xxhash_rust::xxh3::xxh3_64(&item).to_le_bytes();
    [&[1, 1, 0, 0, 0][..], &number.to_le_bytes(), &item, &[3], &checksum, b"FJL\x03"].concat()
}

/// The library never writes a batch without items.
fn batch_of_nothing() -> Vec<u8> {
    [&[1, 0, 0, 0, 0][..], &[0xFF; 7], &[0, 3], &xxhash_rust::xxh3::xxh3_64(b"").to_le_bytes(), b"FJL\x03"].concat()
}

const IN_VALUE: &[u8] = b"the client's own bytes";

/// Returns the folder of [`interrupted`], except that the second-to-last write contains two entities whose values
/// contain the given bytes.
async fn interrupted_with(bytes: &[u8], folder: tempfile::TempDir) -> tempfile::TempDir {
    let engine = open(folder.path()).unwrap();
    let value = [IN_VALUE, bytes, &[0xEE; 1000]].concat();
    let mutation = |row| {
        let mut properties = RecordBuilder::default();
        properties.push("binary", EdmValue::Binary(&value));
        Mutation::Insert { key: key("p", row), properties }
    };
    let transaction = Transaction::new(vec![mutation("with"), mutation("without")]).unwrap();
    engine.commit(&table("Entities"), transaction).await.unwrap();
    commit_one(&engine, &table("Entities"), upsert("p", "zzz", 1)).await.unwrap();
    engine.close().await.unwrap();
    fs::remove_file(folder.path().join(CLOSED)).unwrap();
    folder
}

#[tokio::test]
async fn a_cut_off_write_of_values_that_look_like_batches_is_no_damage() {
    let journal_of_another = {
        let folder = filled().await;
        let journal = fs::read(journal(folder.path())).unwrap();
        journal[..=journal.iter().rposition(|byte| *byte != 0).unwrap()].to_vec()
    };
    for (what, bytes) in [
        ("no items", batch_of_nothing()),
        ("one item", batch(u64::from(u32::MAX))),
        ("many", batch(1000).repeat(100)),
        ("a journal", journal_of_another),
    ] {
        let folder = interrupted_with(&bytes, filled().await).await;
        let good = fs::read(journal(folder.path())).unwrap();
        let values: Vec<usize> = (0..good.len()).filter(|at| good[*at..].starts_with(IN_VALUE)).collect();
        let [first, second] = values[..] else { panic!("{what}: {values:?}") };
        for cut in [first, second] {
            let behind = cut + IN_VALUE.len() + bytes.len();
            for length in [behind - 9, behind, behind + 1, behind + 500] {
                for is_filled in [false, true] {
                    let mut cut = good.clone();
                    cut.truncate(length);
                    cut.resize(if is_filled { good.len() + 100_000 } else { length }, 0);
                    fs::write(journal(folder.path()), cut).unwrap();
                    let names = found(&open(folder.path()).unwrap()).await;
                    assert_eq!(names, ["p/first", "p/second", "p/third"], "{what}, cut to {length}, {is_filled}");
                }
            }
        }
    }
}

#[tokio::test]
async fn values_that_look_like_batches_do_not_hide_damage() {
    // Flip every byte of the batch with the values, except its sequence number, which another test covers.
    let folder = interrupted_with(&batch(u64::from(u32::MAX)), filled().await).await;
    let good = fs::read(journal(folder.path())).unwrap();
    let first = good.windows(IN_VALUE.len()).position(|window| window == IN_VALUE).unwrap();
    let begin = (0..first).rev().find(|at| good[*at..].starts_with(&[1, 3, 0, 0, 0])).unwrap();
    for at in (begin..begin + 5).chain(begin + 13..begin + 300) {
        for flipped in [0x01, 0x80, 0xFF] {
            let mut bytes = good.clone();
            bytes[at] ^= flipped;
            fs::write(journal(folder.path()), &bytes).unwrap();
            let error = refusal(open(folder.path())).to_string();
            assert!(error.contains("--durability interval"), "byte {at}: {error}");
        }
    }
    let engine = open_with_interval(folder.path()).unwrap();
    assert_eq!(found(&engine).await, ["p/first", "p/second", "p/third"], "the remedy in the message works");
}

#[tokio::test]
async fn after_a_stop_in_order_nothing_can_have_been_cut_off() {
    let folder = filled().await;
    let third = place_in_journal(folder.path(), "third");
    change(&journal(folder.path()), |bytes| bytes[third] ^= 1);
    let error = assert_refused(folder.path(), "the last batch");
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(matches!(refusal(open_with_interval(folder.path())), OpenError::Damaged { .. }));
    // Deleting the record accepts the loss.
    fs::remove_file(folder.path().join(CLOSED)).unwrap();
    assert_eq!(found(&open(folder.path()).unwrap()).await, ["p/first", "p/second"]);
}

#[tokio::test]
async fn after_a_crash_the_record_of_an_earlier_stop_gives_no_false_alarm() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    assert!(!folder.path().join(CLOSED).exists(), "it is removed before anything is written");
    commit_one(&engine, &table("Entities"), insert("p", "fourth", 1)).await.unwrap();
    drop(engine);
    assert!(!folder.path().join(CLOSED).exists(), "only a clean shutdown is recorded");
    // This is the state after a crash while the record was being written.
    fs::write(folder.path().join("rowhouse.closed.new"), b"rowhouse cl").unwrap();
    let engine = open(folder.path()).unwrap();
    assert_eq!(found(&engine).await.len(), 4);
    engine.close().await.unwrap();
    drop(engine);
    // This is the record of a version that recorded only that everything was synced.
    fs::write(folder.path().join(CLOSED), b"").unwrap();
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 4);
}

#[tokio::test]
async fn a_stop_in_order_is_recorded_once_the_last_reader_is_done() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    let snapshot = engine.snapshots().take().unwrap();
    engine.close().await.unwrap();
    drop(engine);
    assert!(!folder.path().join(CLOSED).exists(), "the database is still open");
    assert!(matches!(refusal(open(folder.path())), OpenError::Locked { .. }));
    drop(snapshot);
    assert!(folder.path().join(CLOSED).exists());
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 3);
}

#[tokio::test]
async fn a_sequence_number_that_goes_back_is_damage() {
    let folder = interrupted().await;
    let second = place_in_journal(folder.path(), "second");
    change(&journal(folder.path()), |bytes| {
        // The batch begins with a tag, the number of its items and its sequence number.
        let start = (0..second).rev().find(|at| bytes[*at..].starts_with(&[1, 2, 0, 0, 0])).unwrap();
        bytes[start + 5..start + 13].fill(0);
    });
    let error = assert_refused(folder.path(), "a sequence number");
    assert!(error.to_string().contains("sequence numbers"), "{error}");
}

#[tokio::test]
async fn the_durability_interval_accepts_the_loss_it_allows() {
    let folder = interrupted().await;
    let second = place_in_journal(folder.path(), "second");
    change(&journal(folder.path()), |bytes| bytes[second..second + 5].fill(0));
    assert_refused(folder.path(), "a hole before a later write");
    let engine = open_with_interval(folder.path()).unwrap();
    assert_eq!(found(&engine).await, ["p/first"]);
    drop(engine);
    assert_eq!(found(&open(folder.path()).unwrap()).await, ["p/first"]);
}

#[tokio::test]
async fn a_folder_without_its_lock_file_is_opened() {
    let folder = filled().await;
    fs::remove_file(folder.path().join("rowhouse.lock")).unwrap();
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 3, "as it may be after a backup was restored");
}

#[tokio::test]
async fn a_moved_folder_is_opened() {
    let folder = filled().await;
    let parent = tempfile::tempdir().unwrap();
    let moved = parent.path().join("moved");
    fs::rename(folder.path(), &moved).unwrap();
    assert_eq!(found(&open(&moved).unwrap()).await.len(), 3);
}
