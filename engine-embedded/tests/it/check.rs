//! Tests that the check of a data folder finds damage, counts the contents, and changes nothing, and that every read
//! after a bit flipped returns either correct data or an error.
//!
//! A run is determined by its seed, which is printed. `ROWHOUSE_SEED` replays a run, and `ROWHOUSE_FLIPS` sets its
//! length.

use crate::log_file::*;
use engine::{CheckReport, Engine, EngineExt, ReadError};
use engine_contract::support::*;
use model::{EdmValue, Entity, Mutation, RecordBuilder, StoredAccessPolicies, StoredAccessPolicy, Transaction};
use rowhouse_engine_embedded::{Embedded, EmbeddedOptions, OpenError, check_folder};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const FLIPS_DEFAULT: u64 = 80;
/// The number of entities, large enough that some of them are in sorted files with several blocks.
const ENTITIES: usize = 4000;
const VALUE_BYTES: usize = 20_000;
const TIMEOUT: Duration = Duration::from_mins(1);

fn try_open(folder: &Path) -> Result<Embedded, OpenError> {
    // A larger cache would be useless, because each block is read once.
    let options = EmbeddedOptions { cache_bytes: 1024 * 1024, ..EmbeddedOptions::default() };
    Embedded::open(folder, &options, ManualClock::at(START_TICKS))
}

fn open(folder: &Path) -> Embedded {
    try_open(folder).unwrap()
}

fn check(folder: &Path) -> Result<CheckReport, OpenError> {
    let scratch = tempfile::tempdir().unwrap();
    check_folder(folder, scratch.path(), &|_| true)
}

fn content(folder: &Path) -> BTreeMap<PathBuf, (u64, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let changed = fs::metadata(&path).unwrap().modified().ok();
        let hash = if path.is_dir() {
            found.extend(content(&path));
            0
        } else {
            xxhash_rust::xxh3::xxh3_64(&fs::read(&path).unwrap())
        };
        found.insert(path, (hash, changed));
    }
    found
}

fn large(number: usize, random: &mut Random) -> Mutation {
    let mut properties = RecordBuilder::default();
    let bytes: Vec<u8> = (0..VALUE_BYTES / 8).flat_map(|_| random.number().to_le_bytes()).collect();
    properties.push("value", EdmValue::Binary(&bytes));
    Mutation::InsertOrReplace { key: key("p", &format!("{number:05}")), properties }
}

async fn fill_folder(folder: &Path, random: &mut Random) -> Embedded {
    let engine = open(folder);
    for name in ["Entities", "Small", "Gone"] {
        engine.create_table(&table(name)).await.unwrap();
    }
    let policies = StoredAccessPolicies::new(vec![StoredAccessPolicy::new("reader").unwrap()]).unwrap();
    engine.set_policies(&table("Small"), policies).await.unwrap();
    engine.update_service_properties(&table("Small").account, cors_update("https://a.example")).await.unwrap();
    commit_one(&engine, &table("Small"), insert("p", "é\u{1F600}", 1)).await.unwrap();
    for first in (0..ENTITIES).step_by(50) {
        let mutations = (first..first + 50).map(|number| large(number % (ENTITIES * 3 / 4), random)).collect();
        engine.commit(&table("Entities"), Transaction::new(mutations).unwrap()).await.unwrap();
    }
    engine
}

fn assert_well(report: &CheckReport) {
    assert_eq!((report.problems.as_slice(), report.unlisted), (&[][..], 0));
    let counts: Vec<(&str, u64)> =
        report.tables.iter().map(|table| (table.table.name.as_str(), table.entities)).collect();
    assert_eq!(counts, [("Entities", ENTITIES as u64 * 3 / 4), ("Gone", 0), ("Small", 1)]);
    assert!(report.files > 0 && report.file_bytes > 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undamaged_folder_is_counted_and_not_changed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data");
    assert!(matches!(check(&folder), Err(OpenError::Missing { .. })));
    let random = &mut Random::new(1);
    let engine = fill_folder(&folder, random).await;
    assert!(matches!(check(&folder), Err(OpenError::Locked { .. })));
    // A crash cannot lose what is in a sorted file. The last transaction is therefore written after the others have
    // been flushed, which happens as soon as the engine is idle.
    let began = Instant::now();
    while segments(&folder).len() > 1 {
        assert!(began.elapsed() < TIMEOUT, "an idle engine does not release its log");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    commit_one(&engine, &table("Entities"), large(0, random)).await.unwrap();
    engine.close().await.unwrap();
    drop(engine);
    for is_interrupted in [false, true] {
        if is_interrupted {
            // Create the state after a crash, with an incomplete write and files that are no longer needed.
            let [.., written, empty] = &segments(&folder)[..] else { panic!("a clean shutdown begins a segment") };
            fs::remove_file(empty).unwrap();
            let bytes = fs::read(written).unwrap();
            fs::write(written, &bytes[..groups(&bytes).last().unwrap().end - 100]).unwrap();
            fs::write(log(&folder).join("0000000000000000.prep"), [0; 5000]).unwrap();
            fs::remove_file(folder.join("rowhouse.lock")).unwrap();
            let tables = folder.join("tree/tables");
            let first = fs::read_dir(&tables).unwrap().next().unwrap().unwrap().path();
            fs::copy(first, tables.join("99999")).unwrap();
        }
        let before = content(&folder);
        let read = Cell::new(0);
        let scratch = tempfile::tempdir().unwrap();
        let report = check_folder(&folder, scratch.path(), &|entities| {
            read.set(read.get() + entities);
            true
        });
        let report = report.unwrap();
        assert_well(&report);
        assert_eq!(report.notes.len(), if is_interrupted { 2 } else { 0 }, "{:?}", report.notes);
        assert_eq!(content(&folder), before, "the folder was changed");
        assert_eq!(read.get(), ENTITIES as u64 * 3 / 4 + 1);
    }
    let scratch = tempfile::tempdir().unwrap();
    let stopped = check_folder(&folder, scratch.path(), &|_| false).unwrap();
    assert!(stopped.tables.iter().map(|table| table.entities).sum::<u64>() < 1000, "it did not stop when told to");
    assert_eq!(all(&open(&folder), &table("Small")).await.len(), 1);
}

/// Omits the zeros with which a segment is prepared.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for (path, _) in content(folder) {
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            found.extend((length > 0).then_some((path, length as u64)));
        }
    }
    found
}

/// Returns whether a byte of a file carries no information: it is padding in a segment, or in a file that waits for
/// reuse.
fn is_meaningless(path: &Path, bytes: &[u8], at: usize) -> bool {
    let is_live = path.extension().is_some_and(|ending| ending == "log");
    path.parent().unwrap().ends_with("log") && !(is_live && is_covered(bytes, at))
}

/// A superseded manifest is never read, and is removed at the next startup.
fn is_superseded(path: &Path) -> bool {
    let current = fs::read(path.with_file_name("current")).unwrap_or_default();
    let number = path.file_name().unwrap().to_str().unwrap().strip_prefix('v').and_then(|n| n.parse::<u64>().ok());
    number.is_some_and(|number| !current.starts_with(&number.to_le_bytes()))
}

/// Sorted files never change, so they are linked instead of copied.
fn link_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            link_folder(&path, &target);
        } else if from.ends_with("tables") {
            fs::hard_link(&path, &target).unwrap();
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Each read must return the correct entity or an error.
async fn read_all(engine: &Embedded, stored: &[Entity], what: &str) -> bool {
    let table = table("Entities");
    let mut has_error = false;
    for Entity { key, record } in stored {
        match engine.get(&table, key).await {
            Ok(found) => assert_eq!(found.as_ref(), Some(record), "{key:?} is silently wrong after {what}"),
            Err(ReadError::Fault(_)) => has_error = true,
            Err(error) => panic!("after {what}: {error}"),
        }
    }
    match engine.scan(&table, scan_all(), CollectingSink::default()).await {
        Ok((kept, _)) => assert!(kept.entities == stored, "a page is silently wrong after {what}"),
        Err(_) => has_error = true,
    }
    has_error
}

#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    reported: u64,
    unharmed: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_found_by_the_check_and_never_read_as_data() {
    let flips = setting("ROWHOUSE_FLIPS").unwrap_or(FLIPS_DEFAULT);
    println!("ROWHOUSE_FLIPS={flips}");
    let mut random = Random::from_environment(SEED);
    let place = tempfile::tempdir().unwrap();
    let (good, damaged) = (place.path().join("good"), place.path().join("damaged"));
    let engine = fill_folder(&good, &mut random).await;
    let stored = all(&engine, &table("Entities")).await;
    engine.close().await.unwrap();
    drop(engine);
    let (files, mut tally) = (files(&good), Tally::default());
    for _ in 0..flips {
        // Small files are damaged as often as large ones.
        let (path, length) = &files[random.index(files.len())];
        let (at, bit) = (random.index(usize::try_from(*length).unwrap()), random.index(8));
        let name = path.strip_prefix(&good).unwrap();
        let what = format!("bit {bit} of byte {at} of {} flipped", name.display());
        link_folder(&good, &damaged);
        let (target, bytes) = (damaged.join(name), fs::read(path).unwrap());
        fs::remove_file(&target).unwrap();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&target, &flipped).unwrap();
        if is_meaningless(path, &bytes, at) {
            assert_well(&check(&damaged).unwrap());
        } else if !is_superseded(path) {
            let found = match check(&damaged) {
                // If `current` names a manifest that is missing, the preceding manifest may be the right one. It is
                // then used as after a crash, and nothing is lost.
                Ok(report) if target.ends_with("tree/current") && report.problems.is_empty() => report.notes.join("\n"),
                Ok(report) => report.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
                // A marker may turn into one of a newer version.
                Err(error @ OpenError::Newer { .. }) => error.to_string(),
                Err(error) => panic!("{what}: {error}"),
            };
            let parent = target.parent().unwrap();
            let is_named = [target.as_path(), parent].iter().any(|path| found.contains(path.to_str().unwrap()));
            assert!(is_named, "{what}, which is not detected: {found}");
        }
        match try_open(&damaged) {
            Err(error) => {
                assert!(error.to_string().contains(target.to_str().unwrap()), "{error} does not name the file: {what}");
                tally.refused += 1;
            }
            Ok(engine) if read_all(&engine, &stored, &what).await => tally.reported += 1,
            Ok(_) => tally.unharmed += 1,
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
    println!("{} files: {tally:?}", files.len());
    assert!(tally.refused > 0 && tally.reported > 0, "{tally:?}");
    assert_well(&check(&good).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_writes_after_a_stop_in_order_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data");
    let engine = open(&folder);
    engine.create_table(&table("Small")).await.unwrap();
    let (written, next) = (segment(&folder, 1), segment(&folder, 2));
    let earlier = fs::read(&written).unwrap();
    for row in 0..50 {
        commit_one(&engine, &table("Small"), insert("p", &row.to_string(), 1)).await.unwrap();
    }
    engine.close().await.unwrap();
    drop(engine);
    let (good, good_next) = (fs::read(&written).unwrap(), fs::read(&next).unwrap());
    let last = *groups(&good).last().unwrap();
    let zeros = vec![0; good.len()];
    let without_end = [&good[..last.start], &vec![0; last.end - last.start]].concat();
    for (what, bytes) in [
        ("emptied", &[][..]),
        ("zeros", &zeros),
        ("an earlier state", &earlier),
        ("the last write", &good[..last.start]),
        ("a part of the last write", &good[..last.end - 1]),
        ("zeros in place of the last write", &without_end),
    ] {
        fs::write(&written, bytes).unwrap();
        let said = assert_refused(&folder, &written, what);
        if bytes.starts_with(&earlier) {
            assert!(said.contains("to accept the loss"), "{what}: {said}");
        }
    }
    fs::write(&written, &good).unwrap();
    // Without the first segment, nothing in the log shows that it was needed; the sorted files do.
    fs::remove_file(&written).unwrap();
    assert_refused(&folder, &next, "deleted");
    fs::rename(&next, &written).unwrap();
    assert_refused(&folder, &written, "replaced by the next one");
    fs::remove_file(&written).unwrap();
    assert_refused(&folder, &log(&folder), "everything deleted");
    fs::remove_dir(log(&folder)).unwrap();
    assert_refused(&folder, &log(&folder), "the folder deleted");
    fs::create_dir(log(&folder)).unwrap();
    fs::write(&written, &good).unwrap();
    fs::write(&next, [0; 100]).unwrap();
    assert_refused(&folder, &next, "the end itself");
    fs::write(&next, &good_next).unwrap();
    assert_eq!(check(&folder).unwrap().problems, []);
    // What the message recommends.
    fs::remove_file(&next).unwrap();
    fs::write(&written, &good[..last.start]).unwrap();
    assert_eq!(all(&open(&folder), &table("Small")).await.len(), 49);
}

/// Asserts that both the check and opening the folder name the file, without changing anything. Returns what the check
/// reports.
fn assert_refused(folder: &Path, damaged: &Path, what: &str) -> String {
    let before = content(folder);
    let problems = check(folder).unwrap().problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let refusal = try_open(folder).err().unwrap_or_else(|| panic!("{what}: the folder was opened")).to_string();
    for text in [&problems, &refusal] {
        assert!(text.contains(damaged.to_str().unwrap()), "{what}: {text}");
    }
    assert_eq!(content(folder), before, "{what}: the folder was changed");
    problems
}
