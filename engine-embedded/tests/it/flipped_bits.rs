//! Tests the effect of bits that flip in a data folder while it is closed: every later read returns either correct data
//! or an error.
//!
//! A run is determined by its seed, which is printed. `ROWHOUSE_SEED` replays a run, and `ROWHOUSE_FLIPS` sets its
//! length.

use engine::{Engine, EngineExt, ReadError};
use engine_contract::support::*;
use model::{EdmValue, Mutation, Record, RecordBuilder, Transaction};
use rowhouse_engine_embedded::{Embedded, EmbeddedOptions};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FLIPS_DEFAULT: u64 = 80;
/// The number of entities, large enough that some of them are in sorted files with several blocks.
const ENTITIES: usize = 4000;
const VALUE_BYTES: usize = 20_000;

fn open(folder: &Path) -> Result<Embedded, rowhouse_engine_embedded::OpenError> {
    // A larger cache would be useless, because each block is read once.
    let options = EmbeddedOptions { cache_bytes: 1024 * 1024, ..EmbeddedOptions::default() };
    Embedded::open(folder, &options, ManualClock::at(START_TICKS))
}

fn row(number: usize) -> String {
    format!("{number:05}")
}

async fn fill(folder: &Path, random: &mut Random) -> BTreeMap<String, Record> {
    let engine = open(folder).unwrap();
    let table = table("Entities");
    engine.create_table(&table).await.unwrap();
    for first in (0..ENTITIES).step_by(50) {
        let mutations = (first..first + 50).map(|number| {
            let mut properties = RecordBuilder::default();
            let bytes: Vec<u8> = (0..VALUE_BYTES / 8).flat_map(|_| random.number().to_le_bytes()).collect();
            properties.push("value", EdmValue::Binary(&bytes));
            Mutation::InsertOrReplace { key: key("p", &row(number % (ENTITIES * 3 / 4))), properties }
        });
        engine.commit(&table, Transaction::new(mutations.collect()).unwrap()).await.unwrap();
    }
    let mut stored = BTreeMap::new();
    for number in 0..ENTITIES * 3 / 4 {
        let record = engine.get(&table, &key("p", &row(number))).await.unwrap().unwrap();
        stored.insert(row(number), record);
    }
    engine.close().await.unwrap();
    stored
}

/// Omits the zeros with which a segment is prepared.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if length > 0 {
            found.push((path, length as u64));
        }
    }
    found.sort();
    found
}

/// A second call reverts the first one.
fn flip(path: &Path, byte: usize, bit: usize) {
    let byte = u64::try_from(byte).unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut value = [0];
    file.read_exact_at(&mut value, byte).unwrap();
    value[0] ^= 1 << bit;
    file.write_all_at(&value, byte).unwrap();
}

#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    reported: u64,
    unharmed: u64,
}

/// Each read must return the correct entity or an error.
async fn read_all(engine: &Embedded, stored: &BTreeMap<String, Record>, what: &str) -> bool {
    let table = table("Entities");
    let mut has_error = false;
    for (row, expected) in stored {
        match engine.get(&table, &key("p", row)).await {
            Ok(found) => assert_eq!(found.as_ref(), Some(expected), "{row} is silently wrong after {what}"),
            Err(ReadError::Fault(_)) => has_error = true,
            Err(error) => panic!("after {what}: {error}"),
        }
    }
    match engine.scan(&table, scan_all(), CollectingSink::default()).await {
        Ok((kept, _)) => {
            let found = kept.entities.iter().map(|entity| (entity.key.row.as_str(), &entity.record));
            let is_right = found.eq(stored.iter().map(|(row, record)| (row.as_str(), record)));
            assert!(is_right, "a page is silently wrong after {what}");
        }
        Err(_) => has_error = true,
    }
    has_error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_never_read_as_data() {
    let flips = setting("ROWHOUSE_FLIPS").unwrap_or(FLIPS_DEFAULT);
    println!("ROWHOUSE_FLIPS={flips}");
    let mut random = Random::from_environment(SEED);
    let place = tempfile::tempdir().unwrap();
    let (good, damaged) = (place.path().join("good"), place.path().join("damaged"));
    let stored = fill(&good, &mut random).await;
    let files = files(&good);
    let mut tally = Tally::default();
    for _ in 0..flips {
        // Small files are damaged as often as large ones.
        let (path, length) = &files[random.index(files.len())];
        let (byte, bit) = (random.index(usize::try_from(*length).unwrap()), random.index(8));
        let name = path.strip_prefix(&good).unwrap();
        let what = format!("bit {bit} of byte {byte} of {} flipped", name.display());
        link_folder(&good, &damaged);
        let target = damaged.join(name);
        fs::remove_file(&target).unwrap();
        fs::copy(path, &target).unwrap();
        flip(&target, byte, bit);
        match open(&damaged) {
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
