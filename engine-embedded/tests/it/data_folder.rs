//! Tests that the embedded engine rejects folders that it must not open: it reports the reason and changes nothing.

use crate::log_file::*;
use engine::{Engine, Restore};
use engine_contract::cases::snapshots::fill_with;
use engine_contract::support::*;
use model::{EdmValue, Mutation, RecordBuilder};
use rowhouse_engine_embedded::{Durability, Embedded, EmbeddedOptions, OpenError, RestoredFolder, check_folder};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const MARKER: &str = "rowhouse.marker";
const NEW_MARKER: &str = "rowhouse.marker.new";
const CHILD_FOLDER: &str = "ROWHOUSE_TEST_CHILD_FOLDER";

/// An interval after which nothing is synced while a test runs.
const NEVER: Duration = Duration::from_hours(24);

fn open(folder: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(folder, &EmbeddedOptions::default(), ManualClock::at(START_TICKS))
}

fn open_with_interval(folder: &Path) -> Result<Embedded, OpenError> {
    let durability = Durability::Interval(NEVER);
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

/// Returns the folder of [`filled`] as a crash leaves it: without the empty segment that names the end of the log.
async fn interrupted() -> tempfile::TempDir {
    let folder = filled().await;
    forget_shutdown(folder.path());
    folder
}

fn forget_shutdown(folder: &Path) {
    let last = segments(folder).pop().unwrap();
    assert_eq!(fs::metadata(&last).unwrap().len(), SEGMENT_HEADER_BYTES as u64, "a clean shutdown leaves no other");
    fs::remove_file(last).unwrap();
}

/// Returns a folder whose entities are in a sorted file, and whose log was released. Also returns copies of the tree
/// and the log from the time before that, when the log contained four transactions.
async fn flushed() -> (tempfile::TempDir, Vec<(PathBuf, Vec<u8>)>) {
    const ENTITIES: usize = 1100;
    let folder = filled().await;
    let before = files(folder.path());
    let engine = open(folder.path()).unwrap();
    let rows: Vec<String> = (0..ENTITIES).map(|row| format!("{row:04}")).collect();
    fill(&engine, &table("Entities"), "p", &rows).await;
    let began = Instant::now();
    while segments(folder.path()).len() > 1 || fs::read_dir(tables(folder.path())).unwrap().count() == 0 {
        assert!(began.elapsed() < TIMEOUT, "an idle engine does not flush");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    engine.close().await.unwrap();
    (folder, before)
}

fn tables(folder: &Path) -> PathBuf {
    folder.join("tree/tables")
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    content(folder)
        .into_keys()
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// Replaces the files in the folder of the log.
fn replace_log(folder: &Path, files: &[(PathBuf, Vec<u8>)]) {
    fs::remove_dir_all(log(folder)).unwrap();
    fs::create_dir(log(folder)).unwrap();
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(log(folder))) {
        fs::write(path, bytes).unwrap();
    }
}

async fn found(engine: &Embedded) -> Vec<String> {
    names(&all(engine, &table("Entities")).await)
}

/// Returns the position of an entity of [`filled`] in the first segment.
fn place(folder: &Path, text: &str) -> usize {
    let needle = format!("the {text} needle").into_bytes();
    let bytes = fs::read(segment(folder, 1)).unwrap();
    bytes.windows(needle.len()).position(|window| window == needle).unwrap()
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Asserts that opening fails with a message that names the folder, and leaves every byte unchanged, with either
/// durability. Before, adds files that opening would delete: those that an interrupted flush leaves behind.
fn assert_refused(folder: &Path, why: &str) -> OpenError {
    if tables(folder).is_dir() {
        fs::write(tables(folder).join("99999"), "a sorted file that no list names").unwrap();
        fs::write(folder.join("tree/v99999"), "a list that is not the current one").unwrap();
    }
    if log(folder).is_dir() {
        fs::write(log(folder).join("0000000000099999.prep"), "a segment that is not live").unwrap();
    }
    let before = content(folder);
    let error = refusal(open(folder));
    let text = error.to_string();
    assert_eq!(content(folder), before, "{why}: the folder was changed by: {text}");
    assert!(text.contains(folder.to_str().unwrap()), "{why}: {text}");
    // Other attempts must find the same state.
    assert_eq!(refusal(open(folder)).to_string(), text, "{why}");
    assert_eq!(refusal(open_with_interval(folder)).to_string(), text, "{why}");
    assert_eq!(content(folder), before, "{why}: the folder was changed with the durability interval");
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
    for name in ["notes.txt", "tree", "log", ".hidden", "0000000000000001.log"] {
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

/// The former markers have another name, so that neither program takes a folder of the other for its own, although
/// both begin with format 1.
#[tokio::test]
async fn a_folder_of_a_development_version_is_not_touched() {
    for (marker, former) in [(MARKER, "rowhouse.format"), (NEW_MARKER, "rowhouse.format.new")] {
        let folder = filled().await;
        fs::rename(folder.path().join(MARKER), folder.path().join(former)).unwrap();
        for is_restoring in [false, true] {
            if is_restoring {
                fs::write(folder.path().join("rowhouse.restoring"), "").unwrap();
            }
            let error = assert_refused(folder.path(), former);
            assert!(matches!(error, OpenError::Development { .. }), "{error}");
            assert!(error.to_string().contains("`rowhouse export` the data with that version"), "{error}");
        }
        assert!(!folder.path().join(marker).exists());
    }
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
    for missing in ["tree", "tree/current", "tree/tables", "log", "log/0000000000000001.log"] {
        let folder = interrupted().await;
        // This is a state after a crash between creating the first part and renaming the marker.
        fs::rename(folder.path().join(MARKER), folder.path().join(NEW_MARKER)).unwrap();
        remove(&folder.path().join(missing));
        let engine = open(folder.path()).unwrap();
        engine.create_table(&table("Entities")).await.unwrap();
        assert!(found(&engine).await.is_empty(), "{missing}");
    }
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.unwrap();
}

/// Returns the file that lists the sorted files.
fn manifest(folder: &Path) -> PathBuf {
    let current = fs::read(folder.join("tree/current")).unwrap();
    folder.join(format!("tree/v{}", u64::from_le_bytes(current[..8].try_into().unwrap())))
}

#[tokio::test]
async fn a_missing_part_of_the_folder_is_not_created_again() {
    for part in ["tree", "tree/current", "tree/v", "tree/tables", "log", "log/0000000000000001.log", "log/*"] {
        let folder = filled().await;
        let path = match part {
            "tree/v" => manifest(folder.path()),
            "log/*" => {
                for segment in segments(folder.path()) {
                    fs::remove_file(segment).unwrap();
                }
                log(folder.path())
            }
            _ => folder.path().join(part),
        };
        if part != "log/*" {
            remove(&path);
        }
        let error = assert_refused(folder.path(), part);
        assert!(matches!(error, OpenError::Damaged { .. }), "{part}: {error}");
        let named = if part == "log/0000000000000001.log" { log(folder.path()) } else { path };
        assert!(error.to_string().contains(named.to_str().unwrap()), "{part}: {error}");
    }
}

#[tokio::test]
async fn a_missing_or_damaged_sorted_file_is_an_error() {
    for damage in ["missing", "cut", "zeros", "empty"] {
        let (folder, _) = flushed().await;
        let table = fs::read_dir(tables(folder.path())).unwrap().next().unwrap().unwrap().path();
        match damage {
            "missing" => fs::remove_file(&table).unwrap(),
            "cut" => change(&table, |bytes| bytes.truncate(bytes.len() / 2)),
            "zeros" => change(&table, |bytes| bytes.fill(0)),
            _ => change(&table, Vec::clear),
        }
        let error = assert_refused(folder.path(), damage);
        assert!(matches!(&error, OpenError::Damaged { path, .. } if *path == table), "{damage}: {error}");
        assert!(error.source().is_none(), "{damage}: a chain of causes repeats what the message contains");
    }
}

/// Parts of a sorted file are read only when the tree is opened as a whole, and most of it later.
#[tokio::test]
async fn damage_in_a_sorted_file_that_prevents_opening_names_the_file() {
    const PLACES: usize = 100;
    let (folder, _) = flushed().await;
    let (good, name) = (files(folder.path()), folder.path());
    let mut refused = 0;
    for place in 0..PLACES {
        let copy = tempfile::tempdir().unwrap();
        let mut damaged = None;
        for (path, bytes) in &good {
            let (mut bytes, target) = (bytes.clone(), copy.path().join(path.strip_prefix(name).unwrap()));
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            if path.starts_with(tables(name)) && damaged.is_none() {
                let byte = place * bytes.len() / PLACES;
                bytes[byte] ^= 4;
                damaged = Some(target.clone());
            }
            fs::write(target, bytes).unwrap();
        }
        let damaged = damaged.unwrap();
        if let Err(error) = open(copy.path()) {
            assert!(matches!(&error, OpenError::Damaged { path, .. } if *path == damaged), "{place}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn a_damaged_manifest_is_an_error() {
    for damage in ["cut", "zeros", "empty", "a bit"] {
        for is_list in [false, true] {
            let folder = filled().await;
            let path = if is_list { manifest(folder.path()) } else { folder.path().join("tree/current") };
            change(&path, |bytes| match damage {
                "cut" => bytes.truncate(bytes.len() / 2),
                "zeros" => bytes.fill(0),
                "empty" => bytes.clear(),
                _ => bytes[10] ^= 1,
            });
            let error = assert_refused(folder.path(), damage);
            assert!(matches!(error, OpenError::Damaged { .. }), "{damage}: {error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{damage}: {error}");
        }
    }
}

/// Makes `current` name the next manifest, and leaves something else there, as after a crash during an attempt to
/// change the sorted files that follows a failed one. Returns the path of that manifest.
fn interrupt_attempt(folder: &Path) -> PathBuf {
    change(&folder.join("tree/current"), |bytes| {
        let next = u64::from_le_bytes(bytes[..8].try_into().unwrap()) + 1;
        bytes[..8].copy_from_slice(&next.to_le_bytes());
        bytes[8] ^= 1;
    });
    let next = manifest(folder);
    fs::write(&next, "another list").unwrap();
    next
}

#[tokio::test]
async fn an_overwritten_manifest_is_replaced_by_the_one_before_it() {
    for (folder, entities) in [(interrupted().await, 3), (flushed().await.0, 1103)] {
        for _ in 0..2 {
            let overwritten = interrupt_attempt(folder.path());
            let scratch = tempfile::tempdir().unwrap();
            let before = content(folder.path());
            let report = check_folder(folder.path(), scratch.path(), &|_| true).unwrap();
            assert!(report.problems.is_empty(), "{:?}", report.problems);
            assert!(report.notes.iter().any(|note| note.contains(overwritten.to_str().unwrap())), "{:?}", report.notes);
            assert_eq!(content(folder.path()), before);
            let engine = open(folder.path()).unwrap();
            assert_eq!(found(&engine).await.len(), entities);
            engine.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_overwritten_manifest_is_damage_unless_the_one_before_it_contains_everything() {
    for damage in ["no manifest", "an older manifest", "a missing file", "a damaged file"] {
        let (folder, before) = flushed().await;
        let overwritten = interrupt_attempt(folder.path());
        let preceding = |path: &Path| path.with_file_name(format!("v{}", number_of(path) - 1));
        let file = fs::read_dir(tables(folder.path())).unwrap().next().unwrap().unwrap().path();
        match damage {
            "no manifest" => fs::remove_file(preceding(&overwritten)).unwrap(),
            "an older manifest" => {
                let (_, older) = before.iter().find(|(path, _)| path.ends_with("tree/v0")).unwrap();
                fs::write(preceding(&overwritten), older).unwrap();
            }
            "a missing file" => fs::remove_file(file).unwrap(),
            _ => change(&file, |bytes| bytes[100] ^= 1),
        }
        let error = assert_refused(folder.path(), damage);
        assert!(matches!(&error, OpenError::Damaged { path, .. } if *path == overwritten), "{damage}: {error}");
        let scratch = tempfile::tempdir().unwrap();
        let report = check_folder(folder.path(), scratch.path(), &|_| true).unwrap();
        let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|text| text.contains(overwritten.to_str().unwrap())), "{damage}: {problems:?}");
    }
}

fn number_of(manifest: &Path) -> u64 {
    manifest.file_name().unwrap().to_str().unwrap()[1..].parse().unwrap()
}

#[tokio::test]
async fn a_tree_that_does_not_belong_to_the_log_is_not_touched() {
    // Opening an older tree would delete the newer sorted files, which contain what the log no longer does.
    let (folder, before) = flushed().await;
    let after = files(folder.path());
    let restore = |name: &str, files: &[(PathBuf, Vec<u8>)]| {
        for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(folder.path().join(name))) {
            fs::write(path, bytes).unwrap();
        }
    };
    restore("tree", &before);
    let error = assert_refused(folder.path(), "an older tree").to_string();
    assert!(error.contains("only transactions through 0 are stored elsewhere"), "{error}");
    restore("tree", &after);
    replace_log(folder.path(), &before);
    let error = assert_refused(folder.path(), "an older log").to_string();
    assert!(error.contains("it ends with transaction 4, but transactions through"), "{error}");
    replace_log(folder.path(), &after);
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 1103);
}

#[tokio::test]
async fn damage_in_the_middle_of_a_log_does_not_discard_what_follows() {
    let folder = interrupted().await;
    let path = segment(folder.path(), 1);
    let (first, second) = (place(folder.path(), "first"), place(folder.path(), "second"));
    let good = fs::read(&path).unwrap();
    let cases: [(&str, std::ops::Range<usize>); 5] = [
        ("a byte of a value", second..second + 1),
        ("a block", first..first + 16),
        ("everything between two values", first + 30..second),
        ("the first group", SEGMENT_HEADER_BYTES..first),
        ("the beginning", 0..first),
    ];
    for (what, range) in cases {
        let mut bytes = good.clone();
        bytes[range].iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(&path, &bytes).unwrap();
        let error = assert_refused(folder.path(), what);
        assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(found(&open(folder.path()).unwrap()).await, ["p/first", "p/second", "p/third"]);
}

#[tokio::test]
async fn the_last_write_may_have_been_cut_off() {
    for (what, fill) in [("cut", None), ("zeros", Some(0)), ("other bytes", Some(0xAA))] {
        let folder = interrupted().await;
        let third = place(folder.path(), "third");
        change(&segment(folder.path(), 1), |bytes| match fill {
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

#[tokio::test]
async fn after_a_crash_an_earlier_stop_gives_no_false_alarm() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    assert_eq!(segments(folder.path()).len(), 2, "the segment of the shutdown is continued");
    commit_one(&engine, &table("Entities"), insert("p", "fourth", 1)).await.unwrap();
    drop(engine);
    // This is the state after a crash while a segment was being made: by the shutdown, and by the preparer.
    fs::write(log(folder.path()).join("0000000000000003.prep"), b"RowhsLo").unwrap();
    fs::write(log(folder.path()).join("0000000000000000.prep"), [0; 5000]).unwrap();
    fs::write(log(folder.path()).join("0000000000000000.free"), b"any").unwrap();
    let engine = open(folder.path()).unwrap();
    assert_eq!(found(&engine).await.len(), 4);
    let names = fs::read_dir(log(folder.path())).unwrap().map(|entry| entry.unwrap().path());
    assert!(names.into_iter().all(|path| path.extension().unwrap() == "log"), "what is unfinished is deleted");
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 4);
}

#[tokio::test]
async fn a_stop_in_order_is_recorded_although_a_reader_is_not_done() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    commit_one(&engine, &table("Entities"), insert("p", "fourth", 1)).await.unwrap();
    let snapshot = engine.snapshots().take().unwrap();
    engine.close().await.unwrap();
    drop(engine);
    assert_eq!(segments(folder.path()).len(), 3, "the log ends with an empty segment");
    assert!(matches!(refusal(open(folder.path())), OpenError::Locked { .. }), "the tree is still open");
    drop(snapshot);
    let good = files(folder.path());
    change(&segment(folder.path(), 2), |bytes| bytes.truncate(bytes.len() - 1));
    assert_refused(folder.path(), "a loss after the shutdown");
    replace_log(folder.path(), &good);
    assert_eq!(found(&open(folder.path()).unwrap()).await.len(), 4);
}

#[tokio::test]
async fn a_sequence_number_that_goes_back_is_damage() {
    let folder = interrupted().await;
    let path = segment(folder.path(), 1);
    let good = fs::read(&path).unwrap();
    let groups = groups(&good);
    assert_eq!(
        groups.iter().map(|group| (group.first, group.synced_through)).collect::<Vec<_>>(),
        [(1, 0), (2, 1), (3, 2), (4, 3)]
    );
    for (index, number) in [(2, 1), (2, 4), (1, 1)] {
        let mut bytes = good.clone();
        forge_group_header(&mut bytes, &groups[index], &GROUP_FIRST, number);
        fs::write(&path, &bytes).unwrap();
        let error = assert_refused(folder.path(), "a sequence number");
        let place = format!("it cannot be read at byte {}", groups[index].start);
        assert!(error.to_string().contains(&place), "{error}");
    }
}

#[tokio::test]
async fn the_durability_interval_accepts_the_loss_it_allows_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_with_interval(folder.path()).unwrap();
    engine.create_table(&table("Entities")).await.unwrap();
    for row in ["1", "2", "3"] {
        commit_one(&engine, &table("Entities"), insert("p", row, 1)).await.unwrap();
    }
    // A change to a table is synced with everything before it.
    engine.create_table(&table("Other")).await.unwrap();
    for row in ["4", "5", "6"] {
        commit_one(&engine, &table("Entities"), insert("p", row, 1)).await.unwrap();
    }
    // As after a crash, nothing records the end of the log.
    drop(engine);
    let good = files(folder.path());
    let path = segment(folder.path(), 1);
    let bytes = fs::read(&path).unwrap();
    let groups = groups(&bytes);
    assert_eq!(groups.iter().map(|group| group.synced_through).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 5, 5, 5]);
    for (index, kept) in [(4, None), (5, Some(3)), (7, Some(5))] {
        replace_log(folder.path(), &good);
        let mut damaged = bytes.clone();
        damaged[groups[index].start..groups[index].end].fill(0);
        fs::write(&path, damaged).unwrap();
        let Some(kept) = kept else {
            assert_refused(folder.path(), "something that was synced is missing");
            continue;
        };
        // The durability may have been changed since.
        let engine = open(folder.path()).unwrap();
        assert_eq!(found(&engine).await, &["p/1", "p/2", "p/3", "p/4", "p/5", "p/6"][..kept]);
    }
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

#[tokio::test]
async fn a_restore_that_was_not_finished_is_refused_and_done_again() {
    let place = tempfile::tempdir().unwrap();
    let (old, new) = (filled().await, place.path().join("new"));
    let engine = open(old.path()).unwrap();
    let snapshot = engine.snapshots().take().unwrap();
    let mut restored = RestoredFolder::begin(&new).unwrap();
    restored.table(&snapshot.contents().tables[0]).unwrap();
    assert!(matches!(RestoredFolder::begin(&new), Err(OpenError::Locked { .. })));
    drop(restored);
    assert!(matches!(refusal(open(&new)), OpenError::Restoring { .. }));
    fill_with(RestoredFolder::begin(&new).unwrap(), &*snapshot);
    assert_eq!(found(&open(&new).unwrap()).await.len(), 3);
    assert!(matches!(RestoredFolder::begin(&new), Err(OpenError::InUse { .. })));
}

#[tokio::test]
async fn a_folder_stays_locked_while_a_snapshot_reads_its_files() {
    let folder = filled().await;
    let engine = open(folder.path()).unwrap();
    let snapshot = engine.snapshots().take().unwrap();
    engine.close().await.unwrap();
    drop(engine);
    assert!(matches!(refusal(open(folder.path())), OpenError::Locked { .. }));
    drop(snapshot);
    open(folder.path()).unwrap();
}
